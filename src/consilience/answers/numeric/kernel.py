r"""Annotators whose answers fit no parametric family: densities estimated with kernels (thesis 5.2.2, (5.1)).

The value of an item is one of J places z_j of a grid, with the shares π_j of the values that the parametric models
found.  What annotator m says of an item at z has a density, estimated from the annotator's answers y_i and the
probabilities p_ij of the places of their items:

    ĝ_m(y | z_j)  =  Σ_i w_ij k_h(y, y_i) / Σ_i w_ij,        w_ij = Σ_l κ(z_j, z_l) p_il,
    p_nj  ∝  π_j ∏_m ĝ_m(y_nm | z_j),

in turns.  k_h and κ are normal densities.  An answer does not count in the density that judges it.  The width h is
the one, of a few, under which the answers left out are most probable.  Answers can thus be skewed, have several modes,
or be the same for all items beyond a limit.  The grid and the shares hold the scale, which answers alone do not fix.

====== ========================================================== ========
symbol name                                                       shape
====== ========================================================== ========
z      ``grid``                                                   (J,)
p      ``p``                                                      (N, J)
ĝ      ``tables``, of the answers in bins                         (B, J)
κ      ``near``                                                   (J, J)
====== ========================================================== ========
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from consilience.answers.numeric.constants import FEWEST_ANSWERS, KERNEL_BINS, KERNEL_PLACES
from consilience.answers.numeric.fit import Table
from consilience.data.ids import Ids
from consilience.exceptions import MethodError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["KernelFit", "fit_kernels", "require_answers"]

#: Widths of the kernel, in standard deviations of an annotator's answers; width of κ in steps of the grid.
_WIDTHS, _STEPS = (0.4, 0.2, 0.1, 0.05, 0.025), 1.0
#: Share of answers that say nothing: no single answer decides.
_FLOOR = 0.01
#: Rounds before the width is chosen again, and in all.
_CHOSEN, _ROUNDS = 3, 40
#: Mean change of a value that ends the rounds, in standard deviations: densities that leave an answer out keep
#: changing a little.
_TOLERANCE = 1e-3


class KernelFit(NamedTuple):
    """Values and their variances, (N,); NaN without answers."""

    value: Floats
    variance: Floats
    converged: bool


def require_answers(table: Table, annotators: Ids) -> None:
    """Raise an error unless densities can be estimated."""
    n = np.bincount(table.annotator, minlength=table.n_annotators)
    if int((n > 0).sum()) < 3:
        raise MethodError("kernel-density needs at least three annotators; numeric takes any number")
    if few := [f"{annotators[m]} ({n[m]})" for m in np.flatnonzero((n > 0) & (n < FEWEST_ANSWERS)).tolist()]:
        more = f" and {len(few) - 5} more" if len(few) > 5 else ""
        raise MethodError(
            f"kernel-density needs at least {FEWEST_ANSWERS} answers of each annotator to estimate densities, and "
            f"there are fewer of {', '.join(few[:5])}{more}; leave them out, or use numeric, which takes any number"
        )


def fit_kernels(
    table: Table, value: Floats, deviation: Floats, known: Floats | None = None, *, tol: float
) -> KernelFit:
    """Fit densities, starting from values and their standard deviations, (N,); ``known`` values are held fixed."""
    there = table.per_item > 0
    grid = np.linspace(float(value[there].min()), float(value[there].max()), KERNEL_PLACES)
    step = grid[1] - grid[0]
    if not step > 0.0:
        return KernelFit(value, deviation**2, True)
    near = np.exp(-0.5 * ((grid[:, None] - grid) / (_STEPS * step)) ** 2)
    spread = np.maximum(np.where(there, deviation, step), step)[:, None]
    p = np.exp(-0.5 * ((grid - np.where(there, value, grid.mean())[:, None]) / spread) ** 2)
    p /= p.sum(axis=1, keepdims=True)
    shares = p[there].mean(axis=0)
    is_known = np.zeros(value.size, bool) if known is None else np.isfinite(known)
    if known is not None:
        at = np.abs(grid - known[is_known, None]).argmin(axis=1)
        p[is_known] = np.eye(grid.size)[at]
    order = np.argsort(table.annotator, kind="stable")
    ends = np.searchsorted(table.annotator[order], np.arange(table.n_annotators + 1))
    people = [_Person(table, order[a:b]) for a, b in pairwise(ends.tolist()) if a < b]
    before, converged = p @ grid, False
    for round_ in range(_ROUNDS):
        weighed = p @ near
        log_p = np.tile(np.log(np.maximum(shares, 1e-12)), (value.size, 1))
        for person in people:
            if round_ <= _CHOSEN:
                person.choose_width(p, weighed)
            np.add.at(log_p, person.item, np.log(person.densities(weighed)))
        fresh = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        fresh /= fresh.sum(axis=1, keepdims=True)
        p = np.where(is_known[:, None], p, fresh)
        now = p @ grid
        converged = float(np.abs(now - before)[there].mean()) <= max(tol, _TOLERANCE) * float(value[there].std())
        before = now
        if converged:
            break
    # the scale stays that of the start
    judged = there & ~is_known
    ratio = float(value[judged].std()) / max(float(before[judged].std()), 1e-300) if judged.any() else 1.0
    found = value[judged].mean() + ratio * (before - before[judged].mean()) if judged.any() else before
    variance = ratio**2 * (np.maximum(p @ grid**2 - before**2, 0.0) + step**2 / 12.0)
    found = np.where(is_known, np.nan if known is None else known, found)
    return KernelFit(np.where(there, found, np.nan), np.where(is_known, 0.0, variance), converged)


class _Person:
    """The answers of one annotator in bins, and their density at every place."""

    def __init__(self, table: Table, mine: Ints) -> None:
        self.item: Ints = table.item[mine]
        y = table.y[mine]
        self.unit = float(y.std()) or 1.0
        low, high = float(y.min()) - 0.5 * self.unit, float(y.max()) + 0.5 * self.unit
        self.step = (high - low) / KERNEL_BINS
        self.bin: Ints = np.minimum(((y - low) / self.step).astype(np.int64), KERNEL_BINS - 1)
        self.width = _WIDTHS[0]

    def choose_width(self, p: Floats, weighed: Floats) -> None:
        """Choose the width under which the answers left out are most probable."""
        mine = p[self.item]
        scores = []
        for width in _WIDTHS:
            self.width = width
            scores.append(float(np.log((mine * self.densities(weighed)).sum(axis=1)).sum()))
        self.width = _WIDTHS[int(np.argmax(scores))]

    def densities(self, weighed: Floats) -> Floats:
        """Return the density of every answer at every place, from the other answers, (labels, J)."""
        w = weighed[self.item]
        columns = [np.bincount(self.bin, w[:, j], KERNEL_BINS) for j in range(w.shape[1])]
        counts: Floats = np.stack(columns, axis=1).astype(np.float64)
        # Σ_i w_ij k_h(y, y_i), in bins
        h = max(self.width * self.unit, 0.5 * self.step)
        away = self.step * np.arange(-KERNEL_BINS, KERNEL_BINS + 1)
        kernel = np.exp(-0.5 * (away / h) ** 2) / (h * np.sqrt(2.0 * np.pi))
        tables = _convolved(counts, kernel)
        at_zero = kernel[KERNEL_BINS]
        total = counts.sum(axis=0) - w
        own = np.maximum(tables[self.bin] - at_zero * w, 0.0) / np.maximum(total, 1e-12)
        usual = 1.0 / (KERNEL_BINS * self.step)
        # places where the annotator has hardly answered say nothing
        sure = total / (total + 1.0)
        found: Floats = (1.0 - _FLOOR) * (sure * own + (1.0 - sure) * usual) + _FLOOR * usual
        return found


def _convolved(counts: Floats, kernel: Floats) -> Floats:
    """Return the counts of every column smoothed by a kernel, (B, J)."""
    from scipy.signal import fftconvolve

    B = counts.shape[0]
    found: Floats = np.maximum(fftconvolve(counts, kernel[:, None], axes=0)[B : 2 * B], 0.0)
    return found
