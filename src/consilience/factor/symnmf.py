"""Symmetric nonnegative matrix factorisation by rotating a square root into the nonnegative orthant.

A square root ``U`` of a symmetric matrix ``X ≈ H Hᵀ`` with ``H ≥ 0`` equals ``H`` up to a rotation.  Find that rotation
(Ibrahim & Fu 2022, eq. (12)):

    minimise ‖H - U Q‖²  over  H ≥ 0  and  Qᵀ Q = I.

The shifted ReLU algorithm alternates (eq. (13))

    H ← ReLU_α(U Q),    W Σ Vᵀ = svd(Hᵀ U),    Q ← V Wᵀ,

where ReLU_α sets entries below α to zero.  With α = 0 it is the algorithm of Huang, Sidiropoulos and Swami (2014),
whose objective ‖max(U Q, 0) - U Q‖² never rises.  ``H`` is unique up to the order of its columns if its rows are
sufficiently scattered (Definition 1), as those of a sparse ``H`` are.

A falling threshold α_t = ψ^(t+1) helps if there is little noise and ψ is slightly above the factor by which the error
shrinks in an iteration without it: 0.7, 0.8 and 0.9 if 30, 50 and 70 % of the entries of ``H`` are nonzero.  A smaller
ψ has no effect, a larger one delays convergence.  With noise the result is that of α = 0.

======  ==============  ===============================================================
symbol  name            shape
======  ==============  ===============================================================
X       ``X``           (J, J), symmetric
U       ``U``           (J, K), a square root of X (:mod:`consilience.factor.square_root`)
H       ``H``           (J, K), nonnegative
Q       ``Q``           (K, K), orthogonal; (S, K, K) for S starts
α       ``threshold``   number, on the scale of U
ψ       ``decay``       number; α_t = ψ^(t+1) (App. C), here times the largest entry of U
======  ==============  ===============================================================

S. Ibrahim and X. Fu, "Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization" (2022).  K. Huang, N. D. Sidiropoulos and A. Swami, "Non-negative matrix factorization revisited:
uniqueness and algorithm for symmetric decomposition", IEEE Transactions on Signal Processing 62 (2014).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.factor.square_root import as_symmetric, square_root
from consilience.kernels._arrays import Bools, Floats
from consilience.validation import check_parameters, whole

__all__ = ["Rotation", "rotate", "symnmf"]

_log = logging.getLogger("consilience")

#: An objective of this share of ‖U‖² is rounding: the rotation is exact.
_EXACT = 1e-30
#: A falling α counts as zero below this share of the largest entry.
_GONE = 1e-8
#: A start cycles if its last objectives, this many, stay within the range of as many before.
_WINDOW = 20
#: Two starts count as the same if the cosines between their columns exceed this (2.6 degrees).
_ALIKE = 0.999
#: Multiply-adds of one matrix product.  Blocks of this size stay in the cache, and BLAS runs them on the calling
#: thread: waking other threads costs more than the product (24 ms against 1 ms on a busy machine).
_PRODUCT = 1 << 17


@dataclass(frozen=True, eq=False)
class Rotation:
    """A nonnegative factor, the rotation that gave it, and how it was found."""

    H: Floats  #: (J, K), nonnegative: ``U Q`` with entries below the last threshold set to zero
    Q: Floats  #: (K, K), orthogonal
    objective: float  #: ‖max(U Q, 0) - U Q‖², by which the best start was chosen
    history: list[float]  #: the objective after every iteration of the start that was kept
    converged: bool  #: whether that start met the tolerance

    @property
    def n_iter(self) -> int:
        """Iterations of the start that was kept."""
        return len(self.history)


def rotate(
    U: Floats,
    *,
    alpha: float = 1e-6,
    decay: float | None = None,
    starts: int = 10,
    rotations: Sequence[Floats] = (),
    max_iter: int = 500,
    tol: float = 1e-8,
    random_state: Any = 0,
) -> Rotation:
    """Rotate a square root into the nonnegative orthant: Ibrahim & Fu 2022, eqs (12) and (13).

    All starts run as one batch.  A start leaves it when it converges, or when it coincides with one that is ahead.  The
    smallest objective wins; an exact rotation ends the search.

    Parameters
    ----------
    U
        A square root, (J, K), of the matrix to factor.
    alpha
        Threshold below which entries count as zero, as a share of the largest absolute entry of ``U``.
    decay
        ψ: the threshold falls as ψ^(t+1) times the largest entry, and ``alpha`` is ignored.  None keeps the threshold
        at ``alpha``.  ``alpha=0`` and None is the algorithm of Huang et al.
    starts
        Number of starts: the identity, the given rotations, then random ones.
    rotations
        Orthogonal matrices (K, K) to start from.  All are used, even if there are more than ``starts``.
    max_iter, tol
        Iterations, and the relative change of the objective in one of them that ends a start (0: run all).  An exact
        rotation (objective below 1e-30 ‖U‖²) also ends it, and so does an objective that cycles; a start does not end
        while the threshold falls.
    random_state
        Seed of the random rotations, or a numpy Generator.
    """
    check_parameters({"alpha": alpha, "decay": decay, "tol": tol})
    whole("starts", starts)
    whole("max_iter", max_iter)
    U = np.ascontiguousarray(U, np.float64)
    if U.ndim != 2 or not U.size:
        raise ParameterError(f"a square root must have two axes, rows and components, not shape {U.shape}")
    if not np.isfinite(U).all():
        raise ParameterError("the square root has entries that are NaN or infinite; impute or drop those rows first")
    Ut, energy, scale = np.ascontiguousarray(U.T), float(np.vdot(U, U)), float(max(U.max(), -U.min()))
    Q = _first_rotations(U.shape[1], starts, rotations, np.random.default_rng(random_state))
    live, ended = [_Start() for _ in Q], []
    exact = _EXACT * energy
    for t in range(max_iter):
        share = alpha if decay is None else decay ** (t + 1)
        objective, products = _products(U, Ut, Q, share * scale)
        steady = decay is None or share < _GONE
        stays = ~_followers(Q, objective)
        for s, one in enumerate(live):
            one.add(float(objective[s]), tol, exact, steady)
            if stays[s] and (one.converged or t + 1 == max_iter):
                one.Q, one.threshold = Q[s], share * scale
                ended.append(one)
                stays[s] = False
        if not stays.any() or any(one.history[-1] <= exact for one in ended):
            break
        live = list(compress(live, stays))
        Q, products = Q[stays], products[stays]
        # W Σ Vᵀ = svd(Hᵀ U),  Q = V Wᵀ (13b, 13c).  If a column of H is zero, Q is not unique; the small multiple of Qᵀ
        # then keeps it where it was.  Fixed points stay the same: W (Σ + ε) Vᵀ has the same W and V.
        W, _, Vt = np.linalg.svd(products + (1e-13 * energy) * Q.transpose(0, 2, 1))
        Q = (W @ Vt).transpose(0, 2, 1)
    best = min(ended, key=lambda one: one.history[-1])
    _log.info("rotation: %d iterations, converged: %s", len(best.history), best.converged)
    Z = U @ best.Q
    H = np.where(best.threshold <= Z, Z, 0.0)
    return Rotation(H, best.Q, best.history[-1], best.history, best.converged)


class _Start:
    """The history of one start, and its rotation at the end."""

    Q: Floats
    threshold: float

    def __init__(self) -> None:
        self.history: list[float] = []
        self.converged = False

    def add(self, objective: float, tol: float, exact: float, steady: bool) -> None:
        """Record an objective; if the threshold is ``steady``, check for convergence."""
        before = self.history[-1] if self.history else np.inf
        self.history.append(objective)
        if steady:
            still = abs(objective - before) < tol * before or (tol > 0 and self._cycles())
            self.converged = objective <= exact or still

    def _cycles(self) -> bool:
        """Return whether the last objectives lie within the range of those before.

        Near a fixed point, the same entries may cross the threshold back and forth for ever, also by rounding.
        """
        if len(self.history) < 2 * _WINDOW:
            return False
        now, then = self.history[-_WINDOW:], self.history[-2 * _WINDOW : -_WINDOW]
        return min(now) >= min(then) and max(now) <= max(then)


def _followers(Q: Floats, objective: Floats) -> Bools:
    """Return which starts coincide, up to the order of columns, with one that is ahead: they would end alike."""
    S, K, _ = Q.shape
    if S == 1:
        return np.zeros(1, np.bool_)
    columns = Q.transpose(0, 2, 1).reshape(S * K, K)
    cosine = (columns @ columns.T.copy()).reshape(S, K, S, K).max(axis=3).min(axis=1)
    rank = np.argsort(np.argsort(objective, kind="stable"))
    ahead = rank[None, :] < rank[:, None]
    follows: Bools = ((cosine > _ALIKE) & ahead).any(axis=1)
    return follows


def _first_rotations(K: int, starts: int, rotations: Sequence[Floats], rng: np.random.Generator) -> Floats:
    """Return the identity, the given rotations, and Haar-distributed ones, (S, K, K)."""
    given = [np.asarray(Q, np.float64) for Q in rotations]
    for i, Q in enumerate(given):
        if Q.shape != (K, K) or not np.allclose(Q.T @ Q, np.eye(K), atol=1e-6):
            raise ParameterError(
                f"rotation {i} must be an orthogonal matrix of shape {(K, K)}; take Q of numpy.linalg.qr to make one"
            )
    if K == 1:
        return np.array([[[1.0]], [[-1.0]]])  # there are no others
    missing = max(starts - 1 - len(given), 0)
    # QR of a Gaussian matrix with positive diagonal of R is Haar-distributed; LAPACK's signs are not fixed.
    drawn, R = np.linalg.qr(rng.standard_normal((missing, K, K)))
    drawn *= np.where(np.einsum("skk->sk", R) < 0, -1.0, 1.0)[:, None, :]
    return np.concatenate([np.eye(K)[None], np.reshape(given, (-1, K, K)), drawn])


def _products(U: Floats, Ut: Floats, Q: Floats, threshold: float) -> tuple[Floats, Floats]:
    """Return ‖min(U Q, 0)‖², (S,), and Hᵀ U with H = ReLU(U Q), (S, K, K), for a batch of rotations."""
    S, K, _ = Q.shape
    # One product serves all starts: the rows of `columns` are the columns of every Q.
    columns = np.ascontiguousarray(Q.transpose(0, 2, 1)).reshape(S * K, K)
    negative, product = np.zeros(S * K), np.zeros((S * K, K))
    rows = max(_PRODUCT // (S * K * K), 64)
    for a in range(0, len(U), rows):
        Z = columns @ Ut[:, a : a + rows]
        below = np.minimum(Z, 0.0)
        negative += np.vecdot(below, below)
        # H = ReLU_α(U Q) (13a)
        if threshold > 0:
            Z *= threshold <= Z
        else:
            Z -= below
        product += Z @ U[a : a + rows]
    return negative.reshape(S, K).sum(axis=1), product.reshape(S, K, K)


def symnmf(X: Floats, n_components: int, **options: Any) -> Rotation:
    """Factor a symmetric matrix, ``X ≈ H Hᵀ`` with ``H ≥ 0``, through its square root.

    Parameters
    ----------
    X
        A symmetric matrix, (J, J), nonnegative up to noise.
    n_components
        K, the number of columns of ``H``.
    **options
        Those of :func:`rotate`.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.symnmf import symnmf
    >>> H = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> found = symnmf(H @ H.T, 2)
    >>> bool(np.allclose(found.H @ found.H.T, H @ H.T))
    True
    """
    return rotate(square_root(as_symmetric(X), whole("n_components", n_components)), **options)
