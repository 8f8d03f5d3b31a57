"""Sketched subspace clustering, from samples to labels, as a scikit-learn clusterer (thesis, Algs 2.1-2.3).

::

    X ── sketch ──> B = Rᵀ X ── codes ──> Z ── neighbours ──> W ── eigenvectors ──> V ── k-means ──> labels

====== ======================== ==================================================
symbol name                     shape
====== ======================== ==================================================
X      ``X``                    (N, D), or (N, d) after reduction (Alg. 2.2)
B      ``dictionary_``          (n, D)
Z      ``codes_``               (N, min(n, D)), (N, n) for ``"ssc"``; see :mod:`consilience.subspace.encoding`
W      ``affinity_matrix_``     (N, N), sparse
V      ``embedding_``           (N, K)
====== ======================== ==================================================
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import ConsilienceWarning, ParameterError
from consilience.kernels._arrays import Floats
from consilience.kernels.neighbours import search_approximately
from consilience.subspace.completion import dictionary_of, error_of_hidden
from consilience.subspace.encoding import Encoder, Representation, make_encoder, ridge_lams
from consilience.subspace.graph import Weights
from consilience.subspace.graph_clusters import Callback, Stage, cluster_codes, default_n_neighbors, embed_codes, vote
from consilience.subspace.neighbours import Method, Similarity
from consilience.subspace.preparation import LocalSamples, reduced, sketch_size, sparse_lams
from consilience.subspace.sketches import Sketch, SketchKind, make_sketch
from consilience.validation import number, one_of, whole, whole_seed

__all__ = ["SketchedSubspaceClustering"]

#: Samples by which λ is chosen where codes take longer (sparse codes, missing entries), and the fewest per cluster.
_FEW, _OF_EACH = 1024, 20
#: Mean share of the edges of a cluster that leave it, up to which a graph is clear.  Origin: set with simulated
#: subspaces (0 to 0.004, one crowded set 0.19) and images (0.038 and more) in view, not left out.  Sensitivity: no
#: value between 0.004 and 0.038 changes a choice on these.
_CLEAR = 0.01


@dataclass(eq=False, repr=False)
class SketchedSubspaceClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
        ``"ssc"`` α / μ of Elhamifar & Vidal (2013) with α = 800, 80 or 20.  For ``"lrr"`` with missing entries and no
        clear graph, the one that predicts hidden entries best.
    n_features
        If given, a second sketch first reduces samples to this many features (Alg. 2.2).
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
    n_features: int | None = None
    n_neighbors: int | None = None
    weights: Weights = "binary"
    neighbors: Method = "auto"
    similarity: Similarity = "absolute"
    max_iter: int = 5000
    tol: float = 1e-4
    random_state: Any = 0
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the samples ``X`` (N, D), NaN being a missing entry; ``y`` is not used.

        A Dask array stays where its chunks are (:mod:`consilience.subspace.distributed`).
        """
        samples_type: Any = LocalSamples
        if _is_dask(X):
            from consilience.subspace.distributed import ChunkedSamples, check_chunks

            samples_type = ChunkedSamples
            check_chunks(X, fit=True)
            validate_data(self, X, skip_check_array=True)  # sets n_features_in_ and resets feature names
        else:
            X = validate_data(
                self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", ensure_min_samples=2
            )
        N, D = X.shape
        seed = self._prepare(N, D)
        self._notify("sketch")
        samples = samples_type(X, self._reduction_)
        some = samples.some()
        if self.n_sketch is None:
            self.n_sketch_ = sketch_size(some)
        sketch = make_sketch(self.sketch, N, self.n_sketch_, seed)
        B = dictionary_of(lambda fill: samples.sketched(sketch, fill), samples.totals(), some, N)
        self._notify("codes")
        gram = samples.gram() if self.representation == "lrr" else None
        self._encoder_ = self._make_encoder(B, gram, some, seed)
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
        return self

    def predict(self, X: Any) -> Any:
        """Return the clusters of new samples: a vote of the k samples with the nearest codes, weighted by nearness.

        The search is exact and takes time in proportion to N for each new sample.  A sample whose code is zero goes to
        the largest cluster, with a DataWarning.  For a Dask array, the result is a Dask array.
        """
        check_is_fitted(self, "labels_")
        fitted = self.codes_, self.labels_, self.n_neighbors_, self._similarity_
        if _is_dask(X):
            from consilience.subspace.distributed import check_chunks, predict_chunks

            check_chunks(X)
            validate_data(self, X, skip_check_array=True, reset=False)
            return predict_chunks(X, self._reduction_, self._encoder_, *fitted)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
        return vote(self._encoder_.encode(reduced(X, self._reduction_)), *fitted)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        }
        for name, kinds in words.items():
            one_of(name, getattr(self, name), get_args(kinds))
        if self.neighbors == "pynndescent":
            search_approximately(N, required=True)
        number("lam", self.lam, none=True)
        number("tol", self.tol, zero=True)
        whole("max_iter", self.max_iter)
        if not (self.callback is None or callable(self.callback)):
            raise ParameterError(f"callback must be a function or None, not {self.callback!r}")
        seed = whole_seed(self.random_state)
        self._similarity_ = self.similarity
        self._reduction_: Sketch | None = None
        if self.n_features is not None:
            self._reduction_ = make_sketch(self.sketch, D, whole("n_features", self.n_features), seed + 1)
        return seed

    def _notify(self, stage: Stage) -> None:
        if self.callback is not None:
            self.callback(stage)

    def _make_encoder(self, B: Floats, gram: Floats | None, some: Any, seed: int) -> Encoder:
        """Return the encoder; without a given λ, that with the best graph of some samples, or the best predictions."""
        self.dictionary_, K = B, self.n_clusters
        if self.lam is not None:
            lams: tuple[float, ...] = (self.lam,)
        else:
            lams = sparse_lams(some, B) if self.representation == "ssc" else ridge_lams(B)
        encoders = [
            make_encoder(B, self.representation, lam, gram=gram, max_iter=self.max_iter, tol=self.tol) for lam in lams
        ]
        chosen = encoders[0]
        if len(encoders) > 1:
            few, gaps = some, bool(np.isnan(some).any())
            if self.representation == "ssc" or gaps:
                few = some[:: -(-len(some) // max(_FEW, _OF_EACH * self.n_clusters))]
            cuts = [self._cut(encoder, few, seed) for encoder in encoders]
            best = int(np.argmin(cuts))
            if gaps and self.representation == "lrr":
                # graphs of few directions separate well and say little: unless one is clear, hidden entries decide
                share = [
                    cut / K if encoder.directions >= K else np.inf for cut, encoder in zip(cuts, encoders, strict=True)
                ]
                best = int(np.argmin(share))
                if share[best] > _CLEAR:
                    best = int(np.argmin([error_of_hidden(few, encoder.restore) for encoder in encoders]))
            chosen = encoders[best]
        self.lam_ = chosen.lam
        return chosen

    def _cut(self, encoder: Encoder, X: Any, seed: int) -> float:
        """Return the sum of the K smallest eigenvalues of the Laplacian, a lower bound of the normalised cut.

        The share of samples whose code is zero is added, so that a λ gains nothing by leaving samples out.
        """
        with warnings.catch_warnings():  # problems of a trial are not the user's
            warnings.simplefilter("ignore", ConsilienceWarning)
            Z = encoder.encode(X)
            Z = Z[Z.any(axis=1)]
            K = min(self.n_clusters, len(Z) - 1)
            if K < 1:
                return np.inf
            k = min(self.n_neighbors_, default_n_neighbors(len(Z), K))
            _, embedding = embed_codes(Z, K, k, self.similarity, weights=self.weights, random_state=seed)
        return float(embedding.values.sum()) + self.n_clusters * (1.0 - len(Z) / len(X))


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.")
