"""The digamma function ψ and log Γ where a Dirichlet distribution needs them, over whole tables in one loop.

Both are shifted up by eight and then taken from their asymptotic series, y = x + 8 (Abramowitz and Stegun 1964, 6.3.5,
6.3.18, 6.1.15 and 6.1.41):

    ψ(x)      =  log y - 1/(2y) - Σ B_2j / (2j y^2j)                              -  Σ_{j<8} 1 / (x + j)
    log Γ(x)  =  (y - ½) log y - y + ½ log 2π + Σ B_2j / (2j (2j - 1) y^(2j-1))   -  log ∏_{j<8} (x + j).

With z = x (x + 7) the product is P(z) = z (z + 6) (z + 10) (z + 12), and the sum of reciprocals is
(2x + 7) P'(z) / P(z): one division.  Where only a sum of many ψ or log Γ is asked for, logarithms are taken of
products, a few factors at a time.  Errors are below 1e-14 of the value, or of one where the value is smaller, for
x from 1e-3 to 1e15.

M. Abramowitz and I. A. Stegun, "Handbook of mathematical functions" (1964).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels._compile import kernel

__all__ = ["learn_pseudo_counts", "psi_and_log_gamma"]

_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))
#: Factors of a product whose logarithm is taken at once: sixteen numbers below 1e19 stay below 1e308.
_TOGETHER = 16
#: Longest leap of the logarithm of a sum of pseudo-counts.
_FARTHEST = 1.0


def _product(x: Any) -> Any:
    """∏ (x + j) for j < 8."""
    z = x * (x + 7.0)
    return z * (z + 6.0) * ((z + 10.0) * (z + 12.0))


def _psi_rest(x: Any) -> Any:
    """ψ(x) - log(x + 8)."""
    z = x * (x + 7.0)
    # P(z) = z⁴ + 28 z³ + 252 z² + 720 z
    slope = ((4.0 * z + 84.0) * z + 504.0) * z + 720.0
    behind = (2.0 * x + 7.0) * slope / (z * (z + 6.0) * ((z + 10.0) * (z + 12.0)))
    u = 1.0 / (x + 8.0)
    w = u * u
    series = 1.0 / 12.0 - w * (3617.0 / 8160.0)
    series = w * (1.0 / 132.0 - w * (691.0 / 32760.0 - w * series))
    series = w * (1.0 / 12.0 - w * (1.0 / 120.0 - w * (1.0 / 252.0 - w * (1.0 / 240.0 - series))))
    return -0.5 * u - series - behind


def _log_gamma_of_shifted(y: Any, log_y: Any) -> Any:
    """Log Γ(y) for y ≥ 8."""
    u = 1.0 / y
    w = u * u
    series = 1.0 / 1188.0 - w * (691.0 / 360360.0 - w * (1.0 / 156.0 - w * (3617.0 / 122400.0)))
    series = u * (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w * series))))
    return (y - 0.5) * log_y - y + _HALF_LOG_2PI + series


def _learn(counts: Any, group: Any, beta: Any, steps: Any, rate: Any, least: Any, most: Any) -> None:
    """Take steps of Minka's fixed point for β, (R,), in place; ``group[r]`` is the distribution that cell r is of.

    The fixed point soon has the proportions of a distribution, but creeps towards its sum s = exp u if annotators are
    much alike.  A step changes u by ε(u), and ε = 0 is wanted: the secant through two steps gives the length of a leap,

        u  ←  u + a ε(u),    a  =  (u - u') / (ε(u') - ε(u)),    u' one step earlier.

    A leap that turns out to be too long, because ε has changed its sign, is replaced by the plain step.
    """
    M, R = counts.shape
    size = R + group.max() + 1
    # cells, then the sums of their distributions
    counted, shift, gained, product = np.zeros((M, size)), np.empty(size), np.empty(size), np.ones(size)
    plain, back = np.empty(R), np.empty(size - R, np.bool_)
    total, before, change, leaps = np.empty(size - R), np.empty(size - R), np.zeros(size - R), np.zeros(size - R)
    for m in range(M):
        for r in range(R):
            counted[m, r] = counts[m, r]
            counted[m, R + group[r]] += counts[m, r]
    for step in range(steps):
        shift[R:] = 0.0
        for r in range(R):
            shift[r] = beta[r]
            shift[R + group[r]] += beta[r]
        # Σ_m [ψ(c_m + β) - ψ(β)]
        for r in range(size):
            gained[r] = -M * (np.log(shift[r] + 8.0) + _psi_rest(shift[r]))
        for first in range(0, M, _TOGETHER):
            for m in range(first, min(first + _TOGETHER, M)):
                for r in range(size):
                    x = counted[m, r] + shift[r]
                    gained[r] += _psi_rest(x)
                    product[r] *= x + 8.0
            for r in range(size):
                gained[r] += np.log(product[r])
                product[r] = 1.0
        total[:] = 0.0
        for r in range(R):
            beta[r] = min(max(beta[r] * gained[r] / (gained[R + group[r]] + rate), least), most)
            total[group[r]] += beta[r]
        for g in range(total.size):
            epsilon, leap = np.log(total[g] / shift[R + g]), 0.0
            back[g] = leaps[g] * epsilon < 0.0
            bend = change[g] - epsilon
            if not back[g] and step < steps - 1 and change[g] * bend > 0.0:
                leap = (np.log(shift[R + g] / before[g]) / bend - 1.0) * epsilon
                leap = min(max(leap, -_FARTHEST), _FARTHEST) if leap * epsilon > 0.0 else 0.0
            before[g], change[g], leaps[g] = shift[R + g], 0.0 if back[g] else epsilon, leap
        for r in range(R):
            plain[r] = plain[r] if back[group[r]] else beta[r]
            beta[r] = min(max(plain[r] * np.exp(leaps[group[r]]), least), most)


def _psi_and_sums(x: Any, log_y: Any, together: Any, psi: Any, sums: Any) -> None:
    """Write ψ(x), (M, R), and ``sums[r] = Σ_m log Γ(x[m, r])``; ``log_y`` is log(x + 8)."""
    M, R = x.shape
    product = np.ones(R)
    for r in range(R):
        sums[r] = 0.0
    for first in range(0, M, together):
        for m in range(first, min(first + together, M)):
            for r in range(R):
                psi[m, r] = log_y[m, r] + _psi_rest(x[m, r])
                sums[r] += _log_gamma_of_shifted(x[m, r] + 8.0, log_y[m, r])
                product[r] *= _product(x[m, r])
        for r in range(R):
            sums[r] -= np.log(product[r])
            product[r] = 1.0


def learn_pseudo_counts(
    counts: Floats, beta: Floats, axis: int, *, steps: int, rate: float, least: float, most: float
) -> Floats:
    """Take steps towards the Dirichlet pseudo-counts β under which the counts of M draws are most probable.

    ``counts`` (M, …) and ``beta`` (…) are C-contiguous; distributions lie along ``axis``, the last or the last but one.

        β  ←  β · Σ_m [ψ(c_m + β) - ψ(β)]  /  (rate + Σ_m [ψ(Σ c_m + Σ β) - ψ(Σ β)])

    T. Minka, "Estimating a Dirichlet distribution" (2000), eq. (55), with an exponential prior on β.  Steps between the
    first and the last may be lengthened (:func:`_learn`).
    """
    made = beta.reshape(-1).copy()
    along = np.arange(beta.size).reshape(beta.shape)
    last = beta.shape[-1]
    group = along // last if axis == -1 else along % last + along // (last * beta.shape[-2]) * last
    learn = kernel(_learn, "float64[,] int64[] float64[]! int64 float64 float64 float64", helpers=(_psi_rest,))
    learn(counts.reshape(-1, made.size), group.reshape(-1), made, steps, rate, least, most)
    return made.reshape(beta.shape)


def psi_and_log_gamma(x: Floats) -> tuple[Floats, float]:
    """Return ψ of every number, and the sum of all log Γ; ``x`` (M, …) is C-contiguous and positive."""
    rows = x.reshape(len(x), x.size // max(len(x), 1))
    psi, sums = np.empty(rows.shape), np.empty(rows.shape[1])
    y = rows + 8.0
    # (max y)⁸ᵐ < 1e300: the logarithm of m products is taken at once
    together = max(1, int(37.0 / np.log10(y.max(initial=10.0))))
    helpers = _product, _psi_rest, _log_gamma_of_shifted
    write = kernel(_psi_and_sums, "float64[,] float64[,] int64 float64[,]! float64[]!", helpers=helpers)
    write(rows, np.log(y), together, psi, sums)
    return psi.reshape(x.shape), float(sums.sum())
