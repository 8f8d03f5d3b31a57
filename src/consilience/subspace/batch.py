r"""The batch methods of subspace clustering: every sample is represented by all others (thesis, (2.9)-(2.11)).

::

    X ─ codes ─> Z (N, N) ─ |Z| + |Z|ᵀ ─> W ─ eigenvectors ─> V ─ k-means ─> labels ─ PCA ─> subspaces

They take time and memory of order N² or more.  :class:`~consilience.SketchedSubspaceClustering` is for more samples;
this class is there to compare it with.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import ConsilienceWarning, DataError
from consilience.kernels._arrays import Ints
from consilience.subspace.embedding import cluster_embedding, spectral_embedding
from consilience.subspace.encoding import FitNorm, Representation, ridge_lams
from consilience.subspace.graph import affinity_from_codes
from consilience.subspace.lrr import lrr
from consilience.subspace.lsr import default_lam, lsr
from consilience.subspace.ssc import ssc
from consilience.subspace.unions import fit_subspaces
from consilience.validation import number, one_of, whole, whole_seed

__all__ = ["SubspaceClustering"]

#: Samples beyond which the N × N codes do not fit in memory on most machines.
_MOST = 30_000
#: α of the candidate λ of sparse codes: Elhamifar and Vidal's, and one for more noise.
_ALPHAS = 800.0, 20.0


@dataclass(eq=False, repr=False)
class SubspaceClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    r"""Cluster samples near a union of subspaces by representing each by all others.

    Parameters
    ----------
    n_clusters
        K.
    representation
        ``"ssc"``, sparse (2.9); ``"lrr"``, of low rank (2.10); or ``"lsr"``, least squares (2.11).
    lam
        λ, the weight of the fit.  None chooses the one of a few values with the smallest normalised cut.
    affine
        Whether subspaces have centroids; codes of ``"ssc"`` then sum to one.
    fit_norm
        For ``"lrr"``: ``"frobenius"`` or ``"l21"``.
    max_iter, tol
        Of the solver.
    random_state
        Seed of k-means.

    Attributes
    ----------
    labels_ : array (N,)
        Clusters, numbered in the order of their first samples.
    codes_ : array (N, N)
        Z; row i is the code of sample i.
    affinity_matrix_ : sparse array (N, N)
        ``|Z| + |Z|ᵀ``, rows scaled by their largest entry.
    bases_, centroids_, dimensions_
        As in :class:`consilience.SketchedSubspaceClustering`.
    lam_, n_iter_ : float, int
        The λ used, and the steps of the solver (1 for a closed form).

    Examples
    --------
    >>> import consilience as cs
    >>> from consilience.datasets.subspaces import simulate_subspaces
    >>> drawn = simulate_subspaces(200, 30, 3, 3, noise=0.1)
    >>> labels = cs.SubspaceClustering(3, representation="ssc").fit_predict(drawn.data)
    >>> len({(int(a), int(b)) for a, b in zip(labels, drawn.truth)})
    3
    """

    n_clusters: int = 8
    _: KW_ONLY
    representation: Representation = "ssc"
    lam: float | None = None
    affine: bool = False
    fit_norm: FitNorm = "frobenius"
    max_iter: int = 5000
    tol: float = 1e-4
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples ``X`` (N, D); ``y`` is not used."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        N = len(X)
        if N > _MOST:
            raise DataError(
                f"{N} samples have codes with {N}² entries; use SketchedSubspaceClustering, or at most {_MOST} samples"
            )
        K, seed = self._check(N)
        trials = [self._trial(X, lam, K, seed) for lam in self._lams(X)]
        best = int(np.argmin([embedding.values.sum() for *_, embedding in trials]))
        self.lam_ = float(self._lams(X)[best])
        self.codes_, self.n_iter_, self.affinity_matrix_, embedding = trials[best]
        self.embedding_, self.eigenvalues_ = embedding.vectors, embedding.values
        self.labels_, _ = cluster_embedding(embedding, K, seed)
        self._subspaces_ = fit_subspaces(X, self.labels_, K, affine=self.affine)
        self.bases_, self.centroids_ = list(self._subspaces_.bases), self._subspaces_.centroids
        self.dimensions_ = self._subspaces_.dimensions
        return self

    def predict(self, X: Any) -> Ints:
        """Return the cluster with the nearest subspace of each new sample."""
        check_is_fitted(self, "labels_")
        return self._subspaces_.nearest(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _check(self, N: int) -> tuple[int, int]:
        K = whole("n_clusters", self.n_clusters, N, "(samples)")
        one_of("representation", self.representation, get_args(Representation))
        one_of("fit_norm", self.fit_norm, get_args(FitNorm))
        number("lam", self.lam, none=True)
        number("tol", self.tol, zero=True)
        whole("max_iter", self.max_iter)
        return K, whole_seed(self.random_state)

    def _lams(self, X: Any) -> tuple[float, ...]:
        if self.lam is not None:
            return (self.lam,)
        if self.representation == "ssc":
            return tuple(default_lam(X, None, alpha) for alpha in _ALPHAS)
        lams = ridge_lams(X)
        if self.representation == "lrr" and self.fit_norm == "l21":
            from consilience.subspace.selection import robust_lam

            return tuple(robust_lam(X, X, lam) for lam in lams)
        return lams

    def _trial(self, X: Any, lam: float, K: int, seed: int) -> Any:
        """Return codes, steps of the solver, affinity and eigenvectors of one λ."""
        solver: Any = {"max_iter": self.max_iter, "tol": self.tol, "return_n_iter": True}
        if self.representation == "lsr":
            Z, n_iter = lsr(X, None, lam), 1
        elif self.representation == "lrr":
            Z, n_iter = lrr(X, None, lam, fit=self.fit_norm, **solver)
        else:
            Z, n_iter = ssc(X, None, lam, affine=self.affine, **solver)
        W = affinity_from_codes(Z)
        with warnings.catch_warnings():  # sparse codes leave small components; k-means assigns them
            warnings.simplefilter("ignore", ConsilienceWarning)
            return Z, max(n_iter, 1), W, spectral_embedding(W, K, seed)
