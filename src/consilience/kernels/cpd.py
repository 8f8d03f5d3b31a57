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
  computed once, the products of its factors once a pass; a row then costs one product for each group.  Sums over
  cells of a group give the counts of its variables afterwards, exactly.
* A missing entry is a category of its own (the first) with probability one: no branch.
* Probabilities are multiplied, no logarithm or exponential.  They are floored at ``FLOOR``, so twenty-four factors
  cannot underflow; longer products are rescaled, each component carrying its own power of two.
* The loop is compiled for the number of components (:mod:`consilience.kernels.cpd_pass`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
#: Below this many entries × components plain numpy is over before numba is loaded.
SMALL = 1 << 16


class TableStatistics(NamedTuple):
    """What one pass leaves behind; statistics of disjoint sets of rows add up."""

    counts: Floats  #: expected number of rows with each category and component, (Σ I_n, F)
    weights: Floats  #: expected number of rows of each component, (F,)
    log_likelihood: float


class TablePass:
    """The E-step over one coded table, ready to be run again and again.

    Parameters
    ----------
    codes
        Entries (S, N), -1 where missing.
    sizes
        Number of categories I_n of each variable.
    share
        The blocks of rows to pass over, where others have the rest; all by default.
    """

    def __init__(self, codes: Codes, sizes: Sequence[int], *, share: blocks.Share | None = None) -> None:
        self._share = share
        self.codes, self.sizes = codes, tuple(int(size) for size in sizes)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.groups = _groups(self.sizes)
        self._cells: Codes | None = None
        self._places: Ints | None = None
        self._tables: dict[int, blocks.Spare[Floats]] = {}

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.codes.shape[0])

    def _small(self, F: int) -> bool:
        return self._share is None and self.codes.size * F < SMALL

    def share(self, F: int) -> blocks.Share:
        """Give the blocks of rows that a pass with so many components goes by; small tables are one."""
        if self._share is not None:
            return self._share
        if self._small(F):
            return blocks.Share.all_of([(0, self.n_rows)])
        return blocks.Share.all_of(self._pieces(self._starts()[1] * tile_width(F)[1]))

    def portion(self, F: int, first: int, stop: int) -> dict[str, Any]:
        """Give the arguments that make the same pass over some of its blocks, with their own rows alone."""
        share = self.share(F)
        cut = share.blocks[first:stop]
        low, high = cut[0][0], cut[-1][1]
        inner = blocks.Share([(a - low, b - low) for a, b in cut], share.first + first, share.n)
        return {"codes": self.codes[low:high], "sizes": self.sizes, "share": None if self._small(F) else inner}

    def __call__(self, weights: Floats, stacked: Floats) -> TableStatistics:
        """Run the E-step under these parameters and give the sums that the M-step needs."""
        return blocks.total(self.parts(weights, stacked), (0, self.share(weights.size).n))

    def parts(self, weights: Floats, stacked: Floats) -> dict[blocks.Node, TableStatistics]:
        """Give the sums over this share of the blocks, to be added to those of others."""
        F = weights.size
        if self._small(F):
            return {(0, 1): self._in_numpy(weights, stacked)}
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

    def posterior(self, weights: Floats, stacked: Floats) -> tuple[Floats, Floats]:
        """Give the posterior of every row's component (S, F) and the log-probability of every row (S,)."""
        ((_, q, logs),) = self.posteriors(weights, stacked, max(self.n_rows, 1))
        return q, logs

    def posteriors(self, weights: Floats, stacked: Floats, most: int) -> Iterator[tuple[slice, Floats, Floats]]:
        """Give what :meth:`posterior` does for at most so many rows at a time; the factors are merged once."""
        F = weights.size
        # for a few rows it is not worth the products of all cells
        if self._small(F) or self.codes.size < self._starts()[1]:
            for rows in _parts(self.n_rows, most):
                yield rows, *self._posterior_in_numpy(weights, stacked, rows)
            return
        width, P = tile_width(F)
        (start, size), cells = self._starts(), self._merged_codes()
        table = aligned(size, P)
        table[:, :F] = self._merged(stacked)
        kernel, weights = pass_kernel(width, width < P, self._every() > 0, cells.dtype.name, True), _padded(weights, P)
        for rows in _parts(self.n_rows, most):
            here = cells[rows]
            out, logs = np.empty((len(here), P)), np.empty(len(here))

            def work(first: int, stop: int, here: Codes = here, out: Floats = out, logs: Floats = logs) -> None:
                kernel(first, stop, here, start, weights, table, self._every(), out, logs, np.zeros(P + 1))

            blocks.run(work, self._pieces(0, len(here)))
            yield rows, out[:, :F], logs

    # ---- merged variables ----------------------------------------------------------------------------------

    def _every(self) -> int:
        """Groups after which a product is rescaled; 0 where that is never needed."""
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
                    # widened first: 127 + 1 is not to be found among int8; -1 turns round to zero
                    cell += self.codes[:, n].astype(cells.dtype) + cells.dtype.type(1)
                cells[:, g] = cell
            self._cells = cells
        return self._cells

    def _merged(self, stacked: Floats) -> Floats:
        """Give ∏ A_n over the variables of each group for all its cells, (Σ cells, F)."""
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
        """Sum the counts of groups to those of single variables, (Σ I_n, F)."""
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

    # ---- small tables --------------------------------------------------------------------------------------

    def _in_numpy(self, weights: Floats, stacked: Floats) -> TableStatistics:
        F = weights.size
        q, logs = self._posterior_in_numpy(weights, stacked, slice(None))
        # cells (category, component) of all entries, those of missing ones in a row of their own at the end
        cells = self._rows_of_stacked()[:, :, None] * F + np.arange(F)
        J = int(self.offsets[-1])
        added = np.broadcast_to(q[:, None, :], cells.shape)
        counts: Any = np.bincount(cells.ravel(), added.ravel(), (J + 1) * F)
        return TableStatistics(counts.reshape(J + 1, F)[:J], q.sum(axis=0), float(logs.sum()))

    def _posterior_in_numpy(self, weights: Floats, stacked: Floats, rows: slice) -> tuple[Floats, Floats]:
        logs = np.log(np.maximum(np.concatenate([stacked, np.ones((1, weights.size))]), FLOOR))
        joint = np.log(np.maximum(weights, FLOOR)) + logs[self._rows_of_stacked()[rows]].sum(axis=1)
        top = joint.max(axis=1, keepdims=True, initial=-np.inf)
        q = np.exp(joint - top)
        total = q.sum(axis=1, keepdims=True)
        q /= total
        return q, (top + np.log(total))[:, 0]

    def _rows_of_stacked(self) -> Ints:
        """Give the row of the stacked factors for every entry, (S, N), one past the last where it is missing."""
        if self._places is None:
            places = self.codes.astype(np.int64) + self.offsets[:-1]
            self._places = np.where(self.codes < 0, self.offsets[-1], places)
        return self._places


def _parts(n: int, most: int) -> list[slice]:
    return [slice(first, first + most) for first in range(0, max(n, 1), most)]


def _padded(weights: Floats, P: int) -> Floats:
    """Add components of weight zero, which stay at zero."""
    padded = np.zeros(P)
    padded[: weights.size] = np.maximum(weights, FLOOR)
    return padded


def _cells(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= size + 1
    return product


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Merge neighbouring variables while the joint alphabet stays small; at most eight, so that floors stay safe."""
    groups: list[list[int]] = []
    for n in range(len(sizes)):
        last = groups[-1] if groups else []
        if last and len(last) < 8 and _cells(sizes[m] for m in [*last, n]) <= MOST_CELLS:
            last.append(n)
        else:
            groups.append([n])
    return groups
