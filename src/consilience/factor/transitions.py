"""The transition matrix of a hidden Markov chain from what a crowd of known confusions says of neighbouring tokens.

    R_mj = Γ_m T diag(π) Γ_jᵀ = Γ_m A Γ_jᵀ,     A(i, k) = Pr(truth now is i, truth before was k)          (4.4)

holds for the lagged moments of the model.  Those of data are matched by weighted least squares,

    min  f(A) = Σ_mj w_mj ‖S_mj - Γ_m A Γ_jᵀ‖²    over  A ≥ 0, Σ A = 1,                                    (4.5)
    T = A diag(π)⁻¹,   π = Aᵀ1.                                                                            (4.6)

(4.5) runs over all ordered pairs, m = j included.  It is convex, and a quadratic form in A once the data is summed up:

    f(A) = ⟨A, Q(A)⟩ - 2 ⟨A, B⟩ + c,    Q(A) = Σ_m G_m A H_m,   H_m = Σ_j w_mj G_j,   G_m = Γ_mᵀ Γ_m,
                                        B    = Σ_mj w_mj Γ_mᵀ S_mj Γ_j.

It is minimised by accelerated projected gradients with restarts (Beck & Teboulle 2009; O'Donoghue & Candès 2015).  Now
and then the entries above zero are solved for as if they alone were free: where they are the right ones, this is the
optimum to the last digit.  The end is decided by the Frank-Wolfe gap (Jaggi 2013),

    gap(A) = ⟨∇f(A), A⟩ - min ∇f(A)  ≥  f(A) - min f.

====== ================ ==============================================
symbol name             shape
====== ================ ==============================================
Γ_m    ``confusions``   (M, K, K), columns sum to one
S_mj   ``frequencies``  (P, K, K), of the observed pairs
w_mj   ``weights``      (P,), made to sum to one
T      ``transitions``  (K, K), columns sum to one
π      ``stationary``   (K,)
====== ================ ==============================================

P. A. Traganitis, "Scalable and ensemble learning for big data" (thesis, University of Minnesota, 2019), section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.factor.simplex import project_to_simplex
from consilience.kernels._arrays import Floats
from consilience.moments.lagged import LaggedMoments

__all__ = ["Transitions", "fit_transitions", "minimise_on_simplex"]

#: Up to so many classes the quadratic form is a K² × K² matrix (20 MB); beyond, it is applied as M products.
_EXPLICIT = 40
#: Between two looks at the entries above zero, in iterations; many entries are worth one only when they have settled.
_POLISH_EVERY, _MANY = 50, 500
#: A class of less mass than this has no transitions of its own.
_NO_MASS = 1e-12

Weights = Literal["counts", "equal"]


@dataclass(frozen=True, eq=False)
class Transitions:
    """A transition matrix that matches lagged moments, and how it was found."""

    transitions: Floats  #: T(i, k) = Pr(next truth is i | truth is k), (K, K)
    stationary: Floats  #: π, (K,)
    joint: Floats  #: A(i, k) = Pr(truth is i, truth before was k), (K, K)
    gap: float  #: f(A) is at most this far above its minimum, as a share of f(0)
    iterations: int
    converged: bool
    history: list[float]  #: the gap after every iteration


def fit_transitions(
    moments: LaggedMoments,
    confusions: Floats,
    prior: Floats | None = None,
    *,
    weights: Weights = "counts",
    max_iter: int = 20_000,
    tol: float = 1e-12,
) -> Transitions:
    """Find the transition matrix whose lagged moments are nearest to these, for annotators of these confusions.

    Parameters
    ----------
    moments
        From :func:`consilience.moments.lagged.lagged_moments`.
    confusions
        ``confusions[m, i, k]`` is the probability that annotator m says i of truth k, (M, K, K).
    prior
        Shares of the classes, (K,): where to start, and what follows a class that has no mass.  All the same if not
        given.
    weights
        "counts": a pair counts as often as it was observed.  "equal": every pair counts the same (the thesis).
    max_iter, tol
        Iterations, and the gap, as a share of f(0), that ends them.

    Examples
    --------
    >>> from consilience.datasets import simulate_sequences
    >>> from consilience.moments.lagged import lagged_moments
    >>> drawn = simulate_sequences(200, 100, seed=1)
    >>> found = fit_transitions(lagged_moments(drawn.annotations), drawn.model.confusions)
    >>> bool(abs(found.transitions - drawn.transitions).max() < 0.05)
    True
    """
    K = moments.n_classes
    A = np.asarray(confusions, np.float64)
    if A.shape != (moments.n_annotators, K, K):
        raise ParameterError(
            f"lagged moments of {moments.n_annotators} annotators and {K} classes need confusions of shape "
            f"{(moments.n_annotators, K, K)}, not {A.shape}"
        )
    share = np.full(K, 1.0 / K) if prior is None else np.asarray(prior, np.float64)
    if share.shape != (K,) or not np.all(share >= 0) or not share.sum() > 0:
        raise ParameterError(f"prior must be {K} shares of classes, not {prior!r}")
    share = share / share.sum()
    if weights not in ("counts", "equal"):
        raise ParameterError(f"weights must be 'counts' or 'equal', not {weights!r}")
    weight = moments.totals if weights == "counts" else (moments.totals > 0).astype(np.float64)
    if not weight.sum() > 0:  # no token has a labelled neighbour: nothing tells the next truth
        return Transitions(np.tile(share[:, None], K), share, np.outer(share, share), 0.0, 0, True, [])
    weight = weight / weight.sum()
    S = moments.frequencies
    linear = _linear(moments, S, weight, A)
    constant = float(weight @ (S**2).sum(axis=(1, 2)))
    x, history, converged = minimise_on_simplex(
        _quadratic(moments, weight, A), linear.ravel(), np.outer(share, share).ravel(), constant, max_iter, tol
    )
    if not converged:
        warn(
            f"the transition matrix is not at its optimum after {max_iter} iterations: the gap is {history[-1]:.1e}, "
            f"not {tol:.1e}; raise max_iter",
            ConvergenceWarning,
        )
    joint = x.reshape(K, K)
    stationary = joint.sum(axis=0)
    has_mass = stationary > _NO_MASS
    T = np.where(has_mass, joint / np.where(has_mass, stationary, 1.0), share[:, None])
    return Transitions(T / T.sum(axis=0), stationary, joint, history[-1], len(history), converged, history)


class _Quadratic:
    """Q as a linear map of vec(A), as a matrix where that is small."""

    def __init__(self, gram: Floats, others: Floats) -> None:
        M, K, _ = gram.shape
        self.shape = K * K
        self._gram, self._others = gram, others
        self.matrix: Floats | None = None
        if K <= _EXPLICIT:
            # Q[(i, k), (j, l)] = Σ_m G_m(i, j) H_m(k, l)
            product = gram.reshape(M, -1).T @ others.reshape(M, -1)
            self.matrix = product.reshape(K, K, K, K).transpose(0, 2, 1, 3).reshape(K * K, K * K)

    def __call__(self, x: Floats) -> Floats:
        if self.matrix is not None:
            return self.matrix @ x
        K = self._gram.shape[1]
        product: Floats = (self._gram @ x.reshape(K, K) @ self._others).sum(axis=0)
        return product.ravel()


def _quadratic(moments: LaggedMoments, weight: Floats, A: Floats) -> _Quadratic:
    from scipy.sparse import csr_array

    M, K, _ = A.shape
    gram = np.einsum("mik,mil->mkl", A, A)
    W = csr_array((weight, (moments.who[:, 0], moments.who[:, 1])), shape=(M, M))
    return _Quadratic(gram, (W @ gram.reshape(M, -1)).reshape(M, K, K))


def _linear(moments: LaggedMoments, S: Floats, weight: Floats, A: Floats) -> Floats:
    """Give B, a stretch of pairs at a time: the products take as much memory as the moments."""
    now, before = moments.who.T
    B = np.zeros(A.shape[1:])
    step = 1 << 12
    for p in range(0, len(weight), step):
        some = slice(p, p + step)
        right = weight[some, None, None] * (S[some] @ A[before[some]])
        B += np.tensordot(A[now[some]], right, ([0, 1], [0, 1]))
    return B


def minimise_on_simplex(
    quadratic: Callable[[Floats], Floats],
    linear: Floats,
    start: Floats,
    constant: float,
    max_iter: int,
    tol: float,
) -> tuple[Floats, list[float], bool]:
    """Minimise f(x) = ⟨x, Q x⟩ - 2 ⟨b, x⟩ + c over probabilities x.

    Parameters
    ----------
    quadratic
        x ↦ Q x, of a positive semidefinite Q with nonnegative entries; its attribute ``matrix`` may hold Q.
    linear, constant
        b and c; the gap is told as a share of c.
    start, max_iter, tol
        Where to begin, how long, and the gap that ends it.

    Returns
    -------
    x, history, converged
        The history is the gap after every iteration.
    """
    matrix: Floats | None = getattr(quadratic, "matrix", None)
    step = 1.0 / _largest_eigenvalue(quadratic, linear.size)
    scale = constant if constant > 0 else 1.0
    x, y, momentum, settled = start, start, 1.0, np.zeros(start.size, np.bool_)
    of_x = of_y = quadratic(start)
    history: list[float] = []
    while len(history) < max_iter:
        before, of_before = x, of_x
        x = project_to_simplex(y - step * (of_y - linear))
        of_x = quadratic(x)
        gap = _gap(of_x - linear, x) / scale
        if matrix is not None and gap > tol and len(history) % _POLISH_EVERY == 0:
            last, settled = settled, x > 0
            if x.size <= _MANY or np.array_equal(last, settled):
                exact = _by_active_set(matrix, linear, x, tol * scale)
                better = _gap(matrix @ exact - linear, exact) / scale
                if better < gap:
                    x, of_x, gap, momentum = exact, matrix @ exact, better, 1.0
        history.append(gap)
        if gap <= tol:
            return x, history, True
        # a step that points uphill ends the momentum (O'Donoghue & Candès 2015, section 3.2)
        if (y - x) @ (x - before) > 0:
            momentum = 1.0
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = (momentum - 1.0) / grown
        y, of_y, momentum = x + ahead * (x - before), of_x + ahead * (of_x - of_before), grown
    return x, history, False


def _gap(half_gradient: Floats, x: Floats) -> float:
    return max(2.0 * float(half_gradient @ x - half_gradient.min()), 0.0)


def _largest_eigenvalue(quadratic: Callable[[Floats], Floats], n: int, rounds: int = 20) -> float:
    """Give a bound from above: max (Q x) / x of any x > 0, near the eigenvalue after a few powers (Collatz)."""
    x = np.ones(n)
    bound = np.inf
    for _ in range(rounds):
        y = quadratic(x)
        bound = min(bound, float((y / x).max()))
        x = np.maximum(y / y.max(), 1e-100)
    return bound


def _by_active_set(Q: Floats, linear: Floats, start: Floats, tol: float, rounds: int = 30) -> Floats:
    """Solve for the entries above zero alone, letting go of those that would fall below and taking in the best other.

    The pull back to ``start``, 10⁻¹² of Q, decides where f is flat (a proximal step).
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    x = start
    free = x > 0
    pull = 1e-12 * float(np.trace(Q)) / len(Q)
    for _ in range(rounds):
        at = np.flatnonzero(free)
        try:
            factor = cho_factor(Q[np.ix_(at, at)] + pull * np.eye(at.size))
        except LinAlgError:
            return x
        # (Q + pull) z = b + pull x + ν,  Σ z = 1
        solved = cho_solve(factor, np.column_stack([linear[at] + pull * x[at], np.ones(at.size)]))
        z = np.zeros_like(x)
        z[at] = solved[:, 0] + (1.0 - solved[:, 0].sum()) / solved[:, 1].sum() * solved[:, 1]
        if z.min() < 0.0:
            below = np.flatnonzero(z < 0.0)
            share = x[below] / (x[below] - z[below])
            x = np.maximum(x + share.min() * (z - x), 0.0)
            x[below[share <= share.min()]] = 0.0
            x /= x.sum()
            free = x > 0
            continue
        x = z / z.sum()
        half_gradient = Q @ x - linear
        best = int(half_gradient.argmin())
        if _gap(half_gradient, x) <= tol or free[best]:
            break
        free = x > 0
        free[best] = True
    return x
