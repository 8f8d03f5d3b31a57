"""Scores of items from pairwise comparisons, with crowd-kit's parameters and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from consilience.ranking.rank import rank
from consilience.ranking.result import Ranking

__all__ = ["BradleyTerry", "NoisyBradleyTerry"]


class _Pairwise:
    """Base: ``fit`` leaves ``scores_``, a series by item, and ``ranking_``, the whole result."""

    scores_: Any
    ranking_: Ranking | None

    def fit(self, data: Any) -> Self:
        """Fit comparisons: columns ``left``, ``right`` and ``label`` (the item that won), and ``worker``."""
        raise NotImplementedError

    def fit_predict(self, data: Any) -> Any:
        """Fit, and return the scores."""
        return self.fit(data).scores_

    def _ranked(self, data: Any, **options: Any) -> tuple[Any, Any, Ranking | None]:
        """Return the items, their scores in log-odds, and the ranking; items may be of any type, such as tuples."""
        import pandas as pd

        if not len(data):
            return pd.Index([]), np.empty(0), None
        both = pd.concat([data["left"], data["right"]], ignore_index=True)
        code, items = pd.factorize(both, sort=False)
        left, right = code[: len(data)], code[len(data) :]
        won = pd.Index(items).get_indexer(pd.Index(data["label"], tupleize_cols=False))
        winner = np.where(won == left, "left", np.where(won == right, "right", "neither side"))
        columns = {"left": left, "right": right, "winner": winner}
        if "worker" in data:
            columns["worker"] = data["worker"].to_numpy()
        found = rank(pd.DataFrame(columns), **options)
        scores = np.zeros(len(items))
        scores[np.asarray(found.comparisons.item_ids.to_arrow())] = found.model.scores
        return items, scores, found


@dataclass(eq=False)
class BradleyTerry(_Pairwise):
    """Bradley-Terry scores that sum to one; an undefeated item has a finite score, because scores have a prior.

    Parameters
    ----------
    n_iter, tol
        Limit of the rounds, and the relative change that ends them.
    """

    n_iter: int
    tol: float = 1e-5
    loss_history_: list[float] = field(init=False, repr=False, default_factory=list)

    def fit(self, data: Any) -> Self:
        """Fit comparisons: columns ``left``, ``right`` and ``label``, the item that won."""
        import pandas as pd

        plain = data.drop(columns="worker", errors="ignore").assign(worker="all")
        options = {"judges": False, "position": False, "length": False}
        items, scores, self.ranking_ = self._ranked(plain, max_iter=self.n_iter, tol=self.tol, **options)
        shares = np.exp(scores - scores.max(initial=-np.inf))
        self.scores_ = pd.Series(shares / max(float(shares.sum()), 1e-300), index=items).sort_index()
        return self


@dataclass(eq=False)
class NoisyBradleyTerry(_Pairwise):
    """Scores between 0 and 1, with skills and biases of workers.

    Parameters
    ----------
    n_iter, tol
        Limit of the rounds, and the relative change that ends them.
    regularization_ratio
        Not used: the spread of scores and of workers is learned.
    random_state
        Seed of the intervals in ``ranking_``.

    Attributes
    ----------
    scores_, skills_, biases_
        Logistic function of the score of each item and of the reliability of each worker (½ for a guesser), and how
        often each worker chooses the left of two equal items.
    """

    n_iter: int = 100
    tol: float = 1e-5
    regularization_ratio: float = 1e-5
    random_state: int = 0

    def fit(self, data: Any) -> Self:
        """Fit comparisons: columns ``worker``, ``left``, ``right`` and ``label``, the item that won."""
        import pandas as pd

        options = {"length": False, "max_iter": self.n_iter, "tol": self.tol, "seed": self.random_state}
        items, scores, found = self._ranked(data, **options)
        self.ranking_ = found
        index = pd.Index(items, name="label", tupleize_cols=False)
        self.scores_ = pd.Series(1.0 / (1.0 + np.exp(-scores)), index=index, name="score")
        workers, reliability, left = [], np.empty(0), np.empty(0)
        if found is not None:
            columns = found.columns("judges")
            workers = list(found.comparisons.judge_ids)
            reliability, left = (np.asarray(columns[name], float) for name in ("reliability", "left_share"))
        self.skills_ = pd.Series(1.0 / (1.0 + np.exp(-reliability)), index=workers, name="skill")
        self.biases_ = pd.Series(left, index=workers, name="bias")
        return self
