"""Mixtures from their second and third moments: whitening and the robust tensor power method.

    M2 = Σ_h w_h μ_h μ_hᵀ,     M3 = Σ_h w_h μ_h ⊗ μ_h ⊗ μ_h,     μ_1 … μ_K linearly independent.

With Qᵀ M2 Q = I the vectors v_h = √w_h Qᵀ μ_h are orthonormal, and

    M3(Q, Q, Q) = Σ_h α_h v_h ⊗ v_h ⊗ v_h,     α_h = 1 / √w_h.

They are the fixed points of θ ← T(I, θ, θ) / ‖T(I, θ, θ)‖, which converges quadratically.  The best of many starts is
kept and its term subtracted, then the next is sought (Anandkumar et al. 2014, Algorithm 1).

======  ============  ==================================
symbol  name          shape
======  ============  ==================================
M2      ``second``    (K, K), symmetric
M3      ``third``     (K, K, K), symmetric
Q       ``whiten``    (K, K)
α       ``values``    (K,), largest first
v       ``vectors``   (K, K), as columns
w       ``weights``   (K,)
μ       ``means``     (K, K), as columns
======  ============  ==================================

A. Anandkumar, R. Ge, D. Hsu, S. M. Kakade and M. Telgarsky, "Tensor decompositions for learning latent variable
models", Journal of Machine Learning Research 15 (2014).
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["mixture_of_moments", "power_decomposition"]

#: Eigenvalues of M2 below this share of the largest are noise and are raised to it.
_RANK = 1e-4


def power_decomposition(
    tensor: Floats, rng: np.random.Generator, *, starts: int = 30, iterations: int = 60
) -> tuple[Floats, Floats]:
    """Decompose a symmetric tensor into orthogonal terms: values α (K,) and vectors v (K, K), as columns.

    Parameters
    ----------
    tensor
        Symmetric, (K, K, K).
    rng
        Generator of the starts.
    starts, iterations
        Random starts per term, and power iterations of each.
    """
    rest = np.array(tensor, np.float64)
    K = len(rest)
    values, vectors = np.zeros(K), np.zeros((K, K))
    for h in range(K):
        theta = rng.standard_normal((starts, K))
        # new terms are orthogonal to those found before; deflation alone would leave their errors in
        theta -= theta @ vectors @ vectors.T
        theta /= np.maximum(np.linalg.norm(theta, axis=1, keepdims=True), 1e-300)
        for _ in range(iterations):
            before, theta = theta, _applied(rest, theta)
            theta /= np.maximum(np.linalg.norm(theta, axis=1, keepdims=True), 1e-300)
            if np.abs(theta - before).max() <= 1e-12:
                break
        explained = (theta * _applied(rest, theta)).sum(axis=1)
        best = int(np.argmax(explained))
        values[h], vectors[:, h] = explained[best], theta[best]
        rest -= values[h] * np.einsum("i,j,k->ijk", theta[best], theta[best], theta[best])
    return values, vectors


def _applied(tensor: Floats, theta: Floats) -> Floats:
    """Return T(I, θ, θ) for every row θ, (starts, K)."""
    K = len(tensor)
    once = (theta @ tensor.reshape(K, K * K)).reshape(-1, K, K)
    applied: Floats = (once @ theta[:, :, None])[:, :, 0]
    return applied


def mixture_of_moments(
    second: Floats, third: Floats, rng: np.random.Generator, *, starts: int = 30, iterations: int = 60
) -> tuple[Floats, Floats]:
    """Return the weights w (K,) and the means μ (K, K), as columns, of the mixture with these moments.

    Moments are made symmetric first.  Weights are positive; they sum to one if the moments are those of a mixture.
    """
    K = len(second)
    axes = (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)
    third = np.mean([third.transpose(order) for order in axes], axis=0)
    scale, basis = np.linalg.eigh(0.5 * (second + second.T))
    scale = np.maximum(scale, max(_RANK * float(scale.max(initial=0.0)), 1e-12))
    whiten = basis / np.sqrt(scale)
    # T = M3(Q, Q, Q)
    tensor = np.einsum("abc,ai,bj,ck->ijk", third, whiten, whiten, whiten, optimize=True)
    values, vectors = power_decomposition(tensor, rng, starts=starts, iterations=iterations)
    # a term of a mixture has α ≥ 1; smaller values are noise
    values = np.maximum(values, 1e-3)
    # w = 1 / α²,  μ = α (Qᵀ)⁻¹ v
    means = values * (basis * np.sqrt(scale) @ vectors)
    return values**-2.0, means.reshape(K, K)
