"""From labels of tokens to a hidden Markov model: in two steps by moments, by Baum-Welch, or as the labels ask for.

``hmm``      Confusions from any crowd method, tokens taken as independent; then the transitions from what annotators
             said of neighbouring tokens (thesis Alg. 4.2, (4.5)-(4.6)).
``hmm+em``   The same, then Baum-Welch (Alg. 4.1).
``auto``     Variational Bayes, for labels that depend on the truth alone, and for labels that also depend on what the
             annotator said of the token before.  The lower bound tells which suits the data.  Where it is the second,
             four chains are averaged: read forwards and backwards, with one and with two states a class.  The second
             state begins with the tokens on which annotators differ, and lets annotators err together.  So does
             ease, if the labels are more probable with it: some names are overlooked by many
             (:mod:`consilience.structured.eased_beliefs`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from consilience.data.sequences import SequenceAnnotations
from consilience.engine.checkpoint import Checkpoint, Keeper
from consilience.engine.dask import Cluster, OnCluster, placed
from consilience.engine.fingerprint import digest_of_array, fingerprint
from consilience.engine.passes import InMemory
from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.factor.transitions import fit_transitions
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit, crowd_confusion, unconverged, vote_posterior
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.chains import ChainStatistics, ChainSweep
from consilience.kernels.lagged import has_predecessor
from consilience.methods.base import registry
from consilience.models.chain_mixture import ChainMixture, Never
from consilience.models.ease import Ease
from consilience.models.hidden_markov import HiddenMarkov, chain_sweep
from consilience.moments.lagged import lagged_moments
from consilience.spans import are_tags, forbidden_starts, forbidden_transitions, read_tags
from consilience.structured.baum_welch import ChainMStep, ChainParameters, ModeStep, run_baum_welch
from consilience.structured.chain_beliefs import ChainBeliefs
from consilience.structured.eased_beliefs import EasedBeliefs

__all__ = ["CHAIN", "ChainFit", "fit_auto", "fit_hmm", "fit_sequences", "split_name"]

CHAIN = "+hmm"
#: Relative change of the objective that ends the passes.
_TOL, _TOL_IN_CONTEXT = 1e-6, 1e-5
#: How surely a token starts in the first state of its class, at the least and at the most.
_LEAST_SHARE = 0.05
#: A richer model must have a lower bound higher by so many nats.
_MARGIN = 20.0
#: Probability of a transition that the moments give none.
_UNSEEN = 1e-6
#: Pseudo-labels of variational Bayes: in every cell, and in every column spread as the crowd answers.
_SMOOTHING, _SHRINKAGE = 0.3, 3.0
#: How much tokens differ in ease: to see whether they do, and where they do.
_LOOKED_FOR, _ALLOWED_FOR = 0.35, 1.3


@dataclass(frozen=True)
class ChainFit:
    """A fitted chain, and how it was found."""

    model: ChainMixture
    log_likelihood: float
    converged: bool = True
    history: list[float] = field(default_factory=list)
    cautions: tuple[Caution, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def split_name(method: str) -> tuple[str, bool, bool]:
    """Split ``crowd+hmm+em`` into the crowd method, whether a chain is asked for, and whether EM refines it.

    ``auto`` stands for itself, ``hmm`` for ``auto+hmm``; the crowd method of a plain name is that name.
    """
    if method == "auto":
        return "auto", False, False
    refined = method.endswith(registry.REFINED)
    name = method.removesuffix(registry.REFINED) if refined else method
    if name == CHAIN[1:]:
        return "auto", True, refined
    if not name.endswith(CHAIN):
        raise ParameterError(
            f"{method!r} is no method for sequences: they are 'auto', and any crowd method followed by '{CHAIN}' or "
            f"'{CHAIN}{registry.REFINED}', such as 'ds-em{CHAIN}{registry.REFINED}'"
        )
    base = name.removesuffix(CHAIN)
    registry.resolve(base)
    return base, True, refined


def fit_sequences(
    sequences: SequenceAnnotations,
    method: str = "auto",
    *,
    valid: bool = True,
    smoothing: float | None = None,
    shrinkage: float | None = None,
    max_iter: int = 500,
    tol: float | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    engine: Any = "local",
    checkpoint: str | os.PathLike[str] | None = None,
) -> ChainFit:
    """Fit a hidden Markov model to what annotators said of tokens in order.

    Parameters
    ----------
    sequences
        The labels.  Gold tokens are held at their gold.
    method
        "auto", or a crowd method with ``+hmm`` or ``+hmm+em``.
    valid
        Where the classes are BIO tags: hold transitions that cannot be (I-x after O) at zero.
    smoothing, shrinkage
        For ``+hmm+em``: labels added to every cell of every confusion, evenly and as the crowd answers; 0.01 and 0.25
        by default.
    max_iter, tol
        Passes over the data for one chain, and the relative change of the objective that ends them (0: run all);
        by default 1e-6, and 1e-5 for chains in context, which gain nothing from more.
    random_state
        Decides what is random in the crowd method.
    callback
        Told of every pass; ends the fit by returning True.
    engine
        Where the passes run: "local", "dask", or a client of Dask's, whose workers hold the sequences.
    checkpoint
        Folder in which ``+hmm+em`` keeps what it has learned so far: killed, it goes on from there.
    """
    registry.check_parameters(
        {"max_iter": max_iter, "tol": tol or 0.0, "smoothing": smoothing or 0.0, "shrinkage": shrinkage or 0.0}
    )
    base, _, refined = split_name(method)
    if method == "auto" and not (smoothing is None and shrinkage is None):
        raise ParameterError("'auto' learns how far to smooth: smoothing and shrinkage are for '+hmm+em'")
    never = forbidden(sequences) if valid else None
    kept = None
    if checkpoint is not None:
        given = {"valid": valid, "smoothing": smoothing, "shrinkage": shrinkage, "max_iter": max_iter, "tol": tol}
        of = {"method": method, "parameters": given, "seed": random_state}
        kept = Keeper(Checkpoint(checkpoint, of).of_labels(_fingerprint(sequences)), "baum-welch")
    with placed(engine) as cluster:
        passes: dict[str, Any] = {"max_iter": max_iter, "callback": callback, "cluster": cluster}
        if method == "auto":
            return fit_auto(sequences, never, random_state=random_state, tol=tol, **passes)
        first = fit_hmm(sequences, _crowd_fit(sequences, base, random_state, cluster), never)
        if not refined:
            return first
        a = sequences.tokens
        evenly, alike = 0.01 if smoothing is None else smoothing, 0.25 if shrinkage is None else shrinkage
        pseudo = evenly + alike * a.n_classes * crowd_confusion(a)
        step = ModeStep(a.n_classes, pseudo, 0.01, never)
        sweep = chain_sweep(sequences, context=False, states=1)
        begin = sweep(*parameters_of(first.model.chains[0]))
        fitted = _run(sequences, sweep, begin, step, tol=_TOL if tol is None else tol, keeper=kept, **passes)
    return replace(fitted, cautions=(*first.cautions, *fitted.cautions), details=first.details)


def _fingerprint(sequences: SequenceAnnotations) -> str:
    """Give the fingerprint of the labels, and that of where sequences end."""
    return fingerprint(sequences.tokens) + digest_of_array(sequences.indptr).hex()


def forbidden(sequences: SequenceAnnotations) -> Never | None:
    """Give what BIO tags rule out; None where the classes are no such tags."""
    classes = list(sequences.tokens.class_ids)
    if not are_tags(classes):
        return None
    return Never(forbidden_starts(classes), forbidden_transitions(classes))


def parameters_of(model: HiddenMarkov) -> ChainParameters:
    """Give a model's parameters as a pass takes them."""
    return ChainParameters(
        model.start, model.transitions, model.emissions.reshape(len(model.annotators), -1, model.start.size)
    )


