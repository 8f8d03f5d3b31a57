"""E-steps over the items that are still open, while the posteriors of the others are kept (Neal & Hinton 1998).

The objective is then the lower bound of the log-likelihood in :mod:`consilience.kernels.open_items`,

    L_open(θ) + Σ counts_settled · log θ + constant,

the constant such that it is the log-likelihood at the parameters that the kept posteriors belong to.
"""

from __future__ import annotations

import numpy as np

from consilience.engine.passes import Passes
from consilience.fitting.ledger import Over
from consilience.fitting.m_steps import Parameters
from consilience.kernels.em import FLOOR, MOST_UNROLLED, Statistics

__all__ = ["OpenItems"]

#: Open items are few when they have at most this share of the labels …
_SHARE = 0.4
#: … and so many labels are left out for every probability of the model: a bound and a step over these cost time, too.
_SPARED = 4


class OpenItems:
    """Which items are open, what the others leave behind, and passes over either.

    Parameters
    ----------
    passes
        The labels.
    """

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.looked: Parameters  #: the parameters of the last look
        self._labels = passes.n_labels  # of open items
        self._whole: Statistics  # what the last pass over all items left behind
        self._settled: Statistics | None = None
        self._constant = 0.0
        #: Passes over all items; the first looks which are open.
        self.looking, self.all = Over(self._look, passes.n_labels), Over(self._all, passes.n_labels)

    @property
    def open(self) -> Over[Parameters, Statistics]:
        """A pass over open items.  The first after one over all has to be under the same parameters."""
        return Over(self._sweep, self._labels, whole=False)

    @property
    def worth_a_look(self) -> bool:
        """Whether passes over open items alone could be worth their while."""
        M, K = self.passes.n_annotators, self.passes.n_classes
        return K <= MOST_UNROLLED and self.passes.n_labels >= _SPARED * M * K * K

    @property
    def share(self) -> float:
        """The share of labels that open items have."""
        return self._labels / self.passes.n_labels

    @property
    def are_few(self) -> bool:
        """Whether passes over open items alone are worth their while."""
        M, K, n = self.passes.n_annotators, self.passes.n_classes, self.passes.n_labels
        return 0.0 < self.share <= _SHARE and n - self._labels >= _SPARED * M * K * K

    # ---- passes --------------------------------------------------------------------------------------------

    def _look(self, at: Parameters) -> tuple[Statistics, float]:
        look = self.passes.look(*at)
        self.looked, self._labels = at, look.open_labels
        return self._passed(look.statistics)

    def _all(self, at: Parameters) -> tuple[Statistics, float]:
        return self._passed(self.passes.sweep(*at))

    def _passed(self, whole: Statistics) -> tuple[Statistics, float]:
        self._whole, self._settled = whole, None
        return whole, whole.log_likelihood

    def _sweep(self, at: Parameters) -> tuple[Statistics, float]:
        found = self.passes.sweep_open(self.looked, *at)
        if self._settled is None:
            self._settled = _left_over(self._whole, found)
            self._constant = self._settled.log_likelihood - _weighed_logs(self._settled, at)
        settled = self._settled
        sums = Statistics(settled.counts + found.counts, settled.class_counts + found.class_counts, float("nan"))
        return sums, found.log_likelihood + _weighed_logs(settled, at) + self._constant


def _left_over(whole: Statistics, found: Statistics) -> Statistics:
    """Give what the other items leave behind."""
    return Statistics(
        np.maximum(whole.counts - found.counts, 0.0),
        np.maximum(whole.class_counts - found.class_counts, 0.0),
        whole.log_likelihood - found.log_likelihood,
    )


def _weighed_logs(of: Statistics, at: Parameters) -> float:
    """Give Σ counts · log θ."""
    pairs = (of.class_counts, at.prior), (of.counts, at.confusions)
    return sum(float((counts * np.log(np.maximum(theta, FLOOR))).sum()) for counts, theta in pairs)
