"""Confusions and a prior that match the first, second and third moments of the annotators' labels.

    μ_m = Γ_m π,   S_mj = Γ_m Π Γ_jᵀ,   T_mjl = [[Γ_m Π, Γ_j, Γ_l]]        (Traganitis 2019, eqs (3.17), (3.18), (3.20))

are the moments of the model.  Those of data are matched by weighted least squares (eq. (3.25), where all weights are
one),

    h = ½ Σ_m w_m ‖μ_m - Γ_m π‖² + ½ Σ_mj w_mj ‖S_mj - Γ_m Π Γ_jᵀ‖² + ½ Σ_mjl w_mjl ‖T_mjl - [[Γ_m Π, Γ_j, Γ_l]]‖²,

with prior and columns of confusions on the simplex.  Each Γ_m, and π, is a convex problem given the others, solved by
ADMM in turn (AO-ADMM, Alg. 3.1; :mod:`consilience.factor.alternating`).  With

    g_m(i, k) = w_m μ_m(i) + Σ_j w_mj Σ_a S_mj(i, a) Γ_j(a, k) + Σ_(j<l) w_mjl Σ_ab T_mjl(i, a, b) Γ_j(a, k) Γ_l(b, k)
    H_m       = w_m 1 1ᵀ   + Σ_j w_mj G_j                       + Σ_(j<l) w_mjl G_j ∘ G_l,            G_j = Γ_jᵀ Γ_j,

the terms of h that contain Γ_m are ½ tr(Γ_m Π H_m Π Γ_mᵀ) - tr(Γ_m Π g_mᵀ) (eq. (D.9), summed over all pairs of
others).  Both are sparse products: time grows with the observed moments.  Annotators without a common moment have
independent problems; all annotators of one colour of the graph of moments are solved at once.

======  ===============  ===========================================================
symbol  name             shape
======  ===============  ===========================================================
Γ_m     ``confusions``   (M, K, K), columns sum to one
π       ``prior``        (K,)
μ       ``means``        (M,), (M, K): annotator, values; weights (M,)
S       ``pairs``        (P, 2), (P, K, K): annotators, values; weights (P,)
T       ``triples``      (Q, 3), (Q, K, K, K): annotators, values; weights (Q,)
======  ===============  ===========================================================

P. A. Traganitis, "Scalable and ensemble learning for big data" (thesis, University of Minnesota, 2019), chapter 3;
P. A. Traganitis, A. Pagès-Zamora and G. B. Giannakis, "Blind multiclass ensemble classification", IEEE Transactions on
Signal Processing 66 (2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from consilience.factor.alternating import alternate, objective, simplex_least_squares
from consilience.factor.simplex import project_to_simplex
from consilience.kernels._arrays import Codes, Floats, Ints

#: Largest change of a probability in the last sweep, in units of the tolerance.
_STILL = 100.0

__all__ = ["Matching", "MomentProblem", "MomentSum", "Moments", "entries_by_owner"]


class Moments(NamedTuple):
    """Moments of one order: annotators, values and weights."""

    who: Codes  #: (P, order), different annotators in each row
    values: Floats  #: (P, K, …), one axis of labels per annotator
    weights: Floats  #: (P,)


@dataclass(frozen=True, eq=False)
class Matching:
    """Parameters that match the moments, and how they were found."""

    prior: Floats
    confusions: Floats
    objective: float
    history: list[float]  #: h after every sweep
    converged: bool


class MomentProblem:
    """Least squares over moments, for alternating optimisation.

    Parameters
    ----------
    means, pairs, triples
        Moments of the first, second and third order; any of them may be empty.
    n_annotators, n_classes
        M and K.
    """

    def __init__(self, means: Moments, pairs: Moments, triples: Moments, n_annotators: int, n_classes: int) -> None:
        M, K = self.shape = n_annotators, n_classes
        self.constant = 0.5 * sum(
            float(m.weights @ (m.values**2).sum(axis=tuple(range(1, m.values.ndim)))) for m in (means, pairs, triples)
        )
        colour = _colours(np.concatenate([pairs.who, triples.who[:, :2], triples.who[:, ::2], triples.who[:, 1:]]), M)
        # annotators are ordered by colour, so that those of one colour are contiguous
        self._order = np.argsort(colour, kind="stable")
        place = np.empty(M, np.int64)
        place[self._order] = np.arange(M)
        self._mean = np.zeros((M, K))
        np.add.at(self._mean, place[means.who[:, 0]], means.weights[:, None] * means.values)
        self._mean_weight: Floats = np.bincount(place[means.who[:, 0]], means.weights, M).astype(np.float64)
        edges = np.searchsorted(colour[self._order], np.arange(colour.max(initial=-1) + 2)).tolist()
        sides = [_from_all_sides(moments, place, K) for moments in (pairs, triples)]
        self._blocks = [
            _Block(slice(a, b), tuple(_Others(side, a, b, M, K) for side in sides)) for a, b in pairwise(edges)
        ]

    def objective(self, prior: Floats, confusions: Floats) -> float:
        """Return h."""
        return objective(self.constant, prior, *self.terms(confusions[self._order]))

    def solve(
        self,
        prior: Floats,
        confusions: Floats,
        *,
        learn_prior: bool = True,
        max_iter: int = 500,
        tol: float = 1e-6,
        callback: Callable[[int, float, float], Any] | None = None,
    ) -> Matching:
        """Alternate between the confusions and the prior (Alg. 3.1).

        Parameters
        ----------
        prior, confusions
            The start.
        learn_prior
            Whether to update the prior (Remark 3.4).
        max_iter, tol
            Sweeps, and the relative change of h in one that ends them (0: run all), if no probability changes by more
            than a hundred times that.
        callback
            Called with the sweep, h and its relative change; a true value ends the run.
        """
        # sampling noise is most of h: where classes are alike, it hardly changes while confusions still do
        passes: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "still": _STILL * tol, "callback": callback}
        found = alternate(self, prior, confusions[self._order], learn_weights=learn_prior, **passes)
        back = np.empty_like(found.factors)
        back[self._order] = found.factors
        return Matching(found.weights, back, found.objective, found.history, found.converged)

    def sweep(self, prior: Floats, A: Floats, dual: Floats) -> None:
        """Solve for every Γ_m in turn, those of one colour at once, in place."""
        gram = np.einsum("mik,mil->mkl", A, A)
        for block in self._blocks:
            at = block.at
            g = sum((others.linear(A) for others in block.others), self._mean[at, :, None])
            H = sum((others.quadratic(gram) for others in block.others), self._mean_weight[at, None, None])
            # C = Π H Π,  B = g Π
            C = H * (prior[:, None] * prior)
            made, dual[at] = simplex_least_squares(C, g * prior, A[at], dual[at], axis=1)
            A[at] = made
            gram[at] = np.einsum("mik,mil->mkl", made, made)

    def terms(self, A: Floats) -> tuple[Floats, Floats]:
        """Return the quadratic and linear terms of h in π, (K, K) and (K,) (eq. (D.4))."""
        gram = np.einsum("mik,mil->mkl", A, A)
        quadratic: Floats = np.einsum("m,mkl->kl", self._mean_weight, gram)
        linear: Floats = np.einsum("mi,mik->k", self._mean, A)
        for block in self._blocks:
            # a pair is counted from both of its annotators, a triple from all three
            for order, others in zip((2, 3), block.others, strict=True):
                quadratic += (gram[block.at] * others.quadratic(gram)).sum(axis=0) / order
                linear += (A[block.at] * others.linear(A)).sum(axis=(0, 1)) / order
        return quadratic, linear

    def project(self, A: Floats) -> Floats:
        """Project every column onto the simplex."""
        return project_to_simplex(A, 1)


class _Entries(NamedTuple):
    """Terms of a sum: ``value`` times the table's row ``last`` (and, for triples, row ``second``)."""

    owner: Ints  #: index of the sum, ascending
    second: Ints | None
    last: Ints
    value: Floats

    def between(self, start: int, stop: int) -> _Entries:
        """Return the entries of the owners from ``start`` up to ``stop``, numbered from zero."""
        a, b = np.searchsorted(self.owner, [start, stop]).tolist()
        second = None if self.second is None else self.second[a:b]
        return _Entries(self.owner[a:b] - start, second, self.last[a:b], self.value[a:b])


