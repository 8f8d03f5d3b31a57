"""AND: alternating nonnegative gradient descent with falling thresholds, which provably recovers the features.

    Y ≈ A X,  X ≥ 0;  A may have negative entries        (Li & Liang 2017, Section 3)

Stage i decodes all samples with one pseudo-inverse, keeps the large weights, and fits the features to them
(Algorithm 1):

    Z = φ_α(A⁺ Y),   φ_α(v) = v if v ≥ α else 0,        α = α_0 / r^i
    A ← A + η (Y - A Z) Zᵀ / n,   T times               η = 1 / λ_max(Z Zᵀ / n)

The T steps have a closed form in the eigenvectors of Z Zᵀ = V diag(λ) Vᵀ:

    A ← A + (Y - A Z) Zᵀ V diag(g(λ)) Vᵀ,   g(λ) = (1 - (1 - λ/λ_max)^T) / λ

and T → ∞, g(λ) = 1/λ for λ > 0 and 0 otherwise, solves the stage's least squares.  Fifty steps give the same errors.
Another η replaces 1/λ_max; the paper does not state its own, and the authors' code has η = 0.5 / D times the sum over
samples instead of the mean.
A stage costs two products with the data, A⁺ Y and Y Zᵀ, whatever T is, and usually less: Y Zᵀ skips zero weights, and
data that lie in a subspace of less than half their dimensions (mixtures without noise do) are replaced by their
coordinates there, which does not change the result.

A high threshold keeps only weights that cannot be due to the error of A; each fit reduces that error, and the threshold
follows.  It is relative to the largest weight that the start decodes for a feature, so the scale of the columns of A
does not matter (``relative=False``: as in the paper, thresholds are weights themselves).  Noise of standard deviation σ
in Y is decoded as noise of deviation σ ‖A⁺(d, :)‖; a threshold below it would fit the noise, so it stops there.

====== =================================== ============
symbol name                                shape
====== =================================== ============
Y      ``Y``                               (W, n)
A      ``features``                        (W, D)
Z      ``weights``                         (D, n)
α      ``threshold``, one for each feature (D,)
η, T   ``step_size``, ``inner_steps``      scalars
====== =================================== ============

Internally samples are rows (``rows`` = Yᵀ, ``Z`` = Zᵀ), so that a sample and its weights are contiguous in memory.

Y. Li and Y. Liang, "Provable alternating gradient descent for non-negative matrix factorization with strong
correlations", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.factor.spa import vertices
from consilience.factor.span import ROUNDING, joint_span, unit_columns
from consilience.kernels._arrays import Floats
from consilience.kernels.descent import keep_large, weighted_sums
from consilience.validation import generator, number, whole

__all__ = ["Factorisation", "and_nmf", "decode", "start"]

#: Eigenvalues of Z Zᵀ below this share of the largest are rounding: there are no data in those directions.
_RANK = 1e-12
#: Consecutive stages with a change below the tolerance that count as convergence: one may be a plateau.
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class Factorisation:
    """Features and weights with Y ≈ features @ weights."""

    features: Floats  #: A, (W, D)
    weights: Floats  #: Z of the final features, (D, n)
    threshold: Floats  #: threshold of the last decoding, (D,)
    noise: float  #: σ, deviation of an entry of Y from the span of the features
    history: list[float]  #: change of the features in every stage: largest squared distance of unit columns
    converged: bool  #: in stages that had nonzero weights
    n_iter: int


def start(Y: Any, n_components: int | None, how: Literal["spa", "random"] = "spa", random_state: Any = None) -> Floats:
    """Return initial features, (W, D): columns of the data, as many as their rank if D is None.

    ``"spa"`` takes columns that span the others (nonnegative data are scaled to sum to one), which are nearly pure if
    any are; ``"random"`` takes random ones, and rarely leads to the truth.
    """
    if how not in ("spa", "random"):
        raise ParameterError(f"the start must be 'spa' or 'random', not {how!r}")
    n, D = Y.shape[1], n_components
    if how == "spa" or D is None:
        scale: Literal["sum"] | None = None if Y.min() < 0 else "sum"
        chosen = vertices(Y, min(Y.shape) if D is None else D, scale=scale, denoise="svd").indices
    if how == "random":
        chosen = generator(random_state).choice(n, chosen.size if D is None else min(D, n), replace=False)
    if chosen.size < (1 if D is None else D):
        raise DataError(
            f"the data have only {chosen.size} directions for a start; lower n_components (now {n_components}) or give "
            "the initial features yourself"
        )
    return _dense(Y[:, chosen])


def decode(Y: Any, features: Floats, threshold: Floats | float = 0.0) -> Floats:
    """Return φ_α(A⁺ Y), (D, n): the weights of the features in each column of ``Y``, small ones set to zero."""
    return _decode(_rows(Y), np.asarray(features, np.float64), threshold).T


def and_nmf(
    Y: Any,
    A0: Floats,
    *,
    alpha: float | Sequence[float] = 0.1,
    decay: float = 1.2,
    relative: bool = True,
    max_iter: int = 100,
    inner_steps: int | None = None,
    step_size: float | Literal["released"] | None = None,
    noise_multiple: float = 2.5,
    batch_size: int | None = None,
    tol: float = 1e-14,
    random_state: Any = 0,
    callback: Callable[[int, Floats], Any] | None = None,
) -> Factorisation:
    """Factor ``Y`` from the features ``A0``, (W, D).

    Parameters
    ----------
    Y
        Data, one sample per column, (W, n); a NumPy array or a SciPy sparse matrix.  Entries may be negative.
    A0
        Initial features.  See :func:`start`.
    alpha, decay
        α_0 and r: stage i = 0, 1, … keeps weights of at least α_0 / r^i times the largest weight that the start decodes
        for the feature.  The paper has 0.1 and 1.1; α_0 = 0.5 tolerates worse starts for nine more stages, a slower
        decay leads closer to the truth, and a decay of 1 keeps the threshold.  A list has one threshold for each stage
        (the last is kept), and no decay.
    relative
        False takes thresholds as weights, not as shares of the largest weight of a feature.
    max_iter
        Most stages.
    inner_steps
        T, gradient steps of a stage; None solves its least squares.  With batches, passes over them with one gradient
        step per batch; None is one pass.
    step_size
        η, which multiplies (Y - A Z) Zᵀ / n; None is one over the largest eigenvalue of Z Zᵀ / n, ``"released"`` is
        0.5 n / D, as in the authors' code.  Steps beyond twice the default diverge.
    noise_multiple
        The threshold stays above this many standard deviations of the decoded noise; 0 lets it fall for ever.
    batch_size
        Update the features after this many samples, in random order, instead of after all.
    tol
        Largest change of a stage, as squared distance of unit features, that counts as convergence (0: run all).
    random_state
        Seed of the order of batches.
    callback
        Called with the number of stages done and the features; True stops.
    """
    thresholds = _thresholds(alpha, relative)
    counts = {"max_iter": max_iter, "inner_steps": inner_steps, "batch_size": batch_size}
    _check(Y, A0, decay, noise_multiple, tol, **counts)
    rows, A = _rows(Y), np.array(A0, np.float64)
    n, W = rows.shape
    D = A.shape[1]
    square = float(rows.multiply(rows).sum()) if _is_sparse(rows) else float(np.vdot(rows, rows))
    basis = None if _is_sparse(rows) else joint_span(rows, A, square)
    if basis is not None:
        rows, A = rows @ basis, basis.T @ A
    memory = np.empty((n, D))  # reused for the weights of every stage
    rng = generator(random_state)
    eta = _step(step_size, n, D)
    unit: Floats | None = None if relative else np.ones(D)
    falls = np.ndim(alpha) == 0
    threshold, sigma, history, quiet = np.zeros(D), 0.0, [], 0
    for i in range(max_iter):
        # A = Q R, A⁺ = R⁻¹ Qᵀ: ‖Y‖² - ‖Qᵀ Y‖² is noise, and the rows of A⁺ have the norms of those of R⁻¹
        Q, R = np.linalg.qr(A)
        inverse = _pseudo_inverse(R)
        inside = rows @ Q if _is_sparse(rows) else np.matmul(rows, Q, out=memory)
        left = square - float(np.vdot(inside, inside))
        sigma = float(np.sqrt(left / ((W - D) * n))) if W > D and left > ROUNDING * square else 0.0
        Z = _times_inverse(inside, inverse)
        if unit is None:
            unit = Z.max(axis=0)
            unit = np.where(unit > 0, unit, 1.0)
        floor = noise_multiple * sigma * np.linalg.norm(inverse, axis=1)
        # a negative power underflows to zero, where a positive one would overflow
        share = thresholds[0] * float(decay) ** -i if falls else thresholds[min(i, thresholds.size - 1)]
        threshold = np.maximum(share * unit, floor)
        kept = keep_large(Z, threshold)
        before = unit_columns(A)
        if batch_size is None:
            A = _fit(rows, A, Z, inner_steps, eta, kept)
        else:
            A = _sweep(rows, A, Z, inner_steps, eta, batch_size, rng)
        history.append(float(((unit_columns(A) - before) ** 2).sum(axis=0).max()))
        # features without weights do not change, but were not learned either
        quiet = quiet + 1 if kept and history[-1] <= tol else 0
        if callback is not None and callback(i + 1, A if basis is None else basis @ A) is True:
            break
        if tol > 0 and quiet >= _PATIENCE:
            break
    weights = _decode(rows, A, threshold).T
    features = A if basis is None else basis @ A
    return Factorisation(features, weights, threshold, sigma, history, tol > 0 and quiet >= _PATIENCE, len(history))


def _decode(rows: Any, A: Floats, threshold: Floats | float) -> Floats:
    """Return φ_α(A⁺ Y), transposed, (n, D)."""
    Q, R = np.linalg.qr(A)
    Z = _times_inverse(np.asarray(rows @ Q, np.float64), _pseudo_inverse(R))
    keep_large(Z, np.broadcast_to(np.asarray(threshold, np.float64), A.shape[1]).copy())
    return Z


def _step(step_size: float | Literal["released"] | None, n: int, D: int) -> float | None:
    """Return η relative to the mean over the samples; None for one over the largest eigenvalue."""
    if step_size == "released":
        return 0.5 * n / D
    number("step_size", step_size, none=True)
    return None if step_size is None else float(step_size)


def _fit(
    rows: Any, A: Floats, Z: Floats, steps: int | None, eta: float | None = None, kept: int | None = None
) -> Floats:
    """Return A + (Y - A Z) Zᵀ V diag(g(λ)) Vᵀ: the gradient steps of a stage; None takes infinitely many."""
    C, G = ((rows.T @ Z).T, Z.T @ Z) if _is_sparse(rows) else weighted_sums(Z, rows, kept)
    eigenvalues, V = np.linalg.eigh(G)
    top = float(eigenvalues[-1])
    if top <= 0:
        return A
    known = eigenvalues > _RANK * top
    lam = np.where(known, eigenvalues, 1.0)
    along = np.minimum(lam / top, 1.0) if eta is None else eta / len(Z) * lam
    share = np.ones_like(lam) if steps is None else 1.0 - (1.0 - along) ** steps
    g = np.where(known, share / lam, 0.0)
    fitted: Floats = A + (C.T - A @ G) @ ((V * g) @ V.T)
    return fitted


def _sweep(
    rows: Any, A: Floats, Z: Floats, passes: int | None, eta: float | None, size: int, rng: np.random.Generator
) -> Floats:
    """Take one gradient step per batch of ``size`` samples in random order, ``passes`` times (None: once).

    Unless η is given, the step size is that of the batch.
    """
    n = len(Z)
    for _ in range(passes or 1):
        order = rng.permutation(n)
        for first in range(0, n, size):
            batch = order[first : first + size]
            A = _fit(rows[batch], A, Z[batch], 1, eta)
    return A


def _pseudo_inverse(R: Floats) -> Floats:
    """Return R⁻¹, or R⁺ if the features are linearly dependent."""
    try:
        inverse = np.asarray(np.linalg.inv(R), np.float64)
    except np.linalg.LinAlgError:
        inverse = np.full_like(R, np.inf)
    # the product of the norms bounds the condition number; the comparison is also false for NaN and infinity
    if np.linalg.norm(inverse) * np.linalg.norm(R) < 1e12:
        return inverse
    return np.asarray(np.linalg.pinv(R, rcond=1e-12), np.float64)


def _times_inverse(inside: Floats, inverse: Floats) -> Floats:
    """Return ``inside @ inverse.T``; for a triangular inverse in place and at half the cost."""
    if np.tril(inverse, -1).any() or not inside.flags.c_contiguous:
        return np.asarray(inside @ inverse.T, np.float64)
    from scipy.linalg.blas import dtrmm

    return np.asarray(dtrmm(1.0, inverse, inside.T, overwrite_b=1).T, np.float64)


def _is_sparse(Y: Any) -> bool:
    return hasattr(Y, "tocsr")


def _dense(values: Any) -> Floats:
    return np.array(values.toarray() if _is_sparse(values) else values, np.float64)


def _rows(Y: Any) -> Any:
    """Return samples as rows, (n, W): CSR, or a C-contiguous array."""
    return Y.T.tocsr() if _is_sparse(Y) else np.ascontiguousarray(np.asarray(Y, np.float64).T)


def _thresholds(alpha: Any, relative: bool) -> Floats:
    """Return the thresholds as an array; raise unless they are one number or a list of them."""
    try:
        thresholds = np.atleast_1d(np.asarray(alpha, np.float64))
    except (TypeError, ValueError):
        thresholds = np.empty(0)
    good = thresholds.ndim == 1 and thresholds.size and np.isfinite(thresholds).all() and (thresholds > 0).all()
    if not good or (relative and (thresholds >= 1).any()):
        most = "between 0 and 1" if relative else "> 0"
        raise ParameterError(f"alpha must be a number {most}, or a list of them, not {alpha!r}")
    return thresholds


def _check(
    Y: Any,
    A0: Floats,
    decay: float,
    noise_multiple: float,
    tol: float,
    **counts: int | None,
) -> None:
    shape, first = tuple(Y.shape) if _is_sparse(Y) else np.shape(Y), tuple(np.shape(A0))
    if len(shape) != 2 or not np.isfinite(Y.data if _is_sparse(Y) else np.asarray(Y, np.float64)).all():
        raise DataError(f"expected a matrix of finite numbers, one sample per column; got shape {shape}, NaN or inf")
    if len(first) != 2 or first[0] != shape[0] or not first[1] or not np.isfinite(A0).all():
        raise ParameterError(f"A0 must be finite, with {shape[0]} rows like Y and one column per feature, not {first}")
    if first[1] > min(shape):
        raise ParameterError(f"{first[1]} features cannot be learned from {shape[1]} samples of {shape[0]} entries")
    number("decay", decay)
    if decay < 1:
        raise ParameterError(f"decay must be a number ≥ 1 (1 keeps the threshold), not {decay!r}")
    number("noise_multiple", noise_multiple, zero=True)
    number("tol", tol, zero=True)
    for name, count in counts.items():
        if count is not None:
            whole(name, count)
