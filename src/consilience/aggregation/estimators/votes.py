"""The estimator by votes alone."""

from __future__ import annotations

from typing import Any

from consilience.aggregation.estimators.base import CrowdEstimator
from consilience.aggregation.fit import vote_posterior
from consilience.annotations import Annotations
from consilience.kernels._arrays import Floats

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
