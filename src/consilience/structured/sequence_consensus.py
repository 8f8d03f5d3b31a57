"""Consensus of tokens in sequences, as a function and as an estimator.

``aggregate_sequences`` returns a :class:`consilience.SequenceRun`; ``SequenceConsensus`` follows scikit-learn.  Both
run :func:`consilience.structured.sequence_fit.fit_sequences`.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from consilience.data.sequences import SequenceAnnotations
from consilience.diagnose.runs import diagnose_run
from consilience.engine.dask import placed
from consilience.exceptions import FewLabelsWarning
from consilience.fitting.em import Callback, ConfusionStep
from consilience.fitting.fit import Caution
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import run_summary
from consilience.models.chain_mixture import ChainMixture, Never
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import TIE, Choice
from consilience.runs.sequence_run import SequenceRun
from consilience.structured.chain_fit import forbidden
from consilience.structured.sequence_fit import fit_sequences
from consilience.validation import check_names, keywords

__all__ = ["SequenceConsensus", "aggregate_sequences"]


def aggregate_sequences(
    data: Any,
    method: str = "auto",
    *,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    valid: bool = True,
    **parameters: Any,
) -> SequenceRun:
    """Aggregate labels of tokens in sequences into labels with probabilities.

    Parameters
    ----------
    data
        SequenceAnnotations, or a long frame with sequence, position, annotator and label.
    method
        "auto", or a crowd method with ``+hmm`` or ``+hmm+em``.
    gold
        Known truths, held fixed; see :meth:`consilience.SequenceAnnotations.with_gold`.
    seed
        Seed of everything random.
    callback
        Called after every pass over the data.
    engine, scheduler, checkpoint
        As for :func:`consilience.aggregate`; the engines are "local" and "dask".
    valid
        If the classes are BIO tags: return no sequence that breaks their rules.
    **parameters
        Those of :func:`consilience.structured.sequence_fit.fit_sequences`.
    """
    check_names(f"{method}, for sequences,", parameters, keywords(fit_sequences))
    sequences = as_sequences(data)
    if gold is not None:
        sequences = sequences.with_gold(gold)
    begun = time.perf_counter()
    given = {"valid": valid, "random_state": seed, "callback": callback, "checkpoint": checkpoint, **parameters}
    with placed(engine, scheduler) as cluster:
        fit = fit_sequences(sequences, method, engine=cluster.client if cluster else "local", **given)
    posterior, choice = _labelled(fit.model, sequences, forbidden(sequences) if valid else None)
    a = sequences.tokens
    statistics = vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)
    warn_of(_cautions(sequences, fit.cautions))
    told = {**parameters, "valid": valid}
    run = run_summary(
        a, fit, method=method, by_user=method != "auto", parameters=told, seed=seed, begun=begun, alone=False,
        sequences=sequences.n_sequences,
    )  # fmt: skip
    return SequenceRun(
        DawidSkene(*ConfusionStep(0.01)(statistics), a.class_ids, a.annotator_ids),
        posterior,
        choice,
        a.item_ids,
        a.labels_per_item,
        statistics.counts,
        run,
        a.origin,
        partial(diagnose_run, a),
        annotations=a,
        chains=fit.model,
        sequences=sequences,
    )


def as_sequences(data: Any) -> SequenceAnnotations:
    """Return sequences as they are; build them from a long frame."""
    return data if isinstance(data, SequenceAnnotations) else SequenceAnnotations.from_frame(data)


def _cautions(sequences: SequenceAnnotations, of_fit: tuple[Caution, ...]) -> list[Caution]:
    found = [*cautions_of(sequences.tokens, alone=False), *of_fit]
    if int(sequences.lengths.max(initial=0)) < 2:
        found.append(("no sequence has two tokens: transitions cannot be learned", FewLabelsWarning))
    return found


def _labelled(model: ChainMixture, sequences: SequenceAnnotations, never: Never | None) -> tuple[Floats, Choice]:
    """Return the posterior of every token, and its label on the best path."""
    posterior = model.posterior(sequences)
    return posterior, _choice(posterior, model.decode(sequences, posterior, never))


def _choice(posterior: Floats, best: Codes) -> Choice:
    """Return the label on the path, the most probable other class, and the margin between them.

    If the path passes through a class that is not the most probable of its token, the margin is 0.
    """
    rows = np.arange(best.size)
    if posterior.shape[1] == 1:
        return Choice(best, best, posterior[:, 0].copy())
    others = posterior.copy()
    others[rows, best] = -1.0
    second = others.argmax(axis=1).astype(np.int32)
    margin = posterior[rows, best] - posterior[rows, second]
    return Choice(best, second, np.where(margin <= TIE, 0.0, margin))


class SequenceConsensus(BaseEstimator):  # type: ignore[misc]
    r"""Consensus of tokens in sequences: the truths of a sequence are a Markov chain.

    .. math:: \Pr(y, F) = \Pr(y_1) \prod_{n > 1} T(y_n, y_{n-1}) \prod_n \prod_m \Gamma_m(f_m(x_n), y_n)

    Parameters
    ----------
    method
        "auto" (a model as rich as the labels support), or a crowd method with ``+hmm`` (two steps, by moments) or
        ``+hmm+em`` (then Baum-Welch), such as "rob-symnmf+hmm+em".
    valid
        If the classes are BIO tags: return no sequence that breaks their rules.
    smoothing, shrinkage
        For ``+hmm+em``: labels added to every cell of the confusions, evenly and as the whole crowd answers.
    max_iter, tol
        Passes over the data for one chain, and the relative change of the objective that ends them.
    random_state
        Seed of everything random.
    callback
        Called after every pass; ends the fit of one chain by returning True.
    engine
        Where the passes run: "local" (this process), "dask" (the current Dask client, or local processes), or a Dask
        client.  Its workers hold the sequences.
    checkpoint
        Folder for the state of ``+hmm+em``: a killed run resumes from there.

    Attributes
    ----------
    model_ : ChainMixture
        The fitted chains.
    classes_, labels_, probas_
        The classes; labels and probabilities of the fitted tokens, in the order of ``sequences_``.
    sequences_ : SequenceAnnotations
        The fitted data.
    transitions_, start_, confusions_
        ``transitions_[i, k]`` is the probability that class i follows class k; probabilities of the first token; the
        confusion of each annotator over all tokens.
    converged_, history_, n_iter_, log_likelihood_, details_
        How the fit went.

    Examples
    --------
    >>> from consilience import SequenceConsensus
    >>> from consilience.datasets import simulate_sequences
    >>> crowd = simulate_sequences(50, 20, 5, 3, stickiness=0.8, seed=0)
    >>> model = SequenceConsensus(method="ds-em+hmm+em").fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.8
    True
    """

    def __init__(
        self,
        *,
        method: str = "auto",
        valid: bool = True,
        smoothing: float | None = None,
        shrinkage: float | None = None,
        max_iter: int = 500,
        tol: float | None = None,
        random_state: Any = 0,
        callback: Callback | None = None,
        engine: Any = "local",
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.method = method
        self.valid = valid
        self.smoothing = smoothing
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.engine = engine
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None, *, gold: Any = None) -> Self:
        """Learn annotators and transitions.

        Parameters
        ----------
        X
            SequenceAnnotations, or a long frame with sequence, position, annotator and label.
        y
            Ignored; present for scikit-learn's pipelines.
        gold
            Known truths, held fixed.
        """
        sequences = as_sequences(X)
        sequences = sequences if gold is None else sequences.with_gold(gold)
        fit = fit_sequences(sequences, **self.get_params(deep=False))
        warn_of(_cautions(sequences, fit.cautions))
        self.model_, self.sequences_, self.classes_ = fit.model, sequences, sequences.tokens.classes
        self.transitions_, self.start_ = fit.model.transitions, fit.model.start
        self.converged_, self.history_, self.n_iter_ = fit.converged, fit.history, max(len(fit.history), 1)
        self.log_likelihood_, self.details_ = fit.log_likelihood, dict(fit.details)
        self.probas_, choice = _labelled(fit.model, sequences, forbidden(sequences) if self.valid else None)
        self.labels_ = self.classes_[choice.best]
        a = sequences.tokens
        statistics = vote_statistics(a.indptr, a.annotator, a.label, self.probas_, a.n_annotators)
        self.confusions_ = ConfusionStep(0.01)(statistics).confusions
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of every token; an unknown annotator counts as the average one."""
        check_is_fitted(self, "model_")
        sequences = as_sequences(X)
        never = forbidden(self.sequences_) if self.valid else None
        return self.classes_[_labelled(self.model_, sequences, never)[1].best]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class for every token."""
        check_is_fitted(self, "model_")
        posterior: Floats = self.model_.posterior(as_sequences(X))
        return posterior

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None) -> Any:
        """Fit, and return the labels of the same tokens."""
        return self.fit(X, y, gold=gold).labels_

    def fit_predict_proba(self, X: Any, y: Any = None, *, gold: Any = None) -> Any:
        """Fit, and return the probabilities of the same tokens."""
        return self.fit(X, y, gold=gold).probas_
