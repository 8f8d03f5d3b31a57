"""Sketched subspace clustering, from samples to labels, as a scikit-learn clusterer (thesis, Algs 2.1-2.3).

::

    X ─ sketch ─> B = Rᵀ X ─ codes ─> Z ─ neighbours ─> W ─ eigenvectors ─> V ─ k-means ─> labels ─ PCA ─> subspaces

====== ========================== ==================================================
symbol name                       shape
====== ========================== ==================================================
X      ``X``                      (N, D), or (N, d) after reduction (Alg. 2.2)
B      ``dictionary_``            (n, D)
Z      ``codes_``                 (N, min(n, D)), (N, n) for ``"ssc"``; see :mod:`consilience.subspace.encoding`
W      ``affinity_matrix_``       (N, N), sparse
V      ``embedding_``             (N, K)
C, μ   ``bases_``, ``centroids_`` see :mod:`consilience.subspace.unions`
====== ========================== ==================================================
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.neighbours import search_approximately
from consilience.published import AsPublished
from consilience.subspace.completion import dictionary_of, filled
from consilience.subspace.embedding import in_order
from consilience.subspace.encoding import Encoder, FitNorm, Representation, make_encoder, ridge_lams
from consilience.subspace.feature_maps import KernelMap, kernel_map, mode_sketches
from consilience.subspace.graph import Weights
from consilience.subspace.graph_clusters import Callback, Stage, cluster_codes, default_n_neighbors, vote
from consilience.subspace.neighbours import Method, Similarity
from consilience.subspace.preparation import LocalSamples, flattened, reduced, sketch_size
from consilience.subspace.selection import GraphOptions, choose_encoder, fewer, robust_lam
from consilience.subspace.sketches import SketchKind, make_sketch
from consilience.subspace.unions import Subspaces, coordinates, fit_subspaces, k_subspaces, rows_for_subspaces
from consilience.subspace.unions import dense as _dense
from consilience.validation import number, one_of, whole, whole_seed

__all__ = ["SketchedSubspaceClustering"]

Assign: TypeAlias = Literal["residual", "neighbours"]

#: Sketches to which rows can be added.
_GROWING = "rademacher", "gaussian"


@dataclass(eq=False, repr=False)
class SketchedSubspaceClustering(AsPublished, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    r"""Cluster samples that lie near a union of subspaces.

    Samples are represented in a dictionary of n random mixtures of all samples, :math:`B = R^\top X`, instead of in all
    N samples; two samples are joined if the code of either is among the k nearest to the other's; eigenvectors of the
    graph yield the clusters.  (Traganitis 2019, Algs 2.1-2.3.)

    Subspaces pass through the origin, and samples should be of similar length (scikit-learn's ``Normalizer``), because
    the dictionary is made of sums of samples.

    Parameters
    ----------
    n_clusters
        K.
    representation
        ``"lsr"``, least squares (2.14), in closed form; ``"ssc"``, sparse (2.15); ``"lrr"``, of low rank (2.16).
    n_sketch
        n, the size of the dictionary.  None: twice the numerical rank plus 10.
    sketch
        ``"rademacher"``, ``"gaussian"``, ``"count"`` or ``"hadamard"``.
    lam
        λ, the weight of the fit relative to the penalty on codes.  None chooses the one of three values under which
        the graph of some samples separates best: for ``"lsr"`` and ``"lrr"`` from the spectrum of the dictionary, for
        ``"ssc"`` α / μ of Elhamifar & Vidal (2013) with α = 800, 80 or 20.  For ``"lrr"`` with missing entries this
        choice is not reliable.
    n_features
        If given, a second sketch first reduces samples to this many features (Alg. 2.2).  For samples that are tensors
        (N, D1, D2, …) it may be one size per mode, such as (8, 8); each mode then has a sketch of its own.
    kernel
        For clusters that are curved: ``"rbf"``, ``"laplacian"``, ``"polynomial"`` or a function of two matrices, whose
        features take the place of the samples (5.2.1); a function may add up several kernels.  None: linear subspaces.
    kernel_map, kernel_size, gamma
        How the features of the kernel are made: from ``"landmarks"`` (samples) or ``"random"`` (for ``"rbf"``); how
        many there are (256; as many landmarks as samples make it exact); and the γ of the kernel (by the distances of
        samples).
    affine
        Whether subspaces have centroids instead of passing through the origin; sparse codes then sum to one (2.9).
    fit_norm
        For ``"lrr"``: ``"frobenius"``, or ``"l21"`` (2.10), which is robust to samples far from all subspaces.
    refine
        Most steps of K-subspaces after the clusters are found: samples go to the nearest subspace, and subspaces are
        fitted again.  Each step needs a pass over the samples.
    assign
        How ``predict`` assigns new samples: ``"residual"``, to the nearest subspace, at a cost that does not depend on
        N; or ``"neighbours"``, by a vote of the k samples with the nearest codes.
    n_neighbors
        k.  None: log2(N / K), from 5 to 15, and below N / K.
    weights
        Weights of edges: ``"binary"`` (2.19) or ``"heat"`` (2.20).
    neighbors
        How to search: ``"exact"``, ``"approximate"``, ``"pynndescent"`` or ``"auto"``; see
        :func:`~consilience.subspace.graph.neighbour_graph`.
    similarity
        Similarity of codes: ``"absolute"`` cosine, because a subspace contains -x with x; ``"cosine"``, for affine
        subspaces; or ``"euclidean"``, as in the thesis.
    max_iter, tol
        Steps and tolerance of the solver of ``"ssc"`` and ``"lrr"``; a ConvergenceWarning counts codes that did not
        meet it.
    random_state
        A seed from 0 to 2³² - 1, a generator or None.  The same seed yields the same sketch and, on one machine,
        the same labels.  The samples by which n and λ are chosen do not depend on it.
    callback
        Called with the name of each stage as it begins: ``"sketch"``, ``"codes"``, ``"graph"``, ``"embedding"``,
        ``"clusters"``.

    Attributes
    ----------
    bases_ : list of K arrays (D, d_k)
        Orthonormal bases of the subspaces, of features after reduction and kernel, from at most 2000 samples of each.
    centroids_ : array (K, D)
        Centroids of affine subspaces; 0 otherwise.
    dimensions_ : array (K,)
        d_k, chosen as :mod:`consilience.subspace.unions` describes.
    labels_ : array (N,)
        Clusters, numbered in the order of their first samples.  Samples whose code is zero are in the largest cluster,
        and a DataWarning counts them; their rows of the graph and of the eigenvectors are zero.
    affinity_matrix_ : sparse array (N, N)
        The graph.
    dictionary_ : array (n, D)
        B.
    codes_ : array (N, min(n, D)), or (N, n) for ``"ssc"``
        Codes, in coordinates that preserve their distances.
    embedding_ : array (N, K)
        Eigenvectors of the normalised Laplacian.
    eigenvalues_ : array (K,)
        Its smallest eigenvalues.
    n_components_ : int
        Components of the graph, without samples of zero code.
    n_iter_ : int
        Steps of the solver for the slowest sample; 1 for a closed form.
    lam_, n_sketch_, n_neighbors_ : float, int, int
        The values used.

    Examples
    --------
    >>> from consilience.datasets.subspaces import simulate_subspaces
    >>> from consilience.subspace.clustering import SketchedSubspaceClustering
    >>> drawn = simulate_subspaces(300, 30, 3, 4, noise=0.1)
    >>> model = SketchedSubspaceClustering(3, random_state=0).fit(drawn.data)
    >>> len({(int(a), int(b)) for a, b in zip(model.labels_, drawn.truth)})
    3
    """

    n_clusters: int = 8
    _: KW_ONLY
    representation: Representation = "lsr"
    n_sketch: int | None = None
    sketch: SketchKind = "rademacher"
    lam: float | None = None
    n_features: int | tuple[int, ...] | None = None
    kernel: Any = None
    kernel_map: KernelMap = "landmarks"
    kernel_size: int | None = None
    gamma: float | None = None
    affine: bool = False
    fit_norm: FitNorm = "frobenius"
    refine: int = 0
    assign: Assign = "residual"
    n_neighbors: int | None = None
    weights: Weights = "binary"
    neighbors: Method = "auto"
    similarity: Similarity = "absolute"
    max_iter: int = 5000
    tol: float = 1e-4
    random_state: Any = 0
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples ``X`` (N, D) or (N, D1, D2, …), NaN being a missing entry; ``y`` is not used.

        A scipy sparse matrix stays sparse; a Dask array stays where its chunks are
        (:mod:`consilience.subspace.distributed`).
        """
        X, samples_type = self._checked(X, reset=True)
        N, D = X.shape
        seed = self._prepare(N, D)
        self._notify("sketch")
        samples = samples_type(X, self._reduction_)
        if self.kernel is not None:
            options: Any = {"how": self.kernel_map, "gamma": self.gamma, "size": self.kernel_size}
            self._kernel_features_: Any = kernel_map(self.kernel, samples.some(), **options, seed=seed)
            samples = samples_type(X, self._reduction_, self._kernel_features_)
        some = samples.some()
        if self.n_sketch is None:
            self.n_sketch_ = sketch_size(some)
        sketch = make_sketch(self.sketch, N, self.n_sketch_, seed)
        totals = samples.totals()
        B = dictionary_of(lambda fill: samples.sketched(sketch, fill), totals, some, N)
        self._means_ = totals[0] / np.maximum(totals[1], 1)
        self._notify("codes")
        self.dictionary_, self._n_seen_ = B, N
        self._encoder_ = self._make_encoder(B, samples, some, seed)
        self.lam_ = self._encoder_.lam
        Z, self.n_iter_ = samples.codes(self._encoder_)
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
        self._fit_subspaces(samples)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add samples: the dictionary gains their mixtures, B ← B + R'ᵀ X', and subspaces are updated.

        The first call is ``fit``.  After that ``labels_`` and ``codes_`` are those of the added samples, which go to
        the nearest subspace; dimensions and the graph of the first call stay, as do the codes of ``"lrr"``.
        """
        if self.sketch not in _GROWING:
            raise ParameterError(
                f"partial_fit needs a sketch whose rows do not depend on how many follow, {' or '.join(_GROWING)}, "
                f"not {self.sketch!r}"
            )
        if not hasattr(self, "labels_"):
            return self.fit(X)
        X, samples_type = self._checked(X, reset=False)
        if samples_type is not LocalSamples:
            raise ParameterError("partial_fit adds samples in memory; compute the Dask array, or fit all of it at once")
        X = self._features(X)
        N = X.shape[0]
        # Rows are drawn in blocks by number, so these are the rows that a longer sketch would have.
        sketch = make_sketch(self.sketch, self._n_seen_ + N, self.n_sketch_, self._seed_)
        before = float(np.einsum("ij,ij->", self.dictionary_, self.dictionary_))
        self.dictionary_ = self.dictionary_ + sketch.apply_block(X, self._n_seen_)
        self._n_seen_ += N
        if self.representation != "lrr":  # codes of low rank would need all samples
            # The dictionary grows with the samples; λ relative to its size stays the same.
            self.lam_ *= before / float(np.einsum("ij,ij->", self.dictionary_, self.dictionary_))
            self._encoder_ = make_encoder(self.dictionary_, self.representation, self.lam_, **self._solver())
        self.codes_, self.n_iter_ = self._encoder_.encode_counting(X)
        self.labels_ = self._subspaces_.nearest(X)
        self._keep(self._subspaces_.updated(X, self.labels_))
        return self

    def predict(self, X: Any) -> Any:
        """Return the clusters of new samples: the nearest subspace, or a vote of the nearest codes (``assign``).

        A sample whose features are all zero goes to the largest cluster, with a DataWarning.  For a Dask array, the
        result is a Dask array.
        """
        check_is_fitted(self, "labels_")
        X, samples_type = self._checked(X, reset=False)
        maps = self._reduction_, self._kernel_features_
        function: Any = _by_residual
        shared: tuple[Any, ...] = (*maps, self._subspaces_, self._means_, self.dictionary_)
        if self.assign == "neighbours":
            function, fitted = _by_neighbours, (self.codes_, self.labels_, self.n_neighbors_, self._similarity_)
            shared = (*maps, self._encoder_, *fitted)
        if samples_type is LocalSamples:
            return function(X, *shared)
        from consilience.subspace.distributed import predict_chunks

        return predict_chunks(X, function, *shared)

    def coordinates(self, X: Any) -> list[Floats]:
        """Return ψ = Cᵀ (x - μ) of the samples of each cluster (2.2): K arrays (samples predicted k, d_k)."""
        check_is_fitted(self, "labels_")
        X, samples_type = self._checked(X, reset=False)
        if samples_type is not LocalSamples:
            raise ParameterError("coordinates are of samples in memory; compute the Dask array first")
        X = self._features(X)
        return coordinates(X, self._subspaces_.nearest(X), self._subspaces_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """Return checked samples as rows, and the class that holds them."""
        if _is_dask(X):
            from consilience.subspace.distributed import ChunkedSamples, check_chunks

            check_chunks(X, fit=reset)
            validate_data(self, X, skip_check_array=True, reset=reset)  # n_features_in_, and resets feature names
            if reset:
                self._shape_: tuple[int, ...] = (int(X.shape[1]),)
                self._refuse_what_needs_memory()
            return X, ChunkedSamples
        X, shape = flattened(X)
        if reset:
            self._shape_ = shape
        elif shape != self._shape_ and max(len(shape), len(self._shape_)) > 1:
            raise DataError(f"samples were tensors of shape {self._shape_}, and are now of shape {shape}")
        checked = {"ensure_min_samples": 2} if reset else {"reset": False}
        X = validate_data(
            self, X, dtype=[np.float64, np.float32], accept_sparse="csr", ensure_all_finite="allow-nan", **checked
        )
        if hasattr(X, "tocsr") and np.isnan(X.data).any():
            raise DataError("entries that a sparse matrix does not store are 0; NaN needs a dense array")
        return X, LocalSamples

    def _refuse_what_needs_memory(self) -> None:
        """Raise for what needs all samples in one place."""
        if self.refine:
            raise ParameterError("refine needs samples in memory; leave it out for Dask arrays")
        if self.fit_norm == "l21":
            raise ParameterError("fit_norm='l21' needs samples in memory; use 'frobenius' for Dask arrays")

    def _features(self, X: Any) -> Any:
        """Return samples in memory after reduction and kernel, without gaps."""
        return _filled(reduced(X, self._reduction_, self._kernel_features_), self._means_, self.dictionary_)

    def _prepare(self, N: int, D: int) -> int:
        """Check all parameters, set what depends on the shape of the data only, and return the seed."""
        K = whole("n_clusters", self.n_clusters, N, "(samples)")
        self.n_neighbors_ = default_n_neighbors(N, K)
        if self.n_neighbors is not None:
            self.n_neighbors_ = whole("n_neighbors", self.n_neighbors, N - 1, "(other samples)")
        if self.n_sketch is not None:
            self.n_sketch_ = whole("n_sketch", self.n_sketch)
        words = {
            "representation": Representation,
            "sketch": SketchKind,
            "weights": Weights,
            "neighbors": Method,
            "similarity": Similarity,
            "kernel_map": KernelMap,
            "fit_norm": FitNorm,
            "assign": Assign,
        }
        for name, kinds in words.items():
            one_of(name, getattr(self, name), get_args(kinds))
        if self.neighbors == "pynndescent":
            search_approximately(N, required=True)
        number("lam", self.lam, none=True)
        number("tol", self.tol, zero=True)
        whole("max_iter", self.max_iter)
        if self.refine:
            whole("refine", self.refine)
        if not (self.callback is None or callable(self.callback)):
            raise ParameterError(f"callback must be a function or None, not {self.callback!r}")
        self._seed_ = seed = whole_seed(self.random_state)
        self._similarity_ = self.similarity
        self._reduction_: Any = None
        self._kernel_features_ = None
        if isinstance(self.n_features, tuple | list):
            self._reduction_ = mode_sketches(self.sketch, self._shape_, self.n_features, seed + 1)
        elif self.n_features is not None:
            self._reduction_ = make_sketch(self.sketch, D, whole("n_features", self.n_features), seed + 1)
        return seed

    def _notify(self, stage: Stage) -> None:
        if self.callback is not None:
            self.callback(stage)

    def _solver(self) -> dict[str, Any]:
        return {"affine": self.affine, "max_iter": self.max_iter, "tol": self.tol}

    def _graph_options(self, seed: int) -> GraphOptions:
        return GraphOptions(self.n_clusters, self.n_neighbors_, self.similarity, self.weights, seed)

    def _make_encoder(self, B: Floats, samples: Any, some: Any, seed: int) -> Encoder:
        """Return the encoder; without a given λ, the one under which the graph of some samples separates best."""
        robust = self.representation == "lrr" and self.fit_norm == "l21"
        if robust and self.lam is not None:
            return make_encoder(B, "lrr", self.lam, samples=_dense(samples.all()), fit="l21", **self._solver())
        if self.kernel is not None:  # codes are longer, and fewer samples suffice to choose λ
            some = fewer(some, self.n_clusters)
        gram = samples.gram() if self.representation == "lrr" else None
        chosen = choose_encoder(
            B, self.representation, self.lam, some, self._graph_options(seed), gram=gram, **self._solver()
        )
        if not robust:
            return chosen
        lam = robust_lam(some, B, chosen.lam)
        return make_encoder(B, "lrr", lam, samples=_dense(samples.all()), fit="l21", **self._solver())

    def _fit_subspaces(self, samples: Any) -> None:
        K = self.n_clusters
        rows = rows_for_subspaces(self.labels_, K)
        some = _filled(samples.take(rows), self._means_, self.dictionary_)
        fitted = fit_subspaces(some, self.labels_[rows], K, affine=self.affine)
        fitted = replace(fitted, counts=np.bincount(self.labels_, minlength=K))
        if self.refine:
            X = _filled(samples.all(), self._means_, self.dictionary_)
            labels, fitted, self.refine_history_ = k_subspaces(X, self.labels_, fitted, self.refine)
            self.labels_, order = in_order(labels, K)
            fitted = fitted.take(order)
        self._keep(fitted)

    def _keep(self, subspaces: Subspaces) -> None:
        self._subspaces_ = subspaces
        self.bases_, self.centroids_ = list(subspaces.bases), subspaces.centroids
        self.dimensions_ = subspaces.dimensions


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.")


def _filled(X: Any, means: Floats, B: Floats) -> Any:
    """Fill the gaps of samples from the dictionary."""
    return X if hasattr(X, "tocsr") else filled(X, means, B, ridge_lams(B)[0])


def _by_neighbours(X: Any, reduction: Any, kernel: Any, encoder: Encoder, *of_vote: Any) -> Ints:
    return vote(encoder.encode(reduced(X, reduction, kernel)), *of_vote)


def _by_residual(X: Any, reduction: Any, kernel: Any, subspaces: Subspaces, means: Floats, B: Floats) -> Ints:
    X = reduced(X, reduction, kernel)
    return subspaces.nearest_of_nonzero(_filled(X, means, B), X)
