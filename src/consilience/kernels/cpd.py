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
* The loop over components is unrolled: up to ``MOST_UNROLLED`` of them stay in registers, more are taken in tiles of
  eight.  Probability and count of a cell lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, aligned

__all__ = ["FLOOR", "TablePass", "TableStatistics"]

#: The smallest probability: 24 factors and a weight stay above 1e-308.
FLOOR = 1e-12
#: Up to this many components stay in registers; more are taken in tiles.
MOST_UNROLLED = 12
_TILE = 8
#: Cells of a group of merged variables.
MOST_CELLS = 256
#: Variables whose product cannot underflow.
_SAFE = 24
#: Below this many entries × components plain numpy is over before numba is loaded.
SMALL = 1 << 16
#: Rows that plain numpy takes at a time.
_CHUNK = 1 << 14


class TableStatistics(NamedTuple):
    """What one pass leaves behind; statistics of disjoint sets of rows add up."""

    counts: Floats  #: expected number of rows with each category and component, (Σ I_n, F)
    weights: Floats  #: expected number of rows of each component, (F,)
    log_likelihood: float


# A line with @ stands once for every component of a tile, with its number in the tile for @.
_SOURCE = """
def {name}(first, stop, cells, start, weights, table, every, out, logs, sums):
    running = 1.0
    total = 0.0
    G = uint64(start.size)
    {one}n@ = 0.0
    {one}w@ = weights[@]
    {many}F = uint64(weights.size)
    {many}p = empty(weights.size)
    {long}{many}e = empty(weights.size)
    for s in range(first, stop):
        row = uint64(s)
        t = 0.0
        top = 0.0
        {long}{many}top = -1e9
        {many}for f in range(uint64(0), F, uint64({width})):
        {many}    p@ = weights[f + uint64(@)]
        {one}if True:
        {one}    p@ = w@
            {plain}for g in range(G):
            {plain}    r = uint64(start[g]) + uint64(cells[row, g])
            {plain}{one}    p@ *= table[r, @]
            {plain}{many}    p@ *= table[r, f + uint64(@)]
            {long}e@ = 0.0 if p@ > 0.0 else -1e9
            {long}low = uint64(0)
            {long}while low < G:
            {long}    high = min(low + uint64(every), G)
            {long}    for g in range(low, high):
            {long}        r = uint64(start[g]) + uint64(cells[row, g])
            {long}{one}        p@ *= table[r, @]
            {long}{many}        p@ *= table[r, f + uint64(@)]
            {long}    while 0.0 < p@ < {small}: p@ *= {large}; e@ -= 1.0
            {long}    low = high
            {long}{one}top = e0
            {long}top = max(top, e@)
            {long}{one}if e@ != top: p@ = p@ * {tiny} if e@ == top - 1.0 else 0.0
            {long}{many}e[f + uint64(@)] = e@
            {many}p[f + uint64(@)] = p@
            t += {sum_p}
        {long}{many}t = 0.0
        {long}{many}for f in range(F):
        {long}{many}    if e[f] != top: p[f] = p[f] * {tiny} if e[f] == top - 1.0 else 0.0
        {long}{many}    t += p[f]
        {write}logs[s] = log(t) + top * {log_large}
        {count}total += top * {log_large}
        {count}if t < 1e-200:
        {count}    total += log(t)
        {count}else:
        {count}    running *= t
        {count}    if running < 1e-100 or running > 1e100:
        {count}        total += log(running)
        {count}        running = 1.0
        inverse = 1.0 / t
        {many}for f in range(uint64(0), F, uint64({width})):
        {many}    p@ = p[f + uint64(@)]
        {one}if True:
            p@ *= inverse
            {write}{one}out[row, @] = p@
            {write}{many}out[row, f + uint64(@)] = p@
            {count}{one}n@ += p@
            {count}{many}sums[f + uint64(@)] += p@
            {count}for g in range(G):
            {count}    r = uint64(start[g]) + uint64(cells[row, g])
            {count}{one}    table[r, {width} + @] += p@
            {count}{many}    table[r, F + f + uint64(@)] += p@
    {one}{count}sums[@] = n@
    sums[weights.size] = total + log(running)
"""


def _source(name: str, width: int, tiled: bool, long: bool, write: bool) -> str:
    """Write the pass for components in one tile of this width, or in any number of them."""
    values = {
        "name": name,
        "width": width,
        "small": repr(2.0**-256),
        "large": repr(2.0**512),
        "tiny": repr(2.0**-512),
        "log_large": repr(512 * float(np.log(2.0))),
        "sum_p": " + ".join(f"p{f}" for f in range(width)),
    }
    absent = {"{count}" if write else "{write}", "{one}" if tiled else "{many}", "{plain}" if long else "{long}"}
    lines: list[str] = []
    for line in _SOURCE.lstrip("\n").splitlines():
        if any(mark in line for mark in absent):
            continue
        text = line
        for mark in ("{count}", "{write}", "{one}", "{many}", "{plain}", "{long}"):
            text = text.replace(mark, "")
        lines += [text.replace("@", str(f)) for f in range(width)] if "@" in text else [text]
    return "\n".join(lines).format(**values)


