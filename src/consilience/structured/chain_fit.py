"""One chain fitted to sequences by Baum-Welch, from the posterior of independent tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from consilience.data.sequences import SequenceAnnotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.dask import Cluster
from consilience.engine.progress import Callback
from consilience.fitting.fit import Caution, Fit, unconverged
from consilience.kernels._arrays import Floats
from consilience.kernels.chains import ChainStatistics, ChainSweep
from consilience.kernels.lagged import has_predecessor
from consilience.kernels.silence import add_silence
from consilience.models.chain_mixture import ChainMixture, Never
from consilience.models.hidden_markov import HiddenMarkov, SilentChains
from consilience.spans import are_tags, forbidden_starts, forbidden_transitions
from consilience.structured.baum_welch import ChainMStep, run_baum_welch

__all__ = ["ChainFit", "crowd_chain", "fit_chain", "forbidden", "statistics_of"]


@dataclass(frozen=True)
class ChainFit:
    """Fitted chains, and how they were found."""

    model: ChainMixture
    log_likelihood: float
    converged: bool = True
    history: list[float] = field(default_factory=list)
    cautions: tuple[Caution, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def forbidden(sequences: SequenceAnnotations) -> Never | None:
    """Return what the rules of BIO tags forbid, except for what gold does; None if the classes are not such tags."""
    classes, gold = list(sequences.tokens.class_ids), sequences.tokens.gold
    if not are_tags(classes):
        return None
    never = Never(forbidden_starts(classes), forbidden_transitions(classes))
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        follows = has_predecessor(sequences.indptr)[known]
        never.start[gold[known[~follows]]] = False
        later = known[follows]
        later = later[gold[later - 1] >= 0]
        never.pair[gold[later], gold[later - 1]] = False
    return never


def crowd_chain(
    sequences: SequenceAnnotations, crowd: Fit, start: Floats, transitions: Floats, never: Never | None
) -> HiddenMarkov:
    """Return a chain with the confusions of a crowd model; impossible transitions are zero, the others rescaled."""
    if never is not None:
        start, transitions = np.where(never.start, 0.0, start), np.where(never.pair, 0.0, transitions)
    parameters = start / start.sum(), transitions / transitions.sum(axis=0), crowd.model.confusions[:, None]
    return HiddenMarkov(*parameters, sequences.tokens.class_ids, sequences.tokens.annotator_ids)


def statistics_of(
    sequences: SequenceAnnotations, sweep: ChainSweep | SilentChains, posterior: Floats
) -> ChainStatistics:
    """Return the expected counts under a posterior of independent tokens, (N, H)."""
    a = sequences.tokens
    M, R, H = sweep.shape
    token = a.item_of_label()
    cell = a.annotator.astype(np.int64) * R + sweep.tokens.symbol
    counts = np.empty((M * R, H))
    for h in range(H):
        counts[:, h] = np.bincount(cell, posterior[token, h], M * R)
    said: Floats = counts.reshape(M, R, H)
    if sequences.silence is not None:
        said = add_silence(said, posterior.sum(axis=0), sequences.silence)
    later = np.flatnonzero(has_predecessor(sequences.indptr))
    firsts = sequences.indptr[:-1][sequences.lengths > 0]
    return ChainStatistics(
        said,
        posterior.sum(axis=0),
        posterior[firsts].sum(axis=0),
        posterior[later].T @ posterior[later - 1],
        float("nan"),
    )


def fit_chain(
    sequences: SequenceAnnotations,
    sweep: ChainSweep | SilentChains,
    begin: ChainStatistics,
    step: ChainMStep,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None,
    cluster: Cluster | None,
    keeper: Keeper | None = None,
) -> ChainFit:
    """Run Baum-Welch from the counts of ``begin`` and return the fitted chain."""
    a = sequences.tokens
    run: Callable[[Floats, Floats, Floats], ChainStatistics] = sweep
    if cluster is not None:
        plain = sweep.plain if isinstance(sweep, SilentChains) else sweep
        run = cluster.distribute(ChainSweep, plain.portion, plain.share.n)
        run = replace(sweep, run=run) if isinstance(sweep, SilentChains) else run
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
