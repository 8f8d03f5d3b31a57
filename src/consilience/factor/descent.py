"""AND: alternating nonnegative gradient descent with falling thresholds, a factorisation that recovers its features.

    Y ≈ A X,  X ≥ 0;  A may have negative entries        (Li & Liang 2017, Section 3)

Stage i decodes all samples with one pseudo-inverse, keeps the weights that are large enough, and fits the features to
them (Algorithm 1):

    Z = φ_α(A⁺ Y),   φ_α(v) = v if v ≥ α else 0,        α = α_0 / r^i
    A ← A + η (Y - A Z) Zᵀ / n,   T times               η = 1 / λ_max(Z Zᵀ / n)

The T steps have a closed form in the eigenvectors of Z Zᵀ = V diag(λ) Vᵀ:

    A ← A + (Y - A Z) Zᵀ V diag(g(λ)) Vᵀ,   g(λ) = (1 - (1 - λ/λ_max)^T) / λ

and T → ∞, g(λ) = 1/λ where λ > 0 and 0 elsewhere, solves the stage's least squares.  Fifty steps give the same errors.
A stage costs two products with the data, A⁺ Y and Y Zᵀ, whatever T is, and usually less: Y Zᵀ passes over weights that
are zero, and data that lie in a space of fewer than half their dimensions (mixtures without noise do) are replaced by
their coordinates there, which changes nothing else.

A high threshold lets through only weights that the error of A cannot have made up; each fit makes that error smaller,
and the threshold follows.  It counts in units of the largest weight that the start decodes for a feature, so that the
scale of the columns of A does not matter.  Noise ζ of deviation σ in Y is decoded as noise of deviation σ ‖A⁺(d, :)‖,
and a threshold below it would fit the noise: there the threshold stops.

====== =================================== ============
symbol name                                shape
====== =================================== ============
Y      ``Y``                               (W, n)
A      ``features``                        (W, D)
Z      ``weights``                         (D, n)
α      ``threshold``, one for each feature (D,)
η, T   in closed form, ``inner_steps``     scalars
====== =================================== ============

Inside, samples are rows: ``rows`` = Yᵀ, ``Z`` = Zᵀ, so that a sample and its weights lie together in memory.

Y. Li and Y. Liang, "Provable alternating gradient descent for non-negative matrix factorization with strong
correlations", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.factor.spa import vertices
from consilience.kernels._arrays import Floats
from consilience.kernels.descent import keep_large, weighted_sums
from consilience.validation import generator, number

__all__ = ["Factorisation", "and_nmf", "decode", "start"]

#: Eigenvalues of Z Zᵀ below this share of the largest are rounding: no data speak of those directions.
_RANK = 1e-12
#: A residual below this share of ‖Y‖² is rounding, not noise.
_ROUNDING = 1e-13
#: Stages in a row whose change is below the tolerance before it counts as convergence: one may be a plateau.
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class Factorisation:
    """Features and weights with Y ≈ features @ weights."""

    features: Floats  #: A, (W, D)
    weights: Floats  #: Z of the final features, (D, n)
    threshold: Floats  #: what the last decoding let through, (D,)
    noise: float  #: σ, deviation of an entry of Y from the span of the features
    history: list[float]  #: change of the features in every stage: largest squared distance of unit columns
    converged: bool  #: by stages that had weights to learn from
    n_iter: int


def start(Y: Any, n_components: int | None, how: Literal["spa", "random"] = "spa", random_state: Any = None) -> Floats:
    """Give first features, (W, D): columns of the data, as many as these have directions where D is None.

    ``"spa"`` takes those that span the others (of nonnegative data: their directions), which are nearly pure if any
    are; ``"random"`` takes any, and rarely leads to the truth.
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
            f"the data have only {chosen.size} directions that a start can be made of; lower n_components "
            f"(now {n_components}) or give the first features yourself"
        )
    return _dense(Y[:, chosen])


def decode(Y: Any, features: Floats, threshold: Floats | float = 0.0) -> Floats:
    """Give φ_α(A⁺ Y), (D, n): the weights of the features in each column of ``Y``, small ones set to zero."""
    return _decode(_rows(Y), np.asarray(features, np.float64), threshold).T


