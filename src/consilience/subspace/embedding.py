r"""Spectral clustering of a sparse graph: eigenvectors of the normalised Laplacian, then k-means.

This is line 3 of the thesis' Alg. 2.3.

.. math:: L = I - M, \qquad M = D^{-1/2}\, W\, D^{-1/2}, \qquad D = \mathrm{diag}(W 1)

(The thesis prints the plain Laplacian (2.8) and refers to von Luxburg (2007), who recommends the normalised one.)  The
eigenvectors of the K smallest eigenvalues of L are those of the K largest of M.

====== ================ =================================================
symbol name             shape
====== ================ =================================================
W      ``W``            (N, N), sparse, symmetric, nonnegative
V      ``vectors``      (N, K), orthonormal
..     ``values``       (K,), eigenvalues of L, rising from 0
K      ``n_clusters``   ..
====== ================ =================================================

Each component of the graph has the eigenvalue 0 of L once, with a known eigenvector: the square roots of the degrees on
the component.  Solvers find repeated eigenvalues slowly or not at all, so these are written down, and the solver finds
the others in their orthogonal complement.  With as many components as clusters nothing is left to solve.

A. Damle, V. Minden and L. Ying, "Simple, direct and efficient multi-way spectral clustering", Information and Inference
8 (2019).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, warn
from consilience.kernels._arrays import Floats, Ints
from consilience.validation import whole

__all__ = ["Embedding", "cluster_embedding", "in_order", "spectral_embedding"]

#: Up to this many samples a dense solver is used, and up to the second if most eigenvectors are wanted.
_DENSE, _DENSE_MOST = 400, 5000
#: Residuals of eigenvectors, far below what affects k-means.
_TOLERANCE = 1e-5
#: Rows from which k-means finds its start, and its random starts.
_FEW_ROWS, _RANDOM_STARTS = 20_000, 3


class Embedding(NamedTuple):
    """Samples as rows of eigenvectors."""

    vectors: Floats  #: (N, K), columns of unit length
    values: Floats  #: (K,), their eigenvalues of the normalised Laplacian
    n_components: int  #: of the graph, isolated samples included
    converged: bool  #: whether the eigenvectors met the tolerance


def spectral_embedding(
    W: Any, n_clusters: int, random_state: int = 0, *, tol: float = _TOLERANCE, max_iter: int = 1000
) -> Embedding:
    """Return the eigenvectors of the ``n_clusters`` smallest eigenvalues of the normalised Laplacian of ``W``.

    If the graph has more components than clusters, those of the largest are returned, and the rows of all others are
    zero, with a DataWarning; :func:`consilience.subspace.graph.join_components` avoids it.

    Parameters
    ----------
    W
        Symmetric affinity (N, N), sparse; the diagonal is used as it is.
    n_clusters
        Eigenvectors K.
    random_state
        Seed of the start.
    tol, max_iter
        Residual of the eigenvectors, and restarts of the solver; running out is a ConvergenceWarning.
    """
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.csgraph import connected_components

    W = csr_array(W, dtype=np.float64)
    N = W.shape[0]
    if W.shape[1] != N:
        raise DataError(f"an affinity must be square, not {W.shape}")
    if W.nnz and not (np.isfinite(W.data).all() and W.data.min() >= 0):
        raise DataError("an affinity must be finite and ≥ 0")
    K = whole("n_clusters", n_clusters, N, "(samples)")
    if (W.data == 0).any():  # a stored zero would count as an edge
        W = W.copy()
        W.eliminate_zeros()
    count, component = connected_components(W, directed=False)
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = np.sqrt(degree)
    known = _indicators(root, component, count, min(K, count))
    if count > K:
        warn(
            f"the graph has {count} components, more than {K} clusters: only the largest become clusters; raise the "
            "number of neighbours, or join components",
            DataWarning,
        )
    values = np.zeros(K)
    if count >= K:
        return Embedding(known, values, count, True)
    scale = diags_array(np.divide(1.0, root, out=np.zeros(N), where=root > 0))
    M = csr_array(scale @ W @ scale)
    more, others, converged = _complement(M, known, K - count, random_state, tol, max_iter)
    if not converged:
        warn(
            f"the eigenvectors did not meet the tolerance {tol:g} in {max_iter} rounds; raise max_iter, or take the "
            "clusters as preliminary",
            ConvergenceWarning,
        )
    values[count:] = np.maximum(1.0 - more, 0.0)
    return Embedding(np.hstack([known, others]), values, count, converged)


def cluster_embedding(embedding: Embedding | Any, n_clusters: int, random_state: int = 0) -> tuple[Ints, Floats]:
    """Cluster the rows of an embedding, scaled to unit length, by k-means; return labels (N,) and centres (K, K).

    Rows of different clusters are nearly orthogonal, so K rows that are as orthogonal to each other as possible are a
    good start; QR with column pivoting of the transpose finds them (Damle, Minden & Ying 2019).  Where clusters
    overlap, outliers may be among them, so a few random starts are tried too, all on a subset of many rows.  Clusters
    are numbered in the order of their first samples.
    """
    from scipy.linalg import qr
    from sklearn.cluster import KMeans

    rows = unit_rows(embedding.vectors if isinstance(embedding, Embedding) else np.asarray(embedding, np.float64))
    if n_clusters == 1:
        return np.zeros(len(rows), np.int64), rows.mean(axis=0, keepdims=True)
    few = rows
    if len(rows) > _FEW_ROWS:
        rng = np.random.default_rng(random_state)
        few = rows[np.sort(rng.choice(len(rows), _FEW_ROWS, replace=False))]
    _, pivots = qr(few.T, mode="r", pivoting=True)
    known = KMeans(n_clusters, n_init=1, init=few[pivots[:n_clusters]]).fit(few)
    drawn = KMeans(n_clusters, n_init=_RANDOM_STARTS, random_state=random_state).fit(few)
    model = min(known, drawn, key=lambda found: found.inertia_)
    if few is not rows:
        model = KMeans(n_clusters, n_init=1, init=model.cluster_centers_).fit(rows)
    labels, order = in_order(model.labels_.astype(np.int64), n_clusters)
    return labels, model.cluster_centers_[order]


def in_order(labels: Ints, n_clusters: int) -> tuple[Ints, Ints]:
    """Number clusters in the order of their first samples, empty ones last; also return their old numbers."""
    used, first = np.unique(labels, return_index=True)
    order = np.concatenate([used[np.argsort(first)], np.setdiff1d(np.arange(n_clusters), used)])
    number = np.empty(n_clusters, np.int64)
    number[order] = np.arange(n_clusters)
    return number[labels], order


def unit_rows(vectors: Floats) -> Floats:
    """Scale rows to unit length; rows of zeros stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows: Floats = vectors / np.where(length > 0, length, 1.0)
    return rows


