"""Consensus of items on a graph, as a function and as an estimator.

``aggregate_network`` returns a :class:`consilience.Consensus`; ``NetworkConsensus`` follows scikit-learn.  Both run
:func:`consilience.structured.network_em.network_em`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from consilience.data.annotations import Annotations
from consilience.diagnose.left_out import estimated_error, left_out
from consilience.diagnose.runs import LATER
from consilience.engine.dask import placed
from consilience.engine.progress import Callback
from consilience.exceptions import ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.estimator import CrowdEstimator
from consilience.methods.base.running import consensus_of, run_summary
from consilience.published import AsPublished
from consilience.runs.consensus import Consensus
from consilience.structured.graph import as_graph
from consilience.structured.links import LINK_STRENGTH
from consilience.structured.network_em import Inference, network_em
from consilience.structured.potts import FieldKind
from consilience.validation import check_names, keywords, numpy_seed

__all__ = ["SUFFIX", "NetworkConsensus", "aggregate_network"]

#: Suffix of a crowd method: EM on the graph, started from that method.
SUFFIX = "+network"


def aggregate_network(
    data: Any,
    graph: Any,
    method: str = "majority",
    *,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    engine: Any = "local",
    scheduler: Any = None,
    **parameters: Any,
) -> Consensus:
    """Aggregate labels of items on a graph into labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    graph
        Which items are neighbours: a frame or file with ``source`` and ``target``, pairs of ids, a scipy sparse
        matrix, or the result of :func:`nearest_neighbours`.
    method
        The crowd method to start from, with or without the suffix ``+network``.
    gold, seed, callback, engine, scheduler
        As for :func:`consilience.aggregate`.  On Dask, the workers make the passes of the crowd method.
    **parameters
        Those of :class:`consilience.NetworkConsensus`, such as ``delta`` and ``inference``.
    """
    check_names(f"{method}, on a graph,", parameters, keywords(network_em))
    annotations = as_annotations(data)
    if gold is not None:
        annotations = annotations.with_gold(gold)
    begun = time.perf_counter()
    joined = None if graph is None else as_graph(graph, annotations)
    start = method.removesuffix(SUFFIX)
    options: dict[str, Any] = {"method": start, "random_state": seed, "callback": callback, **parameters}
    a = annotations

    def label(some: Annotations) -> tuple[Codes, Floats]:
        found = network_em(some, joined, **options)
        return found.choice.best, found.posterior[np.arange(some.n_items), found.choice.best]

    with placed(engine, scheduler) as cluster:
        options["engine"] = cluster.client if cluster else "local"
        fit = network_em(a, joined, **options)
        known, contradicted = left_out(a, label)
    fit = replace(fit, cautions=(*contradicted, *fit.cautions))
    warn_of([*cautions_of(a, alone=False), *fit.cautions])
    given = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in parameters.items()}
    for links in ("must_link", "cannot_link"):
        if given.get(links) is not None:  # the run keeps their number
            given[links] = as_graph(parameters[links], annotations).n_edges
    name, edges = f"{start}{SUFFIX}", {} if joined is None else {"edges": joined.n_edges}
    run = run_summary(
        a,
        fit,
        method=name,
        by_user=True,
        parameters=given,
        seed=seed,
        begun=begun,
        alone=False,
        **edges,
        **({"known_answers": known} if known else {}),
    )
    return replace(consensus_of(Consensus, a, fit, run, LATER), estimate=estimated_error)


class NetworkConsensus(AsPublished, CrowdEstimator):
    r"""Consensus of items on a graph: a Potts field couples the truths of neighbours.

    .. math:: \Pr(y) \propto \exp\Big(\sum_n h_{y_n} + \sum_{(n, n')} w\,\delta\,c_{y_n} [y_n = y_{n'}]\Big)

    Parameters
    ----------
    method
        The crowd method to start from, by name.
    delta
        Coupling of neighbours: a number ≥ 0, one for each item (in the order of ``annotations.items``; an edge has the
        mean of its two), or "auto" to estimate it by pseudo-likelihood.  With 0 the result is that of the crowd method.
        The thesis' δ is twice this.
    correlation
        Correlation of the errors of two labels of an item, from 0 to 1, or "auto" to measure it.  Correlated labels
        have less weight.
    field
        "stationary" (agreement on a rare class has more weight), "prior" or "uniform": see
        :mod:`consilience.structured.potts`.
    inference
        "mean-field", or "icm" for iterated conditional modes.
    sweeps
        Most sweeps over the items in one pass; ICM stops earlier if no label changes.
    potentials
        Symmetric matrix (K, K), by which ``delta`` of an edge is multiplied for every pair of classes, in the order of
        ``annotations.classes``: negative on the diagonal if neighbours tend to differ.  None counts agreement alone.
        It needs a number for ``delta``.
    smoothing, shrinkage
        Labels added to every cell of the confusions, evenly and as the whole crowd answers.
    must_link, cannot_link
        Pairs of items that have the same class, or different ones, in the forms of a graph: frames, files, pairs of
        ids.  Linked items are merged; see :mod:`consilience.structured.links`.  With links the graph may be None.
    link_strength
        κ: two items that cannot be linked have the same class with odds lowered by exp(-κ).
    max_iter, tol
        Passes over labels and edges, and the relative change of the objective that ends them (0: run all).
    random_state
        Seed of the crowd method.
    callback
        Called after every pass; ends the fit by returning True.
    engine
        Where the crowd method runs: "local" (this process), "dask" (the current Dask client, or local processes), or a
        Dask client.  Passes over the graph run in this process.

    Attributes
    ----------
    delta_ : float
        The coupling, averaged over the items.

    Notes
    -----
    ``labels_`` and ``probas_`` are those of the fitted items given their neighbours; ``predict()`` without data returns
    them too.  ``predict(X)`` uses labels only: new items are not in the graph.  A mean field is overconfident: use the
    probabilities for ranking.

    Examples
    --------
    >>> from consilience.structured.network_consensus import NetworkConsensus
    >>> votes = [[0, 0, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]]
    >>> path = [(n, n + 1) for n in range(7)]
    >>> NetworkConsensus(delta=2.0).fit(votes, graph=path).labels_
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    _method = "majority"

    method: str = "majority"
    delta: Any = "auto"
    correlation: float | Literal["auto"] = "auto"
    field: FieldKind = "stationary"
    inference: Inference = "mean-field"
    sweeps: int = 3
    potentials: Any = None
    smoothing: float = 0.0
    shrinkage: float = 0.25
    must_link: Any = None
    cannot_link: Any = None
    link_strength: float = LINK_STRENGTH
    max_iter: int = 200
    tol: float = 1e-6
    random_state: Any = None
    callback: Callback | None = None
    engine: Any = "local"

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, gold: Any = None, true_labels: Any = None) -> Self:
        """Learn the annotators, and the labels of items given their neighbours.

        Parameters
        ----------
        X
            A long frame, a matrix of items × annotators, or Annotations.
        y
            Ignored; present for scikit-learn's pipelines.
        graph
            Which items are neighbours: see :func:`aggregate_network`.  The items of a matrix are its rows, from 0.
        gold
            Known truths, held fixed; ``true_labels`` is crowd-kit's name.
        """
        if graph is None and self.must_link is None and self.cannot_link is None:
            raise ParameterError("NetworkConsensus needs to know which items are neighbours: fit(X, graph=edges)")
        annotations = self._taught(X, gold, true_labels)
        options = self.get_params(deep=False)
        options |= {"method": self.method.removesuffix(SUFFIX), "random_state": numpy_seed(self.random_state)}
        fit = network_em(annotations, graph, **options)
        warn_of([*cautions_of(annotations, alone=False), *fit.cautions])
        self._keep(X, annotations, fit)
        self.delta_ = fit.details["delta"]
        return self

    def predict(self, X: Any = None) -> Any:
        """Return the labels of the fitted items, or of other items from their labels only."""
        check_is_fitted(self, "model_")
        return self.labels_ if X is None else super().predict(X)

    def predict_proba(self, X: Any = None) -> Any:
        """Return the probabilities of the fitted items, or of other items from their labels only."""
        check_is_fitted(self, "model_")
        return self.probas_ if X is None else super().predict_proba(X)

    def fit_predict(
        self, X: Any, y: Any = None, *, graph: Any = None, gold: Any = None, true_labels: Any = None
    ) -> Any:
        """Fit, and return the labels of the same items."""
        return self.fit(X, y, graph=graph, gold=gold, true_labels=true_labels).labels_

    def fit_predict_proba(
        self, X: Any, y: Any = None, *, graph: Any = None, gold: Any = None, true_labels: Any = None
    ) -> Any:
        """Fit, and return the probabilities of the same items."""
        return self.fit(X, y, graph=graph, gold=gold, true_labels=true_labels).probas_
