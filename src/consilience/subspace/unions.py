r"""The subspaces of clusters: bases, dimensions, centroids and coordinates (thesis, (2.2)-(2.7)).

.. math:: x = C_k \psi + \mu_k + v, \qquad C_k^\top C_k = I, \qquad \psi = C_k^\top (x - \mu_k)

Given the clusters, (2.4) is a PCA of each one (2.5).  Given the subspaces, the best cluster of a sample is the one with
the smallest residual.  Alternating between the two is K-subspaces, a k-means for subspaces (2.6); no step of it raises
(2.4).

======= ============================ ======================
symbol  name                         shape
======= ============================ ======================
C_k     ``bases[k]``, columns        (D, d_k)
μ_k     ``centroids[k]``             (D,), 0 if linear
d_k     ``dimensions[k]``            ..
ψ       :func:`coordinates`          (samples of k, d_k)
..      ``lengths[k]``               (d_k,) singular values
======= ============================ ======================

Dimensions are chosen among a few candidates.  The first maximises the likelihood of probabilistic PCA with the penalty
of BIC: with the eigenvalues :math:`e_j` of the covariance of n samples and :math:`\sigma^2` the mean of those after the
first d,

.. math:: -\frac{n}{2} \Big[ \sum_{j \le d} \log e_j + (D - d) \log \sigma^2 \Big] - \frac{\log n}{2}
          \Big( D d - \frac{d (d - 1)}{2} \Big) .

If n < D, then D is n: so few samples span n directions, and zeros would pass for small noise.  It finds the dimension
if noise is the same in all features.  If it is not (pixels at the border are always 0), BIC takes nearly all
directions, and everything is near every subspace.  So half of the samples check: the others fit subspaces by BIC and by
shares of the variance, and if BIC returns clearly fewer samples to their cluster, the best share decides.

M. Tipping and C. Bishop, "Probabilistic principal component analysis", J. R. Stat. Soc. B 61 (1999); P. Bradley and
O. Mangasarian, "k-plane clustering", J. Global Optimization 16 (2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.exceptions import DataWarning, warn
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Subspaces", "coordinates", "fit_subspaces", "k_subspaces", "rows_for_subspaces"]

#: Samples of a cluster from which its subspace is fitted; a basis needs a few times its dimension.
_ENOUGH = 2000
#: Samples whose residuals are computed at once.
_ROWS = 1 << 13
#: Eigenvalues below this share of the largest are rounding.
_ROUNDING = 1e-12
#: Candidate shares of the variance, and by how many standard errors they must be better than BIC.
#: sensitivity: from 1 to 3 standard errors, half of the faces, digits and pictures of people go to their class equally
#: often (0.946, 0.951, 0.885); with 4, digits 0.918 and people 0.82.
_SHARES, _CLEARLY = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6), 3.0


@dataclass(frozen=True, eq=False)
class Subspaces:
    """One subspace per cluster."""

    bases: tuple[Floats, ...]  #: (D, d_k) each, orthonormal columns
    centroids: Floats  #: (K, D)
    lengths: tuple[Floats, ...]  #: (d_k,) each: singular values of the samples seen so far
    counts: Ints  #: (K,) samples seen so far
    affine: bool

    @property
    def dimensions(self) -> Ints:
        """d_k, (K,)."""
        return np.array([basis.shape[1] for basis in self.bases], np.int64)

    def residuals(self, X: Any) -> Floats:
        """Return the squared distance of each sample to each subspace, (N, K); empty clusters are infinitely far."""
        squares = np.full((X.shape[0], len(self.bases)), np.inf)
        for start in range(0, X.shape[0], _ROWS):
            block = dense(X[start : start + _ROWS]).astype(np.float64, copy=False)
            for k in np.flatnonzero(self.counts):
                centred = block - self.centroids[k]
                # ‖x - μ‖² - ‖Cᵀ (x - μ)‖²
                inside = centred @ self.bases[k]
                squares[start : start + len(block), k] = np.maximum(
                    np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", inside, inside), 0.0
                )
        return squares

    def nearest(self, X: Any) -> Ints:
        """Return the cluster of the smallest residual of each sample, (N,)."""
        return np.asarray(self.residuals(X).argmin(axis=1), np.int64)

    def nearest_of_nonzero(self, X: Any, features: Any) -> Ints:
        """Return the nearest clusters; samples without a nonzero feature are as near to all, and go to the largest."""
        chosen = self.nearest(X)
        there = abs(features) if hasattr(features, "tocsr") else np.abs(np.nan_to_num(features))
        blank = np.asarray(there.sum(axis=1)).ravel() == 0
        if blank.any() and not self.affine:
            warn(
                f"{int(blank.sum())} of {len(blank)} samples are zero or without any observed entry, and go to the "
                "largest cluster",
                DataWarning,
            )
            chosen[blank] = self.counts.argmax()
        return chosen

    def truncated(self, dimensions: Ints) -> Subspaces:
        """Return the first directions of each subspace."""
        bases = tuple(np.ascontiguousarray(basis[:, :d]) for basis, d in zip(self.bases, dimensions, strict=True))
        lengths = tuple(length[:d] for length, d in zip(self.lengths, dimensions, strict=True))
        return Subspaces(bases, self.centroids, lengths, self.counts, self.affine)

    def take(self, order: Ints) -> Subspaces:
        """Return the clusters in another order."""
        picked = [tuple(each[k] for k in order) for each in (self.bases, self.lengths)]
        return Subspaces(picked[0], self.centroids[order], picked[1], self.counts[order], self.affine)

    def updated(self, X: Any, labels: Ints) -> Subspaces:
        """Return the subspaces after more samples: an incremental PCA of every cluster, of the same dimension."""
        bases, lengths, centroids = list(self.bases), list(self.lengths), self.centroids.copy()
        counts = self.counts + np.bincount(labels, minlength=len(bases))
        for k in np.unique(labels):
            new = dense(X[labels == k]).astype(np.float64, copy=False)
            stack = [lengths[k][:, None] * bases[k].T]
            if self.affine:
                mean = new.mean(axis=0)
                n, m = int(self.counts[k]), len(new)
                # scatter about the common mean: within old, within new, and between the two means
                stack.append(np.sqrt(n * m / (n + m)) * (mean - centroids[k])[None])
                centroids[k] += (mean - centroids[k]) * (m / (n + m))
                new = new - mean
            _, s, Vt = np.linalg.svd(np.concatenate([*stack, new]), full_matrices=False)
            d = max(bases[k].shape[1], 1)
            bases[k], lengths[k] = Vt[:d].T, s[:d]
        return Subspaces(tuple(bases), centroids, tuple(lengths), counts, self.affine)


def dense(X: Any) -> Any:
    """Return a block of samples as an array."""
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def rows_for_subspaces(labels: Ints, n_clusters: int) -> Ints:
    """Return the samples from which subspaces are fitted: at most 2000 of each cluster, drawn with a fixed seed."""
    rng, rows = np.random.default_rng(0), []
    for k in range(n_clusters):
        own = np.flatnonzero(labels == k)
        rows.append(own if own.size <= _ENOUGH else rng.choice(own, _ENOUGH, replace=False))
    return np.sort(np.concatenate(rows))


def fit_subspaces(
    X: Any, labels: Ints, n_clusters: int, *, affine: bool = False, dimensions: int | Ints | None = None
) -> Subspaces:
    """Fit one subspace to each cluster (2.5).

    Parameters
    ----------
    X
        Samples (N, D), dense or scipy sparse, without missing entries.
    labels
        Clusters, (N,).
    n_clusters
        K.
    affine
        Whether subspaces have a centroid; otherwise they pass through the origin.
    dimensions
        One dimension, or one per cluster; None chooses them.
    """
    if dimensions is None:
        dimensions = _chosen_dimensions(X, labels, n_clusters, affine)
    return _all_directions(X, labels, n_clusters, affine).truncated(np.broadcast_to(dimensions, n_clusters))


def _all_directions(X: Any, labels: Ints, n_clusters: int, affine: bool) -> Subspaces:
    """Return all principal directions of each cluster."""
    bases, lengths, centroids = [], [], np.zeros((n_clusters, X.shape[1]))
    for k in range(n_clusters):
        own = dense(X[labels == k]).astype(np.float64, copy=False)
        if affine and len(own):
            centroids[k] = own.mean(axis=0)
            own = own - centroids[k]
        basis, length = _principal(own)
        bases.append(basis)
        lengths.append(length)
    counts = np.bincount(labels, minlength=n_clusters)
    return Subspaces(tuple(bases), centroids, tuple(lengths), counts, affine)


def _chosen_dimensions(X: Any, labels: Ints, n_clusters: int, affine: bool) -> Ints:
    """Return the dimensions by BIC, or by the share of variance with which clearly more of a half are right."""
    order = np.random.default_rng(0).permutation(len(labels))
    # every other sample of each cluster
    half = np.zeros(len(labels), bool)
    for k in range(n_clusters):
        half[order[labels[order] == k][::2]] = True
    asked = np.flatnonzero(~half)
    full = _all_directions(X[np.flatnonzero(half)], labels[half], n_clusters, affine)
    D, n = X.shape[1], full.counts - affine
    squares = [length**2 for length in full.lengths]
    choices = [np.array([_by_bic(each / max(m, 1), D, m) for each, m in zip(squares, n, strict=True)], np.int64)]
    choices += [np.array([_by_share(each, share) for each in squares], np.int64) for share in _SHARES]
    if not asked.size:
        return choices[0]
    right = np.array([full.truncated(each).nearest(X[asked]) == labels[asked] for each in choices], np.float64)
    best = int(right.sum(axis=1).argmax())
    gain = right[best] - right[0]
    return choices[best if gain.mean() > _CLEARLY * gain.std() / np.sqrt(asked.size) else 0]


def _by_share(values: Floats, share: float) -> int:
    return int(np.searchsorted(np.cumsum(values) / values.sum(), share - 1e-9) + 1) if values.size else 0


def _by_bic(values: Floats, D: int, n: int) -> int:
    D = min(D, n)
    d = np.arange(1, min(values.size, D - 1) + 1)
    if not d.size:
        return int(values.size)
    rest = np.maximum(values.sum() - np.cumsum(values)[: d.size], 0.0)
    noise = np.maximum(rest / (D - d), values[0] * _ROUNDING)
    fit = -0.5 * n * (np.cumsum(np.log(values))[: d.size] + (D - d) * np.log(noise))
    return int(d[(fit - 0.5 * np.log(max(n, 2)) * (D * d - d * (d - 1) / 2)).argmax()])


def _principal(X: Floats) -> tuple[Floats, Floats]:
    """Return the principal directions (D, rank) and singular values of centred samples, descending."""
    N, D = X.shape
    if N == 0 or not X.any():
        return np.zeros((D, 0)), np.zeros(0)
    wide = N < D
    squares, V = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    order = np.argsort(-squares)
    order = order[squares[order] > squares.max() * _ROUNDING * max(N, D)]
    V, s = V[:, order], np.sqrt(squares[order])
    return (X.T @ V) / s if wide else V, s


def coordinates(X: Any, labels: Ints, subspaces: Subspaces) -> list[Floats]:
    """Return ψ = Cᵀ (x - μ) of the samples of each cluster, in their order: arrays (samples of k, d_k)."""
    return [(dense(X[labels == k]) - subspaces.centroids[k]) @ basis for k, basis in enumerate(subspaces.bases)]


def k_subspaces(X: Any, labels: Ints, subspaces: Subspaces, max_iter: int) -> tuple[Ints, Subspaces, list[float]]:
    """Alternate between clusters and subspaces of fixed dimensions; return both and (2.4) after each assignment.

    A cluster that loses all samples keeps its subspace.
    """
    history: list[float] = []
    dimensions = subspaces.dimensions
    for _ in range(max_iter):
        squares = subspaces.residuals(X)
        new = squares.argmin(axis=1)
        history.append(float(squares[np.arange(len(new)), new].sum()))
        if np.array_equal(new, labels) and len(history) > 1:
            break
        labels = new
        fitted = fit_subspaces(X, labels, len(dimensions), affine=subspaces.affine, dimensions=dimensions)
        kept = fitted.counts > 0
        subspaces = Subspaces(
            tuple(a if keep else b for a, b, keep in zip(fitted.bases, subspaces.bases, kept, strict=True)),
            np.where(kept[:, None], fitted.centroids, subspaces.centroids),
            tuple(a if keep else b for a, b, keep in zip(fitted.lengths, subspaces.lengths, kept, strict=True)),
            np.where(kept, fitted.counts, subspaces.counts),
            subspaces.affine,
        )
    return labels, subspaces, history
