"""The estimator by votes alone."""

from __future__ import annotations

from typing import Any

from consilience.data.annotations import Annotations
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import CrowdEstimator

__all__ = ["MajorityVote"]


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
        # Votes need no model: new items are counted like old ones.
        annotations, hint, _ = super()._posterior(X)
        return annotations, vote_posterior(self.model_.recoded(annotations)), hint
