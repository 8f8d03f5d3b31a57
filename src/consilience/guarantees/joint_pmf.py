r"""Joint distributions: Theorems 1 and 2 of Ibrahim & Fu (2021), with the constants of their proofs.

* **Proposition 1** (8/S for 8/9): a pair marginal of S samples in which a variable is observed with probability p has
  :math:`\|\hat X - X\|_F \le \sqrt 2 (1 + \sqrt{\log(2/\delta)}) / (p \sqrt S)` with probability 1 - δ.
* **Theorem 1**: the columns of the factors that CNMF-SPA finds, (17)-(19).
* **Theorem 2**: the entries of the factors after EM.  Its condition :math:`\bar D \ge (8 - 4 \rho_1^2) / \rho_1^2`
  cannot hold: entries of at least ρ1 have divergences of at most log(1/ρ1), so
  :math:`\bar D \le \log(1/\rho_1) / 2`, which is below it for every ρ1.  :func:`em_bound` says so, and returns the
  bound as it would be.

======= ==================== ============
symbol  name                 shape
======= ==================== ============
A_n     ``factors[n]``       (I, F), columns sum to one
λ       ``prior``            (F,)
W       A_1 … A_M stacked    (M I, F)
p       ``observed``         ..
η       ``eta``              smallest column sum of a marginal
ρ1, ρ2  smallest entries of A and λ
======= ==================== ============
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilience.exceptions import ParameterError
from consilience.guarantees.bounds import Bound, Condition
from consilience.kernels._arrays import Floats

__all__ = ["cnmf_spa_bound", "em_bound", "marginal_error"]

_PAPER = "of Ibrahim & Fu (2021)"


def marginal_error(n_samples: int, observed: float = 1.0, delta: float = 0.05) -> Bound:
    """Return Proposition 1: the error of a pair marginal."""
    _check(n_samples, observed, delta)
    value = np.sqrt(2.0) * (1 + np.sqrt(np.log(2 / delta))) / (observed * np.sqrt(n_samples))
    enough = Condition("(8 log(2/δ) / S)^½, against p", float(np.sqrt(8 / n_samples * np.log(2 / delta))), observed)
    # two distributions differ by √2 at most
    return Bound(
        "the error of a pair marginal", float(value), np.sqrt(2.0), 1 - delta, f"Proposition 1 {_PAPER}", (enough,)
    )


def cnmf_spa_bound(
    factors: Sequence[Floats], prior: Floats, n_samples: int, *, observed: float = 1.0, delta: float = 0.05
) -> Bound:
    """Return Theorem 1: the error of the columns of the first factors, found by SPA.

    ``factors`` are those of the first group of variables, and of the second behind them; half each.
    """
    _check(n_samples, observed, delta)
    M = max(len(factors) // 2, 1)
    W = np.concatenate([np.asarray(each, np.float64) for each in factors[:M]])
    levels, F = max(each.shape[0] for each in factors), W.shape[1]
    singular = np.linalg.svd(W, compute_uv=False)
    largest, kappa = float(singular[0]), float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    marginals = [float((np.asarray(each) * prior).sum(axis=1).min()) for each in factors]
    eta = min(marginals)
    factor = 1 + 80 * kappa**2
    room = min(1 / (2 * np.sqrt(max(F - 1, 1))), 0.25)
    epsilon = M * room / (2 * kappa * factor)
    phi = marginal_error(n_samples, observed, delta).value
    value = (largest * epsilon + 2 * M * np.sqrt(levels) * phi / eta) * factor if eta > 0 else np.inf
    conditions = (Condition("error of a marginal (19)", phi, eta * largest * epsilon / (4 * M * np.sqrt(levels))),)
    # columns are distributions
    return Bound(
        "the error of a column of a factor",
        float(value),
        np.sqrt(2.0),
        1 - 2 * delta,
        f"Theorem 1 {_PAPER}",
        conditions,
    )


def em_bound(
    factors: Sequence[Floats], prior: Floats, n_samples: int, *, observed: float = 1.0, mu: float = 0.05
) -> Bound:
    """Return Theorem 2: the error of an entry of a factor after EM from a good start."""
    _check(n_samples, observed, mu)
    A, weights = [np.asarray(each, np.float64) for each in factors], np.asarray(prior, np.float64)
    N, F, S, p = len(A), weights.size, n_samples, observed
    levels = max(each.shape[0] for each in A)
    low, share = float(min(each.min() for each in A)), float(weights.min())
    if low <= 0 or share <= 0:
        absent = (Condition("share of entries that are 0", 1.0, 0.0),)
        return Bound("the error of an entry of a factor", np.inf, 1.0, 1 - mu, f"Theorem 2 {_PAPER}", absent)
    divergence = sum(np.einsum("if,ifg->fg", each, np.log(each[:, :, None] / each[:, None, :])) for each in A)
    between = ~np.eye(F, dtype=bool)
    first = p * float(divergence[between].min()) / N if F > 1 else 0.0
    second = 2 / N * float(np.log(weights[:, None] / weights)[between].min()) if F > 1 else 0.0
    D = (first + second) / 2
    nearest = min(4 / (low * (4 + D)), 4 / (share * (4 + N * D)))
    log = np.log(12 * N * F * levels / mu)
    conditions = (
        Condition("(8 - 4 ρ1²) / ρ1², against the mean divergence", (8 - 4 * low**2) / low**2, D),
        Condition(
            "variables that identify a sample, against N",
            max(
                33 * np.log(3 * S * F / mu) / (low * first) if first > 0 else np.inf,
                4 * np.log(4 * S * F**2 / (3 * p * share * mu)) / D if D > 0 else np.inf,
            ),
            N,
        ),
        Condition("samples, against S", 192 * F**2 * log / (p**2 * share**2 * nearest**2), S),
    )
    value = float(np.sqrt(48 * log / (S * p * share)))
    return Bound("the error of an entry of a factor", value, 1.0, 1 - mu, f"Theorem 2 {_PAPER}", conditions)


def _check(n_samples: int, observed: float, delta: float) -> None:
    if not n_samples > 0 or not 0 < observed <= 1 or not 0 < delta < 1:
        raise ParameterError(
            f"samples must be above 0, observed and delta probabilities; got {n_samples!r}, {observed!r}, {delta!r}"
        )
