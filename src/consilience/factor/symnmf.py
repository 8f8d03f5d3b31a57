"""Symmetric nonnegative matrix factorisation by rotating a square root into the nonnegative orthant.

A symmetric matrix ``X ≈ H Hᵀ`` with ``H ≥ 0`` has a square root ``X ≈ U Uᵀ`` that is ``H`` but for a rotation.  What
is sought is that rotation (Ibrahim & Fu 2022, eq. (12)):

    minimise ‖H - U Q‖²  over  H ≥ 0  and  Qᵀ Q = I.

The shifted ReLU algorithm alternates (eq. (13))

    H ← ReLU_α(U Q),    W Σ Vᵀ = svd(Hᵀ U),    Q ← V Wᵀ,

where ReLU_α keeps what is at least α and puts zero elsewhere: a hard threshold.  With α = 0 it is the algorithm of
Huang, Sidiropoulos and Swami (2014), whose objective ‖max(U Q, 0) - U Q‖² never rises.  ``H`` is unique, but for the
order of its columns, when its rows are sufficiently scattered (Definition 1), as those of a sparse ``H`` are.

A falling threshold α_t = ψ^(t+1) helps where there is little noise and ψ is a little above the factor by which the
error shrinks in an iteration without it: 0.7, 0.8 and 0.9 where 30, 50 and 70 % of the entries of ``H`` are not zero.
A smaller ψ does nothing, a larger one is what the iterations wait for.  In noise it ends where α = 0 does.

======  ==============  ===============================================================
symbol  name            shape
======  ==============  ===============================================================
X       ``X``           (J, J), symmetric
U       ``U``           (J, K), a square root of X
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
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Floats

__all__ = ["Factorisation", "rotate", "square_root", "symnmf"]

_log = logging.getLogger("consilience")

#: An objective of this share of ‖U‖² is rounding: the rotation is exact.
_EXACT = 1e-30
#: A decreasing α has gone when it is below this share of the largest entry.
_GONE = 1e-8
#: A run whose objectives stay for this many iterations within the range of as many before goes round in circles.
_WINDOW = 20
#: Two starts have met when the cosines between their columns exceed this (2.6 degrees).
_ALIKE = 0.999
#: Multiply-adds of one matrix product.  Blocks of this size stay in the cache, and BLAS runs them on the calling
#: thread: waking its others costs more than the product (24 ms against 1 ms on a busy machine).
_PRODUCT = 1 << 17
#: From this many rows on, the leading eigenvectors are found by Lanczos (0.3 s for 4000 rows, where LAPACK takes 30 s).
_LANCZOS = 200


@dataclass(frozen=True, eq=False)
class Factorisation:
    """A nonnegative factor, the rotation that gave it, and how it was found."""

    H: Floats  #: (J, K), nonnegative: ``U Q`` with what is below the last threshold set to zero
    Q: Floats  #: (K, K), orthogonal
    objective: float  #: ‖max(U Q, 0) - U Q‖², by which the best of the starts was chosen
    history: list[float]  #: the objective after every iteration of the start that was kept
    converged: bool  #: whether that start met the tolerance

    @property
    def n_iter(self) -> int:
        """Iterations of the start that was kept."""
        return len(self.history)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


#: parameter: (test, what it must be)
CONSTRAINTS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "n_components": (_is_count, "a whole number ≥ 1"),
    "alpha": (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1, a share of the largest entry"),
    "decay": (lambda v: v is None or (_is_number(v) and 0 < v < 1), "a number between 0 and 1, or None"),
    "starts": (_is_count, "a whole number ≥ 1"),
    "n_init": (_is_count, "a whole number ≥ 1"),
    "max_iter": (_is_count, "a whole number ≥ 1"),
    "tol": (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to 1"),
}


def check_parameters(**values: Any) -> None:
    """Raise on the first parameter whose value makes no sense."""
    for name, value in values.items():
        test, must = CONSTRAINTS[name]
        if not test(value):
            raise ParameterError(f"{name} must be {must}, not {value!r}")


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
) -> Factorisation:
    """Rotate a square root into the nonnegative orthant: Ibrahim & Fu 2022, eqs (12) and (13).

    All starts run as one batch.  They leave it as they converge, or when they meet one that is further on; that which
    ends with the smallest objective is kept, and an exact one at once.

    Parameters
    ----------
    U
        A square root, (J, K), of the matrix to factor.
    alpha
        Threshold below which entries count as zero, as a share of the largest absolute entry of ``U``.
    decay
        ψ: the threshold falls as ψ^(t+1), from ψ times the largest entry to nothing; ``alpha`` is not used then.  None
        holds the threshold at ``alpha``.  ``alpha=0`` and None is the algorithm of Huang et al.
    starts
        How many rotations to start from: the identity, those given, then random ones.
    rotations
        Orthogonal matrices (K, K) to start from.  All are used, even when they are more than ``starts``.
    max_iter, tol
        Iterations, and the relative change of the objective in one of them that ends a start (0: run all).  An exact
        rotation (objective below 1e-30 ‖U‖²) ends it too, and so does an objective that goes round in circles.  While
        the threshold falls, nothing does.
    random_state
        Seed of the random rotations, or a numpy Generator.
    """
    check_parameters(alpha=alpha, decay=decay, starts=starts, max_iter=max_iter, tol=tol)
    U = np.ascontiguousarray(U, np.float64)
    if U.ndim != 2 or not U.size:
        raise ParameterError(f"a square root must have two axes, rows and components, not shape {U.shape}")
    if not np.isfinite(U).all():
        raise ParameterError("the square root has entries that are NaN or infinite; impute or drop those rows first")
    step, scale = _Step(U), float(max(U.max(), -U.min()))
    Q = _first_rotations(U.shape[1], starts, rotations, np.random.default_rng(random_state))
    live, ended = [_Run() for _ in Q], []
    exact = _EXACT * step.energy
    for t in range(max_iter):
        share = alpha if decay is None else decay ** (t + 1)
        objective, products = step(Q, share * scale)
        steady = decay is None or share < _GONE
        stays = ~_followers(Q, objective)
        for s, run in enumerate(live):
            run.add(float(objective[s]), tol, exact, steady)
            if stays[s] and (run.converged or t + 1 == max_iter):
                run.Q, run.threshold = Q[s], share * scale
                ended.append(run)
                stays[s] = False
        if not stays.any() or any(run.history[-1] <= exact for run in ended):
            break
        live = list(compress(live, stays))
        Q, products = Q[stays], products[stays]
        # W Σ Vᵀ = svd(Hᵀ U),  Q = V Wᵀ (13b, 13c).  A column of H that is all zero leaves Q open; the small multiple of
        # Qᵀ then keeps it where it was.  It moves no fixed point: W (Σ + ε) Vᵀ has the same W and V.
        W, _, Vt = np.linalg.svd(products + (1e-13 * step.energy) * Q.transpose(0, 2, 1))
        Q = (W @ Vt).transpose(0, 2, 1)
    best = min(ended, key=lambda run: run.history[-1])
    _log.info("rotation: %d iterations, converged: %s", len(best.history), best.converged)
    Z = U @ best.Q
    H = np.where(best.threshold <= Z, Z, 0.0)
    return Factorisation(H, best.Q, best.history[-1], best.history, best.converged)


class _Run:
    """The history of one start."""

    Q: Floats
    threshold: float

    def __init__(self) -> None:
        self.history: list[float] = []
        self.converged = False

    def add(self, objective: float, tol: float, exact: float, steady: bool) -> None:
        """Note an objective; with a ``steady`` threshold, see whether the run has come to its end."""
        before = self.history[-1] if self.history else np.inf
        self.history.append(objective)
        if steady:
            still = abs(objective - before) < tol * before or (tol > 0 and self._goes_round())
            self.converged = objective <= exact or still

    def _goes_round(self) -> bool:
        """Tell whether the last objectives lie within the range of those before.

        Near its fixed point a hard threshold can let the same entries in and out for ever; rounding does the like.
        """
        if len(self.history) < 2 * _WINDOW:
            return False
        now, then = self.history[-_WINDOW:], self.history[-2 * _WINDOW : -_WINDOW]
        return min(now) >= min(then) and max(now) <= max(then)


def _followers(Q: Floats, objective: Floats) -> Bools:
    """Tell which starts have met another, but for the order of columns, that is further on: they would end alike."""
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
    """Give the identity, the given rotations, and Haar-distributed ones, (S, K, K)."""
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


class _Step:
    """The part of an iteration that meets all rows: objective and Hᵀ U for a batch of rotations."""

    def __init__(self, U: Floats) -> None:
        self.U, self.Ut = U, np.ascontiguousarray(U.T)
        self.energy = float(np.vdot(U, U))

    def __call__(self, Q: Floats, threshold: float) -> tuple[Floats, Floats]:
        """Give ‖min(U Q, 0)‖², (S,), and Hᵀ U with H = ReLU(U Q), (S, K, K)."""
        S, K, _ = Q.shape
        # One product serves all starts: the rows of `columns` are the columns of every Q.
        columns = np.ascontiguousarray(Q.transpose(0, 2, 1)).reshape(S * K, K)
        negative, product = np.zeros(S * K), np.zeros((S * K, K))
        J, rows = len(self.U), max(_PRODUCT // (S * K * K), 64)
        for a in range(0, J, rows):
            Z = columns @ self.Ut[:, a : a + rows]
            below = np.minimum(Z, 0.0)
            negative += np.vecdot(below, below)
            # H = ReLU_α(U Q) (13a)
            if threshold > 0:
                Z *= threshold <= Z
            else:
                Z -= below
            product += Z @ self.U[a : a + rows]
        return negative.reshape(S, K).sum(axis=1), product.reshape(S, K, K)


def square_root(X: Floats, K: int) -> Floats:
    """Give ``U``, (J, K), such that ``U Uᵀ`` is the nearest to the symmetric ``X`` of all such matrices of rank K.

    Its columns are eigenvectors times the roots of their eigenvalues, largest first, each with a sum ≥ 0.  Negative
    eigenvalues count as zero.
    """
    from scipy.linalg import eigh

    J = len(X)
    if not 1 <= K <= J:
        raise ParameterError(f"a matrix of {J} rows has square roots of 1 to {J} columns, not {K}")
    if J < _LANCZOS or 10 * K > J:
        values, vectors = eigh(X, subset_by_index=[J - K, J - 1])
    else:
        values, vectors = _lanczos(X, K)
    U: Floats = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    return U * np.where(U.sum(axis=0) < 0, -1.0, 1.0)


def _lanczos(X: Floats, K: int) -> tuple[Floats, Floats]:
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    J = len(X)
    try:
        # v0 is given because the default differs from call to call
        values, vectors = eigsh(X, K, which="LA", v0=np.random.default_rng(0).standard_normal(J))
    except ArpackError:
        values, vectors = eigh(X, subset_by_index=[J - K, J - 1])
    return values, vectors


def symnmf(X: Floats, n_components: int, **options: Any) -> Factorisation:
    """Factor a symmetric matrix, ``X ≈ H Hᵀ`` with ``H ≥ 0``, through its square root.

    Parameters
    ----------
    X
        A symmetric matrix, (J, J), nonnegative but for noise.
    n_components
        K, the number of columns of ``H``.
    **options
        What :func:`rotate` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.symnmf import symnmf
    >>> H = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> found = symnmf(H @ H.T, 2)
    >>> bool(np.allclose(found.H @ found.H.T, H @ H.T))
    True
    """
    X = checked(X)
    check_parameters(n_components=n_components)
    return rotate(square_root(X, n_components), **options)


def checked(matrix: Any) -> Floats:
    """Give ``matrix`` as a symmetric array of floats, or raise; differences within rounding are averaged out."""
    X: Floats = np.asarray(matrix, np.float64)
    if X.ndim != 2 or X.shape[0] != X.shape[1] or not X.size:
        raise ParameterError(
            f"a symmetric factorisation needs a square matrix, not shape {X.shape}; "
            "for a table of rows and features pass X @ X.T"
        )
    if not np.isfinite(X).all():
        raise ParameterError("the matrix has entries that are NaN or infinite; impute them first")
    gap = X - X.T
    if gap.max() > 1e-6 * np.abs(X).max():
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ParameterError(
            f"the matrix must be symmetric, but entry ({i}, {j}) is {X[i, j]:g} and entry ({j}, {i}) is {X[j, i]:g}; "
            "if that is noise, pass (X + X.T) / 2"
        )
    return X - gap / 2 if gap.any() else X
