"""Dawid and Skene's model with silence as an answer: whether an annotator speaks depends on the truth.

A labelling function that names one class or keeps silent always says the same when it speaks.  All that it knows is in
*whether* it speaks.  So every annotator has a propensity for every class:

    Pr(m says i | truth k) = B_m(i, k),        Pr(m is silent | truth k) = 1 - p_m(k),        p_m(k) = Σ_i B_m(i, k).

The likelihood of an item is a product over all annotators, silent or not.  Taken together, the silent ones are a change
of the prior, so the cost stays linear in the number of labels:

    log Pr(labels of n, k) = log π_k + Σ_m log(1 - p_m(k)) + Σ_{labels (m, i)} log(B_m(i, k) / (1 - p_m(k))).

If silence stands for a label o (``silent_label``), A_m(o, k) = 1 - p_m(k): the model is Dawid and Skene's, in which
everybody labels every item.  To say o is to be silent, and silence counts in the votes.

The fit is the mode by EM under a prior that ties annotators to what they say: each comes with ``evidence`` labels of
which a share ``accuracy`` names the truth, and as many silent items as suit how often it speaks.

====== ============================== ============
symbol name                           shape
====== ============================== ============
B      ``said``                       (M, K, K)
p      ``propensity``                 (M, K)
π      ``prior``                      (K,)
====== ============================== ============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import ParameterError
from consilience.fitting.ascent import Ascent, EMModel, Pass, extrapolate
from consilience.fitting.em import Callback, sweep_of
from consilience.fitting.fit import Fit, unconverged, vote_posterior
from consilience.fitting.known import start_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics
from consilience.kernels.potts import label_evidence
from consilience.kernels.votes import said_counts, vote_counts, vote_statistics
from consilience.methods.base.constants import SILENCE_ACCURACY, SILENCE_EVIDENCE
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene

__all__ = ["METHOD", "PropensityDawidSkene", "Speaking", "SpeakingModel", "propensity"]

#: The largest propensity: an annotator who always speaks about a class must not rule it out by one silence.
_MOST = 1.0 - 1e-3


class PropensityDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model with silence as an answer: annotators see every item and choose to speak.

    .. math:: \Pr(m \text{ says } i \mid k) = B_m(i, k), \qquad \Pr(m \text{ is silent} \mid k) = 1 - \sum_i B_m(i, k)

    For labelling functions and other annotators who keep silent unless they are sure.  Not for crowds whose items were
    assigned: there silence says nothing, and the model misleads.

    Parameters
    ----------
    refine
        "em" to continue by EM without silence, or None.
    evidence
        Labels that each annotator's prior is worth.
    accuracy
        The share of these that name the truth.
    silent_label
        The label that silence stands for, if it is an answer; one of the classes.
    max_iter, tol
        Passes over the data, and the relative change of the objective in one EM step that ends them (0: run all).
    random_state
        Used by ``refine`` only.
    callback
        Called after every pass; ends the fit by returning True.

    Examples
    --------
    >>> from consilience import PropensityDawidSkene
    >>> votes = [[0, -1, 0], [-1, 1, -1], [0, -1, -1], [-1, 1, 0], [-1, -1, -1]]
    >>> PropensityDawidSkene().fit(votes).labels_
    array([0, 1, 0, 1, 1])
    """

    _method = "propensity"

    evidence: float = SILENCE_EVIDENCE
    accuracy: float = SILENCE_ACCURACY
    silent_label: Any = None
    max_iter: int = 1000
    tol: float = 1e-7