def and_nmf(
    Y: Any,
    A0: Floats,
    *,
    alpha: float = 0.1,
    decay: float = 1.2,
    max_iter: int = 100,
    inner_steps: int | None = None,
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
        Data, one sample a column, (W, n); a NumPy array or a SciPy sparse matrix.  Entries may be negative.
    A0
        First features.  See :func:`start`.
    alpha, decay
        α_0 and r: stage i = 0, 1, … lets weights through that are at least α_0 / r^i of the largest that the start
        decodes for the feature.  The paper has 0.1 and 1.1; an α_0 of 0.5 forgives worse starts for nine more stages,
        a slower decay leads closer to the truth, and a decay of 1 holds the threshold.
    max_iter
        Stages at most.
    inner_steps
        T, gradient steps of a stage; None solves its least squares.  With batches it is passes over them, a gradient
        step each batch, and None is one pass: no least squares are solved then.
    noise_multiple
        The threshold stays above so many deviations of the noise that the decoding has; 0 lets it fall for ever.
    batch_size
        Update the features after so many samples, in random order, and not after all.
    tol
        Largest change of a stage, as squared distance of unit features, that counts as convergence (0: run all).
    random_state
        Seed of the order of batches.
    callback
        Called with the number of stages done and the features; True stops.
    """
    _check(Y, A0, alpha, decay, noise_multiple, tol, max_iter=max_iter, inner_steps=inner_steps, batch_size=batch_size)
    rows, A = _rows(Y), np.array(A0, np.float64)
    n, W = rows.shape
    D = A.shape[1]
    square = float(rows.multiply(rows).sum()) if _is_sparse(rows) else float(np.vdot(rows, rows))
    basis = None if _is_sparse(rows) else _span(rows, A, square)
    if basis is not None:
        rows, A = rows @ basis, basis.T @ A
    memory = np.empty((n, D))  # of all weights, stage after stage
    rng = generator(random_state)
    unit: Floats | None = None
    threshold, sigma, history, quiet = np.zeros(D), 0.0, [], 0
    for i in range(max_iter):
        # A = Q R, A⁺ = R⁻¹ Qᵀ: what Qᵀ Y leaves of ‖Y‖² is noise, and the rows of A⁺ are as long as those of R⁻¹
        Q, R = np.linalg.qr(A)
        inverse = _pseudo_inverse(R)
        inside = rows @ Q if _is_sparse(rows) else np.matmul(rows, Q, out=memory)
        left = square - float(np.vdot(inside, inside))
        sigma = float(np.sqrt(left / ((W - D) * n))) if W > D and left > _ROUNDING * square else 0.0
        Z = _times_inverse(inside, inverse)
        if unit is None:
            unit = Z.max(axis=0)
            unit = np.where(unit > 0, unit, 1.0)
        floor = noise_multiple * sigma * np.linalg.norm(inverse, axis=1)
        # a negative power ends at zero, where a positive one would overflow
        threshold = np.maximum(alpha * float(decay) ** -i * unit, floor)
        kept = keep_large(Z, threshold)
        before = _unit_columns(A)
        if batch_size is None:
            A = _fit(rows, A, Z, inner_steps, kept)
        else:
            A = _sweep(rows, A, Z, inner_steps, batch_size, rng)
        history.append(float(((_unit_columns(A) - before) ** 2).sum(axis=0).max()))
        # features that no weight speaks of do not change, but neither were they learned
        quiet = quiet + 1 if kept and history[-1] <= tol else 0
        if callback is not None and callback(i + 1, A if basis is None else basis @ A) is True:
            break
        if tol > 0 and quiet >= _PATIENCE:
            break
    weights = _decode(rows, A, threshold).T
    features = A if basis is None else basis @ A
    return Factorisation(features, weights, threshold, sigma, history, tol > 0 and quiet >= _PATIENCE, len(history))


def _span(rows: Floats, A: Floats, square: float) -> Floats | None:
    """Give an orthonormal basis, (W, r), of a space with all samples and features in it; None if 2 r > W or r < D.

    The samples' space is that of D + 10 random mixtures of them, unless it has more dimensions: then part of the
    samples, of whose squares ``square`` is the sum, lies outside.
    """
    n, W = rows.shape
    D = A.shape[1]
    if 2 * (D + 10) > W:
        return None
    mixtures = rows.T @ np.random.default_rng(0).standard_normal((n, D + 10))
    basis = _directions(mixtures)
    outside = _unit_columns(A)
    for _ in range(2):  # the second time removes what rounding left
        outside = outside - basis @ (basis.T @ outside)
    # the features' directions that are not rounding, beside unit columns
    basis = np.column_stack([basis, _directions(outside, 1.0)])
    if not D <= basis.shape[1] <= W // 2:  # of fewer dimensions than features there is no Q with a column for each
        return None
    inside = rows @ basis
    return basis if square - float(np.vdot(inside, inside)) <= _ROUNDING * square else None


def _directions(columns: Floats, scale: float | None = None) -> Floats:
    """Left singular vectors whose singular values are not rounding beside ``scale``, or else the largest."""
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(U[:, s > _RANK * max(scale or s[0], 1e-300)], np.float64)


def _decode(rows: Any, A: Floats, threshold: Floats | float) -> Floats:
    """φ_α(A⁺ Y), transposed, (n, D)."""
    Q, R = np.linalg.qr(A)
    Z = _times_inverse(np.asarray(rows @ Q, np.float64), _pseudo_inverse(R))
    keep_large(Z, np.broadcast_to(np.asarray(threshold, np.float64), A.shape[1]).copy())
    return Z


def _fit(rows: Any, A: Floats, Z: Floats, steps: int | None, kept: int | None = None) -> Floats:
    """A + (Y - A Z) Zᵀ V diag(g(λ)) Vᵀ: the stage's gradient steps in closed form; None takes infinitely many."""
    C, G = ((rows.T @ Z).T, Z.T @ Z) if _is_sparse(rows) else weighted_sums(Z, rows, kept)
    eigenvalues, V = np.linalg.eigh(G)
    top = float(eigenvalues[-1])
    if top <= 0:
        return A
    known = eigenvalues > _RANK * top
    lam = np.where(known, eigenvalues, 1.0)
    share = np.ones_like(lam) if steps is None else 1.0 - (1.0 - np.minimum(lam / top, 1.0)) ** steps
    g = np.where(known, share / lam, 0.0)
    fitted: Floats = A + (C.T - A @ G) @ ((V * g) @ V.T)
    return fitted


def _sweep(rows: Any, A: Floats, Z: Floats, passes: int | None, size: int, rng: np.random.Generator) -> Floats:
    """One gradient step after every ``size`` samples, which come in random order, ``passes`` times over (None: once).

    The step has the scale of its own batch, as if the batch were all there is.
    """
    n = len(Z)
    for _ in range(passes or 1):
        order = rng.permutation(n)
        for first in range(0, n, size):
            batch = order[first : first + size]
            A = _fit(rows[batch], A, Z[batch], 1)
    return A


def _pseudo_inverse(R: Floats) -> Floats:
    """R⁻¹, or R⁺ where features depend on each other."""
    try:
        inverse = np.asarray(np.linalg.inv(R), np.float64)
    except np.linalg.LinAlgError:
        inverse = np.full_like(R, np.inf)
    # the product of the norms bounds the condition number; a comparison with NaN or infinity fails as well
    if np.linalg.norm(inverse) * np.linalg.norm(R) < 1e12:
        return inverse
    return np.asarray(np.linalg.pinv(R, rcond=1e-12), np.float64)


def _times_inverse(inside: Floats, inverse: Floats) -> Floats:
    """``inside @ inverse.T``; of a triangular inverse in place and at half the cost."""
    if np.tril(inverse, -1).any() or not inside.flags.c_contiguous:
        return np.asarray(inside @ inverse.T, np.float64)
    from scipy.linalg.blas import dtrmm

    return np.asarray(dtrmm(1.0, inverse, inside.T, overwrite_b=1).T, np.float64)


def _unit_columns(A: Floats) -> Floats:
    length = np.linalg.norm(A, axis=0)
    return A / np.where(length > 0, length, 1.0)


def _is_sparse(Y: Any) -> bool:
    return hasattr(Y, "tocsr")


def _dense(values: Any) -> Floats:
    return np.array(values.toarray() if _is_sparse(values) else values, np.float64)


def _rows(Y: Any) -> Any:
    """Samples as rows, (n, W): CSR, or a C-contiguous array."""
    return Y.T.tocsr() if _is_sparse(Y) else np.ascontiguousarray(np.asarray(Y, np.float64).T)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _check(
    Y: Any, A0: Floats, alpha: float, decay: float, noise_multiple: float, tol: float, **counts: int | None
) -> None:
    shape, first = tuple(Y.shape) if _is_sparse(Y) else np.shape(Y), tuple(np.shape(A0))
    if len(shape) != 2 or not np.isfinite(Y.data if _is_sparse(Y) else np.asarray(Y, np.float64)).all():
        raise DataError(f"expected a matrix of finite numbers, one sample a column, not shape {shape} with NaN or inf")
    if len(first) != 2 or first[0] != shape[0] or not first[1] or not np.isfinite(A0).all():
        raise ParameterError(f"A0 must be finite, with {shape[0]} rows as Y has and a column a feature, not {first}")
    if first[1] > min(shape):
        raise ParameterError(f"{first[1]} features cannot be told from {shape[1]} samples of {shape[0]} entries")
    number("alpha", alpha)
    if alpha >= 1:
        raise ParameterError(f"alpha must lie between 0 and 1, not {alpha!r}")
    number("decay", decay)
    if decay < 1:
        raise ParameterError(f"decay must be a number ≥ 1 (1 holds the threshold), not {decay!r}")
    number("noise_multiple", noise_multiple, zero=True)
    number("tol", tol, zero=True)
    for name, count in counts.items():
        if count is not None and not _is_count(count):
            raise ParameterError(f"{name} must be a whole number ≥ 1, not {count!r}")
