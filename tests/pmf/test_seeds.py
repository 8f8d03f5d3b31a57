"""Whatever may be a random state gives the same generator everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from consilience.exceptions import ParameterError
from consilience.pmf.classifier import JointPMFClassifier
from consilience.pmf.joint_pmf import JointPMF
from consilience.pmf.recommender import JointPMFRecommender
from consilience.validation import generator

STATES: list[Callable[[], Any]] = [
    lambda: 5,
    lambda: np.int64(5),
    lambda: np.random.SeedSequence(5),
    lambda: np.random.default_rng(5),
    lambda: np.random.RandomState(5),
]


@pytest.mark.parametrize("state", STATES)
def test_the_same_state_gives_the_same_fit(state: Callable[[], Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 4))
    y = (X[:, 0] > 1).astype(int)
    for _ in range(2):
        assert generator(state()).random() == generator(state()).random()
    joint = [JointPMF(2, init="random", tol=1e-3, random_state=state()).fit(X) for _ in range(2)]
    assert np.array_equal(joint[0].factors_[0], joint[1].factors_[0])
    assert np.array_equal(joint[0].sample(9, state()), joint[1].sample(9, state()))
    chosen = [JointPMFClassifier(n_starts=2, tol=1e-3, random_state=state()).fit(X, y) for _ in range(2)]
    assert chosen[0].rank_scores_ == chosen[1].rank_scores_
    assert np.array_equal(chosen[0].predict_proba(X), chosen[1].predict_proba(X))
    rated = [JointPMFRecommender(8, n_starts=2, tol=1e-3, random_state=state()).fit(X + 1.0) for _ in range(2)]
    assert np.array_equal(rated[0].predict([(0, 1)]), rated[1].predict([(0, 1)]))


def test_none_is_fresh_and_nonsense_is_refused() -> None:
    X = np.random.default_rng(0).integers(0, 3, (60, 4))
    assert generator(None).random() != generator(None).random()
    few: dict[str, Any] = {"random_state": None, "max_iter": 3, "tol": 0.0}
    JointPMF(2, **few).fit(X)
    JointPMFClassifier(2, **few).fit(X, X[:, 0] > 0)
    JointPMFRecommender(8, n_starts=1, **few).fit(X + 1.0)
    for wrong in ("seed", -1, 0.5):
        with pytest.raises(ParameterError, match="random_state"):
            JointPMF(2, random_state=wrong).fit(X)