# ---- two steps, by moments ----------------------------------------------------------------------------------


def _crowd_fit(sequences: SequenceAnnotations, method: str, random_state: Any, cluster: Cluster | None) -> Fit:
    chosen, _, _ = registry.resolve(method)
    seeded = {"random_state": random_state} if "random_state" in chosen.parameters else {}
    if cluster is None or not chosen.everywhere:
        return registry.fit(method, sequences.tokens, **seeded)
    return registry.fit(method, sequences.tokens, place=lambda a: OnCluster(InMemory(a), cluster), **seeded)


def fit_hmm(sequences: SequenceAnnotations, crowd: Fit, never: Never | None = None) -> ChainFit:
    """Add a chain to a crowd model: transitions from lagged moments, the start from the first tokens.

    Thesis Alg. 4.2.  Transitions that cannot be are set to zero and the others of their column scaled up.
    """
    a = sequences.tokens
    found = fit_transitions(lagged_moments(sequences), crowd.model.confusions, crowd.model.prior)
    firsts = sequences.indptr[:-1][sequences.lengths > 0]
    # the optimum lies on the edge of the simplex often; what moments did not see may still be
    start = crowd.posterior[firsts].sum(axis=0) + crowd.model.prior + _UNSEEN
    transitions = found.transitions + _UNSEEN
    if never is not None:
        start = np.where(never.start, 0.0, start)
        transitions = np.where(never.pair, 0.0, transitions)
    model = HiddenMarkov(
        start / start.sum(),
        transitions / transitions.sum(axis=0),
        crowd.model.confusions[:, None],
        a.class_ids,
        a.annotator_ids,
    )
    cautions = list(crowd.cautions)
    if not found.converged:
        cautions.append(("the transitions were not solved to optimality", ConvergenceWarning))
    converged = crowd.converged and found.converged
    likelihood = model.log_likelihood(sequences)
    return ChainFit(ChainMixture((model,)), likelihood, converged, [], tuple(cautions), crowd.details)


