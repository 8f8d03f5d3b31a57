"""Whether silence says something about the truth: items were assigned, or annotators choose when to speak.

Two signs, both from the labels alone:

* *One-class annotators.*  A labelling function names one class or keeps silent.  People who label assigned items use
  several classes, except for spammers, and where one class is so frequent that there is little else to say.
* *Presence depends on the class.*  The other labels of the items that an annotator labelled should be distributed as
  everywhere if the items were assigned.  With v̄ the mean vote shares of all items and v̄_m those of the items of m
  without m's own label,

      distance   = Σ_m n_m ½ Σ_k |v̄_m(k) - v̄(k)| / Σ_m n_m,
      dispersion = median over m of  n_m / K Σ_k (v̄_m(k) - v̄(k))² / Var v(k),

  the second being about one for assigned items, more where they were assigned in batches.

Silence is taken for informative if most annotators with enough labels use one class only, or if both figures of the
second sign are large.  If hardly anybody is silent, there is nothing to take.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose import constants
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import said_counts, vote_counts

__all__ = ["Silence", "examine_silence"]

#: Labels per block.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Silence:
    """What was found about silence."""

    informative: bool
    one_class: float  #: share of annotators with enough labels who only ever use one class
    distance: float  #: between the votes on an annotator's items and those on all items, 0 to 1
    dispersion: float  #: the same relative to chance; about one for assigned items

    @property
    def reason(self) -> str:
        """The decision in words."""
        if not self.informative:
            return "items look assigned: who labelled an item says nothing about it"
        if self.one_class >= constants.ONE_CLASS_SHARE:
            return (
                f"{self.one_class:.0%} of the annotators only ever use one class, so whether they speak is taken as "
                "information"
            )
        return "which annotators speak depends on the class, so silence is taken as information"


def examine_silence(annotations: Annotations) -> Silence:
    """Return whether silence looks informative, with the figures that decide it."""
    a = annotations
    M, K = a.n_annotators, a.n_classes
    said = said_counts(a.annotator, a.label, M, K)
    total = said.sum(axis=1)
    enough = total >= constants.SILENCE_LABELS
    # everybody labelled (nearly) everything, one class, or too little to tell
    if K < 2 or not enough.any() or a.n_labels >= constants.DENSE_SHARE * a.n_items * int((total > 0).sum()):
        return Silence(False, 0.0, 0.0, 0.0)
    # one class only, where the crowd's label shares f would give that by chance with f_k^n
    frequency = (said.sum(axis=0) / total.sum())[said.argmax(axis=1)]
    same = (said.max(axis=1) == total) & (frequency**total < constants.ONE_CLASS_CHANCE)
    one_class = float(same[enough].mean())
    items, mean, square, others = _votes_of_others(a)
    distance = dispersion = 0.0
    if items:
        variance = np.maximum(square - mean**2, 1e-9)
        n = others.sum(axis=1)
        apart = others / np.maximum(n, 1.0)[:, None] - mean
        distance = float((n * np.abs(apart).sum(axis=1)).sum() / (2.0 * n.sum()))
        tested = n >= constants.SILENCE_LABELS
        if tested.any():
            dispersion = float(np.median((n[:, None] * apart**2 / variance).mean(axis=1)[tested]))
    chosen = distance >= constants.SILENCE_DISTANCE and dispersion >= constants.SILENCE_DISPERSION
    return Silence(one_class >= constants.ONE_CLASS_SHARE or chosen, one_class, distance, dispersion)


def _votes_of_others(annotations: Annotations) -> tuple[int, Floats, Floats, Floats]:
    """Return figures of the items with several labels, from blocks of items, to save memory.

    They are the number of these items, the means of their vote shares and of the squares of these, (K,), and the sums
    over each annotator's labels of the vote shares of the other labels on the item, (M, K).
    """
    a, K = annotations, annotations.n_classes
    items, total, squares, others = 0, np.zeros(K), np.zeros(K), np.zeros((K, a.n_annotators))
    cuts = np.unique(np.append(np.searchsorted(a.indptr, np.arange(0, a.n_labels, _BLOCK)), a.n_items))
    for low, high in pairwise(cuts.tolist()):
        inside = slice(int(a.indptr[low]), int(a.indptr[high]))
        votes = vote_counts(a.indptr[low : high + 1] - a.indptr[low], a.label[inside], K)
        n_votes = votes.sum(axis=1)
        several = n_votes > 1
        shares = votes[several] / n_votes[several, None]
        items += len(shares)
        total += shares.sum(axis=0)
        squares += (shares**2).sum(axis=0)
        item = np.repeat(np.arange(high - low), n_votes.astype(np.int64))
        checked = several[item]
        item, who, label = item[checked], a.annotator[inside][checked], a.label[inside][checked]
        for k in range(K):
            np.add.at(others[k], who, (votes[item, k] - (label == k)) / (n_votes[item] - 1))
    return items, total / max(items, 1), squares / max(items, 1), others.T
