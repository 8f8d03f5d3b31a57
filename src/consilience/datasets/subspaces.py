"""Data on a union of subspaces, or of curves, simulated with a known truth.

    x_n = C_k ψ_n + μ_k + v_n,     k the subspace of sample n          (Traganitis 2019, eq. (2.2))

The bases C_k are drawn uniformly among orthonormal ones, ψ_n and v_n are Gaussian, and every C_k ψ_n is scaled to
length one before the rest is added, so that ``noise`` is the length of v_n relative to the signal and does not depend
on D.

====== ============================== ============
symbol name                           shape
====== ============================== ============
x      ``data``                       (N, D)
C      ``bases``                      (K, D, d)
μ      ``centres``                    (K, D)
k      ``truth``                      (N,)
====== ============================== ============
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.validation import whole

__all__ = ["SubspaceSimulation", "simulate_curves", "simulate_subspaces"]

#: Samples drawn at once, to save memory.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False, slots=True)
class SubspaceSimulation:
    """Samples near a union of subspaces, and their parameters."""

    data: Floats  #: x, (N, D)
    truth: Ints  #: k, the subspace of every sample, (N,)
    bases: Floats  #: C with orthonormal columns, (K, D, d)
    centres: Floats  #: μ, (K, D); zero if the subspaces pass through the origin


def simulate_subspaces(
    n_samples: int = 1000,
    n_features: int = 100,
    n_subspaces: int = 10,
    dimension: int = 5,
    *,
    noise: float = 0.0,
    offset: float = 0.0,
    missing: float = 0.0,
    balance: float | None = None,
    random_state: int = 0,
) -> SubspaceSimulation:
    """Draw samples from a union of subspaces.

    Parameters
    ----------
    n_samples, n_features, n_subspaces, dimension
        N, D, K and d.
    noise
        Length of v_n relative to the signal: E ‖v_n‖² = noise².
    offset
        Length of every μ_k: above 0 the subspaces are affine.
    missing
        Share of entries that are NaN, drawn independently; a sample keeps at least one entry.
    balance
        Parameter of the Dirichlet distribution of the sizes of subspaces; None makes them equal.
    random_state
        Seed of all random numbers.

    Examples
    --------
    >>> drawn = simulate_subspaces(60, 20, 3, 2, noise=0.1)
    >>> drawn.data.shape, drawn.bases.shape
    ((60, 20), (3, 20, 2))
    """
    sizes = {"n_samples": n_samples, "n_features": n_features, "n_subspaces": n_subspaces, "dimension": dimension}
    for name, value in sizes.items():
        whole(name, value)
    if dimension > n_features:
        raise ParameterError(f"dimension must be at most n_features = {n_features}, not {dimension!r}")
    if not (noise >= 0 and offset >= 0):
        raise ParameterError(f"noise and offset must be numbers ≥ 0, not {noise!r} and {offset!r}")
    if not 0 <= missing < 1:
        raise ParameterError(f"missing must be a share, at least 0 and below 1, not {missing!r}")
    if balance is not None and not balance > 0:
        raise ParameterError(f"balance must be a number > 0 or None, not {balance!r}")

    rng = np.random.default_rng(random_state)
    bases = np.linalg.qr(rng.standard_normal((n_subspaces, n_features, dimension)))[0]
    centres = rng.standard_normal((n_subspaces, n_features))
    centres *= offset / np.linalg.norm(centres, axis=1, keepdims=True)
    if balance is None:
        truth = rng.permutation(np.arange(n_samples) % n_subspaces)
    else:
        truth = rng.choice(n_subspaces, n_samples, p=rng.dirichlet(np.full(n_subspaces, balance)))
    data = np.empty((n_samples, n_features))
    for start in range(0, n_samples, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n_samples))
        _fill(data[rows], truth[rows], bases, centres, noise, missing, rng)
    return SubspaceSimulation(data, truth, bases, centres)


def _fill(
    data: Floats,
    truth: Ints,
    bases: Floats,
    centres: Floats,
    noise: float,
    missing: float,
    rng: np.random.Generator,
) -> None:
    """Compute x_n = C_k ψ_n + μ_k + v_n with ‖C_k ψ_n‖ = 1 for one block of samples."""
    K, D, d = bases.shape
    weights = rng.standard_normal((len(data), d))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    for k in range(K):
        own = np.flatnonzero(truth == k)
        data[own] = weights[own] @ bases[k].T + centres[k]
    if noise:
        data += rng.standard_normal(data.shape) * (noise / np.sqrt(D))
    if missing:
        gone = rng.random(data.shape) < missing
        gone[np.arange(len(data)), rng.integers(0, D, len(data))] = False
        data[gone] = np.nan


def simulate_curves(
    n_samples: int = 1000,
    n_features: int = 30,
    n_curves: int = 3,
    *,
    dimension: int = 3,
    harmonics: int = 3,
    noise: float = 0.05,
    random_state: int = 0,
) -> tuple[Floats, Ints]:
    """Draw samples near closed curves that all lie in one subspace, so that no linear subspace separates them.

        x_n = W f_k(t_n) + v_n,     f_k(t) = c_k + Σ_h (a_kh cos h t + b_kh sin h t) / h,     E ‖v_n‖² = noise²

    Parameters
    ----------
    n_samples, n_features, n_curves
        N, D and K.
    dimension
        Of the subspace of all curves, the range of W; at least 3, so that curves rarely cross.
    harmonics
        Most waves of a curve.
    noise
        Length of v_n.
    random_state
        Seed of all random numbers.

    Returns
    -------
    The samples (N, D), and the curve of each, (N,).

    Examples
    --------
    >>> data, truth = simulate_curves(60, 10, 2)
    >>> data.shape, truth.shape
    ((60, 10), (60,))
    """
    sizes = {"n_samples": n_samples, "n_curves": n_curves, "dimension": dimension, "harmonics": harmonics}
    for name, value in sizes.items():
        whole(name, value)
    whole("n_features", n_features, least=dimension)
    if not noise >= 0:
        raise ParameterError(f"noise must be a number ≥ 0, not {noise!r}")
    rng = np.random.default_rng(random_state)
    W = np.linalg.qr(rng.standard_normal((n_features, dimension)))[0]
    waves = np.arange(1, harmonics + 1)
    amplitude = rng.standard_normal((n_curves, 2 * harmonics, dimension)) / np.repeat(waves, 2)[None, :, None]
    centre = rng.standard_normal((n_curves, dimension))
    t, truth = 2.0 * np.pi * rng.random(n_samples), np.arange(n_samples) % n_curves
    phase = np.stack([np.cos(t[:, None] * waves), np.sin(t[:, None] * waves)], axis=2).reshape(n_samples, -1)
    points = np.einsum("nf,nfd->nd", phase, amplitude[truth]) + centre[truth]
    return points @ W.T + noise / np.sqrt(n_features) * rng.standard_normal((n_samples, n_features)), truth
