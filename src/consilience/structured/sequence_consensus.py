"""Consensus of tokens in sequences, as a function and as an estimator.

``aggregate_sequences`` returns a :class:`consilience.SequenceRun`; ``SequenceConsensus`` follows scikit-learn.  Both
run :func:`consilience.structured.sequence_fit.fit_sequences`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from consilience.data.frames import is_frame
from consilience.data.sequences import SequenceAnnotations
from consilience.data.silence import is_label
from consilience.diagnose.constants import LEAST_KNOWN
from consilience.diagnose.left_out import contradiction, estimated_error, known_items, report
from consilience.diagnose.runs import diagnose_run
from consilience.engine.dask import placed
from consilience.exceptions import FewLabelsWarning, ParameterError
from consilience.fitting.em import Callback, ConfusionStep
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.em import Statistics
from consilience.kernels.silence import add_silence
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import run_summary
from consilience.models.chain_mixture import ChainMixture
from consilience.models.dawid_skene import DawidSkene
from consilience.published import AsPublished
from consilience.runs.consensus import TIE, Choice
from consilience.runs.sequence_run import SequenceRun
from consilience.structured.chain_fit import ChainFit, forbidden
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
    silence: Any = None,
    items: Any = None,
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
    silence
        None or "random" if annotators labelled every token that they saw; or the label that silence stands for, such as
        "O"; see :meth:`consilience.SequenceAnnotations.with_silence`.
    items
        A frame with the sequence and the position of tokens that nobody may have labelled.
    **parameters
        ``smoothing``, ``shrinkage``, ``max_iter`` and ``tol`` of :class:`consilience.SequenceConsensus`.
    """
    check_names(f"{method}, for sequences,", parameters, keywords(fit_sequences))
    sequences = _as_sequences(data, gold, silence, items)
    begun = time.perf_counter()
    given = {"valid": valid, "random_state": seed, "callback": callback, "checkpoint": checkpoint, **parameters}
    with placed(engine, scheduler) as cluster:
        place = cluster.client if cluster else "local"
        fit, posterior, best, statistics = _fit_and_label(sequences, method=method, engine=place, **given)
        known = _compared_with_known(sequences, fit.model, **given, method=method, engine=place)
    a = sequences.tokens
    if known:
        contradicted = contradiction(known)
        warn_of(list(contradicted))
        fit = replace(fit, cautions=(*contradicted, *fit.cautions), details={**fit.details, "known_answers": known})
    told = {**parameters, "valid": valid}
    if sequences.silence is not None:
        told["silence"] = fit.details["silence"]
    run = run_summary(
        a, fit, method=method, by_user=method != "auto", parameters=told, seed=seed, begun=begun, alone=False,
        sequences=sequences.n_sequences,
    )  # fmt: skip
    return SequenceRun(
        _confusions(sequences, statistics, posterior),
        posterior,
        _choice(posterior, best),
        a.item_ids,
        a.labels_per_item,
        statistics.counts,
        run,
        a.origin,
        partial(diagnose_run, a),
        annotations=a,
        estimate=estimated_error,
        chains=fit.model,
        sequences=sequences,
    )


def _as_sequences(data: Any, gold: Any = None, silence: Any = None, items: Any = None) -> SequenceAnnotations:
    """Return sequences as they are, or build them from a long frame; add what silence means, tokens and truths."""
    sequences = data if isinstance(data, SequenceAnnotations) else SequenceAnnotations.from_frame(data)
    if items is not None:
        sequences = sequences.with_tokens_of(items)
    if is_label(silence, sequences.tokens.class_ids):
        if is_frame(gold):  # that nobody speaks about a known token is information, too
            sequences = sequences.with_tokens_of(gold)
        sequences = sequences.with_silence(silence)
    elif silence not in (None, "random", "auto"):
        raise ParameterError(f"for sequences, silence must be a label such as 'O', or 'random', not {silence!r}")
    return sequences if gold is None else sequences.with_gold(gold)


def _fit_and_label(
    sequences: SequenceAnnotations, *, valid: bool, **options: Any
) -> tuple[ChainFit, Floats, Codes, Statistics]:
    """Return the fit, the posterior of every token, its label on the best path, and the counts of the confusions."""
    fit = fit_sequences(sequences, valid=valid, **options)
    if sequences.silence is not None:
        fit = replace(fit, details={**fit.details, "silence": sequences.tokens.class_ids[sequences.silence]})
    limits = cautions_of(sequences.tokens, alone=False, silence=fit.details.get("silence", "random"))
    cautions = [*limits, *fit.cautions]
    if int(sequences.lengths.max(initial=0)) < 2:
        cautions.append(("no sequence has two tokens: transitions cannot be learned", FewLabelsWarning))
    warn_of(cautions)
    a, posterior = sequences.tokens, fit.model.posterior(sequences)
    best = fit.model.decode(sequences, posterior, forbidden(sequences) if valid else None)
    return fit, posterior, best, vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)


