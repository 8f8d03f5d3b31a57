"""What each method makes of the labels that a stream holds, with the past behind them in sums.

``ds-em`` and ``one-coin`` go on with EM (:mod:`consilience.streams.em`), ``majority`` counts on, and
``rob-symnmf`` factorises the pair counts of past and present together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.fitting.em import Callback, ConfusionStep, MStep, OneCoinStep, Parameters
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.methods.symnmf import _rotate_groups, model_of_factor
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences
from consilience.moments.graph import groups
from consilience.moments.imputation import robust
from consilience.streams.em import Held, Solved, crowd_of, fit_held, posterior_of

__all__ = ["BEHIND", "STREAMED", "Situation", "behind", "model_step", "solve"]

#: Labels that stand behind every cell of an annotator on average, spread as the crowd answers, once a stream has a
#: past: whoever is new, or was met in one update only, is taken to be like the others until more is known.
BEHIND = 0.5


@dataclass(frozen=True)
class Situation:
    """The labels that are held, and what methods differ in."""

    held: Held
    start: Parameters  #: of the annotators of the held labels
    counts: Floats  #: expected counts of all annotators as they are known, (M, K, K)
    class_counts: Floats  #: and of classes, (K,)
    active: Ints  #: codes of the annotators of the held labels
    parameters: Mapping[str, Any]  #: what the user set
    votes: Floats | None = None  #: majority: votes that the items had, (N, K)
    pairs: CoOccurrences | None = None  #: rob-symnmf: pair counts of past and present
    seed: int | None = 0
    callback: Callback | None = None


def solve(method: str, now: Situation) -> Solved:
    """Find parameters and posteriors."""
    return STREAMED[method](now)


def model_step(method: str, parameters: Mapping[str, Any]) -> MStep:
    """Give the M-step of a method: from sums to parameters."""
    learn = parameters.get("prior", "learned") == "learned"
    smoothing = float(parameters.get("smoothing", 0.0))
    return OneCoinStep(smoothing, learn) if method == "one-coin" else ConfusionStep(smoothing, learn)


def behind(counts: Floats, parameters: Mapping[str, Any]) -> Floats:
    """Give the labels that stand behind every annotator, (K, K), by the counts of all."""
    K = counts.shape[1]
    made: Floats = K * float(parameters.get("shrinkage", BEHIND)) * crowd_of(counts)
    return made


def _by_em(now: Situation, start: Parameters | None = None, method: str = "ds-em") -> Solved:
    past = now.held.past
    counts = past.counts + behind(now.counts, now.parameters)
    held = Held(now.held.labels, Statistics(counts, past.class_counts, past.log_likelihood), now.held.ratios)
    options = {name: now.parameters[name] for name in ("max_iter", "tol", "accelerate") if name in now.parameters}
    step = model_step(method, now.parameters)
    return fit_held(held, start or now.start, step, callback=now.callback, **options)


def _one_coin(now: Situation) -> Solved:
    return _by_em(now, method="one-coin")


def _majority(now: Situation) -> Solved:
    a = now.held.labels
    votes = vote_counts(a.indptr, a.label, a.n_classes)
    if now.votes is not None:
        votes += now.votes
    if a.gold is not None:
        known = a.gold >= 0
        votes[known] = np.arange(a.n_classes) == a.gold[known, None]
    shares = votes / votes.sum(axis=1, keepdims=True)
    new = vote_statistics(a.indptr, a.annotator, a.label, shares, a.n_annotators)
    past = now.held.past
    sums = Statistics(past.counts + new.counts, past.class_counts + new.class_counts, float("nan"))
    parameters = ConfusionStep()(sums)
    hint, log_likelihood = posterior_of(now.held, parameters)
    return Solved(parameters, shares, log_likelihood, hint=hint)


def _from_pairs(now: Situation) -> Solved:
    """Factorise the pair counts again, from the model that was there; eqs (9)-(13) of Ibrahim & Fu (2022)."""
    assert now.pairs is not None
    given = now.parameters
    fit = {name: given[name] for name in ("reweigh", "count_weights", "max_iter", "tol") if name in given}
    turn = {"alpha": given.get("alpha", 1e-6), "decay": given.get("decay")}
    before = ConfusionStep()(Statistics(now.counts + behind(now.counts, {}), now.class_counts, float("nan")))
    factors = robust(now.pairs, before.confusions * np.sqrt(before.prior), **fit)
    rng = np.random.default_rng(now.seed)
    factor = _rotate_groups(
        factors.factors, groups(now.pairs), before, rotations=given.get("rotations", 10), random_state=rng, **turn
    )
    n_labels = np.rint(now.counts.sum(axis=(1, 2))).astype(np.int64)
    n_labels[now.active] = np.maximum(n_labels[now.active], now.held.labels.labels_per_annotator)
    names = Ids.range(before.prior.size), Ids.range(len(now.counts))
    made = DawidSkene(*model_of_factor(factor, n_labels, given.get("shrinkage", 0.25)), *names)
    made = made.align(DawidSkene(*before, *names))
    everybody = Parameters(made.prior, made.confusions)
    here = Parameters(made.prior, made.confusions[now.active])
    posterior, log_likelihood = posterior_of(now.held, here)
    return Solved(here, posterior, log_likelihood, factors.converged, factors.history, everybody=everybody)


def _from_pairs_by_em(now: Situation) -> Solved:
    """Run EM from the factorised pairs or from where it was, whichever makes the labels more probable."""
    made = _from_pairs(now)
    better = made.log_likelihood > posterior_of(now.held, now.start)[1]
    return _by_em(now, made.parameters if better else None)


#: Method: what it makes of held labels.  ``auto`` compares models over all labels, which a past in sums does not allow:
#: it goes on as ``ds-em``.
STREAMED: Mapping[str, Callable[[Situation], Solved]] = {
    "ds-em": _by_em,
    "one-coin": _one_coin,
    "majority": _majority,
    "rob-symnmf": _from_pairs,
    "rob-symnmf+em": _from_pairs_by_em,
    "auto": _by_em,
}
