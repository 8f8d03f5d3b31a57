"""What each method computes from the labels that a stream holds and from the sums of the past.

``ds-em`` and ``one-coin`` run EM (:mod:`consilience.streams.em`), ``majority`` adds votes, and ``rob-symnmf``
factorises the pair counts of past and present together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.fitting.em import Callback, ConfusionStep, MStep, OneCoinStep, Parameters
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.methods.base.factor_model import model_of_factor, rotate_groups
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences
from consilience.moments.graph import groups
from consilience.moments.imputation import robust
from consilience.streams.em import LabelsWithPast, StreamFit, fit_held

__all__ = ["PSEUDO_LABELS", "STREAMED", "FitInput", "model_step", "pseudo_counts"]

#: Pseudo-labels in every cell of an annotator on average, distributed as the crowd answers, once a stream has a past:
#: an annotator who is new, or seen in one update only, is taken to be like the others until more is known.
PSEUDO_LABELS = 0.5


@dataclass(frozen=True)
class FitInput:
    """The labels that are held, and everything else that one of the methods needs."""

    held: LabelsWithPast
    start: Parameters  #: of the annotators of the held labels
    counts: Floats  #: latest expected counts of all annotators, (M, K, K)
    class_counts: Floats  #: and of classes, (K,)
    active: Ints  #: codes of the annotators of the held labels
    parameters: Mapping[str, Any]  #: set by the user
    votes: Floats | None  #: majority: earlier votes on the items, (N, K)
    pairs: CoOccurrences | None  #: rob-symnmf: pair counts of past and present
    seed: int | None
    callback: Callback | None


def model_step(method: str, parameters: Mapping[str, Any]) -> MStep:
    """Return the M-step of a method: from sums to parameters."""
    learn = parameters.get("prior", "learned") == "learned"
    smoothing = float(parameters.get("smoothing", 0.0))
    return OneCoinStep(smoothing, learn) if method == "one-coin" else ConfusionStep(smoothing, learn)


def pseudo_counts(counts: Floats, parameters: Mapping[str, Any]) -> Floats:
    """Return the pseudo-labels of every annotator, (K, K): the pooled confusion of all, scaled by the shrinkage."""
    pooled: Floats = counts.sum(axis=0) + 0.5
    pooled *= len(pooled) * float(parameters.get("shrinkage", PSEUDO_LABELS)) / pooled.sum(axis=0)
    return pooled


def _em(data: FitInput, start: Parameters | None = None, method: str = "ds-em") -> StreamFit:
    past, given = data.held.past, data.parameters
    sums = Statistics(past.counts + pseudo_counts(data.counts, given), past.class_counts, past.log_likelihood)
    options = {name: given[name] for name in ("max_iter", "tol", "accelerate") if name in given}
    step = model_step(method, given)
    return fit_held(replace(data.held, past=sums), start or data.start, step, callback=data.callback, **options)


def _majority(data: FitInput) -> StreamFit:
    a, past = data.held.labels, data.held.past
    votes = vote_counts(a.indptr, a.label, a.n_classes)
    if data.votes is not None:
        votes += data.votes
    if a.gold is not None:
        known = a.gold >= 0
        votes[known] = np.arange(a.n_classes) == a.gold[known, None]
    shares = votes / votes.sum(axis=1, keepdims=True)
    new = vote_statistics(a.indptr, a.annotator, a.label, shares, a.n_annotators)
    sums = Statistics(past.counts + new.counts, past.class_counts + new.class_counts, float("nan"))
    parameters = ConfusionStep()(sums)
    hint, log_likelihood = data.held.posterior(parameters)
    return StreamFit(parameters, shares, log_likelihood, hint=hint)


def _factorise_pairs(data: FitInput) -> StreamFit:
    """Factorise the pair counts, starting from the previous model; eqs (9)-(13) of Ibrahim & Fu (2022)."""
    assert data.pairs is not None
    given = data.parameters
    fit = {name: given[name] for name in ("reweigh", "count_weights", "max_iter", "tol") if name in given}
    turn = {"alpha": given.get("alpha", 1e-6), "decay": given.get("decay")}
    before = ConfusionStep()(Statistics(data.counts + pseudo_counts(data.counts, {}), data.class_counts, float("nan")))
    factors = robust(data.pairs, before.confusions * np.sqrt(before.prior), **fit)
    rng = np.random.default_rng(data.seed)
    factor = rotate_groups(
        factors.factors, groups(data.pairs), before, rotations=given.get("rotations", 10), random_state=rng, **turn
    )
    n_labels = np.rint(data.counts.sum(axis=(1, 2))).astype(np.int64)
    n_labels[data.active] = np.maximum(n_labels[data.active], data.held.labels.labels_per_annotator)
    names = Ids.range(before.prior.size), Ids.range(len(data.counts))
    model = DawidSkene(*model_of_factor(factor, n_labels, given.get("shrinkage", 0.25)), *names)
    model = model.align(DawidSkene(*before, *names))
    everybody = Parameters(model.prior, model.confusions)
    here = Parameters(model.prior, model.confusions[data.active])
    return StreamFit(here, *data.held.posterior(here), factors.converged, factors.history, everybody=everybody)


def _factorise_pairs_then_em(data: FitInput) -> StreamFit:
    """Run EM from the factorised pairs or from the previous model, whichever makes the labels more probable."""
    found = _factorise_pairs(data)
    better = found.log_likelihood > data.held.posterior(data.start)[1]
    return _em(data, found.parameters if better else None)


#: Method: how it fits held labels.  ``auto`` compares models over all labels, which sums do not allow: it continues as
#: ``ds-em``.
STREAMED: Mapping[str, Callable[[FitInput], StreamFit]] = {
    "ds-em": _em,
    "one-coin": partial(_em, method="one-coin"),
    "majority": _majority,
    "rob-symnmf": _factorise_pairs,
    "rob-symnmf+em": _factorise_pairs_then_em,
    "auto": _em,
}
