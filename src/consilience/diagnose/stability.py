"""How far the fitted model would move with other items: a bootstrap over items.

Items are drawn with replacement, as many as there are, and the model is fitted to them again by EM, from where it was.
The spread of the fits over the draws is the standard error of every confusion.

With many labels, each draw takes only n of the N items.  Its fit then strays √(N/n) times as far, so deviations
are scaled back (the m-out-of-n bootstrap):

    θ* = θ + √(n/N) (θ_draw - θ),

which stays a model: a mixture of two of them.

EM starts from the fitted model each time: this tells how sharp the maximum is that was found, not whether there is
another.

====== =================== =============
symbol name                shape
====== =================== =============
B      ``draws``
..     ``confusions``      (M, K, K)
====== =================== =============
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import ParameterError
from consilience.fitting.em import Parameters
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_statistics
from consilience.methods.ds_em import dawid_skene_em
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Stability", "bootstrap"]

#: Labels that one draw takes, at most; but enough for an annotator to have this many for each class.
MOST_LABELS = 200_000
_LABELS_PER_CLASS = 20
#: Passes over the data that one fit may take.
_PASSES = 30
_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class Stability:
    """Standard errors under a bootstrap over items."""

    confusions: Floats  #: standard error of every confusion, (M, K, K)
    prior: Floats  #: of the class prior, (K,)
    annotators: Floats  #: mean over an annotator's cells, classes weighted by how often they met them, (M,)
    classes: Floats  #: of the crowd's mean column of each class, as a length: √Σ_i se², (K,)
    changed: float  #: share of the items whose label changes, mean over the draws
    draws: int  #: B
    items: int  #: items in each draw


def bootstrap(annotations: Annotations, model: DawidSkene, *, draws: int = 20, seed: int = 0) -> Stability:
    """Fit again to items drawn with replacement, and measure how much differs.

    Parameters
    ----------
    annotations
        The labels; gold stays with its items.
    model
        The fitted model, in the codes of the annotations.
    draws
        How often; 0 leaves all errors at 0.
    seed
        Decides the draws.  Names and the order of rows do not.
    """
    if draws < 0 or draws == 1:
        raise ParameterError(f"bootstrap must be 0, or at least 2 draws, not {draws}")
    labelled = np.flatnonzero(annotations.labels_per_item > 0)
    base = _fit(annotations, model)
    statistics = vote_statistics(
        annotations.indptr,
        annotations.annotator,
        annotations.label,
        base.posterior(annotations),
        base.confusions.shape[0],
    )
    met = statistics.counts.sum(axis=1)
    order = labelled[np.argsort(_content(annotations, labelled, statistics.counts), kind="stable")]
    N = order.size
    room = max(MOST_LABELS, _LABELS_PER_CLASS * annotations.n_annotators * annotations.n_classes)
    n = max(1, min(N, int(N * room / annotations.n_labels)))
    scale = np.sqrt(n / N)
    rng = np.random.default_rng(seed)
    judged = annotations.select_items(order if n == N else np.sort(order[rng.choice(N, n, replace=False)]))
    labels = base.posterior(judged).argmax(axis=1)

    spread = _Spread(base, met / max(float(met.sum()), 1e-300))
    changed = 0.0
    for _ in range(draws):
        drawn = annotations.select_items(order[rng.integers(0, N, n)])
        fitted = _fit(drawn, base).align(base)
        again = DawidSkene(
            base.prior + scale * (fitted.prior - base.prior),
            base.confusions + scale * (fitted.confusions - base.confusions),
            base.classes,
            base.annotators,
        )
        spread.add(again)
        changed += float(np.mean(again.posterior(judged).argmax(axis=1) != labels))
    confusions, prior, columns = spread.errors()
    weights = met / np.maximum(met.sum(axis=1, keepdims=True), 1e-300)
    return Stability(
        confusions=confusions,
        prior=prior,
        annotators=np.einsum("mk,mk->m", weights, confusions.mean(axis=1)),
        classes=np.sqrt((columns**2).sum(axis=0)),
        changed=changed / max(draws, 1),
        draws=draws,
        items=n,
    )


def _fit(annotations: Annotations, start: DawidSkene) -> DawidSkene:
    begin = Parameters(start.prior, start.confusions)
    return dawid_skene_em(annotations, start=begin, max_iter=_PASSES, tol=_TOL).model


def _content(annotations: Annotations, labelled: Ints, counts: Floats) -> Floats:
    """Give each of these items a number that depends on its labels alone: sorting by it forgets the order of rows."""
    a = annotations
    # Σ over the item's labels (m, i) of √Σ_k counts[m, i, k]²: the same whatever anything is called
    value = np.sqrt((counts * counts).sum(axis=2)).ravel()[a.annotator.astype(np.int64) * a.n_classes + a.label]
    content: Floats = np.add.reduceat(value, a.indptr[labelled])
    return content


class _Spread:
    """Sums over the draws; nothing of the size of all draws is kept."""

    def __init__(self, base: DawidSkene, weights: Floats) -> None:
        self.base, self.weights, self.n = base, weights / np.maximum(weights.sum(axis=0), 1e-300), 0
        self.sums = [[np.zeros_like(x), np.zeros_like(x)] for x in self._parts(base)]

    def _parts(self, model: DawidSkene) -> tuple[Floats, Floats, Floats]:
        # Ā(i, k) = Σ_m w_mk A_m(i, k), where w_mk is m's share of the labels of class k
        return model.confusions, model.prior, np.einsum("mk,mik->ik", self.weights, model.confusions)

    def add(self, model: DawidSkene) -> None:
        self.n += 1
        for (total, squares), now, then in zip(self.sums, self._parts(model), self._parts(self.base), strict=True):
            # deviations from the base, so that the squares lose no digits
            total += now - then
            squares += (now - then) ** 2

    def errors(self) -> list[Floats]:
        if self.n < 2:
            return [total for total, _ in self.sums]
        return [np.sqrt(np.maximum(s - t * t / self.n, 0.0) / (self.n - 1)) for t, s in self.sums]
