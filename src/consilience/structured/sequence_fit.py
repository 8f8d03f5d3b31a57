"""From labels of tokens to a hidden Markov model, by the name of a method.

``hmm``      Confusions from any crowd method, with tokens taken as independent; then the transitions from the labels of
             consecutive tokens (thesis Alg. 4.2, (4.5)-(4.6)).
``hmm+em``   The same, then Baum-Welch (Alg. 4.1).
``auto``     Variational Bayes (:mod:`consilience.structured.sequence_auto`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from consilience.data.sequences import SequenceAnnotations
from consilience.data.silence import filled
from consilience.engine.checkpoint import Checkpoint, Keeper
from consilience.engine.dask import placed
from consilience.engine.fingerprint import digest_of_array, fingerprint
from consilience.engine.progress import Callback
from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.factor.transitions import fit_transitions
from consilience.fitting.fit import Fit, crowd_confusion
from consilience.methods.base import registry
from consilience.models.chain_mixture import ChainMixture, Never
from consilience.models.hidden_markov import chain_sweep
from consilience.moments.lagged import lagged_moments
from consilience.structured.baum_welch import ModeStep
from consilience.structured.chain_fit import ChainFit, crowd_chain, fit_chain, forbidden
from consilience.structured.sequence_auto import TOL, fit_auto, fit_silent
from consilience.validation import check_parameters

__all__ = ["CHAIN", "fit_hmm", "fit_sequences", "split_name"]

CHAIN = "+hmm"
#: Pseudo-labels of ``+hmm+em`` by default: even, and as the crowd answers.
_SMOOTHING, _SHRINKAGE = 0.01, 0.25
#: Probability of a transition whose estimate from moments is zero.
_UNSEEN = 1e-6


def split_name(method: str) -> tuple[str, bool, bool]:
    """Split ``crowd+hmm+em`` into the crowd method, whether there is a chain, and whether EM refines it.

    ``hmm`` is short for ``auto+hmm``; ``auto`` has no chain to refine.
    """
    if method == "auto":
        return "auto", False, False
    refined = method.endswith(registry.REFINED)
    name = method.removesuffix(registry.REFINED) if refined else method
    if name == CHAIN[1:]:
        return "auto", True, refined
    if not name.endswith(CHAIN):
        raise ParameterError(
            f"{method!r} is not a method for sequences: use 'auto', or any crowd method followed by '{CHAIN}' or "
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
    """Fit a hidden Markov model to labels of tokens in order; gold tokens keep their gold label.

    The parameters are those of :class:`consilience.SequenceConsensus`.  ``valid`` also holds impossible transitions of
    BIO tags (I-x after O) at zero.
    """
    check_parameters(
        {"max_iter": max_iter, "tol": tol or 0.0, "smoothing": smoothing or 0.0, "shrinkage": shrinkage or 0.0}
    )
    base, _, refined = split_name(method)
    if method == "auto" and not (smoothing is None and shrinkage is None):
        raise ParameterError("'auto' learns how much to smooth; smoothing and shrinkage are for '+hmm+em'")
    never = forbidden(sequences) if valid else None
    keeper = None
    if checkpoint is not None:
        given = {"valid": valid, "smoothing": smoothing, "shrinkage": shrinkage, "max_iter": max_iter, "tol": tol}
        of = {"method": method, "parameters": given, "seed": random_state}
        labels = fingerprint(sequences.tokens) + digest_of_array(sequences.indptr).hex()
        keeper = Keeper(Checkpoint(checkpoint, of).of_labels(labels), "baum-welch")
    if method != "auto" and sequences.silence is not None:
        sequences = _filled(sequences)
    with placed(engine) as cluster:
        passes: dict[str, Any] = {"max_iter": max_iter, "callback": callback, "cluster": cluster}
        if sequences.silence is not None:
            return fit_silent(sequences, never, tol=tol, **passes)
        crowd = registry.fit_at(cluster, base, sequences.tokens, random_state)
        if method == "auto":
            return fit_auto(sequences, crowd, never, tol=tol, **passes)
        first = fit_hmm(sequences, crowd, never)
        if not refined:
            return first
        a = sequences.tokens
        evenly = _SMOOTHING if smoothing is None else smoothing
        alike = _SHRINKAGE if shrinkage is None else shrinkage
        step = ModeStep(a.n_classes, evenly + alike * a.n_classes * crowd_confusion(a), 0.01, never)
        sweep = chain_sweep(sequences, context=False, states=1)
        chain = first.model.chains[0]
        begin = sweep(chain.start, chain.transitions, chain.emissions.reshape(sweep.shape))
        fitted = fit_chain(sequences, sweep, begin, step, tol=TOL if tol is None else tol, keeper=keeper, **passes)
    return replace(fitted, cautions=(*first.cautions, *fitted.cautions), details=first.details)


def _filled(sequences: SequenceAnnotations) -> SequenceAnnotations:
    """Return the same labels with every silence as a label of its own."""
    assert sequences.silence is not None
    return replace(
        sequences, tokens=filled(sequences.tokens, sequences.tokens.class_ids[sequences.silence]), silence=None
    )


def fit_hmm(sequences: SequenceAnnotations, crowd: Fit, never: Never | None = None) -> ChainFit:
    """Add a chain to a crowd model: transitions from lagged moments, the start from the first tokens (Alg. 4.2)."""
    found = fit_transitions(lagged_moments(sequences), crowd.model.confusions, crowd.model.prior)
    firsts = sequences.indptr[:-1][sequences.lengths > 0]
    # the optimum is often on the boundary of the simplex, but an unseen transition is not impossible
    start = crowd.posterior[firsts].sum(axis=0) + crowd.model.prior + _UNSEEN
    model = crowd_chain(sequences, crowd, start, found.transitions + _UNSEEN, never)
    cautions = list(crowd.cautions)
    if not found.converged:
        cautions.append(("the transitions were not solved to optimality", ConvergenceWarning))
    converged = crowd.converged and found.converged
    likelihood = model.log_likelihood(sequences)
    return ChainFit(ChainMixture((model,)), likelihood, converged, [], tuple(cautions), crowd.details)