def _indicators(root: Floats, component: Ints, count: int, keep: int) -> Floats:
    """Return the eigenvectors of eigenvalue 1 of M on the ``keep`` largest components, larger ones first."""
    size = np.bincount(component, minlength=count)
    column = np.full(count, -1)
    column[np.argsort(-size, kind="stable")[:keep]] = np.arange(keep)
    where = column[component]
    inside = np.flatnonzero(where >= 0)
    vectors = np.zeros((len(root), keep))
    # An isolated sample has degree 0; its indicator is eigenvector of M with eigenvalue 0, of L = I - M with 1.
    # It still counts as a component.
    vectors[inside, where[inside]] = np.where(root[inside] > 0, root[inside], 1.0)
    vectors /= np.linalg.norm(vectors, axis=0)
    return vectors


def _complement(
    M: Any, known: Floats, n: int, random_state: int, tol: float, max_iter: int
) -> tuple[Floats, Floats, bool]:
    """Find the n largest eigenvalues of M, and their eigenvectors, orthogonal to the ``known`` ones."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    N = M.shape[0]
    many = known.shape[1] + 3 * n >= N
    if N <= _DENSE or (many and N <= _DENSE_MOST) or n >= N - 1:  # ARPACK cannot do the last; the result is N × N then
        # eigenvalues of M lie in [-1, 1]; the known vectors are moved below all others
        values, vectors = np.linalg.eigh(M.toarray() - 3.0 * (known @ known.T))
        return values[::-1][:n], vectors[:, ::-1][:, :n], True

    def apply(v: Floats) -> Floats:
        w: Floats = M @ v
        w -= 2.0 * (known @ (known.T @ v))  # eigenvalue 1 becomes -1
        return w

    start = np.random.default_rng(random_state).standard_normal(N)
    start -= known @ (known.T @ start)
    deflated = LinearOperator((N, N), matvec=apply, dtype=np.float64)
    try:
        values, vectors = eigsh(
            deflated, n, which="LA", v0=start, tol=tol, maxiter=max_iter, ncv=min(N - 1, max(2 * n + 10, 24))
        )
        converged = True
    except ArpackNoConvergence as stopped:
        values, vectors, converged = stopped.eigenvalues, stopped.eigenvectors, False
        if len(values) < n:  # missing eigenvectors become columns of zeros, which k-means ignores
            lacking = n - len(values)
            values, vectors = np.append(np.zeros(lacking), values), np.hstack([np.zeros((N, lacking)), vectors])
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order], converged
