"""Dawid-Skene from single, pairwise and triple statistics, matched by alternating optimisation and ADMM.

Three annotators with confusions of full rank determine their confusions and the prior (Traganitis 2019, Lemma 3.1), so
no annotator has to be near perfect, as with pairs alone.  With missing labels a statistic is a mean over the items that
all of its annotators labelled (eq. (3.29)), weighted by their number, which is proportional to one over its variance.
:mod:`consilience.factor.moment_matching` solves eq. (3.25).

There are M³/6 triples.  Where these are too many, annotators are split into groups (section 3.2.6), those with many
items in common together, and triples are taken within groups.  Pairs are taken between all, so that all groups have the
same prior and order of classes; the thesis solves each group separately and averages the priors.

With few labels the moments are noise.  Unless the labels are far more probable under the model found than under the
votes that it started from, both are fitted to three quarters of the items and compared on the labels of the last
quarter, four times.  If these are more probable under the votes, the model of the votes is the result, and a caution
says so.

P. A. Traganitis, "Scalable and ensemble learning for big data" (thesis, University of Minnesota, 2019), chapter 3;
P. A. Traganitis, A. Pagès-Zamora and G. B. Giannakis, "Blind multiclass ensemble classification", IEEE Transactions on
Signal Processing 66 (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from consilience.engine.passes import Labels, Passes, passes_of
from consilience.exceptions import ConvergenceWarning, FewLabelsWarning
from consilience.factor.moment_matching import Matching, MomentProblem, Moments
from consilience.fitting.em import Callback, ConfusionStep, Parameters, Progress
from consilience.fitting.fit import Caution, Fit, vote_start
from consilience.fitting.known import by_agreement, taught
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.cooccurrence import triples_fit
from consilience.methods.base.canonical import Order
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.factor_model import model_of_factor
from consilience.methods.base.method import THREE_ANNOTATORS, Method
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences
from consilience.moments.graph import groups as components
from consilience.moments.label_pairs import items_by_content
from consilience.published import AsPublished
from consilience.validation import one_of

__all__ = ["METHOD", "TensorADMM", "tensor_admm"]

#: Labels added to every cell of the vote start, so that no confusion is singular.
_START_SMOOTHING = 0.1
#: Gain of the matching over the votes that it starts from, in nats per free parameter, above which no labels are held
#: out, and the parts of the items that are held out in turn.
#: origin: twice what fitting one parameter to noise gains in expectation (Akaike 1974), and convention; alternatives: a
#: gain of 0.25 on the labels of the fit, and no rule; sensitivity, 30 crowds of ten annotators that were not looked at
#: before: with 100 items and a prior of 0.9 and 0.1 the mean error is 3.8 % and the worst 15 % (4.5 and 21 with the
#: gain of 0.25, 5.7 and 39 without a rule, votes 4.7 and 12); three classes 7.0 and 22 (7.9 and 30 for both others); 50
#: items and a prior of 0.7 and 0.3 2.7 and 10 (2.3 and 10); 1000 items the same for all three.
#: The parts depend on a hash of the labels, which has changed since: 100 items have 3.9 and 15 % on 60 other crowds,
#: but 6.5 and 51 % on the 30 crowds of the seeds 0 to 29 (5.3 and 27 before).
_CLEAR_GAIN, _FOLDS = 2.0, 4
#: Free parameters above which labels are not held out, for time; then a gain of so many nats each is asked for.
_MOST_TESTED, _LEAST_GAIN = 5000, 0.25
#: Labels of the sample that is held out in turn, at least, where there are more; chosen for time and memory: 400 for
#: every parameter.
_TESTED = 1 << 21
#: Labels of an item whose pairs are counted where there are very many annotators.  Chosen for time: thirty labels
#: show the truth of an item, and each further one adds pairs that are seen once.
_MOST_LABELS = 30
#: Most annotators times classes of a group: its triples take the cube of it.
_GROUP_CELLS = 256
#: Most groups; annotators in none of them are judged by pairs.
_MOST_GROUPS = 32


class TensorADMM(AsPublished, IterativeEstimator):
    """Confusions that match single, pairwise and triple statistics, by AO-ADMM (Traganitis et al. 2018).

    It needs three annotators.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    groups
        Groups of annotators within which triples are taken; by default as few as can be counted.
    rule
        Labels by the largest posterior ("map"), or by the largest likelihood ("ml"), the prior held
        uniform.
    prior
        Learn the class prior, or hold it uniform (Remark 3.4).
    count_weights
        Weight a statistic by the items behind it; else all count the same, as in the thesis.
    init
        First start of the matching, "votes" or "random".
    starts
        Starts of the matching: the first, then random ones.  The best by its objective is kept.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers (judged by the
        votes).
    fallback
        Keep the model of the votes where it predicts labels as well; False always returns the matching.
    max_iter, tol
        Sweeps over the annotators, and the relative change of the objective that ends them.
    random_state
        Decides everything that is random.
    callback
        Called after every sweep; ends the fit by returning True.
    """

    _method = "tensor-admm"

    groups: int | None = None
    rule: Literal["map", "ml"] = "map"
    prior: Literal["learned", "uniform"] = "learned"
    count_weights: bool = True
    init: Literal["votes", "random"] = "votes"
    starts: int = 1
    shrinkage: float = 0.25
    fallback: bool = True
    max_iter: int = 500
    tol: float = 1e-6


def tensor_admm(
    annotations: Labels,
    *,
    groups: int | None = None,
    rule: Literal["map", "ml"] = "map",
    prior: Literal["learned", "uniform"] = "learned",
    count_weights: bool = True,
    init: Literal["votes", "random"] = "votes",
    starts: int = 1,
    shrinkage: float = 0.25,
    fallback: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by matching moments up to the third order; :class:`TensorADMM` documents the parameters."""
    one_of("init", init, ("votes", "random"))
    passes, rng = passes_of(annotations), np.random.default_rng(random_state)
    M, K = passes.n_annotators, passes.n_classes
    options: dict[str, Any] = {"groups": groups, "count_weights": count_weights, "shrinkage": shrinkage}
    learn = prior == "learned"
    match: Callable[..., Any] = partial(_matched, learn_prior=learn, max_iter=max_iter, tol=tol, **options)

    ended = False

    def tell(sweep: int, objective: float, change: float) -> bool:
        nonlocal ended
        ended = callback is not None and bool(callback(Progress(sweep, max_iter, objective, change)))
        return ended

    drawn = [_random_start(rng, M, K) for _ in range(starts if init == "random" else starts - 1)]
    votes, models, found, members = match(passes, by_votes=init == "votes", others=drawn, callback=tell)
    best = int(np.argmin([matching.objective for matching in found]))
    cautions: list[Caution] = []
    if tol > 0 and not found[best].converged:
        sentence = f"the matching of moments did not converge in {len(found[best].history)} sweeps; raise max_iter"
        cautions.append((sentence, ConvergenceWarning))
    if not any(who.size >= 3 for who in members):
        sentence = "no three annotators could be taken together: without triples, pairs leave the confusions open"
        cautions.append((sentence, FewLabelsWarning))
    chosen = models[best]
    # a fit that its callback has ended is not followed by further ones
    if fallback and not ended and not _is_better(passes, chosen, votes, match):
        chosen = votes
        sentence = "the labels are too few for moments: the model of the votes predicts them as well, and is kept"
        cautions.append((sentence, FewLabelsWarning))
    weights = chosen.prior if rule == "map" else np.full(K, 1.0 / K)
    model = DawidSkene(weights, chosen.confusions, passes.class_ids, passes.annotator_ids)
    return Fit(
        model,
        passes.posterior(model),
        passes.sweep(model.prior, model.confusions).log_likelihood,
        found[best].converged,
        found[best].history,
        tuple(cautions),
        candidates=tuple(model for model in (votes, *models) if model is not chosen),
        details={"groups": len(members), "estimated_prior": chosen.prior.tolist()},
    )