# ---- as the labels ask for ----------------------------------------------------------------------------------


#: What is said of either choice.
_PLAIN = "labels that depend on the truth alone"
_CONTEXT = "labels that also depend on what the annotator said before; four chains averaged"


def fit_auto(
    sequences: SequenceAnnotations,
    never: Never | None,
    *,
    random_state: Any,
    max_iter: int,
    tol: float | None,
    callback: Callback | None,
    cluster: Cluster | None = None,
) -> ChainFit:
    """Fit chains by variational Bayes, as rich as the lower bound says."""
    a = sequences.tokens
    passes: dict[str, Any] = {"max_iter": max_iter, "callback": callback, "cluster": cluster}
    crowd = _crowd_fit(sequences, "auto", random_state, cluster)
    if a.gold is None and a.n_classes > 1 and int(a.labels_per_item.max(initial=0)) < 2:
        return _unchecked(sequences, crowd, never)
    to_the_end = _TOL if tol is None else tol
    plain = _bayes(sequences, crowd.posterior, never, context=False, states=1, tol=to_the_end, **passes)
    passes["tol"] = _TOL_IN_CONTEXT if tol is None else tol
    bounds = {_PLAIN: plain.history[-1]}
    chosen, fits, hardness = _PLAIN, [plain], 0.0
    if a.n_annotators * (a.n_classes + 1) * a.n_classes**2 <= a.n_labels:
        votes = vote_posterior(a)
        forward = _bayes(sequences, votes, never, context=True, states=1, **passes)
        bounds[_CONTEXT] = forward.history[-1]
        if bounds[_CONTEXT] > bounds[_PLAIN] + _MARGIN:
            chosen = _CONTEXT
            fits, hardness = _in_context(sequences, votes, never, forward, **passes)
    if len(bounds) == 1:
        why = "there are too few labels to learn more from"
    else:
        why = f"its lower bound is {abs(bounds[_CONTEXT] - bounds[_PLAIN]):.0f} nats above the other's"
    if hardness > 0:
        why += f"; tokens that are harder than others explain the labels better by {hardness:.0f}"
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


def _in_context(
    sequences: SequenceAnnotations, votes: Floats, never: Never | None, forward: ChainFit, **passes: Any
) -> tuple[list[ChainFit], float]:
    """Fit four chains in context, two of them backwards, and tell what ease adds to the objective of the first."""
    eased = _bayes(sequences, votes, never, context=True, states=1, spread=_LOOKED_FOR, **passes)
    hardness = eased.history[-1] - forward.history[-1]
    spread = _ALLOWED_FOR if hardness > 0 else 0.0
    turned, turned_votes = sequences.backwards(), votes[sequences.turned()]
    # read from the end, what must not follow must not precede
    never_turned = None if never is None else Never(np.zeros_like(never.start), never.pair.T)
    fits = []
    for states in (1, 2):
        same = states == 1 and spread == 0
        options = {"context": True, "states": states, "spread": spread, **passes}
        fits.append(forward if same else _bayes(sequences, votes, never, **options))
    for states in (1, 2):
        options = {"context": True, "states": states, "spread": spread, "backward": True, **passes}
        fits.append(_bayes(turned, turned_votes, never_turned, **options))
    return fits, hardness


def _unchecked(sequences: SequenceAnnotations, crowd: Fit, never: Never | None) -> ChainFit:
    """Leave every token by itself: where no token has two labels, an order learned from them would vouch for them."""
    a, prior = sequences.tokens, crowd.model.prior
    start, transitions = prior.copy(), np.repeat(prior[:, None], prior.size, axis=1)
    if never is not None:
        start, transitions = np.where(never.start, 0.0, start), np.where(never.pair, 0.0, transitions)
    parameters = start / start.sum(), transitions / transitions.sum(axis=0), crowd.model.confusions[:, None]
    model = HiddenMarkov(*parameters, a.class_ids, a.annotator_ids)
    likelihood = model.log_likelihood(sequences)
    return ChainFit(ChainMixture((model,)), likelihood, cautions=crowd.cautions, details=crowd.details)


