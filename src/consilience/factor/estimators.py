"""SymNMF as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import ConvergenceWarning, warn
from consilience.factor.square_root import as_symmetric, square_root
from consilience.factor.symnmf import rotate
from consilience.kernels._arrays import Floats
from consilience.validation import numpy_seed, whole

__all__ = ["SymNMF"]


@dataclass(eq=False, repr=False)
class SymNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Symmetric nonnegative matrix factorisation by a rotated square root.

    .. math:: X \approx H H^\top, \quad H \ge 0

    X is a symmetric matrix of similarities, nonnegative up to noise: co-occurrences, a kernel, an adjacency matrix.
    For a table of rows and features, pass ``X @ X.T``.

    Parameters
    ----------
    n_components
        Columns of H; None takes as many as X has, like scikit-learn's NMF.
    alpha
        Threshold below which entries count as zero, as a share of the largest entry of the square root.
    decay
        Let the threshold fall as ``decay ** (t + 1)`` instead of keeping it at ``alpha``.
    n_init
        Number of starts: the identity, then random rotations.  The best result is kept.
    max_iter, tol
        Iterations, and the relative change of the objective in one of them that ends them (0: run all).
    random_state
        Seed of the random rotations.

    Attributes
    ----------
    H_ : array (J, K)
        The nonnegative factor.
    components_ : array (K, J)
        Its transpose, as in scikit-learn's NMF.
    rotation_ : array (K, K)
        The rotation Q that takes the square root of X to H.
    reconstruction_err_ : float
        ‖X - H Hᵀ‖ (Frobenius).
    converged_ : bool
        Whether the tolerance was met.
    history_ : list of float
        The objective ‖max(U Q, 0) - U Q‖² after every iteration.
    n_iter_ : int
        Iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.estimators import SymNMF
    >>> friends = np.kron(np.diag([4.0, 1.0]), np.ones((2, 2)))
    >>> SymNMF(2).fit_transform(friends).round(6)
    array([[2., 0.],
           [2., 0.],
           [0., 1.],
           [0., 1.]])
    """

    n_components: int | None = None
    _: KW_ONLY
    alpha: float = 1e-6
    decay: float | None = None
    n_init: int = 10
    max_iter: int = 500
    tol: float = 1e-8
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Factor the symmetric matrix ``X``; ``y`` is not used."""
        X = as_symmetric(validate_data(self, X, dtype=np.float64))
        U = square_root(X, len(X) if self.n_components is None else whole("n_components", self.n_components))
        names = "alpha", "decay", "max_iter", "tol"
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        seed = numpy_seed(self.random_state)
        found = rotate(U, starts=whole("n_init", self.n_init), random_state=seed, **options)
        if self.tol > 0 and not found.converged:
            warn(
                f"the rotation did not converge in {found.n_iter} iterations (relative tolerance {self.tol:g}); "
                "raise max_iter, or treat the result as preliminary",
                ConvergenceWarning,
            )
        self.H_, self.components_, self.rotation_ = found.H, found.H.T, found.Q
        self.reconstruction_err_ = float(np.linalg.norm(X - found.H @ found.H.T))
        self.converged_, self.history_, self.n_iter_ = found.converged, found.history, found.n_iter
        self._map = _out_of_sample(U) @ found.Q
        share = self.alpha if self.decay is None else self.decay**found.n_iter
        self._threshold = share * float(np.abs(U).max())
        return self

    def transform(self, X: Any) -> Floats:
        """Return the nonnegative coordinates of new rows from their similarities ``X`` (rows, J) to the fitted rows."""
        check_is_fitted(self, "H_")
        Z = validate_data(self, X, dtype=np.float64, reset=False) @ self._map
        H: Floats = np.where(self._threshold <= Z, Z, 0.0)
        return H

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Factor ``X`` and return H."""
        H: Floats = self.fit(X, y).H_
        return H

    @property
    def _n_features_out(self) -> int:
        return int(self.H_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        return tags


def _out_of_sample(U: Floats) -> Floats:
    """Return the map from similarities to rows of the square root, U (Uᵀ U)⁻¹ (Nyström); X times it is U.

    The columns of U are orthogonal, so Uᵀ U is diagonal.
    """
    length = np.einsum("jk,jk->k", U, U)
    known = length > length.max() * len(U) * np.finfo(np.float64).eps
    return U * np.where(known, 1.0 / np.where(known, length, 1.0), 0.0)
