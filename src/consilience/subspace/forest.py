"""Approximate nearest neighbours in time of order N log N: a few trees of balanced cuts, then neighbours of neighbours.

A tree halves the codes again and again: two centres are found among a sample of the codes of a node (2-means), and the
half that is nearer to the first goes left.  Codes are compared with all others of their leaf, by one matrix product.
Leaves of different trees are cut in different places, so what one tree separates another keeps together.  At
the end every leaf of the first tree is compared with all codes that its members found elsewhere: neighbours of a
neighbour are likely neighbours.

======================== ===============================================
quantity                 cost
======================== ===============================================
cutting                  trees · N · n · log2(N / leaf)
comparing within leaves  trees · N · n · leaf
======================== ===============================================

All choices come from one seed and lists are written by one leaf at a time: the result does not depend on the
number of threads.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from consilience.kernels import blocks
from consilience.kernels._arrays import Ints
from consilience.kernels.neighbours import update_lists

__all__ = ["search"]

Singles: TypeAlias = NDArray[np.float32]

#: Leaves are halved until they are at most this large.
_LEAF = 500
#: Codes of a node that its two centres are found from, and the rounds of that.
_SAMPLE, _ROUNDS = 200, 4


def search(
    Z: Singles, k: int, *, absolute: bool = False, random_state: int = 0, trees: int = 4, passes: int = 1
) -> Ints:
    """Find about the k nearest codes of every code.

    Parameters
    ----------
    Z
        Codes (N, n).
    k
        Neighbours.
    absolute
        Compare by absolute inner product (codes of unit length), else by Euclidean distance.
    random_state
        Seed.
    trees, passes
        Trees, and passes over neighbours of neighbours: more find more of the true ones.

    Returns
    -------
    indices (N, k), best first; -1 where fewer were found.
    """
    N = len(Z)
    seeds = np.random.SeedSequence(random_state).spawn(trees)
    best = np.full((N, k), -np.inf, np.float32)
    found = np.full((N, k), -1, np.int64)
    with blocks.one_blas_thread():  # leaves already take all cores
        place, edges = _leaves(Z, k, absolute, seeds[0])
        Z = Z[place]  # neighbours now lie near each other in memory
        half = 0.5 * np.einsum("ij,ij->i", Z, Z)
        order = np.arange(N)

        def compare(members: Ints, others: Ints, unique: bool) -> None:
            mine, theirs = best[members], found[members]
            scores = Z[members] @ Z[others].T
            update_lists(scores, half[others], others, members, mine, theirs, absolute=absolute, unique=unique)
            best[members], found[members] = mine, theirs

        def within(first: int, stop: int) -> None:
            compare(order[first:stop], order[first:stop], tree > 0)

        def around(first: int, stop: int) -> None:
            members = np.arange(first, stop)
            near = before[first:stop]
            others = np.unique(near[(near >= 0) & ((near < first) | (near >= stop))])
            if others.size:
                compare(members, others, True)

        for tree in range(trees):
            cuts = edges
            if tree:
                order, cuts = _leaves(Z, k, absolute, seeds[tree])
            blocks.run(within, cuts)
        for _ in range(passes):
            before = found.copy()
            blocks.run(around, edges)
    indices = np.empty_like(found)
    indices[place] = np.where(found >= 0, place[found], -1)
    return indices


def _leaves(Z: Singles, k: int, absolute: bool, seed: np.random.SeedSequence) -> tuple[Ints, list[tuple[int, int]]]:
    """Order the codes by leaves; give the order, and where in it each leaf begins and ends."""
    order = np.arange(len(Z))
    largest = max(_LEAF, 2 * (k + 1))
    nodes = [(0, len(Z))]
    while nodes[0][1] - nodes[0][0] > largest:
        children = dict(zip(nodes, seed.spawn(len(nodes)), strict=True))

        def halve(first: int, stop: int, children: dict[tuple[int, int], np.random.SeedSequence] = children) -> int:
            members = order[first:stop]
            codes = Z[members]
            lean = _lean(codes, absolute, np.random.default_rng(children[first, stop]))
            middle = (stop - first) // 2
            order[first:stop] = members[np.argpartition(lean, middle)]
            return first + middle

        middles = blocks.run(halve, nodes)
        nodes = [part for (a, b), m in zip(nodes, middles, strict=True) for part in ((a, m), (m, b))]
    return order, nodes


def _lean(codes: Singles, absolute: bool, rng: np.random.Generator) -> Singles:
    """Say how much nearer each code is to the second of two centres than to the first."""
    sample = codes[rng.integers(len(codes), size=min(_SAMPLE, len(codes)))]
    centres = sample[rng.choice(len(sample), 2, replace=False)]
    for _ in range(_ROUNDS):
        scores = sample @ centres.T
        if absolute:  # a code and its opposite are one: turn each to the side of its centre
            chosen = np.abs(scores).argmax(axis=1)
        else:
            chosen = (scores - 0.5 * np.einsum("ij,ij->i", centres, centres)).argmax(axis=1)
        for c in range(2):
            members = sample[chosen == c]
            if not len(members):
                continue
            if absolute:
                total = np.sign(scores[chosen == c, c]) @ members
                centres[c] = total / max(float(np.linalg.norm(total)), 1e-30)
            else:
                centres[c] = members.mean(axis=0)
    scores = codes @ centres.T
    if absolute:
        scores = np.abs(scores)
    else:
        scores -= 0.5 * np.einsum("ij,ij->i", centres, centres)
    lean: Singles = scores[:, 1] - scores[:, 0]
    return lean