@lru_cache(maxsize=64)
def _kernel(width: int, tiled: bool, long: bool, cells: str, write: bool) -> Callable[..., None]:
    """Compile the pass."""
    from numba import types

    from consilience.kernels import _compile

    array = _compile.array
    matrix, vector = array("float64", 2, readonly=False), array("float64", readonly=False)
    signature = types.void(
        types.int64,
        types.int64,
        array(cells, 2),
        array("int64"),
        array("float64"),
        matrix,
        types.int64,
        matrix,
        vector,
        vector,
    )
    name = f"table_pass_{width}{'_tiles' if tiled else ''}{'_long' if long else ''}{'_write' if write else ''}"
    names = {"uint64": np.uint64, "log": np.log, "empty": np.empty}
    function = _compile.from_source(_source(name, width, tiled, long, write), name, __name__, __file__, names)
    return _compile.compiled(function, signature)


def _width(F: int) -> tuple[int, int]:
    """Give the width of a tile, and F rounded up to whole tiles: few kernels serve all ranks."""
    if F > MOST_UNROLLED:
        return _TILE, -(-F // _TILE) * _TILE
    width = F if F <= 2 else -(-F // 4) * 4
    return width, width


class TablePass:
    """The E-step over one coded table, ready to be run again and again.

    Parameters
    ----------
    codes
        Entries (S, N), -1 where missing.
    sizes
        Number of categories I_n of each variable.
    """

    def __init__(self, codes: Codes, sizes: Sequence[int]) -> None:
        self.codes, self.sizes = codes, tuple(int(size) for size in sizes)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.groups = _groups(self.sizes)
        self._cells: Codes | None = None
        self._tables: list[Floats] = []

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.codes.shape[0])

    def _small(self, F: int) -> bool:
        return self.codes.size * F < SMALL

    def __call__(self, weights: Floats, stacked: Floats) -> TableStatistics:
        """Run the E-step under these parameters and give the sums that the M-step needs."""
        F = weights.size
        if self._small(F):
            return self._in_numpy(weights, stacked)
        width, P = _width(F)
        merged = self._merged(stacked)
        (start, rows), cells = self._starts(), self._merged_codes()
        kernel = _kernel(width, width < P, self._every() > 0, cells.dtype.name, False)
        pieces = self._pieces(rows * P)
        if not self._tables or self._tables[0].shape[1] != 2 * P:
            self._tables = [aligned(rows, 2 * P) for _ in pieces]
        weights = _padded(weights, P)
        nothing, none = np.empty((0, 0)), np.empty(0)

        def work(job: int, _: int) -> Floats:
            table, sums = self._tables[job], np.zeros(P + 1)
            table[:, :F] = merged
            table[:, F:] = 0.0
            kernel(*pieces[job], cells, start, weights, table, self._every(), nothing, none, sums)
            return sums

        sums = np.sum(blocks.run(work, [(b, b + 1) for b in range(len(pieces))]), axis=0)
        counts = self._tables[0][:, P : P + F].copy()
        for table in self._tables[1:]:
            counts += table[:, P : P + F]
        return TableStatistics(self._split(counts), sums[:F], float(sums[P]))

    def posterior(self, weights: Floats, stacked: Floats) -> tuple[Floats, Floats]:
        """Give the posterior of every row's component (S, F) and the log-probability of every row (S,)."""
        F = weights.size
        if self._small(F):
            return self._posterior_in_numpy(slice(None), weights, stacked)
        width, P = _width(F)
        (start, rows), cells = self._starts(), self._merged_codes()
        table = aligned(rows, P)
        table[:, :F] = self._merged(stacked)
        kernel, weights = _kernel(width, width < P, self._every() > 0, cells.dtype.name, True), _padded(weights, P)
        out, logs = np.empty((self.n_rows, P)), np.empty(self.n_rows)

        def work(first: int, stop: int) -> None:
            kernel(first, stop, cells, start, weights, table, self._every(), out, logs, np.zeros(P + 1))

        blocks.run(work, self._pieces(0))
        return out[:, :F], logs

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
                    cell += (self.codes[:, n] + self.codes.dtype.type(1)).astype(cells.dtype)
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

    def _pieces(self, cells: int) -> list[tuple[int, int]]:
        return blocks.cut(np.arange(self.n_rows + 1, dtype=np.int64) * len(self.groups), cells)

    # ---- small tables --------------------------------------------------------------------------------------

    def _in_numpy(self, weights: Floats, stacked: Floats) -> TableStatistics:
        F = weights.size
        counts, sums, total = np.zeros((int(self.offsets[-1]), F)), np.zeros(F), 0.0
        for first in range(0, max(self.n_rows, 1), _CHUNK):
            rows = slice(first, first + _CHUNK)
            q, logs = self._posterior_in_numpy(rows, weights, stacked)
            sums += q.sum(axis=0)
            total += float(logs.sum())
            for n, size in enumerate(self.sizes):
                code = self.codes[rows, n].astype(np.int64) + 1
                for f in range(F):
                    here = np.bincount(code, q[:, f], size + 1)
                    counts[self.offsets[n] : self.offsets[n + 1], f] += here[1:]
        return TableStatistics(counts, sums, total)

    def _posterior_in_numpy(self, rows: slice, weights: Floats, stacked: Floats) -> tuple[Floats, Floats]:
        codes = self.codes[rows]
        joint = np.tile(np.log(np.maximum(weights, FLOOR)), (len(codes), 1))
        logs = np.log(np.maximum(stacked, FLOOR))
        nothing = np.zeros((1, weights.size))
        for n in range(len(self.sizes)):
            with_missing = np.concatenate([nothing, logs[self.offsets[n] : self.offsets[n + 1]]])
            joint += with_missing[codes[:, n].astype(np.int64) + 1]
        top = joint.max(axis=1, keepdims=True, initial=-np.inf)
        q = np.exp(joint - top)
        total = q.sum(axis=1, keepdims=True)
        q /= total
        return q, (top + np.log(total))[:, 0]


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
