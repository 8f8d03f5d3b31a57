r"""Pairs of annotators: Theorems 1 to 3 of Ibrahim & Fu (2022), with the constants of their proofs.

* **A block** of two annotators with S common items, (20):
  :math:`\|\hat R - R\|_F \le (1 + \sqrt{\log(1/\delta)}) / \sqrt{S}` with probability 1 - δ.
* **Theorem 1**, a block imputed through designated annotators (7)-(8), from the last display of Section D.
* **Theorem 2**, all blocks after robust imputation (9), with τ(Ω) as it stands before (39) instead of a constant C.
  The proof bounds the noise of every observed pair, so its probability is :math:`1 - (2 + |\Omega|) e^{-M}`, not
  :math:`1 - 3 e^{-M}`.
* **Theorem 3**, the linear convergence of (13).  Its rate ρ has an unknown constant; :func:`symnmf_convergence` returns
  ρ with constant one.

======== =================================== =======
symbol   name                                where
======== =================================== =======
S        ``n_common``                        common items of two annotators
γ        largest condition number of A_m     Theorem 1
ϱ        smallest singular value of a block  Theorem 1
Ω, L     ``n_pairs``, M (M - 1) / 2          Theorem 2
σ, ζ     ‖H‖_F, largest leverage of a row    Theorem 3
γ0       smallest gap of β_k², singular      Theorem 3
         values of H squared
======== =================================== =======
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.guarantees.bounds import Bound, Condition
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "block_error",
    "imputation_bound",
    "items_for_block_error",
    "items_for_imputation",
    "robust_bound",
    "symnmf_convergence",
]

_PAPER = "of Ibrahim & Fu (2022)"


def block_error(n_common: Any, delta: float = 0.05) -> Any:
    """Return the bound of ‖R̂ - R‖_F of a block with this many common items, (20); also for arrays of counts."""
    _share(delta)
    with np.errstate(divide="ignore"):
        error = (1.0 + np.sqrt(np.log(1.0 / delta))) / np.sqrt(np.asarray(n_common, np.float64))
    return float(error) if error.ndim == 0 else error


def items_for_block_error(error: float, delta: float = 0.05) -> int:
    """Return the common items of two annotators with which their block has at most this error."""
    if not error > 0:
        raise ParameterError(f"error must be a number > 0, not {error!r}")
    return int(np.ceil(block_error(1, delta) ** 2 / error**2))


def imputation_bound(model: DawidSkene, n_common: int, delta: float = 0.05) -> Bound:
    """Return Theorem 1: the error of a block that nobody observed, imputed through designated annotators.

    ``n_common`` is S, the common items behind each of the three blocks it follows from.  The model stands for the
    truth; γ and ϱ are those of its worst annotators.
    """
    A, K = np.asarray(model.confusions), len(model.prior)
    phi = block_error(n_common, delta)
    gamma = float(max(np.linalg.cond(each) for each in A))
    smallest = _weakest_block(model)
    # σ_max(C) ≤ √2 and σ_min(C) ≥ ϱ for C that stacks two blocks
    slope = np.sqrt(2.0) * phi / smallest**2 if smallest > 0 else np.inf
    value = 12 * np.sqrt(2 * K) * K * gamma * slope + 96 * K**2 * gamma**3 * slope
    value += 4 * np.sqrt(2 * K) * gamma**2 * phi
    condition = Condition("error of the singular vectors (31)", 12 * np.sqrt(K) * slope, 1 / (np.sqrt(2 * K) * gamma))
    # two distributions differ by √2 at most
    what, source = "the error of an imputed block", f"Theorem 1 {_PAPER}"
    return Bound(what, float(value), np.sqrt(2.0), 1 - 3 * delta, source, (condition,))


def items_for_imputation(model: DawidSkene, error: float, delta: float = 0.05) -> float:
    """Return the common items of designated annotators with which Theorem 1 guarantees this error; ∞ if none do."""
    one = imputation_bound(model, 1, delta)
    # all sides are proportional to 1 / √S
    factor = max(one.value / error, one.conditions[0].value / one.conditions[0].limit)
    return float(np.ceil(factor**2)) if np.isfinite(factor) else np.inf


def robust_bound(n_common: Any, n_annotators: int, n_classes: int) -> Bound:
    """Return Theorem 2: the mean error ‖U_m U_jᵀ - R_mj‖_F of all blocks after robust imputation.

    ``n_common`` has the common items of each observed pair (m < j).
    """
    M, K, S = n_annotators, n_classes, np.asarray(n_common, np.float64)
    L, observed = M * (M - 1) / 2, S.size
    if not 0 < observed <= L or not (S > 0).all():
        raise ParameterError(f"n_common needs 1 to {L:.0f} positive counts, one for each observed pair of annotators")
    # before (39), with B² = M and ε = 1 / L
    spread = (M + (2 * M * K + 1) * K * np.log(9 * L * M)) * (L - observed + 1) * 4 / (2 * L * observed)
    noise = (1 / observed + 1 / L) * float(((1 + np.sqrt(M)) / np.sqrt(S)).sum())
    value = 2 / L + np.sqrt(spread) + noise
    sure = max(0.0, 1 - (2 + observed) * float(np.exp(-M)))
    # ‖U_m U_jᵀ‖ ≤ 1 and ‖R_mj‖ ≤ 1
    return Bound("the mean error of all blocks", float(value), 2.0, sure, f"Theorem 2 {_PAPER}")


def symnmf_convergence(model: DawidSkene, noise: float = 0.0) -> dict[str, Any]:
    """Return what Theorem 3 asks of annotators, and its rate.

    Keys: ``rate`` (ρ, up to a constant: below 1, each step multiplies the error of Q by it), ``density`` (share of
    entries of H above 0), ``coherence`` (ζ), ``gap`` (γ0), ``start`` (the largest error q of the start that (15)
    allows with this noise ‖N‖_F) and ``applies``.
    """
    H = factor_of(model)
    rows, K = H.shape
    sigma = float(np.linalg.norm(H))
    # sup over Θ of ‖H_j Θ‖² / ‖H Θ‖² is the leverage of row j
    U, beta, _ = np.linalg.svd(H, full_matrices=False)
    rank = beta > beta[0] * 1e-12
    zeta = float((U[:, rank] ** 2).sum(axis=1).max())
    gap = float(np.diff(np.append(beta**2, 0.0)[::-1]).min())
    positive = H > 0
    eta = positive.sum() / (rows * K) * (1 + rows * zeta)
    rate = K * eta * sigma**4 / gap**2 if gap > 0 else np.inf
    start = max(0.0, (float(H[positive].min()) - 2 * noise) / (2 * sigma))
    return {
        "rate": float(rate),
        "density": float(positive.mean()),
        "coherence": zeta,
        "gap": gap,
        "start": start,
        "applies": bool(rate < 1 and start > 0),
    }


def factor_of(model: DawidSkene) -> Floats:
    """Return H, (M K, K), which stacks A_m D^½ (6)."""
    A, prior = np.asarray(model.confusions, np.float64), np.asarray(model.prior, np.float64)
    factor: Floats = (A * np.sqrt(prior)).reshape(-1, len(prior))
    return factor


def _weakest_block(model: DawidSkene) -> float:
    """Return ϱ, the smallest singular value of a block R_mj = A_m D A_jᵀ, from at most 200 annotators."""
    A = np.asarray(model.confusions, np.float64)[:200]
    half = A * np.asarray(model.prior)
    smallest = np.inf
    for m in range(1, len(A)):
        blocks = half[m] @ A[:m].transpose(0, 2, 1)
        smallest = min(smallest, float(np.linalg.svd(blocks, compute_uv=False)[:, -1].min()))
    return smallest if np.isfinite(smallest) else 0.0


def _share(delta: float) -> None:
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be a probability between 0 and 1, not {delta!r}")
