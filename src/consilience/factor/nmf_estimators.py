"""AND and successive projection as scikit-learn estimators: samples are rows here, columns in the functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.factor.descent import and_nmf, decode, start
from consilience.factor.nnls import nonnegative_least_squares
from consilience.factor.spa import vertices
from consilience.kernels._arrays import Floats
from consilience.published import AsPublished
from consilience.validation import numpy_seed, whole

__all__ = ["AND", "SPA"]


class _Features(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both share: sparse input, and the map from weights back to samples."""

    components_: Floats

    def inverse_transform(self, X: Any) -> Floats:
        """Return the samples (n, W) of the weights ``X`` (n, D)."""
        check_is_fitted(self, "components_")
        samples: Floats = np.asarray(X, np.float64) @ self.components_
        return samples

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class AND(AsPublished, _Features):
    r"""Nonnegative weights of features of any sign, by gradient descent with falling thresholds.

    .. math:: X \approx Z A^\top, \quad Z \ge 0

    It recovers the true features, not only a good fit, if samples mix few of them and the start is close enough (Li &
    Liang 2017).  See :mod:`consilience.factor.descent` for the algorithm.

    Parameters
    ----------
    n_components
        Features.  None takes as many as ``init`` has, or the rank of X.
    init
        ``"spa"``: samples found by successive projection; ``"random"``: random samples, which rarely lead to the truth;
        or an array (D, W).
    alpha, decay, relative
        First threshold, as a share of the largest weight of a feature, and what divides it after every stage; or a list
        of thresholds, one for each stage.  ``relative=False``: thresholds are weights themselves.
    max_iter, tol
        Stages, and the change of the features in one of them that ends them (0: run all).
    inner_steps
        Gradient steps of a stage; None solves its least squares.  With ``batch_size``, passes over the batches with one
        gradient step each; None is one pass.
    step_size
        Step size of the gradient steps; see :func:`~consilience.factor.descent.and_nmf`.
    noise_multiple
        The threshold stays above this many standard deviations of the noise.
    batch_size
        Update the features after this many samples; None: after all.
    random_state
        Seed of random starts and of the order of batches.

    Attributes
    ----------
    components_ : array (D, W)
        The features.
    threshold_ : array (D,)
        Weights below it count as zero.
    noise_ : float
        Standard deviation of X from the span of the features.
    reconstruction_err_ : float
        ‖X - Z C‖ (Frobenius), C being ``components_``.
    converged_ : bool
        Whether the tolerance was met.
    history_ : list of float
        The change of the features in every stage.
    n_iter_ : int
        Stages.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.nmf_estimators import AND
    >>> from consilience.metrics import correlation_error
    >>> rng = np.random.default_rng(0)
    >>> weights, features = rng.dirichlet(np.full(5, 0.1), 500), rng.uniform(-0.5, 0.5, (5, 30))
    >>> model = AND(5, tol=1e-10).fit(weights @ features)
    >>> correlation_error(model.components_.T, features.T) < 1e-6
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    init: Literal["spa", "random"] | Floats = "spa"
    alpha: float | Sequence[float] = 0.1
    decay: float = 1.2
    relative: bool = True
    max_iter: int = 100
    tol: float = 1e-14
    inner_steps: int | None = None
    step_size: float | Literal["released"] | None = None
    noise_multiple: float = 2.5
    batch_size: int | None = None
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the features of the samples ``X`` (n, W); ``y`` is not used."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Find the features and return the weights."""
        return self._fit(X)

    def transform(self, X: Any) -> Floats:
        """Return the weights (n, D) of the features in new samples, small ones set to zero."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return decode(X.T, self.components_.T, self.threshold_).T

    def _fit(self, X: Any) -> Floats:
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        seed = numpy_seed(self.random_state)
        if isinstance(self.init, str):
            D = self.n_components
            A0 = start(X.T, D if D is None else whole("n_components", D), self.init, seed)
        else:
            A0 = np.asarray(self.init, np.float64).T
            if A0.ndim != 2 or self.n_components not in (None, A0.shape[1]):
                raise ParameterError(f"init has shape {A0.T.shape}; expected ({self.n_components}, {X.shape[1]})")
        names = (
            "alpha",
            "decay",
            "relative",
            "max_iter",
            "tol",
            "inner_steps",
            "step_size",
            "noise_multiple",
            "batch_size",
        )
        options: dict[str, Any] = {name: getattr(self, name) for name in (*names, "batch_size")}
        found = and_nmf(X.T, A0, random_state=seed, **options)
        if not found.weights.any():
            warn(
                "no sample has a weight above its feature's threshold, so the features are those of the start; lower "
                f"noise_multiple (now {self.noise_multiple:g}; the noise has deviation {found.noise:.1e}), or give a "
                "better init",
                ConvergenceWarning,
            )
        elif self.tol > 0 and not found.converged:
            warn(
                f"the features still changed by {found.history[-1]:.1e} in stage {found.n_iter} (tolerance "
                f"{self.tol:g}); raise max_iter or tol, or treat the result as preliminary",
                ConvergenceWarning,
            )
        self.components_, self.threshold_, self.noise_ = found.features.T.copy(), found.threshold, found.noise
        self.converged_, self.history_, self.n_iter_ = found.converged, found.history, found.n_iter
        Z = found.weights.T
        self.reconstruction_err_ = _distance(X, Z, self.components_)
        return Z


@dataclass(eq=False, repr=False)
class SPA(_Features):
    r"""Nonnegative factorisation of separable data: the features are samples, found by successive projection.

    .. math:: X \approx Z\, W^\top, \quad Z \ge 0

    Parameters
    ----------
    n_components
        Features; None takes the rank of X.  If the rank is lower, fewer are found.
    scale
        ``"sum"`` divides every sample by its sum before the search, for nonnegative samples of different sizes;
        ``"counts"`` also shrinks samples with few counts towards the mean; None takes samples as they are.
    denoise
        ``"svd"`` restricts the search to the leading singular directions.
    average
        Most samples that are averaged for each feature; only those that point in its direction are used.

    Attributes
    ----------
    components_ : array (D, W)
        The features: samples, scaled as requested, or means of several.
    indices_ : array (D,)
        The sample at which each was found.
    reconstruction_err_ : float
        ‖X - Z C‖ (Frobenius), C being ``components_``.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.nmf_estimators import SPA
    >>> SPA(2).fit_transform(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])).round(6)
    array([[0.      , 1.      ],
           [0.333333, 0.5     ],
           [1.      , 0.      ]])
    """

    n_components: int | None = None
    _: KW_ONLY
    scale: Literal["sum", "counts"] | None = None
    denoise: Literal["svd"] | None = None
    average: int = 1

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the samples of ``X`` (n, W) of which all others are mixtures; ``y`` is not used."""
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        found = vertices(
            X.T,
            min(X.shape) if self.n_components is None else whole("n_components", self.n_components),
            scale=self.scale,
            denoise=self.denoise,
            average=self.average,
        )
        self.components_, self.indices_ = found.columns.T.copy(), found.indices
        self.reconstruction_err_ = _distance(X, self.transform(X), self.components_)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the weights (n, D) by nonnegative least squares."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return nonnegative_least_squares(self.components_.T, X.T).T


def _distance(X: Any, Z: Floats, components: Floats) -> float:
    """Return ‖X - Z A‖, for a sparse X without a dense copy: ‖X‖² - 2 ⟨X Aᵀ, Z⟩ + ⟨Zᵀ Z, A Aᵀ⟩."""
    if not hasattr(X, "tocsr"):
        return float(np.linalg.norm(X - Z @ components))
    square = float(X.multiply(X).sum()) - 2.0 * float(np.vdot(X @ components.T, Z))
    return float(np.sqrt(max(square + float(np.vdot(Z.T @ Z, components @ components.T)), 0.0)))
