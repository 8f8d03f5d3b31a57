"""EM for annotators and classifiers together (Raykar et al. 2010).

The truth of an item has the probabilities that its features suggest, and annotators answer given the truth:

    E-step   q_n(k)  ∝  g_n(k) · Π over labels (m, i) of n of A_m(i, k)
    M-step   A_m(i, k)  ∝  pseudo + Σ over labels i of m of q_n(k);   β, T of :mod:`consilience.features.source`;
             then the classifiers, refitted to q as soft labels.

The classifiers are refitted by cross-fitting (:mod:`consilience.features.cross_fitting`): g_n comes from classifiers
that have seen no label of item n, so memorised labels do not return as evidence.  Given the classifiers' probabilities,
no pass lowers the objective Σ_n log Σ_k g_n(k) Π A_m(i, k) + penalties; a refit may.

====== =========================== ============
symbol name                        shape
====== =========================== ============
q      ``posterior``               (N, K)
g      ``opinion``                 (N, K)
A      ``model.confusions``        (M, K, K)
ℓ      ``likelihood``              (N, K)
====== =========================== ============

V. C. Raykar et al., "Learning from crowds", JMLR 11 (2010).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.progress import Callback, Progress
from consilience.features import constants
from consilience.features.source import Source, fit_source, penalty
from consilience.fitting.fit import vote_posterior
from consilience.fitting.m_steps import ConfusionStep
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_statistics
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Joint", "confusion_step", "doubted_votes", "expected_counts", "fit_joint", "likelihood_of"]

#: Out-of-fold probabilities of the classifiers fitted to soft labels, (S, N, K).
Members = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Joint:
    """Annotators and classifiers that were fitted together."""

    model: DawidSkene  #: with equal class shares: these are in ``opinion``
    source: Source
    members: Floats  #: (S, N, K)
    opinion: Floats
    posterior: Floats
    history: list[float]
    converged: bool


def confusion_step(n_classes: int) -> ConfusionStep:
    """Return the M-step of the annotators."""
    pseudo = constants.DIAGONAL * np.eye(n_classes) + constants.SMOOTHING / n_classes
    return ConfusionStep(pseudo, learn_prior=False)


def expected_counts(annotations: Annotations, posterior: Floats) -> Floats:
    """Return how often annotator m is expected to have said i of class k, (M, K, K)."""
    return _statistics(annotations, posterior).counts


def likelihood_of(annotations: Annotations, model: DawidSkene, weights: Floats | None) -> tuple[Floats, float]:
    """Return Pr(labels of n | class k), (N, K), scaled to a sum of one, and the sum of the logarithms of the scales."""
    posterior, log_likelihood = model.posterior_and_likelihood(annotations, weights)
    return posterior, log_likelihood + annotations.n_items * np.log(annotations.n_classes)


def doubted_votes(annotations: Annotations) -> Floats:
    """Return vote shares with half a vote spread over the classes, to start from; known truths as they are."""
    n, K = annotations.labels_per_item[:, None], annotations.n_classes
    made: Floats = (vote_posterior(annotations) * n + 0.5 / K) / (n + 0.5)
    if annotations.gold is not None:
        known = annotations.gold >= 0
        made[known] = np.arange(K) == annotations.gold[known, None]
    return made


def fit_joint(
    annotations: Annotations,
    members: Members,
    start: Floats,
    *,
    weights: Floats | None = None,
    rounds: int = 1,
    max_iter: int = constants.PASSES,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> Joint:
    """Fit annotators and classifiers together.

    Parameters
    ----------
    annotations
        The labels; items of known truth are held there.
    members
        Returns the out-of-fold probabilities of classifiers fitted to the posterior.
    start
        Probabilities of the classes to start from, (N, K).
    weights
        How many times the labels of each annotator count, (M,).
    rounds
        How often the classifiers are fitted, at most: less often if the labels hardly change.
    max_iter, tol
        Passes for each fit of the classifiers, and the relative change of the objective that ends them.
    callback
        Called after every pass; ends the fit by returning True.
    """
    a, K, q = annotations, annotations.n_classes, start
    step, even = confusion_step(K), np.full(K, 1.0 / K)
    history: list[float] = []
    for turn in range(rounds):
        before = q.argmax(axis=1)
        known = members(q)
        if turn == 0:
            source = Source.at_its_word(len(known), K)
        change, asked = np.nan, False
        for _ in range(max(max_iter, 1)):
            fitted = step(_statistics(a, q))
            model = DawidSkene(even, fitted.confusions, a.class_ids, a.annotator_ids)
            likelihood, scale = likelihood_of(a, model, weights)
            source = fit_source(known, likelihood, source)
            opinion = source(known)
            joint = opinion * likelihood
            q = _normalised(joint)
            objective = float(np.log(joint.sum(axis=1)).sum()) + scale + penalty(source) + step.penalty(fitted)
            if history:
                change = abs(objective - history[-1]) / max(abs(objective), 1.0)
            history.append(objective)
            asked = bool(callback and callback(Progress(len(history), rounds * max_iter, objective, change)))
            if asked or change <= tol:
                break
        # a classifier that was fitted to nearly the same labels says nearly the same
        changed = float(np.mean(q.argmax(axis=1) != before))
        if asked or changed < constants.SAME_LABELS:
            break
    return Joint(model, source, known, opinion, q, history, bool(change <= tol))


def _statistics(annotations: Annotations, posterior: Floats) -> Statistics:
    a = annotations
    return vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)


def _normalised(weights: Floats) -> Floats:
    made: Floats = weights / weights.sum(axis=1, keepdims=True)
    return made
