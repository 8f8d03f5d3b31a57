r"""One clustering from many, whose labels and numbers of clusters differ (thesis, 5.2.2).

Clustering m puts item i into one of its K_m clusters.  Its numbers mean nothing, but whether two items are together
does.  With the true clusters y and :math:`\Gamma_m(l, k) = \Pr(\text{cluster } l \text{ of } m \mid y = k)`, (K_m, K),

.. math:: \Pr([A_m]_{ij} = 1 \mid y_i = k, y_j = k') = [\Gamma_m^\top \Gamma_m]_{k k'} ,

the decomposition that the thesis asks for: confusions need not be square, and no labels have to be matched.  The joint
distribution of all clusterings is a mixture of K products (:mod:`consilience.pmf.em`, where missing entries are left
out).  EM needs a start: spectral clustering of the co-association matrix :math:`\sum_m A_m`.  Its eigenvectors are the
left singular vectors of the N × Σ K_m indicators, divided by the roots of the degrees, so nothing of size N × N is
made.

A. Topchy, A. Jain and W. Punch, "Clustering ensembles: models of consensus and weak partitions", IEEE Transactions on
Pattern Analysis and Machine Intelligence 27 (2005), have the mixture; X. Fern and C. Brodley (ICML 2004) the graph.

====== ==================== =====================
symbol name                 shape
====== ==================== =====================
..     ``codes``            (N, M), -1 if missing
Γ_m    ``confusions_[m]``   (K_m, K)
====== ==================== =====================
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from consilience.data import frames as _frames
from consilience.exceptions import ConvergenceWarning, DataError, warn
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.pmf.columns import encode_column
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.em import run_cpd_em
from consilience.subspace.embedding import cluster_embedding, in_order
from consilience.validation import number, whole, whole_seed

__all__ = ["EnsembleClustering", "co_association_clusters"]

#: Pseudo-items of each cluster, spread as all items are: a small cluster must not exclude a label for ever.
_SMOOTHING = 1.0
#: Weight of the start in its own cluster; the rest is spread evenly, because EM cannot leave a probability of 0.
_SURE = 0.9


@dataclass(eq=False, repr=False)
class EnsembleClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Combine clusterings of the same items into one.

    Parameters
    ----------
    n_clusters
        K, the clusters of the result.
    max_iter, tol
        Passes of EM, and the relative change of the objective that ends them.
    random_state
        Seed of the start.

    Attributes
    ----------
    labels_ : array (N,)
        Clusters, numbered in the order of their first items.
    probas_ : array (N, K)
        Their probabilities.
    confusions_ : list of M arrays (K_m, K)
        Pr(cluster of m | cluster of the result).
    information_ : array (M,)
        What a clustering says about the result, as a share of what there is to know (normalised mutual information):
        1 repeats it, 0 is unrelated.
    start_ : array (N,)
        The start, spectral clustering of the co-association matrix.
    converged_, history_, n_iter_
        Of EM.

    Examples
    --------
    >>> import consilience as cs
    >>> partitions = [[0, 0], [0, 0], [0, 2], [1, 1], [1, 1], [1, 1]]
    >>> cs.EnsembleClustering(2).fit_predict(partitions)
    array([0, 0, 0, 1, 1, 1])
    """

    n_clusters: int = 8
    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Combine the clusterings ``X``, a matrix or frame of N items × M clusterings; NaN, None or -1 is missing."""
        codes, sizes = _coded(X)
        N, M = codes.shape
        K = whole("n_clusters", self.n_clusters, N, "(items)")
        number("tol", self.tol, zero=True)
        whole("max_iter", self.max_iter)
        self.n_features_in_ = M
        self.start_ = co_association_clusters(codes, sizes, K, whole_seed(self.random_state))
        q = np.full((N, K), (1.0 - _SURE) / K)
        q[np.arange(N), self.start_] += _SURE
        found = run_cpd_em(
            codes, sizes, *_m_step(codes, sizes, q), smoothing=_SMOOTHING, max_iter=self.max_iter, tol=self.tol
        )
        self.converged_, self.history_, self.n_iter_ = found.converged, found.history, len(found.history)
        if not found.converged and self.tol:
            warn(f"EM did not converge in {self.max_iter} passes; raise max_iter or tol", ConvergenceWarning)
        weights, stacked = found.latest
        probas = CPD(weights, split_factors(stacked, sizes)).posterior(codes)
        self.labels_, order = in_order(probas.argmax(axis=1).astype(np.int64), K)
        self.probas_ = np.ascontiguousarray(probas[:, order])
        self.confusions_ = [np.ascontiguousarray(each[:, order]) for each in split_factors(stacked, sizes)]
        self.information_ = np.array([_information(each, weights[order]) for each in self.confusions_])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True  # columns hold names of clusters, of any kind
        tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def co_association_clusters(codes: Codes, sizes: list[int], n_clusters: int, seed: int = 0) -> Ints:
    """Return the clusters (N,) of spectral clustering of the co-association matrix of coded clusterings (N, M)."""
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import svds

    N = len(codes)
    row, column = np.nonzero(codes >= 0)
    offset = np.concatenate([[0], np.cumsum(sizes)])
    H = csr_array((np.ones(row.size), (row, offset[column] + codes[row, column])), shape=(N, int(offset[-1])))
    # degree of an item in Σ_m A_m = H Hᵀ
    degree = H @ np.asarray(H.sum(axis=0)).ravel()
    B = diags_array(1.0 / np.sqrt(np.maximum(degree, 1.0))) @ H
    if n_clusters < min(B.shape) and min(B.shape) > 200:
        vectors = svds(B, n_clusters, v0=np.random.default_rng(seed).standard_normal(min(B.shape)))[0]
    else:
        vectors = np.linalg.svd(B.toarray(), full_matrices=False)[0][:, :n_clusters]
    labels, _ = cluster_embedding(vectors, n_clusters, seed)
    return labels


def _coded(X: Any) -> tuple[Codes, list[int]]:
    """Return each clustering as codes from 0, -1 if missing, and the numbers of clusters."""
    if _frames.is_frame(X):
        import narwhals as nw

        table = nw.from_native(X, eager_only=True)
        columns = [(name, table[name].to_numpy()) for name in table.columns]
    else:
        if hasattr(X, "tocsr"):
            raise DataError("clusterings must be a dense matrix of items × clusterings, not a sparse one")
        matrix = np.asarray(X)
        if matrix.ndim != 2 or not matrix.size:
            raise DataError(f"clusterings must be a matrix of items × clusterings, not of shape {matrix.shape}")
        columns = [(str(m), column) for m, column in enumerate(matrix.T)]
    codes, sizes = [], []
    for name, column in columns:
        if column.dtype.kind in "if":
            column = np.where(column == -1, np.nan, column.astype(np.float64))
        coded, values = encode_column(column, None, name)
        if not (coded >= 0).any():
            raise DataError(f"clustering {name!r} has no item; remove it")
        codes.append(np.asarray(coded, np.int64))
        sizes.append(len(values))
    return np.column_stack(codes), sizes


def _m_step(codes: Codes, sizes: list[int], q: Floats) -> tuple[Floats, Floats]:
    """Return weights (K,) and stacked factors (Σ K_m, K) of a posterior."""
    factors = []
    for m, size in enumerate(sizes):
        there = codes[:, m] >= 0
        counts = np.zeros((size, q.shape[1]))
        np.add.at(counts, codes[there, m], q[there])
        counts += _SMOOTHING / size
        factors.append(counts / counts.sum(axis=0))
    return q.mean(axis=0), np.concatenate(factors)


def _information(confusion: Floats, prior: Floats) -> float:
    joint = confusion * prior
    own = joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = float(np.where(joint > 0, joint * np.log(joint / (own * prior)), 0.0).sum())
        entropies = [-float(np.where(p > 0, p * np.log(p), 0.0).sum()) for p in (own, prior)]
    return shared / float(np.sqrt(entropies[0] * entropies[1])) if min(entropies) > 0 else 0.0
