"""Majority voting: every annotator counts the same, and the share of votes is the confidence.

The confusions are those of one M-step from the vote shares.  They also break ties: of two classes with as many votes,
the one that is more probable under these confusions is chosen.  (Choosing the more popular class instead costs up to
two points of error on real crowds.)
"""

from __future__ import annotations

from typing import Any

from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import ConfusionStep
from consilience.fitting.fit import Fit, vote_posterior, vote_start
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import CrowdEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene

__all__ = ["METHOD", "MajorityVote", "majority_vote"]


class MajorityVote(CrowdEstimator):
    """Majority voting: the share of votes is the probability.

    Examples
    --------
    >>> from consilience import MajorityVote
    >>> MajorityVote().fit_predict([[0, 0, 1], [1, 1, -1]])
    array([0, 1])
    """

    _method = "majority"

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        # votes need no model: new items are counted like old ones
        annotations, hint, _ = super()._posterior(X)
        return annotations, vote_posterior(self.model_.recoded(annotations)), hint


def majority_vote(annotations: Labels) -> Fit:
    """Fit by vote shares."""
    passes = passes_of(annotations)
    parameters = vote_start(passes, ConfusionStep())
    model = DawidSkene(*parameters, passes.class_ids, passes.annotator_ids)
    log_likelihood = passes.sweep(*parameters).log_likelihood
    return Fit(model, passes.vote_posterior(), log_likelihood, hint=passes.posterior(model))


METHOD = Method("majority", majority_vote, "MajorityVote", "every vote counts the same", everywhere=True)