METHOD = Method(
    "tensor-admm",
    tensor_admm,
    "TensorADMM",
    "confusions that match pairs and triples, by AO-ADMM",
    needs=(THREE_ANNOTATORS,),
    everywhere=True,
)


def _matched(
    data: Labels,
    *,
    groups: int | None,
    count_weights: bool,
    shrinkage: float,
    by_votes: bool = True,
    others: Sequence[Parameters] = (),
    **solving: Any,
) -> tuple[Parameters, list[Parameters], list[Matching], list[Ints]]:
    """Return the model of the votes, the models and matchings from there and from ``others``, and the groups.

    Groups and ``others`` are in canonical order, in which the problem is solved; models are not.
    """
    passes = passes_of(data)
    order = Order.of(passes)
    pairs = order.pairs(passes.pairs(_MOST_LABELS))
    members = _groups(pairs, groups)
    problem = MomentProblem(
        *_moments(passes, order, pairs, members, count_weights), passes.n_annotators, passes.n_classes
    )
    votes = vote_start(passes, ConfusionStep(_START_SMOOTHING, solving["learn_prior"]))
    starts = (*[order.parameters(votes)] * by_votes, *others)
    found = [problem.solve(*start, **solving) for start in starts]
    pieces = [order.annotators[piece.members] for piece in components(pairs)]
    models = [
        _model(passes, order.back.parameters(Parameters(matching.prior, matching.confusions)), pieces, votes, shrinkage)
        for matching in found
    ]
    return votes, models, found, members


