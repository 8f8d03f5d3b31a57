"""Majority voting: every annotator counts the same, and the share of votes is the confidence.

The confusions are those of one M-step from the vote shares.  They also break ties: where two classes have as many
votes, the one that these confusions find more probable is chosen.  (The other rules that suggest themselves are worse:
the more popular class gains from everybody's habits, and costs up to two points of error on real crowds.)
"""

from __future__ import annotations

from consilience.aggregation.em import ConfusionStep
from consilience.aggregation.fit import Fit, vote_posterior, vote_start
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene

__all__ = ["majority_vote"]


def majority_vote(annotations: Annotations) -> Fit:
    """Take the votes as they are."""
    parameters = vote_start(annotations, ConfusionStep())
    model = DawidSkene(*parameters, annotations.class_ids, annotations.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(annotations)
    return Fit(model, vote_posterior(annotations), log_likelihood, hint=posterior)
