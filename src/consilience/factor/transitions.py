"""The transition matrix of a hidden Markov chain from the labels of consecutive tokens and known confusions.

    R_mj = Γ_m T diag(π) Γ_jᵀ = Γ_m A Γ_jᵀ,     A(i, k) = Pr(truth now is i, truth before was k)          (4.4)

are the lagged moments of the model.  Those of data are matched by weighted least squares,

    min  f(A) = Σ_mj w_mj ‖S_mj - Γ_m A Γ_jᵀ‖²    over  A ≥ 0, Σ A = 1,                                    (4.5)
    T = A diag(π)⁻¹,   π = Aᵀ1.                                                                            (4.6)

(4.5) runs over all ordered pairs, including m = j.  It is a convex quadratic form in A:

    f(A) = ⟨A, Q(A)⟩ - 2 ⟨A, B⟩ + c,    Q(A) = Σ_m G_m A H_m,   H_m = Σ_j w_mj G_j,   G_m = Γ_mᵀ Γ_m,
                                        B    = Σ_mj w_mj Γ_mᵀ S_mj Γ_j.

It is minimised by :func:`consilience.factor.simplex.minimise_on_simplex`.

====== ================ ==============================================
symbol name             shape
====== ================ ==============================================
Γ_m    ``confusions``   (M, K, K), columns sum to one
S_mj   ``frequencies``  (P, K, K), for the observed pairs
w_mj   ``weights``      (P,), normalised to sum to one
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
from consilience.factor.simplex import minimise_on_simplex
from consilience.kernels._arrays import Floats
from consilience.moments.lagged import LaggedMoments

__all__ = ["Transitions", "fit_transitions"]

#: Up to this many classes the quadratic form is a K² × K² matrix (20 MB); beyond, it is applied as M products.
_EXPLICIT = 40
#: A class with less mass than this has no transitions of its own.
_NO_MASS = 1e-12

Weights = Literal["counts", "equal"]


@dataclass(frozen=True, eq=False)
class Transitions:
    """A transition matrix fitted to lagged moments, and how it was found."""

    transitions: Floats  #: T(i, k) = Pr(next truth is i | truth is k), (K, K)
    stationary: Floats  #: π, (K,)
    joint: Floats  #: A(i, k) = Pr(truth is i, truth before was k), (K, K)
    gap: float  #: upper bound of f(A) - min f, as a share of f(0)
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
    """Find the transition matrix whose lagged moments are nearest to these, for given confusions.

    Parameters
    ----------
    moments
        From :func:`consilience.moments.lagged.lagged_moments`.
    confusions
        ``confusions[m, i, k]`` is the probability that annotator m answers i for truth k, (M, K, K).
    prior
        Shares of the classes, (K,), by default uniform: the start, and what follows a class without mass.
    weights
        "counts": pairs are weighted by their counts.  "equal": all pairs have the same weight (the thesis).
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
    if not weight.sum() > 0:  # no token has a labelled predecessor
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
            f"the transition matrix is not optimal after {max_iter} iterations: the gap is {history[-1]:.1e}, "
            f"not {tol:.1e}; raise max_iter",
            ConvergenceWarning,
        )
    joint = x.reshape(K, K)
    stationary = joint.sum(axis=0)
    has_mass = stationary > _NO_MASS
    T = np.where(has_mass, joint / np.where(has_mass, stationary, 1.0), share[:, None])
    return Transitions(T / T.sum(axis=0), stationary, joint, history[-1], len(history), converged, history)


def _quadratic(moments: LaggedMoments, weight: Floats, A: Floats) -> Floats | Callable[[Floats], Floats]:
    """Return Q as a linear map of vec(A): a matrix if it is small."""
    from scipy.sparse import csr_array

    M, K, _ = A.shape
    gram = np.einsum("mik,mil->mkl", A, A)
    W = csr_array((weight, (moments.who[:, 0], moments.who[:, 1])), shape=(M, M))
    others = (W @ gram.reshape(M, -1)).reshape(M, K, K)
    if K > _EXPLICIT:
        return lambda x: np.asarray((gram @ x.reshape(K, K) @ others).sum(axis=0).ravel(), np.float64)
    # Q[(i, k), (j, l)] = Σ_m G_m(i, j) H_m(k, l)
    product = gram.reshape(M, -1).T @ others.reshape(M, -1)
    matrix: Floats = product.reshape(K, K, K, K).transpose(0, 2, 1, 3).reshape(K * K, K * K)
    return matrix


def _linear(moments: LaggedMoments, S: Floats, weight: Floats, A: Floats) -> Floats:
    """Return B, computed in blocks of pairs: the products take as much memory as the moments."""
    now, before = moments.who.T
    B = np.zeros(A.shape[1:])
    step = 1 << 12
    for p in range(0, len(weight), step):
        some = slice(p, p + step)
        right = weight[some, None, None] * (S[some] @ A[before[some]])
        B += np.tensordot(A[now[some]], right, ([0, 1], [0, 1]))
    return B