class MomentSum:
    """Σ value · table[last], or Σ value · table[second] ∘ table[last], for every owner, as sparse products."""

    def __init__(self, entries: _Entries, n_owners: int, n_rows: int) -> None:
        from scipy.sparse import csr_array

        owner = entries.owner
        self._second: Ints | None = None
        if entries.second is not None:
            # one row for every (owner, second), then added up by owner
            keys, owner = np.unique(owner * n_rows + entries.second, return_inverse=True)
            whose, self._second = np.divmod(keys, n_rows)
            self._gather = csr_array((np.ones(keys.size), (whose, np.arange(keys.size))), shape=(n_owners, keys.size))
            n_owners = keys.size
        self._product = csr_array((entries.value, (owner, entries.last)), shape=(n_owners, n_rows))

    def __call__(self, table: Floats) -> Floats:
        """Return the sums for this table."""
        made: Floats = self._product @ table
        if self._second is not None:
            made *= table[self._second]
            made = self._gather @ made
        return made


class _Others:
    """The sums over other annotators in g and H, at one order of moments, for the annotators from a up to b."""

    def __init__(self, sides: tuple[_Entries, _Entries], a: int, b: int, M: int, K: int) -> None:
        said, weights = sides
        self._said = MomentSum(said.between(a * K, b * K), (b - a) * K, M * K)
        self._weights = MomentSum(weights.between(a, b), b - a, M)
        self._shape = b - a, K, K

    def linear(self, confusions: Floats) -> Floats:
        """Return the part of g, (b - a, K, K)."""
        return self._said(confusions.reshape(-1, self._shape[1])).reshape(self._shape)

    def quadratic(self, gram: Floats) -> Floats:
        """Return the part of H, (b - a, K, K)."""
        return self._weights(gram.reshape(len(gram), -1)).reshape(self._shape)


