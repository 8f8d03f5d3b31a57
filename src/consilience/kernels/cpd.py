"""One pass over a coded table: the posterior of every row's component, and the sums that the M-step needs.

For row s with entries z_s (Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eqs (21)-(22); missing entries
are left out of product and sum):

    q[s, f]       ∝  λ[f] · ∏_n A_n(z_s(n), f)
    counts[i, f]  =  Σ_s q[s, f]  over the rows with entry i

====== ================ ==============================================================
symbol name             shape
====== ================ ==============================================================
λ      ``weights``      (F,)
A_n    ``stacked``      (Σ I_n, F), the factors one below the other
q      ``posterior``    (S, F)
..     ``codes``        (S, N), -1 missing
====== ================ ==============================================================

What makes it fast:

* Variables are merged into groups whose joint alphabet has at most ``MOST_CELLS`` cells.  The codes of a group are
  computed once, the products of its factors once per pass; a row then costs one product per group.  The counts of its
  variables are exact sums over the cells of a group.
* A missing entry is a category of its own (the first) with probability one: no branch.
* Probabilities are multiplied, without logarithms.  They are floored at ``FLOOR``, so 24 factors cannot underflow;
  longer products are rescaled, each component by its own power of two.
* The loop is compiled for the number of components (:mod:`consilience.kernels.cpd_pass`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, aligned
from consilience.kernels.cpd_pass import pass_kernel, tile_width

__all__ = ["FLOOR", "TablePass", "TableStatistics"]

#: The smallest probability: 24 factors and a weight stay above 1e-308.
FLOOR = 1e-12
#: Cells of a group of merged variables.
MOST_CELLS = 256
#: Variables whose product cannot underflow.
_SAFE = 24


class TableStatistics(NamedTuple):
    """The sums of one pass; those of disjoint sets of rows add up."""

    counts: Floats  #: expected number of rows with each category and component, (Σ I_n, F)
    weights: Floats  #: expected number of rows of each component, (F,)
    log_likelihood: float


class TablePass:
    """The E-step over one coded table.

    Parameters
    ----------
    codes
        Entries (S, N), -1 where missing.
    sizes
        Number of categories I_n of each variable.
    share
        The blocks of rows to pass over, if other processes have the rest; all by default.
    """

    def __init__(self, codes: Codes, sizes: Sequence[int], *, share: blocks.Share | None = None) -> None:
        self._share = share
        self.codes, self.sizes = codes, tuple(int(size) for size in sizes)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.groups = _groups(self.sizes)
        self._cells: Codes | None = None
        self._tables: dict[int, blocks.Spare[Floats]] = {}

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.codes.shape[0])

    def share(self, F: int) -> blocks.Share:
        """Return the blocks of rows of a pass with F components."""
        return self._share or blocks.Share.all_of(self._pieces(self._starts()[1] * tile_width(F)[1]))

    def portion(self, F: int, first: int, stop: int) -> dict[str, Any]:
        """Return the arguments that make the same pass over some of its blocks, with only their rows."""
        share = self.share(F)
        cut = share.blocks[first:stop]
        low, high = cut[0][0], cut[-1][1]
        inner = blocks.Share([(a - low, b - low) for a, b in cut], share.first + first, share.n)
        return {"codes": self.codes[low:high], "sizes": self.sizes, "share": inner}

    def __call__(self, weights: Floats, stacked: Floats) -> TableStatistics:
        """Run the E-step under these parameters and return the sums that the M-step needs."""
        return blocks.total(self.parts(weights, stacked), (0, self.share(weights.size).n))

    def parts(self, weights: Floats, stacked: Floats) -> dict[blocks.Node, TableStatistics]:
        """Return the sums over this share of the blocks, to be added to those of others."""
        F = weights.size
        width, P = tile_width(F)
        merged = self._merged(stacked)
        (start, rows), cells = self._starts(), self._merged_codes()
        kernel = pass_kernel(width, width < P, self._every() > 0, cells.dtype.name, False)
        tables = self._tables.setdefault(P, blocks.Spare(lambda: aligned(rows, 2 * P)))
        weights = _padded(weights, P)
        nothing, none = np.empty((0, 0)), np.empty(0)

        def leaf(first: int, stop: int) -> TableStatistics:
            sums = np.zeros(P + 1)
            with tables.one() as table:
                table[:, :F] = merged
                table[:, F:] = 0.0
                kernel(first, stop, cells, start, weights, table, self._every(), nothing, none, sums)
                counts = self._split(table[:, P : P + F])
            return TableStatistics(counts, sums[:F], float(sums[P]))

        return blocks.fold(leaf, self.share(F))

    def posteriors(self, weights: Floats, stacked: Floats, most: int) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield at most ``most`` rows at a time: which, the posterior of their components, their log-probabilities."""
        F = weights.size
        width, P = tile_width(F)
        (start, size), cells = self._starts(), self._merged_codes()
        table = aligned(size, P)
        table[:, :F] = self._merged(stacked)
        kernel, weights = pass_kernel(width, width < P, self._every() > 0, cells.dtype.name, True), _padded(weights, P)
        for begin in range(0, max(self.n_rows, 1), most):
            rows = slice(begin, begin + most)
            here = cells[rows]
            out, logs = np.empty((len(here), P)), np.empty(len(here))

            def work(first: int, stop: int, here: Codes = here, out: Floats = out, logs: Floats = logs) -> None:
                kernel(first, stop, here, start, weights, table, self._every(), out, logs, np.zeros(P + 1))

            blocks.run(work, self._pieces(0, len(here)))
            yield rows, out[:, :F], logs

    # ---- merged variables ----------------------------------------------------------------------------------

    def _every(self) -> int:
        """Return the number of groups after which a product is rescaled; 0 if never."""
        if len(self.sizes) <= _SAFE:
            return 0
        return max(1, 16 // max(len(group) for group in self.groups))

    def _starts(self) -> tuple[Ints, int]:
        lengths = [_cells(self.sizes[n] for n in group) for group in self.groups]
        edges = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return edges[:-1], int(edges[-1])

    def _merged_codes(self) -> Codes:
        """Code of each group: its variables' codes as digits, zero for a missing entry."""
        if self._cells is None:
            most = max(_cells(self.sizes[n] for n in group) for group in self.groups)
            cells = np.empty((self.n_rows, len(self.groups)), np.min_scalar_type(most - 1))
            for g, group in enumerate(self.groups):
                cell = np.zeros(self.n_rows, cells.dtype)
                for n in group:
                    cell *= cells.dtype.type(self.sizes[n] + 1) if len(group) > 1 else cells.dtype.type(1)
                    # widened first: 127 + 1 overflows int8; -1 wraps around to zero
                    cell += self.codes[:, n].astype(cells.dtype) + cells.dtype.type(1)
                cells[:, g] = cell
            self._cells = cells
        return self._cells

    def _merged(self, stacked: Floats) -> Floats:
        """Return ∏ A_n over the variables of each group for all its cells, (Σ cells, F)."""
        F = stacked.shape[1]
        parts = []
        for group in self.groups:
            product = np.ones((1, F))
            for n in group:
                factor = np.maximum(stacked[self.offsets[n] : self.offsets[n + 1]], FLOOR)
                with_missing = np.concatenate([np.ones((1, F)), factor])
                product = (product[:, None, :] * with_missing).reshape(-1, F)
            parts.append(product)
        return np.concatenate(parts)

    def _split(self, merged: Floats) -> Floats:
        """Sum the counts of groups into those of single variables, (Σ I_n, F)."""
        F = merged.shape[1]
        counts = np.empty((int(self.offsets[-1]), F))
        at = 0
        for group in self.groups:
            shape = [self.sizes[n] + 1 for n in group]
            block = merged[at : at + int(np.prod(shape))].reshape(*shape, F)
            at += int(np.prod(shape))
            for i, n in enumerate(group):
                others = tuple(a for a in range(len(group)) if a != i)
                counts[self.offsets[n] : self.offsets[n + 1]] = block.sum(axis=others)[1:]
        return counts

    def _pieces(self, cells: int, rows: int | None = None) -> list[tuple[int, int]]:
        rows = self.n_rows if rows is None else rows
        return blocks.cut(np.arange(rows + 1, dtype=np.int64) * len(self.groups), cells)


def _padded(weights: Floats, P: int) -> Floats:
    """Add components of weight zero, which stay at zero."""
    padded = np.zeros(P)
    padded[: weights.size] = np.maximum(weights, FLOOR)
    return padded


def _cells(sizes: Iterable[int]) -> int:
    return prod(size + 1 for size in sizes)


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Merge consecutive variables while their joint alphabet is small; at most eight, to avoid underflow."""
    groups: list[list[int]] = []
    for n in range(len(sizes)):
        last = groups[-1] if groups else []
        if last and len(last) < 8 and _cells(sizes[m] for m in [*last, n]) <= MOST_CELLS:
            last.append(n)
        else:
            groups.append([n])
    return groups