def _bayes(
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
    callback: Callback | None,
    cluster: Cluster | None,
) -> ChainFit:
    """Fit one chain by variational Bayes from a posterior (N, K).

    Everybody is taken to answer like the crowd, judged by the votes, until their labels say otherwise.  With a
    ``spread``, tokens differ in ease; ``backward`` tells that the sequences are read from their ends.
    """
    a = sequences.tokens
    K = a.n_classes
    votes = vote_posterior(a)
    ease = Ease(spread, np.repeat(_eased_labels(sequences), states))
    degrees = ease.shares.size
    sweep = chain_sweep(sequences, context=context, states=states * degrees)
    crowd = chain_sweep(sequences, context=context, states=1) if states * degrees > 1 else sweep
    pooled = statistics_of(sequences, crowd, votes).counts.sum(axis=0).reshape(-1, K, K) + 0.5
    pooled /= pooled.sum(axis=1, keepdims=True)
    pseudo = np.repeat(_SMOOTHING + _SHRINKAGE * pooled, states, axis=2)
    by_state = _in_states(posterior, votes) if states > 1 else posterior
    begin = statistics_of(sequences, sweep, np.repeat(by_state, degrees, axis=1) * np.tile(ease.shares, K * states))
    step: ChainMStep = ChainBeliefs(pseudo, _by_state(never, states))
    if spread > 0:
        lasting = np.kron(_going_on(sequences, backward), np.ones((states, states), np.bool_))
        step = EasedBeliefs(pseudo, _by_state(never, states), ease, lasting)
    return _run(sequences, sweep, begin, step, max_iter=max_iter, tol=tol, callback=callback, cluster=cluster)


def _eased_labels(sequences: SequenceAnnotations) -> Ints:
    """Give the label that ease makes more or less likely, for every class: O among tags, else the right one, (K,)."""
    classes = list(sequences.tokens.class_ids)
    own = np.arange(len(classes))
    outside = own[read_tags(classes).role == "O"] if are_tags(classes) else own
    return np.full_like(own, outside[0]) if outside.size == 1 else own


def _going_on(sequences: SequenceAnnotations, backward: bool) -> Bools:
    """Give ``[i, k]``: whether a token of class i goes on with the span of its neighbour k, (K, K)."""
    classes = list(sequences.tokens.class_ids)
    if not are_tags(classes):
        return np.zeros((len(classes), len(classes)), np.bool_)
    tags = read_tags(classes)
    later, earlier = np.isin(tags.role, ["I", "E"]), np.isin(tags.role, ["B", "I"])
    on: Bools = later[:, None] & earlier & (tags.type[:, None] == tags.type)
    return on.T if backward else on


def _by_state(never: Never | None, states: int) -> Never | None:
    if never is None or states == 1:
        return never
    pair = np.repeat(np.repeat(never.pair, states, axis=0), states, axis=1)
    return Never(np.repeat(never.start, states), pair)


def _in_states(posterior: Floats, votes: Floats) -> Floats:
    """Share every token between the two states of its class: to the second go those on which annotators differ."""
    differ = np.clip(1.0 - votes.max(axis=1), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    shares = np.stack([1.0 - differ, differ], axis=1)
    shared: Floats = (posterior[:, :, None] * shares[:, None, :]).reshape(len(posterior), -1)
    return shared


def statistics_of(sequences: SequenceAnnotations, sweep: ChainSweep, posterior: Floats) -> ChainStatistics:
    """Give the counts that a posterior of independent tokens stands for, (N, H)."""
    a = sequences.tokens
    M, R, H = sweep.shape
    token = a.item_of_label()
    cell = a.annotator.astype(np.int64) * R + sweep.tokens.symbol
    counts = np.empty((M * R, H))
    for h in range(H):
        counts[:, h] = np.bincount(cell, posterior[token, h], M * R)
    later = np.flatnonzero(has_predecessor(sequences.indptr))
    firsts = sequences.indptr[:-1][sequences.lengths > 0]
    return ChainStatistics(
        counts.reshape(M, R, H),
        posterior.sum(axis=0),
        posterior[firsts].sum(axis=0),
        posterior[later].T @ posterior[later - 1],
        float("nan"),
    )


def _run(
    sequences: SequenceAnnotations,
    sweep: ChainSweep,
    begin: ChainStatistics,
    step: ChainMStep,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None,
    cluster: Cluster | None,
    keeper: Keeper | None = None,
) -> ChainFit:
    a = sequences.tokens
    run = sweep if cluster is None else cluster.spread(ChainSweep, sweep.portion, sweep.share.n)
    result = run_baum_welch(
        run, begin, step, max_iter=max_iter, tol=tol, callback=callback, labels=a.n_labels, keeper=keeper
    )
    M, R, H = sweep.shape
    start, transitions, emissions = result.parameters
    shape = (M, R // a.n_classes, a.n_classes, H)
    model = HiddenMarkov(start, transitions, emissions.reshape(shape), a.class_ids, a.annotator_ids)
    cautions = unconverged(result.converged, "Baum-Welch", f"{len(result.history)} passes", tol)
    likelihood = model.log_likelihood(sequences)
    return ChainFit(ChainMixture((model,)), likelihood, result.converged, result.history, cautions)
