"""Coupled tensor decomposition (CTD): a joint distribution of discrete variables from the marginals of triples.

Under the model Pr(z_1, …, z_N) = Σ_f λ_f Π_n A_n(z_n, f) the marginal of any three variables is a tensor that shares
its factors with those of all other triples,

    X_jkl = [[A_j D(λ), A_k, A_l]],        X_jkl(a, b, c) = Pr(z_j = a, z_k = b, z_l = c),

and for small F triples determine the factors, up to a common order of the components.  The problem is (Kargas,
Sidiropoulos & Fu 2018, section IV)

    h = ½ Σ_jkl w_jkl ‖X_jkl - [[A_j D(λ), A_k, A_l]]‖²,        λ and all columns of A_n on the simplex,

solved by alternating over A_1, …, A_N and λ, each a convex problem, by a few steps of ADMM.  The weights are shares of
rows, proportional to one over the variance: without missing entries all are one, as in the paper.  The mathematics is
that of :mod:`consilience.factor.moment_matching`, whose sparse sums are used, for alphabets of different sizes and any
rank.

There are N³/6 triples.  If their table would be too large, variables are divided into random groups, several times, and
only triples within groups are used; overlapping groups fix a common order of the components.  A group has at least
three variables; if their categories are too many for a table, cells are counted by sorting.

======  =============  ==============================================================
symbol  name           shape
======  =============  ==============================================================
z       ``codes``      (S, N), -1 where missing
I_n     ``sizes``      (N,)
F       ``rank``
λ       ``weights``    (F,)
A_n     ``factors``    N arrays (I_n, F), columns sum to one; stacked: (L, F), L = Σ I_n
X       ``values``     one for every observed cell (a, b, c) of a triple
======  =============  ==============================================================

N. Kargas, N. D. Sidiropoulos and X. Fu, "Tensors, learning, and 'Kolmogorov extension' for finite-alphabet random
vectors", IEEE Transactions on Signal Processing 66 (2018).  It is the baseline CTD of S. Ibrahim and X. Fu, "Recovering
joint PMF from pairwise marginals" (Asilomar 2020), Tables I-IV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.factor.alternating import alternate, simplex_least_squares
from consilience.factor.moment_matching import MomentSum, entries_by_owner
from consilience.factor.simplex import project_to_simplex
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cooccurrence import count_triples

__all__ = ["count_by_sorting", "count_by_table", "coupled_tensor_decomposition", "variable_groups"]

#: Categories of a group of variables: the table of its triples has the cube of it.
_GROUP_CELLS = 256
#: Random divisions into groups, if one group of all variables is too large.
_CUTS = 3


class _Triples(NamedTuple):
    """Marginals of triples as a list of the observed cells."""

    who: Ints  #: (T, 3) variables, ascending
    shares: Floats  #: (T,) weights
    cells: Ints  #: (C, 3) rows of the stacked factors
    values: Floats  #: (C,) probabilities
    cell_weights: Floats  #: (C,) weight of the cell's triple


def coupled_tensor_decomposition(
    codes: Codes,
    sizes: Sequence[int] | Ints,
    rank: int,
    *,
    starts: int = 1,
    max_iter: int = 500,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callable[[int, float, float], Any] | None = None,
) -> tuple[Floats, tuple[Floats, ...], list[float], bool]:
    """Find the λ and A_n whose marginals of triples are nearest to those of the data.

    Parameters
    ----------
    codes
        (S, N) categories from zero on, -1 where missing.
    sizes
        Categories of every variable.
    rank
        Components F.
    starts
        Random starts; the one with the smallest objective is kept.
    max_iter, tol
        Sweeps over the variables, and the relative change of h in one that ends them (0: run all).
    random_state
        Seed of the starts, and of the groups.
    callback
        Called with the sweep, h and its relative change; a true value ends the run.

    Returns
    -------
    weights, factors, history, converged
        λ; the A_n; h after every sweep; whether the tolerance was met.
    """
    codes, sizes = np.asarray(codes), np.asarray(sizes, np.int64)
    if codes.ndim != 2 or codes.shape[1] != sizes.size:
        raise DataError(f"expected codes (rows, {sizes.size}), one column for each size; got shape {codes.shape}")
    if rank < 1 or starts < 1:
        raise ParameterError(f"rank and starts must be at least 1; got {rank} and {starts}")
    rng = np.random.default_rng(random_state)
    triples = _triples(codes, sizes, rng)
    if not len(triples.who):
        raise DataError(
            "no three variables are observed together in any row, so there are no triples to decompose; "
            "give more complete rows, or start from pairs (init='cnmf-spa')"
        )
    problem = _Problem(triples, sizes)
    free = np.repeat(_in_no_triple(triples, sizes.size), sizes)
    marginals = _marginals(codes, sizes)
    best = None
    for _ in range(starts):
        stacked = np.concatenate([rng.dirichlet(np.ones(size), rank).T for size in sizes])
        # a variable in no triple has its marginal in all components
        stacked[free] = marginals[free, None]
        found = alternate(problem, np.full(rank, 1.0 / rank), stacked, max_iter=max_iter, tol=tol, callback=callback)
        if best is None or found.objective < best.objective:
            best = found
    assert best is not None
    factors = tuple(np.split(best.factors, np.cumsum(sizes)[:-1]))
    return best.weights, factors, best.history or [best.objective], best.converged


class _Problem:
    """Least squares over triples, for alternating optimisation."""

    def __init__(self, triples: _Triples, sizes: Ints) -> None:
        N, L = sizes.size, int(sizes.sum())
        self.constant = 0.5 * float(triples.cell_weights @ triples.values**2)
        said = entries_by_owner(triples.cells, triples.values * triples.cell_weights)
        weights = entries_by_owner(triples.who, triples.shares)
        edges = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self._variables = [
            (slice(a, b), MomentSum(said.between(a, b), b - a, L), MomentSum(weights.between(n, n + 1), 1, N))
            for n, (a, b) in enumerate(pairwise(edges))
        ]
        self._in_triples = ~_in_no_triple(triples, N)

    def sweep(self, weights: Floats, A: Floats, dual: Floats) -> None:
        """Solve for every A_n in turn, in place."""
        F = weights.size
        gram = self._grams(A)
        for n in np.flatnonzero(self._in_triples).tolist():
            at, said, others = self._variables[n]
            # ½ tr(A_n C A_nᵀ) - tr(A_n Bᵀ):  C = D(λ) Σ w G_k ∘ G_l D(λ),  B = Σ w X_n (A_k ⊙ A_l) D(λ)
            C = others(gram).reshape(1, F, F) * (weights[:, None] * weights)
            B = said(A)[None] * weights
            made, found = simplex_least_squares(C, B, A[None, at], dual[None, at], axis=1)
            A[at], dual[at] = made[0], found[0]
            gram[n] = (A[at].T @ A[at]).ravel()

    def terms(self, A: Floats) -> tuple[Floats, Floats]:
        """Return the quadratic and linear terms of h in λ, (F, F) and (F,)."""
        F = A.shape[1]
        gram = self._grams(A)
        quadratic, linear = np.zeros(F * F), np.zeros(F)
        for n, (at, said, others) in enumerate(self._variables):
            # every triple is counted from each of its three variables
            quadratic += gram[n] * others(gram)[0] / 3
            linear += (A[at] * said(A)).sum(axis=0) / 3
        return quadratic.reshape(F, F), linear

    def _grams(self, A: Floats) -> Floats:
        """Return A_nᵀ A_n for every variable, (N, F F)."""
        return np.stack([(A[at].T @ A[at]).ravel() for at, *_ in self._variables])

    def project(self, A: Floats) -> Floats:
        """Project every column of every factor onto the simplex."""
        return np.concatenate([project_to_simplex(A[at], 0) for at, *_ in self._variables])


def _triples(codes: Codes, sizes: Ints, rng: np.random.Generator) -> _Triples:
    """Estimate the marginals of all triples, or of those within random groups."""
    parts = [
        (count_by_table if sizes[members].sum() <= _GROUP_CELLS else count_by_sorting)(codes, sizes, members)
        for members in variable_groups(sizes, rng)
    ]
    who = np.concatenate([np.empty((0, 3), np.int64), *(p[0] for p in parts)])
    cells = np.concatenate([np.empty((0, 3), np.int64), *(p[1] for p in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(p[2] for p in parts)])
    # a triple may be in several groups, with the same cells
    cells, first = np.unique(cells, axis=0, return_index=True)
    who, counts = who[first], counts[first]
    who, triple = np.unique(who, axis=0, return_inverse=True)
    triple = triple.reshape(-1)
    totals = np.bincount(triple, counts, len(who))
    shares = totals / max(len(codes), 1)
    return _Triples(who, shares, cells, counts / totals[triple], shares[triple])


def count_by_table(codes: Codes, sizes: Ints, members: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the cells of triples of these variables: the variables, the stacked rows, and the counts."""
    offset = np.concatenate([[0], np.cumsum(sizes[members])])
    part = codes[:, members]
    seen = part >= 0
    # the category of a variable is a row of the stacked factors, and the kernel's "annotator" of one class
    row = (part.astype(np.int32) + offset[:-1].astype(np.int32))[seen]
    indptr = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
    local, counts = count_triples(indptr, row, np.zeros(row.size, np.uint8), int(offset[-1]), 1)
    owner = np.repeat(members, sizes[members])
    shift = np.repeat(np.concatenate([[0], np.cumsum(sizes)])[members] - offset[:-1], sizes[members])
    cells = local.astype(np.int64)
    return owner[cells], cells + shift[cells], counts.reshape(-1).astype(np.int64)


