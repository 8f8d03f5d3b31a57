"""Cohen's κ of every two annotators on their common items, and its mean over pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.coefficients import beyond_chance, bootstrap_weights, ratio
from consilience.diagnose.constants import KAPPA_ANNOTATORS, KAPPA_CELLS, KAPPA_PAIRS, KAPPA_WORK
from consilience.kernels._arrays import Floats, Ints
from consilience.moments.label_pairs import item_pairs

__all__ = ["CohensKappa"]


@dataclass(frozen=True, eq=False)
class CohensKappa:
    """Label pairs of pairs of annotators, from which their tables can be counted for any weights of the items."""

    who: Ints  #: the two annotators of each pair, (P, 2)
    cell: Ints  #: position of each label pair in the stacked tables
    item: Ints  #: its item, among ``n_items``
    n_items: int
    n_classes: int

    @classmethod
    def of(cls, annotations: Annotations) -> CohensKappa:
        """Collect the label pairs; of many labels, those of the busiest annotators on a sample of items."""
        M, K = annotations.n_annotators, annotations.n_classes
        most = max(2, min(KAPPA_ANNOTATORS, int(np.sqrt(2.0 * KAPPA_CELLS) / K)))
        chosen = np.arange(M)
        if most < M:
            chosen = np.sort(np.argsort(-annotations.labels_per_annotator, kind="stable")[:most])
            annotations = annotations.select_annotators(chosen)
        _, indptr, annotator, label, first, second = item_pairs(annotations, KAPPA_PAIRS)
        swap = annotator[first] > annotator[second]
        first, second = np.where(swap, second, first), np.where(swap, first, second)
        pairs, pair = np.unique(annotator[first] * chosen.size + annotator[second], return_inverse=True)
        who = chosen[np.stack([pairs // chosen.size, pairs % chosen.size], axis=1)]
        item = np.searchsorted(indptr, first, side="right") - 1
        return cls(who, (pair * K + label[first]) * K + label[second], item, indptr.size - 1, K)

    def of_pairs(self) -> tuple[Floats, Floats]:
        """Return the common items of every pair, and κ, NaN where it is not defined."""
        S, kappa = self._tables(np.ones((self.n_items, 1)))
        return S[:, 0], kappa[:, 0]

    def mean(self) -> float:
        """Return the mean over the pairs, weighted by their common items."""
        return float(_mean(*self._tables(np.ones((self.n_items, 1))))[0])

    def bootstrap(self, n: int, rng: np.random.Generator) -> Floats:
        """Return the mean for items drawn with replacement; fewer draws where there are many labels."""
        if n == 0 or not self.n_items:
            return np.empty(0)
        n = min(n, max(100, KAPPA_WORK // max(self.cell.size, 1)))
        step = max(1, (1 << 22) // max(len(self.who) * self.n_classes**2, self.n_items))
        means = []
        for first in range(0, n, step):
            weights = bootstrap_weights(rng, self.n_items, min(step, n - first))
            means.append(_mean(*self._tables(np.ascontiguousarray(weights.T))))
        return np.concatenate(means)

    def _tables(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return common items and κ of every pair, (P, draws), items weighted by ``weights``, (items, draws)."""
        from scipy.sparse import csr_array

        K, P = self.n_classes, len(self.who)
        places = csr_array((np.ones(self.cell.size), (self.cell, self.item)), shape=(P * K * K, self.n_items))
        counts: Floats = (places @ weights).reshape(P, K, K, weights.shape[1])
        S = counts.sum(axis=(1, 2))
        agree = np.einsum("pkkd->pd", counts)
        chance = (counts.sum(axis=1) * counts.sum(axis=2)).sum(axis=1)
        return S, beyond_chance(ratio(agree, S), ratio(chance, S * S))


def _mean(S: Floats, kappa: Floats) -> Floats:
    """Return the mean over pairs, weighted by their items, (draws,); NaN where no pair has a κ."""
    defined = ~np.isnan(kappa)
    weight = np.where(defined, S, 0.0).sum(axis=0)
    return ratio(np.where(defined, S * kappa, 0.0).sum(axis=0), weight)
