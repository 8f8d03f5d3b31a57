r"""Choice of λ: the one under which the graph of some samples separates best.

The sum of the K smallest eigenvalues of the Laplacian of a graph is a lower bound of its normalised cut into K parts.
The share of samples whose code is zero is added, so that a λ gains nothing by leaving samples out.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Floats
from consilience.subspace.encoding import Encoder, Representation, make_encoder, ridge_lams
from consilience.subspace.graph import Weights
from consilience.subspace.graph_clusters import default_n_neighbors, embed_codes
from consilience.subspace.lsr import lsr
from consilience.subspace.neighbours import Similarity
from consilience.subspace.preparation import sparse_lams

__all__ = ["GraphOptions", "choose_encoder", "fewer", "robust_lam", "separation"]

#: Samples by which λ is chosen where codes take longer (sparse codes, missing entries), and the fewest per cluster.
_FEW, _OF_EACH = 1024, 20


class GraphOptions(NamedTuple):
    """How the graph of codes is made."""

    n_clusters: int
    n_neighbors: int
    similarity: Similarity
    weights: Weights
    seed: int


def fewer(some: Any, n_clusters: int) -> Any:
    """Return about 1024 of the samples, or 20 per cluster."""
    return some[:: -(-len(some) // max(_FEW, _OF_EACH * n_clusters))]


def choose_encoder(
    B: Floats, representation: Representation, lam: float | None, some: Any, graph: GraphOptions, **options: Any
) -> Encoder:
    """Return the encoder of a given λ, or of the one that separates ``some`` samples best.

    ``options`` are those of :func:`~consilience.subspace.encoding.make_encoder`.
    """
    lams: tuple[float, ...] = (lam,) if lam is not None else ridge_lams(B)
    if lam is None and representation == "ssc":
        lams = sparse_lams(some, B)
    encoders = [make_encoder(B, representation, each, **options) for each in lams]
    if len(encoders) == 1:
        return encoders[0]
    if representation == "ssc" or np.isnan(some).any():
        some = fewer(some, graph.n_clusters)
    with warnings.catch_warnings():  # problems of a trial are not the user's
        warnings.simplefilter("ignore", ConsilienceWarning)
        return encoders[int(np.argmin([separation(encoder.encode(some), graph) for encoder in encoders]))]


def separation(Z: Any, graph: GraphOptions) -> float:
    """Return the lower bound of the normalised cut of the graph of codes; smaller is better."""
    N = len(Z)
    Z = Z[Z.any(axis=1)]
    K = min(graph.n_clusters, len(Z) - 1)
    if K < 1:
        return np.inf
    k = min(graph.n_neighbors, default_n_neighbors(len(Z), K))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        _, embedding = embed_codes(Z, K, k, graph.similarity, weights=graph.weights, random_state=graph.seed)
    return float(embedding.values.sum()) + graph.n_clusters * (1.0 - len(Z) / N)


def robust_lam(some: Any, B: Floats, lam: float) -> float:
    """Return the λ of an l2,1 fit that weighs a typical sample as λ weighs it in a Frobenius fit.

    The weight of a sample with residual ρ is λ / (2 ρ) (:func:`~consilience.subspace.encoding.robust_rows`).
    """
    rest = some - lsr(some, B, lam) @ B.astype(some.dtype)
    return 2.0 * lam * float(np.median(np.linalg.norm(rest, axis=1)))
