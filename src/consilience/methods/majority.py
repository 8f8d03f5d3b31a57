"""Majority voting: every annotator counts the same, and the share of votes is the confidence.

The confusions are those of one M-step from the vote shares.  They also break ties: where two classes have as many
votes, the one that these confusions find more probable is chosen.  (The other rules that suggest themselves are worse:
the more popular class gains from everybody's habits, and costs up to two points of error on real crowds.)
"""

from __future__ import annotations

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import ConfusionStep
from consilience.fitting.fit import Fit, vote_start
from consilience.models.dawid_skene import DawidSkene

__all__ = ["majority_vote"]


def majority_vote(annotations: Labels) -> Fit:
    """Take the votes as they are."""
    passes = passes_of(annotations)
    parameters = vote_start(passes, ConfusionStep())
    model = DawidSkene(*parameters, passes.class_ids, passes.annotator_ids)
    log_likelihood = passes.sweep(*parameters).log_likelihood
    return Fit(model, passes.vote_posterior(), log_likelihood, hint=passes.posterior(model))
