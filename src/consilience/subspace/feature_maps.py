r"""Features of samples before they are sketched: kernels, and sketches of the modes of tensors (thesis, 5.2.1).

**Kernels.**  The codes of LSR depend on inner products only, so with a kernel matrix K in place of :math:`X^\top X`

.. math:: A = \lambda (\lambda R^\top K R + I)^{-1} R^\top K

represents samples by mixtures of nonlinear features φ(x).  K has N² entries.  Features whose inner products are
nearly K make it unnecessary: the same sketch and the same codes follow from φ(X) as from X.

* *Landmarks* (Nyström): :math:`\varphi(x) = k(x, L) K_{LL}^{-1/2}` for m of the samples, L.  If L are all samples, the
  codes are exactly those of the formula above.
* *Random features* (Rahimi & Recht 2007), for ``"rbf"``: :math:`\varphi(x) = \sqrt{2 / m} \cos(x \Omega + b)`.

**Tensors.**  A sample of shape (D1, D2, …) is multiplied along each mode by a sketch of its own, Ř = Ř1 ⊗ Ř2 ⊗ …; the
sketch of all D1 D2 … features at once is never drawn.

====== ================== ====================
symbol name               shape
====== ================== ====================
X      ``X``              (N, D)
L      ``landmarks``      (m, D)
..     ``root``           (m, rank), K_LL^-½
Ω, b   ``weights``, …     (D, m), (m,)
Ř1, …  ``sketches``       (D1, d1), …
====== ================== ====================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats
from consilience.subspace.sketches import Sketch, SketchKind, make_sketch
from consilience.validation import number, one_of, whole

__all__ = ["Kernel", "KernelMap", "ModeSketches", "kernel_map", "mode_sketches"]

KernelName: TypeAlias = Literal["rbf", "laplacian", "polynomial"]
KernelMap: TypeAlias = Literal["landmarks", "random"]
#: A name, or a function of two matrices (N, D) and (m, D) that returns (N, m).
Kernel: TypeAlias = KernelName | Callable[[Any, Any], Any]

#: Features of a kernel by default.
#: origin: simulated curves, seeds 0-4; sensitivity: accuracy 0.87 with 64, 0.91 with 128, 0.95 with 256 and 512.
DEFAULT_SIZE = 256
#: Width of "rbf" and "laplacian" relative to the median distance of samples.
#: origin: simulated curves, seeds 0-4; sensitivity: accuracy 0.95 with 0.2 and 0.3, 0.90 with 0.4, 0.84 with 0.1.
_WIDTH = 0.3
#: Samples whose distances are measured.
_MEASURED = 500
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Nyström features of a kernel."""

    kernel: Kernel
    gamma: float
    landmarks: Floats
    root: Floats

    def apply_right(self, X: Any) -> Any:
        """Return φ(X), (N, rank)."""
        return (kernel_matrix(self.kernel, X, self.landmarks, self.gamma) @ self.root).astype(X.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """Random Fourier features of the Gaussian kernel."""

    weights: Floats
    shift: Floats

    def apply_right(self, X: Any) -> Any:
        """Return φ(X), (N, m)."""
        phases = X @ self.weights.astype(X.dtype) + self.shift.astype(X.dtype)
        return np.cos(phases) * X.dtype.type(np.sqrt(2.0 / self.shift.size))


@dataclass(frozen=True, eq=False)
class ModeSketches:
    """One sketch for each mode of the samples, which come as rows (N, D1 D2 …)."""

    shape: tuple[int, ...]
    sketches: tuple[Sketch, ...]

    def apply_right(self, X: Any) -> Any:
        """Return the samples, multiplied along each mode and flattened, (N, d1 d2 …)."""
        T = np.asarray(X).reshape(len(X), *self.shape)
        for mode, sketch in enumerate(self.sketches, start=1):
            last = np.moveaxis(T, mode, 0)
            done = sketch.apply(last.reshape(last.shape[0], -1))
            T = np.moveaxis(done.reshape(-1, *last.shape[1:]), 0, mode)
        return T.reshape(len(X), -1)


def mode_sketches(kind: SketchKind, shape: tuple[int, ...], sizes: Any, seed: int) -> ModeSketches:
    """Draw one sketch for each mode; ``sizes`` has the size of each mode after it."""
    if len(sizes) != len(shape):
        raise ParameterError(f"n_features must have one size for each of the {len(shape)} modes, not {sizes!r}")
    drawn = [
        make_sketch(kind, D, whole("n_features", d), seed + mode)
        for mode, (D, d) in enumerate(zip(shape, sizes, strict=True))
    ]
    return ModeSketches(shape, tuple(drawn))


def kernel_matrix(kernel: Kernel, X: Any, Y: Any, gamma: float) -> Any:
    """Return k(x, y) for all rows of X and Y; a polynomial kernel is (1 + γ xᵀ y)²."""
    if callable(kernel):
        K = np.asarray(kernel(X, Y))
        if K.shape != (X.shape[0], Y.shape[0]):
            raise DataError(f"the kernel returned shape {K.shape} for {X.shape[0]} and {Y.shape[0]} samples")
        return K
    from sklearn.metrics.pairwise import pairwise_kernels

    options = {"gamma": gamma} | ({"degree": 2, "coef0": 1.0} if kernel == "polynomial" else {})
    return pairwise_kernels(X, Y, metric=kernel, **options)


def default_gamma(kernel: Kernel, some: Floats) -> float:
    """Return γ from the distances (or lengths, for a polynomial) of some samples."""
    some = some[:_MEASURED]
    if kernel == "polynomial":
        typical = float(np.median(np.einsum("ij,ij->i", some, some)))
        return 1.0 / typical if typical > 0 else 1.0
    from scipy.spatial.distance import pdist

    distances = pdist(some, "cityblock" if kernel == "laplacian" else "euclidean")
    width = _WIDTH * float(np.median(distances)) if distances.size else 0.0
    if not width:
        return 1.0
    return 1.0 / width if kernel == "laplacian" else 0.5 / width**2


def kernel_map(
    kernel: Kernel,
    some: Any,
    *,
    how: KernelMap = "landmarks",
    gamma: float | None = None,
    size: int | None = None,
    seed: int = 0,
) -> Landmarks | RandomFeatures:
    """Prepare the features of a kernel.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"`` (of degree 2) or a function.
    some
        Samples from which landmarks and γ are chosen, (at most 4096, D).
    how
        ``"landmarks"`` or ``"random"``.
    gamma
        γ; None: by the distances of samples.
    size
        m; with at least as many landmarks as samples the kernel is exact.
    seed
        Seed of the choice.
    """
    if not callable(kernel):
        one_of("kernel", kernel, get_args(KernelName))
    one_of("kernel_map", how, get_args(KernelMap))
    number("gamma", gamma, none=True)
    m = DEFAULT_SIZE if size is None else whole("kernel_size", size)
    some = np.asarray(some, np.float64)
    rng = np.random.default_rng(seed)
    some = some[rng.permutation(len(some))]
    gamma = default_gamma(kernel, some) if gamma is None and not callable(kernel) else gamma or 1.0
    if how == "random":
        if kernel != "rbf":
            raise ParameterError(f"random features are of the kernel 'rbf', not {kernel!r}; use kernel_map='landmarks'")
        weights = rng.standard_normal((some.shape[1], m)) * np.sqrt(2.0 * gamma)
        return RandomFeatures(weights, rng.uniform(0.0, 2.0 * np.pi, m))
    landmarks = some[:m]
    values, V = np.linalg.eigh(kernel_matrix(kernel, landmarks, landmarks, gamma))
    keep = values > values[-1] * _ROUNDING
    return Landmarks(kernel, gamma, landmarks, V[:, keep] / np.sqrt(values[keep]))