def propensity(
    annotations: Annotations,
    *,
    evidence: float = SILENCE_EVIDENCE,
    accuracy: float = SILENCE_ACCURACY,
    silent_label: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Fit:
    """Fit by EM from vote shares; :class:`PropensityDawidSkene` documents the parameters."""
    a, silence = annotations, None if silent_label is None else _code(annotations, silent_label)
    shares = _votes(a, a.n_annotators, silence)
    model = _Model(a, evidence, accuracy, silence, shares)
    begin = shares if a.gold is None or silence is not None else start_posterior(a)
    votes = vote_statistics(a.indptr, a.annotator, a.label, begin, a.n_annotators)
    start = model.m_step(votes._replace(class_counts=begin.sum(axis=0)))
    end = Ascent(model, start, labels=a.n_labels).run(max_iter=max_iter, tol=tol, callback=callback)
    found = SpeakingModel(end.at, a.class_ids, a.annotator_ids, silence)
    return Fit(
        found.confusions,
        found.posterior(a),
        end.log_likelihood,
        end.converged,
        end.history,
        unconverged(end.converged, "EM", f"{len(end.history)} passes", tol),
        hint=shares,
        predictor=found,
        details={"silence": "informative" if silence is None else silent_label},
    )


METHOD = Method(
    "propensity", propensity, "PropensityDawidSkene", "confusions, and a propensity to speak for every class"
)


class Speaking(NamedTuple):
    """A class prior (K,) and what annotators say of each class, (M, K, K): columns sum to the propensity to speak."""

    prior: Floats
    said: Floats

    @property
    def propensity(self) -> Floats:
        """p, (M, K)."""
        return np.asarray(self.said.sum(axis=1))


def _code(annotations: Annotations, silent_label: Any) -> int:
    code = int(annotations.class_ids.codes_of([silent_label])[0])
    if code < 0:
        raise ParameterError(f"silent_label must be one of the classes, not {silent_label!r}; name them with classes=…")
    return code


def _votes(annotations: Annotations, n_annotators: int, silence: int | None) -> Floats:
    """Return the vote shares of each item, (N, K); the silent ones among the annotators vote for ``silence``."""
    a = annotations
    if silence is None:
        return vote_posterior(a)
    votes = vote_counts(a.indptr, a.label, a.n_classes)
    votes[:, silence] += np.maximum(n_annotators - a.labels_per_item, 0)
    if a.gold is not None:
        votes[a.gold >= 0] = np.eye(a.n_classes)[a.gold[a.gold >= 0]]
    votes /= votes.sum(axis=1, keepdims=True)
    return votes


def _factors(at: Speaking, silence: int | None) -> tuple[Floats, Floats]:
    """Return log π_k + Σ_m log(1 - p_m(k)), (K,), and B_m(i, k) / (1 - p_m(k)), (M, K, K)."""
    silent = 1.0 - at.propensity
    ratios = np.maximum(at.said, FLOOR) / silent[:, None, :]
    if silence is not None:
        ratios[:, silence] = 1.0
    return np.log(np.maximum(at.prior, FLOOR)) + np.log(silent).sum(axis=0), ratios


def _judge(annotations: Annotations, log_prior: Floats, ratios: Floats) -> tuple[Floats, float]:
    """Return the posterior of every item, (N, K), and the log-likelihood.

    In logarithms: the silence of many annotators together is a small number.
    """
    a = annotations
    logs = label_evidence(a.indptr, a.annotator, a.label, ratios) + log_prior
    if a.gold is not None:
        logs[(a.gold >= 0)[:, None] & (a.gold[:, None] != np.arange(a.n_classes))] = -np.inf
    top = logs.max(axis=1, keepdims=True)
    posterior = np.exp(logs - top)
    total = posterior.sum(axis=1, keepdims=True)
    posterior /= total
    return posterior, float(top.sum() + np.log(total).sum())


@dataclass(frozen=True)
class SpeakingModel:
    """The fitted parameters with their names; gives posteriors of any items by these annotators."""

    parameters: Speaking
    classes: Ids
    annotators: Ids
    silence: int | None = None  #: code of the class that silence stands for

    @property
    def confusions(self) -> DawidSkene:
        """What annotators say when they speak; uniform where one never speaks about a class."""
        prior, said = self.parameters
        if self.silence is not None:
            said = said.copy()
            said[:, self.silence] = 1.0 - said.sum(axis=1)
        spoken = said.sum(axis=1, keepdims=True)
        given = np.divide(said, spoken, out=np.full(said.shape, 1.0 / prior.size), where=spoken > FLOOR)
        return DawidSkene(prior, given / given.sum(axis=1, keepdims=True), self.classes, self.annotators)

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares of any items, both (N, K)."""
        return self.posterior(annotations), _votes(annotations, len(self.annotators), self.silence)

    def posterior(self, annotations: Annotations) -> Floats:
        """Return the posterior of every item, (N, K): annotators of the model who said nothing about it were silent.

        An unknown annotator has the average confusion, and its silence says nothing.
        """
        model = self.confusions
        coded, (log_prior, ratios) = model.recoded(annotations), _factors(self.parameters, self.silence)
        strangers = coded.n_annotators - len(self.annotators)
        average = np.repeat(model.confusions.mean(axis=0, keepdims=True), strangers, axis=0)
        return _judge(coded, log_prior, np.concatenate([ratios, average]))[0]


class _Model(EMModel[Speaking, Statistics]):
    """The labels and the silence of one set of items, as the ascent sees them."""

    def __init__(
        self, annotations: Annotations, evidence: float, accuracy: float, silence: int | None, votes: Floats
    ) -> None:
        a, self.silence = annotations, silence
        self.annotations, self.sweep, K = a, sweep_of(a), a.n_classes
        self.given = self._spoken(said_counts(a.annotator, a.label, a.n_annotators, K).astype(float))
        total = np.maximum(self.given.sum(axis=1), 1.0)
        # of ``evidence`` labels, as many say i as in the data; ``accuracy`` of them name the truth
        right = (
            np.where(np.eye(K, dtype=bool), accuracy, (1.0 - accuracy) / max(K - 1, 1)) if K > 1 else np.ones((1, 1))
        )
        self.pseudo = evidence * (self.given / total[:, None])[:, :, None] * right
        # silent items beside them, in proportion to how often the annotator is silent and to the votes' classes
        items = evidence * max(a.n_items, 1) / total
        classes = votes.mean(axis=0)
        self.silent = np.maximum(items[:, None] * classes - self.pseudo.sum(axis=1), 0.5)

    def _spoken(self, counts: Floats) -> Floats:
        """Set the counts of the label that is silence to zero, (M, K, …)."""
        if self.silence is not None:
            counts[:, self.silence] = 0.0
        return counts

    def e_step(self, at: Speaking) -> tuple[Statistics, float]:
        a = self.annotations
        log_prior, ratios = _factors(at, self.silence)
        scale = float(np.logaddexp.reduce(log_prior))
        prior, tops = np.exp(log_prior - scale), ratios.max(axis=2)
        if prior.min() >= FLOOR:  # in the range of a sweep, which is five times as fast
            found = self.sweep(prior, ratios / tops[..., None])
            of_labels = float((self.given * np.log(tops)).sum())
            return found, found.log_likelihood + a.n_items * scale + of_labels
        posterior, log_likelihood = _judge(a, log_prior, ratios)
        counts = vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators).counts
        return Statistics(counts, posterior.sum(axis=0), log_likelihood), log_likelihood

    def m_step(self, sums: Statistics) -> Speaking:
        # B_m(i, k) = (counts + pseudo) / (items of class k + pseudo-items)
        counts = self._spoken(sums.counts + self.pseudo)
        said = counts / (sums.class_counts + self.pseudo.sum(axis=1) + self.silent)[:, None, :]
        K = sums.class_counts.size
        return _bounded((sums.class_counts + 1.0) / (sums.class_counts.sum() + K), said)

    def penalty(self, at: Speaking) -> float:
        of_labels = (self.pseudo * np.log(np.maximum(at.said, FLOOR))).sum()
        of_silence = (self.silent * np.log1p(-at.propensity)).sum()
        return float(of_labels + of_silence + np.log(np.maximum(at.prior, FLOOR)).sum())

    def leap(self, one: Pass[Speaking, Statistics], two: Pass[Speaking, Statistics]) -> Speaking | None:
        items = two.sums.class_counts
        far = extrapolate(one.at, two.at, two.after, (items.sum(), items), 0.1 * FLOOR)
        return None if far is None else _bounded(far[0] / far[0].sum(), far[1])


def _bounded(prior: Floats, said: Floats) -> Speaking:
    """Return the parameters with propensities of at most ``_MOST``."""
    spoken = said.sum(axis=1, keepdims=True)
    return Speaking(prior, said * np.minimum(1.0, _MOST / np.maximum(spoken, FLOOR)))
