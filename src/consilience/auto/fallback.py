"""Labels that cannot show who is right: no model is fitted, and every label is taken to be right four times in five.

Three cases, all of which :mod:`consilience.diagnose.rules` calls "not identified": fewer than three annotators, no item
with two labels, and labels without a sign of truth.  The latter are those of which two things hold.

* Annotators agree no more than by chance: with n_k labels of class k on an item and p_k the share of the class in all
  labels, the pairs of labels of one item that agree, Σ over items of Σ_k n_k (n_k - 1) / 2, do not clearly exceed
  Σ_k p_k² times all pairs.
* The lower bound of the model's log-probability does not clearly exceed the log-probability of labels that annotators
  draw from distributions of their own, whatever the item.  With s_m(i) the number of times that m said i, and a flat
  Dirichlet,

    log Pr(labels | no truth)  =  Σ_m [ log Γ(K) + Σ_i log Γ(s_m(i) + 1) - log Γ(Σ_i s_m(i) + K) ].

Agreement alone would not do: adversaries disagree with everybody, and a model learns from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from consilience.auto import constants
from consilience.auto.places import log_likelihood, most_labels, predicted
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels
from consilience.fitting.fit import Fit, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import said_counts, vote_counts
from consilience.models.dawid_skene import DawidSkene

__all__ = ["NO_SIGNAL", "agreement_beyond_chance", "evidence_of_truth", "labels_as_they_are", "why_not"]

NO_SIGNAL = "annotators agree hardly more than they would by guessing, so nothing shows who is right"


def why_not(annotations: Labels) -> str | None:
    """Return why labels cannot show who is right, or None if they may."""
    a = annotations
    if a.n_classes < 2:
        return None
    if most_labels(a) < 2:
        return "no item has two labels, so nothing shows who is right"
    if np.count_nonzero(a.labels_per_annotator) < 3:
        return "there are fewer than three annotators, so nothing shows who is right where they differ"
    return None


def evidence_of_truth(annotations: Annotations, bound: float) -> float:
    """Return by how many nats the ``bound`` of a model exceeds the log-probability of labels without a truth."""
    from scipy.special import gammaln

    said = said_counts(annotations.annotator, annotations.label, annotations.n_annotators, annotations.n_classes)
    K = annotations.n_classes
    alone = gammaln(K) * len(said) + gammaln(said + 1.0).sum() - gammaln(said.sum(axis=1) + K).sum()
    return bound - float(alone)


def agreement_beyond_chance(annotations: Annotations) -> float:
    """Return by how many standard errors of independent pairs annotators agree more than by chance."""
    counts = vote_counts(annotations.indptr, annotations.label, annotations.n_classes)
    n = counts.sum(axis=1)
    pairs = float((n * (n - 1.0)).sum()) / 2.0
    chance = float(np.square(counts.sum(axis=0) / max(n.sum(), 1.0)).sum())
    agree = float((counts * (counts - 1.0)).sum()) / 2.0
    error = np.sqrt(chance * (1.0 - chance) * pairs)
    return float((agree - chance * pairs) / error) if error > 0 else np.inf


def labels_as_they_are(annotations: Labels, why: str) -> Fit:
    """Return the fit that takes every label to be right four times in five."""
    K, right = annotations.n_classes, constants.SMOOTHING + constants.DIAGONAL
    right /= right + constants.SMOOTHING
    confusion = np.where(np.eye(K, dtype=bool), right, (1.0 - right) / (K - 1))
    confusions = np.tile(confusion, (annotations.n_annotators, 1, 1))
    model = DawidSkene(np.full(K, 1.0 / K), confusions, annotations.class_ids, annotations.annotator_ids)
    predictor: Callable[[Annotations], tuple[Floats, Floats]] = partial(_unpooled, model)
    if most_labels(annotations) > 1:
        predictor = Pool(model.posterior, annotations.annotator_ids)
    posterior, votes = predicted(annotations, predictor)
    details = {
        "chosen": "labels",
        "why": f"{why}: every label counts the same, at {right:.0%}",
        "weights": {"labels": 1.0},
    }
    likelihood = log_likelihood(annotations, model)
    return Fit(model, posterior, likelihood, hint=votes, predictor=predictor, details=details)


def _unpooled(model: DawidSkene, annotations: Annotations) -> tuple[Floats, Floats]:
    return model.posterior(annotations), vote_posterior(annotations)
