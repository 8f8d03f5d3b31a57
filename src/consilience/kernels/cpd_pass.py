"""The compiled pass over merged codes: source that is generated for a number of components.

For every row s and component f, over the groups g of merged variables (:mod:`consilience.kernels.cpd`):

    p[f]       =  weights[f] · ∏_g table[cell of g in row s, f]
    q[s, f]    =  p[f] / Σ_f p[f],            added to the count beside each of the row's cells

====== ================ ====================================================================
symbol name             shape
====== ================ ====================================================================
..     ``cells``        (S, G), the cell of each group; ``start`` (G,) is where a group begins
..     ``table``        (cells, 2 P): probabilities of all components, then their counts
P      ``width``        F rounded up to whole tiles
====== ================ ====================================================================

The loop over components is unrolled: up to ``MOST_UNROLLED`` of them stay in registers, more are taken in tiles of
eight.  Probability and count of a cell lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from consilience.kernels._compile import from_source, kernel

__all__ = ["pass_kernel", "tile_width"]

#: Up to this many components stay in registers; more are taken in tiles.
MOST_UNROLLED = 12
_TILE = 8


# A line with @ is repeated for every component of a tile, with its number in the tile for @.
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
    """Return the source for components in one tile of this width, or in several."""
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
def pass_kernel(width: int, tiled: bool, long: bool, cells: str, write: bool) -> Callable[..., None]:
    """Compile the pass: in several tiles, with rescaled products (``long``), with posteriors for sums (``write``)."""
    name = f"table_pass_{width}{'_tiles' if tiled else ''}{'_long' if long else ''}{'_write' if write else ''}"
    names = {"uint64": np.uint64, "log": np.log, "empty": np.empty}
    function = from_source(_source(name, width, tiled, long, write), name, __name__, __file__, names)
    arrays = f"{cells}[,] int64[] float64[] float64[,]! int64 float64[,]! float64[]! float64[]!"
    return kernel(function, f"int64 int64 {arrays}")


def tile_width(F: int) -> tuple[int, int]:
    """Return the width of a tile, and F rounded up to whole tiles, so that few kernels serve all ranks."""
    if F > MOST_UNROLLED:
        return _TILE, -(-F // _TILE) * _TILE
    width = F if F <= 2 else -(-F // 4) * 4
    return width, width
