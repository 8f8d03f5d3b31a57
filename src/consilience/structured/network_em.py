"""EM for items on a graph: Algorithms 4.3 and 4.4 of Traganitis (2019).

Starting from the model and the posterior of any crowd method, each pass updates

* the coupling δ, unless it is given (:mod:`consilience.structured.potts`);
* the labelling given annotators and neighbours (E-step), by mean field,

      q_n(k)  ∝  exp( h_k  +  w_n Σ_labels log A_m(i, k)  +  Σ_n' w δ c_k q_n'(k) ),

  or by iterated conditional modes (4.20), with q the conditional probabilities given that labelling (4.21);
* the confusions given q (M-step, (4.23)), as in the i.i.d. model.

========== ========================================= ==========
symbol     name                                      shape
========== ========================================= ==========
q          ``posterior``                             (N, K)
A_m        ``confusions[m]``                         (M, K, K)
w_n        weight of a label of item n               (N,)
h, c, δ    see :mod:`consilience.structured.potts`
========== ========================================= ==========

Labels have full weight (w = 1) until convergence.  Then the correlation ρ of errors is measured, and if there is one,
the passes continue with smaller weights.  ρ is measured only once: the more the graph is trusted, the more errors it
explains, and repeated measurements would run away.

If errors are correlated, a mean field is overconfident: it treats neighbours as independent witnesses.  Then the
posterior of an item with neighbours is averaged with the posterior of ``auto`` without the graph.

The objective is Σ_n log Pr(labels of n | neighbours at q), plus the penalty of the M-step; without edges it is the
i.i.d. log-likelihood.  A pass may lower it, and it jumps when the weights change (so this is not a
:class:`~consilience.fitting.ascent.Ascent`); only the bound of the mean field (or the energy of ICM) never falls during
the sweeps of one pass.  δ is held fixed after ``_SETTLE`` passes, so that the rest can converge.

Items are swept in ascending order of their ids, so the order of rows does not matter.  An item without neighbours has
exactly the posterior of the fitted Dawid-Skene model; without any coupling, the fit is that of the crowd method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.dask import placed
from consilience.engine.progress import Callback, Progress
from consilience.exceptions import DataError, FewLabelsWarning, ParameterError
from consilience.fitting.fit import Fit, crowd_confusion, unconverged
from consilience.fitting.m_steps import ConfusionStep, Parameters
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.potts import label_evidence
from consilience.kernels.votes import vote_statistics
from consilience.methods.base import registry
from consilience.models.dawid_skene import DawidSkene
from consilience.structured.graph import Graph, as_graph
from consilience.structured.links import LINK_STRENGTH, linked_groups, merged_annotations, merged_graph, without_pairs
from consilience.structured.potts import (
    Field,
    FieldKind,
    edge_agreement,
    error_correlation,
    label_weights,
    most_delta,
    pseudo_likelihood_delta,
)
from consilience.validation import check_parameters, number, whole

__all__ = ["Inference", "network_em"]

Inference = Literal["mean-field", "icm"]

#: Correlations of errors up to this may be chance.
_CHANCE = 0.02
#: δ is updated in this many passes, then held fixed.
_SETTLE = 20
#: Change of a probability that ends the sweeps of one E-step.
_SWEPT = 1e-4


def network_em(
    annotations: Annotations,
    graph: Any,
    *,
    method: str | Fit = "majority",
    delta: float | Floats | Literal["auto"] = "auto",
    correlation: float | Literal["auto"] = "auto",
    field: FieldKind = "stationary",
    inference: Inference = "mean-field",
    sweeps: int = 3,
    potentials: Any = None,
    smoothing: float = 0.0,
    shrinkage: float = 0.25,
    must_link: Any = None,
    cannot_link: Any = None,
    link_strength: float = LINK_STRENGTH,
    max_iter: int = 200,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callback | None = None,
    engine: Any = "local",
) -> Fit:
    """Fit annotators and labels of items on a graph; gold items keep their gold label.

    The parameters are those of :class:`consilience.NetworkConsensus`.  ``method`` may also be the fit of a crowd
    method.  The ``graph`` has the forms of :func:`consilience.structured.graph.as_graph`, and may be None if there are
    links.
    """
    if must_link is not None:
        options = {name: value for name, value in locals().items() if name not in ("annotations", "graph", "must_link")}
        return _merged_fit(annotations, graph, must_link, **options)
    whole("sweeps", sweeps)
    _check(field, inference, correlation, smoothing=smoothing, shrinkage=shrinkage, max_iter=max_iter, tol=tol)
    number("link_strength", link_strength)
    joined, coupling = _graph_or_none(graph, annotations, cannot_link), _coupling(delta, annotations)
    apart = None
    if cannot_link is not None:
        apart = as_graph(cannot_link, annotations)
        joined = without_pairs(joined, apart)
        if not joined.n_edges:
            coupling = 0.0
    start = method if isinstance(method, Fit) else _crowd_fit(method, annotations, random_state, engine)
    if isinstance(coupling, np.ndarray):  # drop edges without strength
        low, high, weight = joined.edges()
        kept = coupling[low] + coupling[high] > 0
        joined = Graph.from_edges(low[kept], high[kept], weight[kept], n_items=joined.n_items)
    name = {"start": method} if isinstance(method, str) else {}
    uncoupled = {**start.details, "delta": 0.0, "correlation": 0.0, "field": field, "inference": inference, **name}
    if apart is not None and not apart.n_edges:
        apart = None
    if isinstance(coupling, float) and coupling == 0 and apart is None:
        return replace(start, details=uncoupled)
    if joined.n_edges == 0 and apart is None:
        caution = "no edge joins two labelled items: the result is that of the crowd method without a graph"
        return replace(start, cautions=(*start.cautions, (caution, FewLabelsWarning)), details=uncoupled)
    used = annotations.used_classes
    between = _potentials(potentials, annotations, given=coupling is not None)
    if between is not None and apart is not None:
        raise ParameterError("potentials and cannot_link do not go together: links count agreement alone")
    classes = annotations.class_ids
    inner = annotations
    if not used.all():  # an unused class has no items
        inner = annotations.recode(annotations.annotator_ids, classes.take(np.flatnonzero(used)))
    # sweeps follow the order of ids, not of rows
    rank = annotations.item_ids.sorted()[1]
    order = np.argsort(rank, kind="stable")
    if not np.array_equal(order, np.arange(order.size)):
        inner, joined = inner.select_items(order), joined.select(order)
        apart = None if apart is None else apart.select(order)
        coupling = coupling[order] if isinstance(coupling, np.ndarray) else coupling
    here = np.flatnonzero(used)
    begin = Parameters(
        start.model.prior[here], start.model.confusions[np.ix_(np.arange(inner.n_annotators), here, here)]
    )
    pseudo: float | Floats = smoothing
    if shrinkage:
        pseudo = smoothing + shrinkage * inner.n_classes * crowd_confusion(inner)
    extras: dict[str, Any] = {"sweeps": sweeps, "potentials": between, "apart": apart, "kappa": link_strength}
    em = _GraphEM(inner, joined, ConfusionStep(pseudo), coupling, correlation, field, inference, **extras)
    # known answers may contradict the votes: the confusions have learned from them, vote shares have not
    q = start.posterior if annotations.gold is None else start.model.posterior(annotations)
    fitted = em(begin, np.ascontiguousarray(q[order][:, here]), max_iter, tol, callback)
    posterior = fitted.posterior[rank]
    if correlation == "auto" and fitted.details["correlation"] > 0:
        modest = _crowd_fit("auto", annotations, random_state, engine).posterior[:, here]
        # links are known, so items with links keep what follows from them
        averaged = joined.joined if apart is None else joined.joined & ~apart.joined
        posterior = np.where(averaged[rank, None], (posterior + modest) / 2, posterior)
    fitted = replace(
        fitted,
        posterior=posterior,
        cautions=(*start.cautions, *fitted.cautions),
        details={**start.details, **fitted.details, **name},
    )
    return fitted if used.all() else fitted.among(classes, used)


class _GraphEM:
    """The passes over one graph, and what they learn besides the confusions: δ and ρ."""

    def __init__(
        self,
        annotations: Annotations,
        graph: Graph,
        step: ConfusionStep,
        delta: float | Floats | None,
        correlation: float | Literal["auto"],
        kind: FieldKind,
        inference: Inference,
        *,
        sweeps: int = 3,
        potentials: Floats | None = None,
        apart: Graph | None = None,
        kappa: float = 0.0,
    ) -> None:
        self.sweeps, self.potentials = sweeps, potentials
        self.apart, self.kappa = apart, kappa
        self.annotations, self.graph, self.step, self.kind, self.inference = annotations, graph, step, kind, inference
        self.given = delta is not None
        self.gold: Ints | None = None if annotations.gold is None else annotations.gold.astype(np.int64)
        self.delta: float | Floats = 0.0 if delta is None else delta
        self.measure, self.correlation = correlation == "auto", 0.0 if correlation == "auto" else float(correlation)

    def __call__(self, at: Parameters, q: Floats, max_iter: int, tol: float, callback: Callback | None) -> Fit:
        """Run EM from parameters and a posterior."""
        a = self.annotations
        state = q.argmax(axis=1)
        history: list[float] = []
        converged = False
        log_likelihood = float("nan")
        begun = 0
        for iteration in range(1, max(max_iter, 1) + 1):
            log_labels = label_evidence(a.indptr, a.annotator, a.label, at.confusions)
            log_labels *= label_weights(a.labels_per_item, self.correlation, self.graph.joined)[:, None]
            if iteration - begun <= _SETTLE and not self.given:
                most = most_delta(edge_agreement(self.graph, log_labels, at.prior), q.shape[1])
                labelling = np.eye(q.shape[1])[state] if self.inference == "icm" else q
                self.delta = pseudo_likelihood_delta(self.graph, labelling, at.prior, self.kind, most)
            model = Field.of(self.graph, self.delta, at.prior, self.kind, self.apart, self.kappa, self.potentials)
            evidence = model.evidence(log_labels, at.prior, self.gold)
            if self.inference == "mean-field":
                model.mean_field(evidence, q, self.sweeps, _SWEPT)
            else:
                model.icm(evidence, state, self.sweeps)
                q = model.conditional(evidence, state)
            log_likelihood = model.log_likelihood(evidence, q)
            objective = log_likelihood + self.step.penalty(at)
            change = abs(objective - history[-1]) / max(abs(objective), 1.0) if history else float("nan")
            history.append(objective)
            asked = callback and callback(Progress(iteration, max_iter, objective, change))
            settled = (iteration - begun > _SETTLE or self.given) and len(history) > begun + 1
            converged = tol > 0 and settled and change <= tol
            if asked is True or iteration >= max_iter:
                break
            if self.measure and (converged or iteration >= max_iter // 2):
                self.measure = False
                if (found := error_correlation(a, q, at.confusions)) > _CHANCE:
                    self.correlation, begun, converged = found, iteration, False
            if converged:
                break
            at = self.step(vote_statistics(a.indptr, a.annotator, a.label, q, a.n_annotators))
        cautions = unconverged(converged, "EM on the graph", f"{len(history)} passes", tol)
        fitted = DawidSkene(*at, a.class_ids, a.annotator_ids)
        learned = {"delta": float(np.mean(self.delta)), "correlation": self.correlation}
        details = {**learned, "field": self.kind, "inference": self.inference}
        return Fit(fitted, q, log_likelihood, converged, history, cautions, details=details)


def _merged_fit(annotations: Annotations, graph: Any, must_link: Any, **options: Any) -> Fit:
    """Fit merged items, and give each item the result of its group."""
    if isinstance(options["method"], Fit):
        raise ParameterError("must_link merges items: give the method to start from by name, not a fit")
    group = linked_groups(must_link, annotations)
    delta = np.asarray(options["delta"]) if not isinstance(options["delta"], str) else np.empty(())
    if delta.ndim:
        options["delta"] = np.bincount(group, delta) / np.bincount(group)
    if options["cannot_link"] is not None:
        pairs = as_graph(options["cannot_link"], annotations)
        low, high, _ = pairs.edges()
        if (clash := np.flatnonzero(group[low] == group[high])).size:
            one, two = (annotations.items[end[clash[0]]] for end in (low, high))
            raise DataError(
                f"must_link joins {one!r} and {two!r}, which cannot_link keeps apart; remove one of the links"
            )
        options["cannot_link"] = merged_graph(pairs, group)
    items = merged_annotations(annotations, group)
    if graph is None and options["cannot_link"] is None:  # the merged items are independent
        method = "auto" if options["method"] == "majority" else options["method"]
        fit = _crowd_fit(method, items, options["random_state"], options["engine"])
    else:
        fit = network_em(items, merged_graph(_graph_or_none(graph, annotations, must_link), group), **options)
    return replace(fit, posterior=fit.posterior[group], hint=None if fit.hint is None else fit.hint[group])


def _graph_or_none(graph: Any, annotations: Annotations, links: Any) -> Graph:
    """Return the graph; with links, there may be none."""
    if graph is None and links is not None:
        none = np.empty(0, np.int64)
        return Graph.from_edges(none, none, n_items=annotations.n_items)
    return as_graph(graph, annotations)


def _crowd_fit(method: str, annotations: Annotations, random_state: Any, engine: Any) -> Fit:
    with placed(engine) as cluster:
        return registry.fit_at(cluster, method, annotations, random_state)


def _coupling(delta: Any, annotations: Annotations) -> float | Floats | None:
    """Return the coupling as a number or one per item; None for "auto"."""
    if isinstance(delta, str):
        if delta != "auto":
            raise ParameterError(f"delta must be a number ≥ 0, one for each item, or 'auto', not {delta!r}")
        return None
    values = np.asarray(delta, np.float64)
    if values.shape not in ((), (annotations.n_items,)) or not np.all(np.isfinite(values) & (values >= 0)):
        got = repr(delta) if values.size == 1 else f"values of shape {values.shape}, the least {values.min(initial=0)}"
        raise ParameterError(
            f"delta must be a number ≥ 0, one for each of the {annotations.n_items} items, or 'auto'; got {got}"
        )
    return float(values) if values.shape == () else values


def _potentials(potentials: Any, annotations: Annotations, *, given: bool) -> Floats | None:
    """Return the potentials of the pairs of classes that were used; raise unless they are symmetric and δ is given."""
    if potentials is None:
        return None
    values, K = np.asarray(potentials, np.float64), annotations.n_classes
    if values.shape != (K, K) or not np.isfinite(values).all() or not np.array_equal(values, values.T):
        raise ParameterError(
            f"potentials must be a symmetric matrix for the {K} classes, in the order of annotations.classes; got one "
            f"of shape {values.shape}"
        )
    if not given:
        raise ParameterError("potentials need a number for delta: 'auto' learns how often neighbours agree")
    here = np.flatnonzero(annotations.used_classes)
    return np.ascontiguousarray(values[np.ix_(here, here)])


def _check(field: str, inference: str, correlation: Any, **others: Any) -> None:
    check_parameters(others)
    if field not in ("stationary", "prior", "uniform"):
        raise ParameterError(f"field must be 'stationary', 'prior' or 'uniform', not {field!r}")
    if inference not in ("mean-field", "icm"):
        raise ParameterError(f"inference must be 'mean-field' or 'icm', not {inference!r}")
    if correlation != "auto" and not (isinstance(correlation, int | float | np.number) and 0 <= correlation <= 1):
        raise ParameterError(f"correlation must be a number from 0 to 1, or 'auto', not {correlation!r}")