def count_by_sorting(codes: Codes, sizes: Ints, members: Ints) -> tuple[Ints, Ints, Ints]:
    """Count like :func:`count_by_table`, triple by triple and without a table."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    who, cells, counts = [np.empty((0, 3), np.int64)], [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)]
    for triple in combinations(members.tolist(), 3):
        at = list(triple)
        rows = codes[:, at]
        seen, often = np.unique(rows[(rows >= 0).all(axis=1)].astype(np.int64), axis=0, return_counts=True)
        who.append(np.broadcast_to(at, seen.shape))
        cells.append(seen + first[at])
        counts.append(often)
    return np.concatenate(who), np.concatenate(cells), np.concatenate(counts)


def variable_groups(sizes: Ints, rng: np.random.Generator) -> list[Ints]:
    """Return one group of all variables, or random groups, with every variable in at least one.

    A group has at most ``_GROUP_CELLS`` categories, or exactly three variables.
    """
    if sizes.sum() <= _GROUP_CELLS:
        return [np.arange(sizes.size)]
    made = []
    for _ in range(_CUTS):
        order, first = rng.permutation(sizes.size), 0
        while first < order.size:
            fit = int(np.searchsorted(np.cumsum(sizes[order[first:]]), _GROUP_CELLS, side="right"))
            stop = first + max(fit, 3)
            # the last one is filled up to three with variables of the group before
            made.append(np.sort(order[max(min(first, order.size - 3), 0) : stop]))
            first = stop
    return made


def _in_no_triple(triples: _Triples, n: int) -> Any:
    return np.bincount(triples.who.ravel(), minlength=n) == 0


def _marginals(codes: Codes, sizes: Ints) -> Floats:
    """Return the share of every category among those of its variable, without smoothing, stacked (L,)."""
    parts = []
    for n, size in enumerate(sizes.tolist()):
        column = codes[:, n]
        counts = np.bincount(column[column >= 0], minlength=size)
        parts.append(counts / counts.sum() if counts.any() else np.full(size, 1.0 / size))
    return np.concatenate(parts)
