"""The probability simplex: projection onto it, and quadratic minimisation over it.

    P(v) = argmin ‖x - v‖²  s.t.  x ≥ 0, Σ x = 1        is        x = max(v - θ, 0),

with the θ that makes the sum one.  Of the sorted entries u_1 ≥ u_2 ≥ … some ρ stay above zero, and then
θ = (u_1 + … + u_ρ - 1) / ρ; any other number of them gives a smaller value, so θ is the largest.

    min  f(x) = ⟨x, Q x⟩ - 2 ⟨b, x⟩ + c    over the simplex

is solved by accelerated projected gradients with restarts (Beck & Teboulle 2009; O'Donoghue & Candès 2015).  From time
to time the problem is solved for the positive entries only: if they are the right ones, this is the exact optimum.
Convergence is decided by the Frank-Wolfe gap (Jaggi 2013),

    gap(x) = ⟨∇f(x), x⟩ - min ∇f(x)  ≥  f(x) - min f.

J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto the l1-ball for learning in high
dimensions", ICML 2008.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["minimise_on_simplex", "project_to_simplex"]

#: Iterations between exact solutions for the positive entries; if these are many, only when they have settled.
_POLISH_EVERY, _MANY = 50, 500


def project_to_simplex(values: Floats, axis: int = -1) -> Floats:
    """Return the nearest probabilities along ``axis``, for all vectors of an array."""
    v = np.asarray(values, np.float64)
    n = v.shape[axis]
    if n == 2:  # faster, and most crowds are binary
        theta = np.maximum(v.max(axis, keepdims=True) - 1.0, 0.5 * (v.sum(axis, keepdims=True) - 1.0))
    else:
        counts = np.arange(1.0, n + 1.0)
        counts.shape = [-1 if d == axis % v.ndim else 1 for d in range(v.ndim)]
        falling = -np.sort(-v, axis)
        theta = ((falling.cumsum(axis) - 1.0) / counts).max(axis, keepdims=True)
    projected: Floats = np.maximum(v - theta, 0.0)
    return projected


def minimise_on_simplex(
    quadratic: Floats | Callable[[Floats], Floats],
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
        A positive semidefinite Q with nonnegative entries, or the map x ↦ Q x.
    linear, constant
        b and c; the gap is measured as a share of c.
    start, max_iter, tol
        The start, the most iterations, and the gap that ends them.

    Returns
    -------
    x, history, converged
        The history is the gap after every iteration.
    """
    matrix = quadratic if isinstance(quadratic, np.ndarray) else None
    apply: Callable[[Floats], Floats] = quadratic.__matmul__ if isinstance(quadratic, np.ndarray) else quadratic
    step = 1.0 / _largest_eigenvalue(apply, linear.size)
    scale = constant if constant > 0 else 1.0
    x, y, momentum, settled = start, start, 1.0, np.zeros(start.size, np.bool_)
    of_x = of_y = apply(start)
    history: list[float] = []
    while len(history) < max_iter:
        before, of_before = x, of_x
        x = project_to_simplex(y - step * (of_y - linear))
        of_x = apply(x)
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
        # restart if the momentum points uphill (O'Donoghue & Candès 2015, section 3.2)
        if (y - x) @ (x - before) > 0:
            momentum = 1.0
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = (momentum - 1.0) / grown
        y, of_y, momentum = x + ahead * (x - before), of_x + ahead * (of_x - of_before), grown
    return x, history, False


def _gap(half_gradient: Floats, x: Floats) -> float:
    return max(2.0 * float(half_gradient @ x - half_gradient.min()), 0.0)


def _largest_eigenvalue(quadratic: Callable[[Floats], Floats], n: int, rounds: int = 20) -> float:
    """Return an upper bound: max (Q x) / x for any x > 0, tight after a few powers (Collatz)."""
    x = np.ones(n)
    bound = np.inf
    for _ in range(rounds):
        y = quadratic(x)
        bound = min(bound, float((y / x).max()))
        x = np.maximum(y / y.max(), 1e-100)
    return bound


def _by_active_set(Q: Floats, linear: Floats, start: Floats, tol: float, rounds: int = 30) -> Floats:
    """Solve for the positive entries only, dropping those that would become negative and adding the best other.

    A proximal term, 10⁻¹² of Q, decides where f is flat.
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
