"""Sketched subspace clustering, from samples to labels, as a scikit-learn clusterer (thesis, Algs 2.1-2.3).

::

    X ── sketch ──> B = Rᵀ X ── codes ──> Z ── neighbours ──> W ── eigenvectors ──> V ── k-means ──> labels

====== ======================== ==================================================
symbol name                     shape
====== ======================== ==================================================
X      ``X``                    (N, D), or (N, d) after reduction (Alg. 2.2)
B      ``dictionary_``          (n, D)
Z      ``codes_``               (N, min(n, D)), see :mod:`consilience.subspace.encoding`
W      ``affinity_matrix_``     (N, N), sparse
V      ``embedding_``           (N, K)
====== ======================== ==================================================
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from consilience.exceptions import ConsilienceWarning, DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.completion import dictionary_of, filled, totals
from consilience.subspace.encoding import Encoder, Representation, make_encoder, ridge_lams
from consilience.subspace.graph import Weights
from consilience.subspace.graph_clusters import Callback, cluster_codes, default_n_neighbors, embed_codes, tell
from consilience.subspace.neighbours import Method, Similarity, nearest_neighbours
from consilience.subspace.sketches import SketchKind

__all__ = ["SketchedSubspaceClustering"]

#: Samples by which n and λ are chosen.
_SOME = 4096
#: As many of them choose λ where entries are missing, for every sample then has a system of its own.
_FEW = 1024


class SketchedSubspaceClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    r"""Clusters of samples that lie near a union of subspaces, in time of order N log N.

    Samples are written in a dictionary of n random mixtures of all samples, :math:`B = R^\top X`, instead of in all N
    samples; two samples are joined where their codes are among each other's nearest; eigenvectors of the
    graph give the clusters.  (Traganitis 2019, Algs 2.1-2.3.)

    Subspaces pass through the origin, and samples should be of similar length (scikit-learn's ``Normalizer``): the
    dictionary is made of sums of samples.

    Parameters
    ----------
    n_clusters
        K.
    representation
        ``"lsr"``, least squares (2.14), in closed form; ``"ssc"``, sparse (2.15); ``"lrr"``, of low rank (2.16).
    n_sketch
        n, the size of the dictionary.  None: twice the numerical rank, and a few.
    sketch
        ``"rademacher"``, ``"gaussian"``, ``"count"`` or ``"hadamard"``.
    lam
        λ, the weight of the fit beside the penalty of codes.  None takes, for ``"lsr"`` and ``"lrr"``, that of three
        values under which the graph of some samples falls apart best; for ``"ssc"``, 800 / μ of Elhamifar & Vidal
        (2013).
    n_features
        Reduce samples to so many features by a second sketch first (Alg. 2.2).
    n_neighbors
        k.  None: log2(N / K), from 5 to 15.
    weights
        Of edges of the graph: ``"binary"`` (2.19) or ``"heat"`` (2.20).
    neighbors
        ``"exact"``, ``"approximate"``, ``"pynndescent"`` or ``"auto"``; see
        :func:`~consilience.subspace.neighbours.mutual_neighbours`.
    similarity
        Of codes: ``"absolute"`` cosine, for a subspace has x with -x; ``"cosine"``, for affine subspaces; or
        ``"euclidean"``, as the thesis prints.
    max_iter, tol
        Steps and tolerance of the solver of ``"ssc"`` and ``"lrr"``; a ConvergenceWarning tells of codes that did not
        meet it.
    random_state
        Decides everything.
    callback
        Called with the name of each stage as it begins: ``"sketch"``, ``"codes"``, ``"graph"``, ``"embedding"``,
        ``"clusters"``.

    Attributes
    ----------
    labels_ : array (N,)
        Clusters, numbered in the order of their first samples.
    affinity_matrix_ : sparse array (N, N)
        The graph.
    dictionary_ : array (n, D)
        B.
    codes_ : array (N, min(n, D))
        Codes, in a space that has their distances.
    embedding_ : array (N, K)
        Eigenvectors of the normalised Laplacian.
    eigenvalues_ : array (K,)
        Its smallest eigenvalues.
    n_components_ : int
        Components of the graph.
    n_iter_ : int
        Steps of the solver, the slowest sample's; 1 for a closed form.
    lam_, n_sketch_, n_neighbors_ : float, int, int
        What was used where None was given.

    Examples
    --------
    >>> from consilience.datasets.subspaces import simulate_subspaces
    >>> from consilience.subspace.clustering import SketchedSubspaceClustering
    >>> drawn = simulate_subspaces(300, 30, 3, 4, noise=0.1)
    >>> model = SketchedSubspaceClustering(3, random_state=0).fit(drawn.data)
    >>> len({(int(a), int(b)) for a, b in zip(model.labels_, drawn.truth)})
    3
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        representation: Representation = "lsr",
        n_sketch: int | None = None,
        sketch: SketchKind = "rademacher",
        lam: float | None = None,
        n_features: int | None = None,
        n_neighbors: int | None = None,
        weights: Weights = "binary",
        neighbors: Method = "auto",
        similarity: Similarity = "absolute",
        max_iter: int = 5000,
        tol: float = 1e-4,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.representation = representation
        self.n_sketch = n_sketch
        self.sketch = sketch
        self.lam = lam
        self.n_features = n_features
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.neighbors = neighbors
        self.similarity = similarity
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples ``X`` (N, D), NaN being a missing entry; ``y`` is not used.

        A Dask array stays where its chunks are (:mod:`consilience.subspace.distributed`).
        """
        if _of_dask(X):
            from consilience.subspace.distributed import fit_distributed

            return fit_distributed(self, X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", ensure_min_samples=2)
        seed = _seed(self.random_state)
        tell(self.callback, "sketch")
        self._prepare(X.shape[0], X.shape[1], seed)
        X = self._reduced(X)
        some = X[some_rows(len(X))]
        if self.n_sketch is None:
            self.n_sketch_ = sketch_size(some)
        sketch = self._sketch(len(X))
        B = dictionary_of(lambda fill: sketch.apply(fill(X)), totals(X), some, len(X))
        tell(self.callback, "codes")
        gram = lam = None
        if self.representation == "ssc" and self.lam is None:
            lam = sparse_lam(X, B)
        if self.representation == "lrr":
            gram = gram_of(X)
        self._encoder_ = self._make_encoder(B, lam, gram, some, seed)
        Z, self.n_iter_ = self._encoder_.encode_counting(X)
        self._cluster(Z, seed)
        return self

    def predict(self, X: Any) -> Any:
        """Give the clusters of new samples: a vote of the k samples with the nearest codes, nearer ones counting more.

        The search is exact and takes time in proportion to N for each new sample.  Of a Dask array, the result is one.
        """
        check_is_fitted(self, "labels_")
        if _of_dask(X):
            from consilience.subspace.distributed import predict_distributed

            return predict_distributed(self, X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
        Z = self._encoder_.encode(self._reduced(X))
        k = min(self.n_neighbors_, len(self.codes_))
        found = nearest_neighbours(self.codes_, k, queries=Z, similarity=self.similarity)
        # from 2k votes of the nearest to k + 1 of the farthest: nearness decides where numbers are close
        votes: Floats = np.zeros((len(Z), self.n_clusters))
        rank = np.broadcast_to(2.0 * k - np.arange(k), found.indices.shape)
        np.add.at(votes, (np.arange(len(Z))[:, None], self.labels_[found.indices]), rank)
        labels: Ints = votes.argmax(axis=1)
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---- the steps, shared with the distributed run ---------------------------------------------------------

    def _prepare(self, N: int, D: int, seed: int) -> None:
        """Check what can be checked before the work, and settle what does not depend on the data."""
        K = _whole("n_clusters", self.n_clusters, N)
        self.n_neighbors_ = default_n_neighbors(N, K)
        if self.n_neighbors is not None:
            self.n_neighbors_ = _whole("n_neighbors", self.n_neighbors, N - 1)
        if self.n_sketch is not None:
            self.n_sketch_ = _whole("n_sketch", self.n_sketch, None)
        if self.lam is not None and not (np.isfinite(self.lam) and self.lam > 0):
            raise ParameterError(f"lam must be a number > 0 or None, not {self.lam!r}")
        self._reduction_: Floats | None = None
        self._sketch_seed_ = seed
        if self.n_features is not None:
            from consilience.subspace.sketches import make_sketch

            d = _whole("n_features", self.n_features, None)
            self._reduction_ = make_sketch(self.sketch, D, d, seed + 1).toarray()

    def _reduced(self, X: Any) -> Any:
        """X̌ = X Ř (Alg. 2.2, line 3)."""
        if np.isinf(X).any():
            raise DataError("samples must not be infinite; NaN is for missing entries")
        if self._reduction_ is None:
            return X
        if np.isnan(X).any():
            raise DataError("features cannot be mixed where entries are missing; leave n_features out")
        return X @ self._reduction_.astype(X.dtype)

    def _sketch(self, N: int) -> Any:
        from consilience.subspace.sketches import make_sketch

        return make_sketch(self.sketch, N, self.n_sketch_, self._sketch_seed_)

    def _make_encoder(self, B: Floats, lam: float | None, gram: Floats | None, some: Any, seed: int) -> Encoder:
        """Prepare the codes, with the λ whose graph of some samples falls apart best where none is given."""
        self.dictionary_ = B
        given = self.lam or lam
        lams = (given,) if given else ridge_lams(B)
        encoders = [
            make_encoder(B, self.representation, each, gram=gram, max_iter=self.max_iter, tol=self.tol) for each in lams
        ]
        chosen = encoders[0]
        if len(encoders) > 1:
            few = some if not np.isnan(some).any() else some[:: -(-len(some) // _FEW)]
            chosen = min(encoders, key=lambda encoder: self._cut(encoder.encode(few), seed))
        self.lam_ = chosen.lam
        return chosen

    def _cut(self, Z: Any, seed: int) -> float:
        """Σ of the K smallest eigenvalues of the Laplacian, the least normalised cut that K clusters could have."""
        with warnings.catch_warnings():  # what is wrong with a trial is no matter
            warnings.simplefilter("ignore", ConsilienceWarning)
            K = min(self.n_clusters, len(Z) - 1)
            k = min(self.n_neighbors_, default_n_neighbors(len(Z), K))
            _, embedding = embed_codes(
                Z, K, n_neighbors=k, weights=self.weights, similarity=self.similarity, random_state=seed
            )
        return float(embedding.values.sum())

    def _cluster(self, Z: Any, seed: int) -> None:
        found = cluster_codes(
            Z,
            self.n_clusters,
            n_neighbors=self.n_neighbors_,
            weights=self.weights,
            neighbors=self.neighbors,
            similarity=self.similarity,
            random_state=seed,
            callback=self.callback,
        )
        self.codes_ = Z
        self.labels_, self.affinity_matrix_ = found.labels, found.affinity
        self.embedding_, self.eigenvalues_ = found.embedding.vectors, found.embedding.values
        self.n_components_ = found.embedding.n_components


def some_rows(N: int) -> Ints:
    """Say by which samples n and λ are chosen."""
    if N <= _SOME:
        return np.arange(N)
    return np.sort(np.random.default_rng(0).choice(N, _SOME, replace=False))


def sketch_size(X: Any) -> int:
    """Choose n from the numerical rank of some samples; zeros in their gaps would add to it."""
    from consilience.subspace.sketches import default_n_sketch

    sums, counts = totals(X)
    return default_n_sketch(filled(X, sums / np.maximum(counts, 1)))


def sparse_lam(X: Any, B: Any) -> float:
    """Choose λ of ``"ssc"``; the largest over blocks of samples is that of all."""
    from consilience.subspace.lsr import default_lam

    return default_lam(X, B)


def zero_filled(X: Any) -> Any:
    """Put 0 for missing entries: what is not there adds nothing to the dictionary."""
    return np.nan_to_num(X) if np.isnan(X).any() else X


def gram_of(X: Any) -> Floats:
    """Xᵀ X, missing entries being 0; sums over blocks of samples."""
    X = zero_filled(X).astype(np.float64, copy=False)
    gram: Floats = X.T @ X
    return gram


def _of_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.")


def _whole(name: str, value: Any, most: int | None) -> int:
    bound = "" if most is None else f" and at most {most}"
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < 1 or (most is not None and value > most):
        raise ParameterError(f"{name} must be a whole number ≥ 1{bound}, not {value!r}")
    return int(value)


def _seed(random_state: Any) -> int:
    """Give one whole number from what scikit-learn takes as ``random_state``."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return int(check_random_state(random_state).randint(2**31 - 1))