def _groups(pairs: CoOccurrences, groups: int | None) -> list[Ints]:
    """Split annotators into groups with many items in common.

    A group begins with the annotator who has most labels of those left, and adds those with most items in common with
    it.  Who shares no counted item is in none.
    """
    M, K = pairs.n_annotators, pairs.n_classes
    if groups is None:
        most = max(_GROUP_CELLS // K, 3)
        if most >= M or not triples_fit(3, K):
            return [np.arange(M)] if triples_fit(M, K) else []
        groups = -(-M // most)
    if groups == 1:
        return [np.arange(M)]
    size = -(-M // groups)
    around = pairs.neighbours
    left = np.ones(M, np.bool_)
    made: list[Ints] = []
    left[np.diff(around.indptr) == 0] = False
    while left.any() and len(made) < min(groups, _MOST_GROUPS):
        shared = np.zeros(M)
        who: list[int] = []
        while len(who) < size:
            # less than half an item: the canonical order only breaks ties
            score = np.where(left, shared - np.arange(M) / (2 * M), -np.inf)
            new = int(np.argmax(score))
            if not left[new]:
                break
            who.append(new)
            left[new] = False
            row = slice(around.indptr[new], around.indptr[new + 1])
            shared[around.neighbour[row]] += pairs.totals[around.pair[row]]
        if len(who) > 2:
            made.append(np.sort(np.array(who)))
    return made


def _moments(
    passes: Passes, order: Order, pairs: CoOccurrences, members: list[Ints], count_weights: bool
) -> tuple[Moments, Moments, Moments]:
    """Return the statistics of eq. (3.29): of annotators, of all pairs, and of the triples within groups."""
    K, among = passes.n_classes, order.classes
    said = passes.survey.said[order.annotators][:, among]
    heard = np.flatnonzero(said.sum(axis=1))
    threes = [(who, passes.triples(order.annotators[who])) for who in members if who.size >= 3]

    def weighted(who: Any, frequencies: Floats, totals: Floats) -> Moments:
        return Moments(who, frequencies, totals.astype(np.float64) if count_weights else np.ones(len(who)))

    return (
        weighted(heard[:, None], said[heard] / said[heard].sum(axis=1, keepdims=True), said[heard].sum(axis=1)),
        weighted(pairs.who, pairs.frequencies, pairs.totals),
        weighted(
            np.concatenate([np.empty((0, 3), np.int64), *(who[t.who] for who, t in threes)]),
            np.concatenate(
                [np.empty((0, K, K, K)), *(t.frequencies[:, among][:, :, among][..., among] for _, t in threes)]
            ),
            np.concatenate([np.empty(0), *(t.totals for _, t in threes)]),
        ),
    )


def _is_better(passes: Passes, model: Parameters, start: Parameters, match: Callable[..., Any]) -> bool:
    """Return whether a model predicts labels better than its start."""
    K = passes.n_classes
    free = int(np.count_nonzero(passes.labels_per_annotator)) * K * (K - 1) + K - 1
    gain = _rise(passes, model, start)
    if gain <= 0.0 or gain > _CLEAR_GAIN * free:
        return gain > 0.0 or free == 0
    if free > _MOST_TESTED or passes.n_items < 2 * _FOLDS:
        return gain > _LEAST_GAIN * free
    a = passes.sample(passes.n_labels // _TESTED)
    part = np.empty(a.n_items, np.int64)
    part[items_by_content(a)] = np.arange(a.n_items) % _FOLDS
    held_out = 0.0
    for f in range(_FOLDS):
        votes, (found, *_), *_ = match(a.select_items(part != f))
        held_out += _rise(passes_of(a.select_items(part == f)), found, votes)
    return bool(held_out > 0.0)


def _rise(passes: Passes, model: Parameters, start: Parameters) -> float:
    """Return how much more probable the labels are under a model than under its start, in nats."""
    return passes.sweep(*model).log_likelihood - passes.sweep(*start).log_likelihood


def _random_start(rng: np.random.Generator, M: int, K: int) -> Parameters:
    """Draw annotators who are better than chance."""
    share = rng.uniform(0.0, 0.6, (M, 1, 1))
    drawn = (1 - share) * rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1) + share * np.eye(K)
    return Parameters(np.full(K, 1.0 / K), drawn)


def _model(passes: Passes, matched: Parameters, pieces: list[Ints], start: Parameters, shrinkage: float) -> Parameters:
    """Return the model of a matching, with classes in the order of gold, or in which most labels agree with the truth.

    Each connected piece of the crowd is ordered separately.
    """
    factor = matched.confusions * np.sqrt(matched.prior)
    prior, confusions = model_of_factor(factor, passes.labels_per_annotator, shrinkage)
    counts = passes.sweep(prior, confusions, gold=False).counts
    if passes.has_gold and len(pieces) > 1:
        # gold may show another order for each piece: the one nearest to the start, which knows it
        counts = passes.labels_per_annotator[:, None, None] * (start.confusions.transpose(0, 2, 1) @ confusions)
    ordered = confusions.copy()
    for who in pieces[::-1]:  # the largest comes last: the prior follows it
        order = by_agreement(counts[who])
        ordered[who] = confusions[who][:, :, order]
    return taught(passes, Parameters(prior[order], ordered))
