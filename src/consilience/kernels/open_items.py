"""Sweeps over the items that are still open, while the others stay as they are.

After a few EM steps most items are settled: one class has all but a thousandth of the probability, and another step
hardly changes that.  A *look* passes over all items and lists the open ones; sweeps over these cost as much less as
they are fewer.  Neal & Hinton (1998) tell why that is sound: whatever posteriors the settled items are left with,

    L(θ)  ≥  L_open(θ) + L_settled(θ₀) + Σ counts_settled(θ₀) · (log θ - log θ₀),

with equality at the parameters θ₀ that these posteriors belong to, and an EM step raises the right side.

R. Neal and G. Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other variants", in Learning
in Graphical Models (1998).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.em import Statistics, Sweep

__all__ = ["Look", "OpenItems"]


class Look(NamedTuple):
    """What a look leaves behind: :class:`Statistics` of all items, and how many labels the open ones have."""

    counts: Floats
    class_counts: Floats
    log_likelihood: float
    open_labels: int

    @property
    def statistics(self) -> Statistics:
        """What a plain sweep leaves behind, to the bit."""
        return Statistics(*self[:3])


class OpenItems:
    """A list of open items, and the E-step over them.

    Parameters
    ----------
    sweep
        The E-step over all items; it has the labels and their blocks.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self._listed: dict[tuple[int, int], Codes] = {}  # by block, counted from its first item
        self._copied: Sweep | None = None  # where there are few labels

    def look(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Look]:
        """Run the E-step over all items, and list the open ones; sums are as of :meth:`Sweep.parts`."""
        if self.sweep.small:
            return {(0, 1): self._look_small(prior, confusions)}
        over = self.sweep.over_block("list", prior, confusions)

        def leaf(first: int, stop: int) -> Look:
            items = np.empty(stop - first + 1, np.int32)  # one more: what comes after the last open item
            made, (found, labels) = over(first, stop, items)
            self._listed[first, stop] = items[: int(found)].copy()
            return Look(*made, int(labels))

        return blocks.fold(leaf, self.sweep.share, self.sweep.threads)

    def parts(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Statistics]:
        """Run the E-step over the items that were open at the last look."""
        if self._copied is not None:
            return self._copied.parts(prior, confusions)
        over = self.sweep.over_block("listed", prior, confusions)
        return blocks.fold(
            lambda first, stop: over(first, stop, self._listed[first, stop])[0], self.sweep.share, self.sweep.threads
        )

    def _look_small(self, prior: Floats, confusions: Floats) -> Look:
        """Do it in plain numpy, and copy the labels of open items."""
        from consilience.kernels.em_numpy import judge

        s = self.sweep
        made, is_open = judge(s.indptr, s.annotator, s.label, s.gold, prior, confusions)
        lengths = np.diff(s.indptr)
        at, indptr = np.repeat(is_open, lengths), np.concatenate([[0], np.cumsum(lengths[is_open])])
        self._copied = Sweep(indptr, s.annotator[at], s.label[at], None, *s.shape[:2])
        return Look(*made, int(indptr[-1]))