class _Block(NamedTuple):
    """Annotators of one colour, and their sums over the others in pairs and in triples."""

    at: slice
    others: tuple[_Others, ...]


def _from_all_sides(moments: Moments, place: Ints, K: int) -> tuple[_Entries, _Entries]:
    """Return the entries of values and of weights, listed once for each annotator of a moment."""
    who = place[moments.who]
    at = np.nonzero(moments.values)
    cells = who[at[0]] * K + np.stack(at[1:], axis=1)
    value = moments.values[at] * moments.weights[at[0]]
    return entries_by_owner(cells, value), entries_by_owner(who, moments.weights)


def entries_by_owner(cells: Ints, value: Floats) -> _Entries:
    """Return every observed cell once for each of its sides, sorted by the owning side."""
    order = cells.shape[1]
    sides = np.concatenate([np.roll(cells, -s, axis=1) for s in range(order)])
    sides, value = sides[rank := np.argsort(sides[:, 0], kind="stable")], np.tile(value, order)[rank]
    return _Entries(sides[:, 0], sides[:, 1] if order == 3 else None, sides[:, -1], value)


def _colours(edges: Codes, n: int) -> Ints:
    """Colour annotators so that the ends of every edge differ: greedily, those with most edges first."""
    either = np.concatenate([edges, edges[:, ::-1]]).astype(np.int64)
    here, there = np.divmod(np.unique(either[:, 0] * n + either[:, 1]), n)
    start = np.searchsorted(here, np.arange(n + 1)).tolist()
    colour = np.full(n, -1)
    for m in np.argsort(-np.diff(start), kind="stable").tolist():
        taken = colour[there[start[m] : start[m + 1]]]
        free = np.ones(taken.size + 1, np.bool_)
        free[taken[(taken >= 0) & (taken <= taken.size)]] = False
        colour[m] = int(np.argmax(free))
    return colour