def _compared_with_known(
    sequences: SequenceAnnotations, model: ChainMixture, *, valid: bool, **options: Any
) -> dict[str, Any]:
    """Return how often known tokens are labelled wrongly by chains of the labels alone, and by ``model``.

    ``model`` was fitted with all known tokens but judges each without them.  That is a little too favourable: a refit
    for every part of them would take too long.
    """
    tokens = sequences.tokens
    # where silence is a label, everybody has labelled every token
    items = known_items(tokens, silent=sequences.silence is not None)
    if items.size < LEAST_KNOWN or tokens.n_classes < 2:
        return {}
    assert tokens.gold is not None
    truth, blind = tokens.gold[items], sequences.with_gold(None)
    never = forbidden(sequences) if valid else None
    alone = fit_sequences(blind, valid=valid, **{**options, "checkpoint": None})

    def judged(by: ChainMixture) -> tuple[Any, Floats]:
        posterior = by.posterior(blind)
        best = by.decode(blind, posterior, never)[items]
        return best != truth, posterior[items, best]

    return report(judged(alone.model), judged(model))


def _confusions(sequences: SequenceAnnotations, statistics: Statistics, posterior: Floats) -> DawidSkene:
    """Return each annotator's confusion over all tokens, silence included if it is a label."""
    a = sequences.tokens
    if sequences.silence is not None:
        tokens = posterior.sum(axis=0)
        statistics = Statistics(add_silence(statistics.counts, tokens, sequences.silence), tokens, float("nan"))
    return DawidSkene(*ConfusionStep(0.01)(statistics), a.class_ids, a.annotator_ids)


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


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceConsensus(AsPublished, BaseEstimator):  # type: ignore[misc]
    r"""Consensus of tokens in sequences: the truths of a sequence are a Markov chain.

    .. math:: \Pr(y, F) = \Pr(y_1) \prod_{n > 1} T(y_n, y_{n-1}) \prod_n \prod_m \Gamma_m(f_m(x_n), y_n)

    Parameters
    ----------
    method
        "auto" (a model as rich as the labels support), or a crowd method with ``+hmm`` (two steps, by moments) or
        ``+hmm+em`` (then Baum-Welch), such as "rob-symnmf+hmm+em".
    valid
        If the classes are BIO tags: return no sequence that breaks their rules.
    silence
        The label that silence stands for, such as "O", if annotators see every token and name only what they know;
        see :meth:`consilience.SequenceAnnotations.with_silence`.
    smoothing, shrinkage
        For ``+hmm+em``: labels added to every cell of the confusions, evenly (default 0.01) and as the whole crowd
        answers (default 0.25).
    max_iter, tol
        Passes over the data for one chain, and the relative change of the objective that ends them (0: run all);
        default 1e-6, or 1e-5 for chains in context, which do not gain from more passes.
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

    method: str = "auto"
    valid: bool = True
    silence: Any = None
    smoothing: float | None = None
    shrinkage: float | None = None
    max_iter: int = 500
    tol: float | None = None
    random_state: Any = 0
    callback: Callback | None = None
    engine: Any = "local"
    checkpoint: str | os.PathLike[str] | None = None

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
        sequences = _as_sequences(X, gold, self.silence)
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "silence"}
        fit, self.probas_, best, statistics = _fit_and_label(sequences, **options)
        self.model_, self.sequences_, self.classes_ = fit.model, sequences, sequences.tokens.classes
        self.transitions_, self.start_ = fit.model.transitions, fit.model.start
        self.converged_, self.history_, self.n_iter_ = fit.converged, fit.history, max(len(fit.history), 1)
        self.log_likelihood_, self.details_ = fit.log_likelihood, dict(fit.details)
        self.labels_ = self.classes_[best]
        self.confusions_ = _confusions(sequences, statistics, self.probas_).confusions
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of every token; an unknown annotator counts as the average one."""
        check_is_fitted(self, "model_")
        sequences = _as_sequences(X, silence=self.silence)
        never = forbidden(self.sequences_) if self.valid else None
        return self.classes_[self.model_.decode(sequences, self.model_.posterior(sequences), never)]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class for every token."""
        check_is_fitted(self, "model_")
        posterior: Floats = self.model_.posterior(_as_sequences(X, silence=self.silence))
        return posterior

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of right labels; without truths, the mean log-probability of a label.

        ``y`` has any form that :meth:`consilience.SequenceAnnotations.with_gold` takes.
        """
        check_is_fitted(self, "model_")
        sequences = _as_sequences(X, silence=self.silence)
        if y is None:
            return float(self.model_.log_likelihood(sequences)) / max(sequences.tokens.n_labels, 1)
        labels, truth = self.predict(X), sequences.codes_of_truth(y, strict=False)
        known = (truth >= 0) & (truth < sequences.tokens.n_classes)
        right = sequences.tokens.classes[truth[known]] == labels[known]
        return float(right.sum()) / max(int((truth >= 0).sum()), 1)

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None) -> Any:
        """Fit, and return the labels of the same tokens."""
        return self.fit(X, y, gold=gold).labels_

    def fit_predict_proba(self, X: Any, y: Any = None, *, gold: Any = None) -> Any:
        """Fit, and return the probabilities of the same tokens."""
        return self.fit(X, y, gold=gold).probas_
