"""The recommender: expectations from the definition, both shapes of input, strangers, and real ratings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from consilience.exceptions import ColumnError, DataError, DataWarning, ParameterError
from consilience.pmf.recommender import JointPMFRecommender, shrunk_em


def two_tastes(rng: np.random.Generator, users: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of the users like even items, half odd ones; the mean rating of every cell, and ratings."""
    taste = rng.integers(2, size=users)
    likes = (np.arange(items) % 2)[None] == taste[:, None]
    high, low = np.array([0, 0, 0.1, 0.3, 0.6]), np.array([0.6, 0.3, 0.1, 0, 0])
    values = np.arange(1, 6)
    ratings = np.where(likes, rng.choice(values, likes.shape, p=high), rng.choice(values, likes.shape, p=low))
    return np.where(likes, high @ values, low @ values), ratings.astype(float)


def test_predictions_are_near_the_true_means() -> None:
    rng = np.random.default_rng(0)
    means, ratings = two_tastes(rng, 600, 12)
    hidden = rng.random(ratings.shape) < 0.5
    model = JointPMFRecommender(2, shrinkage=1.0, n_starts=2).fit(np.where(hidden, np.nan, ratings))
    pairs = np.argwhere(hidden)
    assert np.abs(model.predict(pairs) - means[hidden]).mean() < 0.25
    assert model.converged_
    assert model.n_iter_ == max(map(len, model.history_))


def test_a_prediction_is_the_conditional_mean_without_its_own_rating() -> None:
    rng = np.random.default_rng(1)
    _, ratings = two_tastes(rng, 80, 5)
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    model = JointPMFRecommender(3, n_starts=2).fit(ratings)
    for user, item in ((0, 0), (3, 4), (7, 2)):
        joint = model.model_.weights.copy()
        for n, A in enumerate(model.model_.factors):
            if n != item and not np.isnan(ratings[user, n]):
                joint *= A[int(np.flatnonzero(model.values_ == ratings[user, n])[0])]
        expected = model.values_ @ model.model_.factors[item] @ joint / joint.sum()
        assert model.predict([(user, item)])[0] == pytest.approx(expected)


def test_long_frames_and_matrices_agree() -> None:
    rng = np.random.default_rng(2)
    _, ratings = two_tastes(rng, 40, 6)
    gone = rng.random(ratings.shape) < 0.4
    gone[:, 0] = False  # a long frame knows only users who rated something
    ratings[gone] = np.nan
    row, column = np.nonzero(~np.isnan(ratings))
    long = pd.DataFrame({"rating": ratings[row, column], "item": column, "user": row}).sample(frac=1, random_state=0)
    pairs = np.argwhere(np.isnan(ratings))
    of_matrix = JointPMFRecommender(2).fit(ratings).predict(pairs)
    asked = pd.DataFrame(pairs, columns=["user", "item"])
    np.testing.assert_array_equal(of_matrix, JointPMFRecommender(2).fit(long).predict(asked))
    np.testing.assert_array_equal(of_matrix, JointPMFRecommender(2).fit(pl.from_pandas(long)).predict(asked))


def test_strangers_get_means() -> None:
    _, ratings = two_tastes(np.random.default_rng(3), 60, 4)
    model = JointPMFRecommender(2).fit(ratings)
    with pytest.warns(DataWarning, match="1 pairs have a user, and 1 an item"):
        new_user, new_item = model.predict([(999, 1), (0, 999)])
    assert new_user == pytest.approx(model.values_ @ model.model_.marginal([1]))
    assert new_item == pytest.approx((ratings[0].sum() + ratings.mean()) / 5)


def test_full_shrinkage_leaves_no_taste_and_none_is_plain_em() -> None:
    rng = np.random.default_rng(4)
    _, ratings = two_tastes(rng, 300, 8)
    codes = (ratings - 1).astype(np.int8)
    *_, history, _ = shrunk_em(codes, 5, 2, 0.0, np.random.default_rng(0), max_iter=50)
    # λ is smoothed by a row for each component, so the plain likelihood may fall by that much
    assert np.all(np.diff(history) > -0.1)
    _, stacked, *_ = shrunk_em(codes, 5, 2, 1e9, np.random.default_rng(0), max_iter=50)
    ratio = stacked.reshape(8, 5, 2)[:, :, 0] / stacked.reshape(8, 5, 2)[:, :, 1]
    # what tells the components apart is the same on all items
    odds = ratio / ratio[:, :1]
    np.testing.assert_allclose(odds, np.tile(odds[:1], (8, 1)), rtol=1e-6)


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(ColumnError, match="'rating'"):
        JointPMFRecommender().fit(pd.DataFrame({"user": [1], "item": [2]}))
    twice = pd.DataFrame({"user": [1, 1], "item": [2, 2], "rating": [3.0, 4.0]})
    with pytest.raises(DataError, match="more than once"):
        JointPMFRecommender().fit(twice)
    with pytest.raises(DataError, match="single rating"):
        JointPMFRecommender().fit(np.full((2, 2), np.nan))
    with pytest.raises(ParameterError, match="n_components"):
        JointPMFRecommender(0).fit(np.ones((2, 2)))
