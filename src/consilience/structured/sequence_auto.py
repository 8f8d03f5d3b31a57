"""Sequences by variational Bayes: as many chains, and as rich, as the labels support.

Two models are fitted: labels that depend only on the truth, and labels that also depend on what the annotator said of
the token before.  The lower bound chooses.  If it chooses the second, four chains are averaged: read forwards and
backwards, with one and with two states per class.  The second state starts with the tokens on which annotators
disagree, and allows annotators to err together.  So does ease, if it raises the lower bound: some names are overlooked
by many (:mod:`consilience.structured.eased_beliefs`).

If silence is a label, as with functions that name what they know and are silent elsewhere, one plain chain is fitted.
It knows where a name begins and ends, but takes every silence for a verdict: a name that only one function knows would
be lost to all the others that do not know it.  So its posterior is averaged with the votes of those who speak.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.sequences import SequenceAnnotations
from consilience.engine.dask import Cluster
from consilience.engine.progress import Callback
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.models.chain_mixture import ChainMixture, Never
from consilience.models.ease import Ease
from consilience.models.hidden_markov import chain_sweep
from consilience.spans import are_tags, read_tags
from consilience.structured.baum_welch import ChainMStep
from consilience.structured.chain_beliefs import ChainBeliefs
from consilience.structured.chain_fit import ChainFit, crowd_chain, fit_chain, statistics_of
from consilience.structured.eased_beliefs import EasedBeliefs

__all__ = ["TOL", "continues_span", "eased_labels", "fit_auto", "fit_bayes", "fit_silent"]

#: Relative change of the objective that ends the passes: of a plain chain, and of chains in context.
TOL, TOL_IN_CONTEXT = 1e-6, 1e-5
#: Least share of each of the two states of a class at the start.
_LEAST_SHARE = 0.05
#: A richer model must have a lower bound higher by this much.
_MARGIN = 20.0
#: Pseudo-labels: in every cell, and in every column spread as the crowd answers.
_SMOOTHING, _SHRINKAGE = 0.3, 3.0
#: σ, how much tokens differ in ease: to find out whether they do, and if they do.
_SPREAD_TESTED, _SPREAD_FITTED = 0.35, 1.3
#: Descriptions of the two models.
_PLAIN = "labels that depend on the truth alone"
_CONTEXT = "labels that also depend on what the annotator said before; four chains averaged"


def fit_auto(
    sequences: SequenceAnnotations,
    crowd: Fit,
    never: Never | None,
    *,
    max_iter: int,
    tol: float | None,
    callback: Callback | None,
    cluster: Cluster | None = None,
) -> ChainFit:
    """Fit chains by variational Bayes, starting from a fit of independent tokens."""
    a = sequences.tokens
    if a.gold is None and a.n_classes > 1 and int(a.labels_per_item.max(initial=0)) < 2:
        return _independent(sequences, crowd, never)
    passes: dict[str, Any] = {"max_iter": max_iter, "callback": callback, "cluster": cluster}
    tolerance = TOL if tol is None else tol
    plain = fit_bayes(sequences, crowd.posterior, never, context=False, states=1, tol=tolerance, **passes)
    passes["tol"] = TOL_IN_CONTEXT if tol is None else tol
    bounds = {_PLAIN: plain.history[-1]}
    chosen, fits, hardness = _PLAIN, [plain], 0.0
    why = "there are too few labels to learn more from"
    if a.n_annotators * (a.n_classes + 1) * a.n_classes**2 <= a.n_labels:
        votes = crowd.posterior if _misled(a) else sequences.vote_shares()
        forward = fit_bayes(sequences, votes, never, context=True, states=1, **passes)
        bounds[_CONTEXT] = forward.history[-1]
        gain = bounds[_CONTEXT] - bounds[_PLAIN]
        if gain > _MARGIN:
            chosen = _CONTEXT
            fits, hardness = _in_context(sequences, votes, never, forward, **passes)
        why = f"it explains the labels better (log-evidence higher by {abs(gain):.0f})"
    if hardness > 0:
        why += f"; so does that some tokens are harder than others (higher by {hardness:.0f})"
    backward = (False, False, True, True)
    chains = (replace(fit.model.chains[0], backward=back) for fit, back in zip(fits, backward, strict=False))
    return ChainFit(
        ChainMixture(tuple(chains)),
        float(np.mean([fit.log_likelihood for fit in fits])),
        all(fit.converged for fit in fits),
        fits[0].history,
        tuple(dict.fromkeys(caution for fit in fits for caution in fit.cautions)),
        {"chosen": chosen, "why": why, "lower_bounds": bounds, "gain_of_hard_tokens": hardness},
    )


def fit_silent(
    sequences: SequenceAnnotations,
    never: Never | None,
    *,
    max_iter: int,
    tol: float | None,
    callback: Callback | None,
    cluster: Cluster | None = None,
) -> ChainFit:
    """Fit one chain where silence is a label; the mean of its posterior and the votes decides."""
    passes: dict[str, Any] = {"max_iter": max_iter, "callback": callback, "cluster": cluster}
    votes = sequences.vote_shares()
    fit = fit_bayes(sequences, votes, never, context=False, states=1, tol=TOL if tol is None else tol, **passes)
    assert sequences.silence is not None
    label = sequences.tokens.class_ids[sequences.silence]
    why = (
        f"silence counts as {label!r}: a chain in which everybody answers is averaged with the votes of those who speak"
    )
    details = {"chosen": "chain+votes", "why": why}
    return replace(fit, model=replace(fit.model, votes=True), details=details)


def _in_context(
    sequences: SequenceAnnotations, votes: Floats, never: Never | None, forward: ChainFit, **passes: Any
) -> tuple[list[ChainFit], float]:
    """Fit four chains in context, two of them backwards, and return what ease adds to the objective of the first."""
    eased = fit_bayes(sequences, votes, never, context=True, states=1, spread=_SPREAD_TESTED, **passes)
    hardness = eased.history[-1] - forward.history[-1]
    spread = _SPREAD_FITTED if hardness > 0 else 0.0
    options = {"context": True, "spread": spread, **passes}
    fits = [forward if spread == 0 else fit_bayes(sequences, votes, never, states=1, **options)]
    fits.append(fit_bayes(sequences, votes, never, states=2, **options))
    # read backwards, a forbidden successor is a forbidden predecessor
    reverse = None if never is None else Never(np.zeros_like(never.start), never.pair.T)
    backwards = sequences.backwards(), votes[sequences.turned()], reverse
    fits += [fit_bayes(*backwards, states=states, backward=True, **options) for states in (1, 2)]
    return fits, hardness


def _misled(tokens: Annotations) -> bool:
    """Return whether labels of tokens with gold agree with it best if classes trade names: then votes mislead.

    The fit of independent tokens has learned from gold which class is which.
    """
    if tokens.gold is None:
        return False
    from scipy.optimize import linear_sum_assignment

    K, truth = tokens.n_classes, np.repeat(tokens.gold, tokens.labels_per_item)
    known = truth >= 0
    counts = np.bincount(tokens.label[known].astype(np.int64) * K + truth[known], minlength=K * K).reshape(K, K)
    order = linear_sum_assignment(-counts)[1]
    return bool(counts[np.arange(K), order].sum() > np.trace(counts))


def _independent(sequences: SequenceAnnotations, crowd: Fit, never: Never | None) -> ChainFit:
    """Return tokens without dependence: if no token has two labels, a learned order would only confirm the labels."""
    prior = crowd.model.prior
    model = crowd_chain(sequences, crowd, prior, np.repeat(prior[:, None], prior.size, axis=1), never)
    likelihood = model.log_likelihood(sequences)
    return ChainFit(ChainMixture((model,)), likelihood, cautions=crowd.cautions, details=crowd.details)


def fit_bayes(
    sequences: SequenceAnnotations,
    posterior: Floats,
    never: Never | None,
    *,
    context: bool,
    states: int,
    spread: float = 0.0,
    backward: bool = False,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    cluster: Cluster | None = None,
) -> ChainFit:
    """Fit one chain by variational Bayes from a posterior (N, K).

    The prior of every annotator is the confusion of the crowd with the votes, or with ``posterior`` if gold contradicts
    them.  With a ``spread``, tokens differ in ease; ``backward`` says that the sequences are read from their ends.
    """
    a = sequences.tokens
    K = a.n_classes
    votes = sequences.vote_shares()
    ease = Ease(spread, np.repeat(eased_labels(sequences), states))
    degrees = ease.shares.size
    sweep = chain_sweep(sequences, context=context, states=states * degrees)
    crowd = chain_sweep(sequences, context=context, states=1) if states * degrees > 1 else sweep
    judged = posterior if _misled(a) else votes
    pooled = statistics_of(sequences, crowd, judged).counts.sum(axis=0).reshape(-1, K, K) + 0.5
    pooled /= pooled.sum(axis=1, keepdims=True)
    pseudo = np.repeat(_SMOOTHING + _SHRINKAGE * pooled, states, axis=2)
    by_state = _in_states(posterior, votes) if states > 1 else posterior
    begin = statistics_of(sequences, sweep, np.repeat(by_state, degrees, axis=1) * np.tile(ease.shares, K * states))
    if never is not None:
        pair = np.repeat(np.repeat(never.pair, states, axis=0), states, axis=1)
        never = Never(np.repeat(never.start, states), pair)
    step: ChainMStep = ChainBeliefs(pseudo, never)
    if spread > 0:
        lasting = np.kron(continues_span(sequences, backward), np.ones((states, states), np.bool_))
        step = EasedBeliefs(pseudo, never, ease, lasting)
    return fit_chain(sequences, sweep, begin, step, max_iter=max_iter, tol=tol, callback=callback, cluster=cluster)


def eased_labels(sequences: SequenceAnnotations) -> Ints:
    """Return the label that ease affects, for every class: O if classes are tags, else the right one, (K,)."""
    classes = list(sequences.tokens.class_ids)
    own = np.arange(len(classes))
    outside = own[read_tags(classes).role == "O"] if are_tags(classes) else own
    return np.full_like(own, outside[0]) if outside.size == 1 else own


def continues_span(sequences: SequenceAnnotations, backward: bool) -> Bools:
    """Return ``[i, k]``: whether a token of class i continues the span of its neighbour k, (K, K)."""
    classes = list(sequences.tokens.class_ids)
    if not are_tags(classes):
        return np.zeros((len(classes), len(classes)), np.bool_)
    tags = read_tags(classes)
    later, earlier = np.isin(tags.role, ["I", "E"]), np.isin(tags.role, ["B", "I"])
    on: Bools = later[:, None] & earlier & (tags.type[:, None] == tags.type)
    return on.T if backward else on


def _in_states(posterior: Floats, votes: Floats) -> Floats:
    """Divide every token between the two states of its class: the second gets those on which annotators disagree."""
    differ = np.clip(1.0 - votes.max(axis=1), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    shares = np.stack([1.0 - differ, differ], axis=1)
    shared: Floats = (posterior[:, :, None] * shares[:, None, :]).reshape(len(posterior), -1)
    return shared
