"""Several labels for each task: every label is a question of its own, answered yes or no."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from consilience.crowdkit.tables import Aggregator
from consilience.crowdkit.votes import MajorityVote
from consilience.exceptions import ParameterError

__all__ = ["BinaryRelevance"]


@dataclass(eq=False)
class BinaryRelevance(Aggregator):
    """Aggregate lists of labels, label by label, with copies of one aggregator.

    Parameters
    ----------
    base_aggregator
        The aggregator for a single label; ``aggregators_`` has the fitted copies by label.
    """

    base_aggregator: Any = field(default_factory=MajorityVote)

    def __post_init__(self) -> None:
        if not isinstance(self.base_aggregator, Aggregator):
            raise ParameterError(
                "base_aggregator must be an aggregator of consilience.crowdkit, such as MajorityVote()"
            )

    def fit(self, data: Any) -> Self:
        """Fit one aggregator for each label that occurs in a list of the column ``label``."""
        import pandas as pd

        self.aggregators_: dict[Any, Any] = {}
        if not len(data):
            self._keep(None, None)
            return self
        answers = data[["task", "worker", "label"]].reset_index(drop=True)
        given = answers["label"].explode().dropna()
        tasks = pd.unique(answers["task"])
        chosen: list[list[Any]] = [[] for _ in tasks]
        for label in sorted(given.unique()):
            said = answers.assign(label=answers.index.isin(given.index[given == label]).astype(int))
            fitted = replace(self.base_aggregator)
            self.aggregators_[label] = fitted
            for place in np.flatnonzero(fitted.fit_predict(said).reindex(tasks) == 1):
                chosen[place].append(label)
        self.labels_ = pd.Series(chosen, index=pd.Index(tasks, name="task"), name="agg_label")
        return self
