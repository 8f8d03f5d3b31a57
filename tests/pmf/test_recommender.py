"""The recommender: the model from its definition, answers, both shapes of input, strangers, scikit-learn's manners."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from tests.estimators import failed_checks

from consilience.exceptions import ColumnError, ConvergenceWarning, DataError, DataWarning, IdError, ParameterError
from consilience.pmf.cpd import CPD
from consilience.pmf.rating_scale import RatingScaleFit, fit_rating_scale
from consilience.pmf.recommender import JointPMFRecommender


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")  # a matrix of two columns: strange pairs
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks() -> None:
    """No check is expected to fail."""
    assert failed_checks(JointPMFRecommender(8, n_tastes=1, n_starts=1, max_iter=20), 36) == {}


def kinds(rng: np.random.Generator, users: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Users who are mild or strict and like even or odd items; the mean rating of every cell, and ratings 1 … 5."""
    level, taste = rng.normal(0, 0.8, users), rng.choice([-1.0, 1.0], users)
    tilt = level[:, None] + 0.8 * taste[:, None] * np.where(np.arange(items) % 2, 1.0, -1.0)
    tilt = tilt + np.linspace(-0.5, 0.5, items)
    values = np.arange(1.0, 6.0)
    shares = np.exp(tilt[:, :, None] * (values - 3) - 0.2 * (values - 3) ** 2)
    shares /= shares.sum(axis=2, keepdims=True)
    codes = (rng.random((users, items, 1)) > shares.cumsum(axis=2)).sum(axis=2)
    return shares @ values, values[np.minimum(codes, 4)]


def fitted(shrinkage: float = 1.0, tol: float = 1e-11, max_iter: int = 3000) -> tuple[np.ndarray, RatingScaleFit]:
    rng = np.random.default_rng(5)
    _, ratings = kinds(rng, 60, 4)
    codes = np.where(rng.random(ratings.shape) < 0.3, -1, ratings - 1).astype(np.int8)
    fit = fit_rating_scale(codes, np.arange(1, 6), 16, 1, shrinkage=shrinkage, tol=tol, max_iter=max_iter)
    return codes, fit


def objective(codes: np.ndarray, slopes: np.ndarray, points: np.ndarray, shrinkage: float) -> tuple[float, np.ndarray]:
    """Penalised log-likelihood and factors (N, R, F), cell by cell from the formulas of the module."""
    N, R, F = codes.shape[1], 5, len(points)
    m = np.array([(codes == r).sum() + 1.0 for r in range(R)])
    m /= m.sum()
    values = np.arange(1.0, 6.0)
    t = (values - m @ values) / np.sqrt(m @ (values - m @ values) ** 2)
    e = (values - 3) ** 2 / (m @ (values - m @ values) ** 2)
    e = e - m @ e
    A = np.empty((N, R, F))
    for n in range(N):
        m_n = np.array([(codes[:, n] == r).sum() for r in range(R)]) + 100.0 * shrinkage * m
        for f in range(F):
            a = slopes[n]
            by_rating = a[0] + a[2] * points[f, 0] + a[4:] @ points[f, 2:]
            A[n, :, f] = m_n * np.exp(t * by_rating + e * (a[1] + a[3] * points[f, 1]))
            A[n, :, f] /= A[n, :, f].sum()
    total = 0.0
    for row in codes:
        product = np.full(F, 1.0 / F)
        for item in np.flatnonzero(row >= 0).tolist():
            product = product * A[item, row[item]]
        total += np.log(product.sum())
    mean = slopes.mean(axis=0)
    mean[4:] = 0.0
    lost = shrinkage / 2 * (((slopes - mean) / np.array([0.3, 0.1, 0.05, 0.1, 0.3])) ** 2).sum()
    return total - lost, A


def test_factors_are_those_of_the_formula_and_em_ends_at_the_top_of_the_objective() -> None:
    codes, fit = fitted(0.7)
    value, A = objective(codes, fit.slopes, fit.points, 0.7)
    np.testing.assert_allclose(np.stack(fit.model.factors), A, rtol=1e-9)
    assert fit.converged
    assert fit.history[-1] == pytest.approx(value, rel=1e-6)
    for n, p in np.ndindex(*fit.slopes.shape):
        change = np.zeros_like(fit.slopes)
        change[n, p] = 1e-4
        up, down = (objective(codes, fit.slopes + sign * change, fit.points, 0.7)[0] for sign in (1, -1))
        assert abs(up - down) / 2e-4 < 0.02, (n, p)
        assert up + down < 2 * value


def test_every_pass_rises_also_with_hardly_any_shrinkage() -> None:
    for shrinkage in (0.0, 0.01, 1.0, 100.0):
        history = fitted(shrinkage, tol=0.0, max_iter=60)[1].history
        assert len(history) == 60
        assert np.diff(history).min() > -1e-8, shrinkage


def test_predictions_are_nearer_to_the_true_means_than_levels_of_users_and_items() -> None:
    rng = np.random.default_rng(0)
    means, ratings = kinds(rng, 500, 12)
    hidden = rng.random(ratings.shape) < 0.5
    seen = np.where(hidden, np.nan, ratings)
    model = JointPMFRecommender(64, n_tastes=1, shrinkage=0.1, n_starts=2).fit(seen)
    pairs = np.argwhere(hidden)
    ours = np.sqrt(((model.predict(pairs) - means[hidden]) ** 2).mean())
    # r ≈ μ + b_u + c_i, biases shrunk
    there, everything = ~np.isnan(seen), np.nanmean(seen)
    b, c = np.zeros((500, 1)), np.zeros((1, 12))
    for _ in range(20):
        b = np.nansum(seen - everything - c, axis=1, keepdims=True) / (there.sum(axis=1, keepdims=True) + 1.0)
        c = np.nansum(seen - everything - b, axis=0, keepdims=True) / (there.sum(axis=0, keepdims=True) + 1.0)
    theirs = np.sqrt((((everything + b + c) - means)[hidden] ** 2).mean())
    assert ours < 0.7 * theirs
    assert model.converged_
    assert model.n_iter_ == max(map(len, model.history_))
    # the median has the smaller absolute error, the mean the smaller squared error
    median, mean, truth = model.predict(pairs, "median"), model.predict(pairs), ratings[hidden]
    assert np.abs(median - truth).mean() < np.abs(mean - truth).mean()
    assert ((median - truth) ** 2).mean() > ((mean - truth) ** 2).mean()


def test_a_prediction_comes_from_the_conditional_without_its_own_rating() -> None:
    rng = np.random.default_rng(1)
    _, ratings = kinds(rng, 80, 5)
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    model = JointPMFRecommender(12, n_starts=2).fit(ratings)
    assert model.model_.rank == 24
    for user, item in ((0, 0), (3, 4), (7, 2)):
        joint = model.model_.weights.copy()
        for n, A in enumerate(model.model_.factors):
            if n != item and not np.isnan(ratings[user, n]):
                joint *= A[int(np.flatnonzero(model.values_ == ratings[user, n])[0])]
        shares = model.model_.factors[item] @ joint / joint.sum()
        assert model.predict([(user, item)])[0] == pytest.approx(model.values_ @ shares)
        absolute = [(shares * np.abs(model.values_ - guess)).sum() for guess in model.values_]
        assert model.predict([(user, item)], "median")[0] == model.values_[np.argmin(absolute)]


def test_long_frames_and_matrices_agree_and_one_seed_gives_one_answer() -> None:
    rng = np.random.default_rng(2)
    _, ratings = kinds(rng, 40, 6)
    gone = rng.random(ratings.shape) < 0.4
    gone[:, 0] = False  # a long frame knows only users who rated something
    ratings[gone] = np.nan
    row, column = np.nonzero(~np.isnan(ratings))
    long = pd.DataFrame({"rating": ratings[row, column], "item": column, "user": row}).sample(frac=1, random_state=0)
    pairs = np.argwhere(np.isnan(ratings))
    model = JointPMFRecommender(16, n_starts=2)
    of_matrix = model.fit(ratings).predict(pairs)
    asked = pd.DataFrame(pairs, columns=["user", "item"])
    np.testing.assert_array_equal(of_matrix, model.fit(long).predict(asked))
    np.testing.assert_array_equal(of_matrix, model.fit(pl.from_pandas(long)).predict(asked))
    named = pd.DataFrame(ratings, columns=list("abcdef"), index=[f"u{u}" for u in range(40)])
    asked = pd.DataFrame({"user": [f"u{u}" for u in pairs[:, 0]], "item": np.array(list("abcdef"))[pairs[:, 1]]})
    np.testing.assert_array_equal(of_matrix, model.fit(named).predict(asked))
    assert not np.array_equal(
        of_matrix, JointPMFRecommender(16, n_starts=2, random_state=1).fit(ratings).predict(pairs)
    )


def test_strangers_get_what_is_usual() -> None:
    _, ratings = kinds(np.random.default_rng(3), 200, 4)
    model = JointPMFRecommender(32, n_starts=2).fit(ratings)
    with pytest.warns(DataWarning, match="2 pairs have a user, and 4 an item"):
        new_user, new_item, both, mild, strict = model.predict(
            [(999, 1), (0, 999), (999, 999), (ratings.mean(axis=1).argmax(), 999), (ratings.mean(axis=1).argmin(), -5)]
        )
    assert new_user == pytest.approx(model.values_ @ model.model_.marginal([1]))
    assert new_user == pytest.approx(ratings[:, 1].mean(), abs=0.15)
    codes = (ratings[:1] - 1).astype(int)
    assert new_item == pytest.approx(model.values_ @ model.typical_ @ model.model_.posterior(codes)[0])
    assert both == pytest.approx(ratings.mean(), abs=0.15)
    assert mild > both + 0.5 > both - 0.5 > strict


def test_a_matrix_of_ratings_is_predicted_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = some_ratings(10)
    model = JointPMFRecommender(8, n_starts=2, tol=1e-4).fit(ratings)
    pairs = np.argwhere(np.ones_like(ratings))
    statistics: tuple[Any, ...] = "mean", "median"
    for statistic in statistics:
        expected = model.predict(pairs, statistic).reshape(ratings.shape)
        np.testing.assert_allclose(model.predict(ratings, statistic), expected, rtol=1e-12)
        np.testing.assert_allclose(model.predict(ratings.tolist(), statistic), expected, rtol=1e-12)
    with monkeypatch.context() as patched:
        patched.setattr("consilience.pmf.recommender._RATINGS", 1)
        np.testing.assert_allclose(model.predict(ratings), model.predict(pairs).reshape(ratings.shape), rtol=1e-12)
    # a user who gave nothing gets what is usual
    nothing = model.predict(np.full((1, 6), np.nan))
    np.testing.assert_allclose(nothing[0], [model.values_ @ model.model_.marginal([n]) for n in range(6)])
    strange = ratings.copy()
    strange[0, 1], strange[3, 2] = 3.25, 99.0
    with pytest.warns(DataWarning, match="2 ratings have values"):
        found = model.predict(strange)
    strange[[0, 3], [1, 2]] = np.nan
    np.testing.assert_array_equal(found, model.predict(strange))


def test_new_users_are_predicted_from_what_they_rated() -> None:
    rng = np.random.default_rng(11)
    means, ratings = kinds(rng, 600, 12)
    hidden = rng.random(ratings.shape) < 0.4
    seen = np.where(hidden, np.nan, ratings)
    model = JointPMFRecommender(64, n_tastes=1, shrinkage=0.1, n_starts=2).fit(seen[:400])
    ours = ((model.predict(seen[400:]) - means[400:])[hidden[400:]] ** 2).mean()
    level = np.nanmean(seen[400:], axis=1, keepdims=True) + np.nanmean(seen[:400], axis=0) - np.nanmean(seen[:400])
    assert ours < 0.6 * ((level - means[400:])[hidden[400:]] ** 2).mean()
    # as well as those whom the fit saw
    assert ours < 1.3 * ((model.predict(seen[:400]) - means[:400])[hidden[:400]] ** 2).mean()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_of_ratings_are_matrices(make: Any) -> None:
    ratings = some_ratings(12)[:, :2]
    row, column = np.nonzero(~np.isnan(ratings))
    long = make({"item": np.array(["a", "b"])[column], "user": row, "rating": ratings[row, column]})
    wide = make({"a": ratings[:, 0], "b": ratings[:, 1]})
    model = JointPMFRecommender(8, n_starts=1, tol=1e-3).fit(long)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    pairs = make({"user": [3, 3, 5], "item": ["b", "a", "b"]})
    # two items: an array of two columns would be pairs
    np.testing.assert_allclose(model.predict(wide)[[3, 3, 5], [1, 0, 1]], model.predict(pairs))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(make({"b": ratings[:, 0], "a": ratings[:, 1]}))


def test_what_ends_a_fit_early_is_said() -> None:
    _, ratings = kinds(np.random.default_rng(4), 50, 4)
    with pytest.warns(ConvergenceWarning, match="within 3 passes"):
        model = JointPMFRecommender(8, n_starts=1, max_iter=3).fit(ratings)
    assert not model.converged_
    stopped = JointPMFRecommender(8, n_starts=2, callback=lambda progress: progress.iteration == 2).fit(ratings)
    assert [len(history) for history in stopped.history_] == [2, 2]
    assert not stopped.converged_


def test_what_cannot_be_used_is_refused() -> None:
    small = JointPMFRecommender(4, n_starts=1)
    with pytest.raises(ColumnError, match="'rating'"):
        small.fit(pd.DataFrame({"user": [1], "item": [2]}))
    with pytest.raises(DataError, match="more than once"):
        small.fit(pd.DataFrame({"user": [1, 1], "item": [2, 2], "rating": [3.0, 4.0]}))
    with pytest.raises(DataError, match="must be numbers"):
        small.fit(pd.DataFrame({"user": [1], "item": [2], "rating": ["good"]}))
    with pytest.raises(DataError, match="infinite"):
        small.fit(pd.DataFrame({"user": [1], "item": [2], "rating": [np.inf]}))
    for ids in ([1.0, np.nan], ["a", None]):
        with pytest.raises(DataError, match="'user' has missing ids"):
            small.fit(pd.DataFrame({"user": ids, "item": [2, 2], "rating": [3.0, 4.0]}))
        with pytest.raises(DataError, match="'item' has missing ids"):
            small.fit(pl.DataFrame({"user": [1, 2], "item": ids, "rating": [3.0, 4.0]}))
    with pytest.raises(DataError, match="'user' has missing ids"):
        small.fit(pd.DataFrame({"user": pd.array([1, None], "Int64"), "item": [2, 2], "rating": [3.0, 4.0]}))
    with pytest.raises(DataError, match="more than one row"):
        small.fit(pd.DataFrame([[1.0, 2.0], [2.0, 1.0]], index=["a", "a"]))
    with pytest.raises(DataError, match="single rating"):
        small.fit(np.full((2, 2), np.nan))
    for name, value in (("n_components", 0), ("n_tastes", -1), ("n_starts", 1.5), ("shrinkage", -1), ("tol", "no")):
        with pytest.raises(ParameterError, match=name):
            JointPMFRecommender().set_params(**{name: value}).fit(np.ones((2, 2)))
    with pytest.raises(NotFittedError):
        small.predict([(0, 0)])
    one_value = small.fit(np.array([[3.0, np.nan], [3.0, 3.0]]))
    assert one_value.predict([(0, 1)]) == pytest.approx([3.0])
    assert one_value.predict([]).shape == (0,)
    with pytest.raises(DataError, match="X has 3 features, but JointPMFRecommender is expecting 2"):
        one_value.predict(np.ones((2, 3)))
    with pytest.raises(DataError, match="Reshape"):
        one_value.predict(np.ones(3))
    with pytest.raises(ColumnError, match="'item'"):
        one_value.predict(pd.DataFrame({"user": [0]}))
    with pytest.raises(TypeError, match="Sparse"):
        one_value.predict(csr_array(np.ones((2, 2))))
    with pytest.raises(ParameterError, match="statistic"):
        one_value.predict([(0, 1)], "mode")  # type: ignore[arg-type]


def some_ratings(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    _, ratings = kinds(rng, 40, 6)
    ratings[rng.random(ratings.shape) < 0.4] = np.nan
    ratings[:, 0] = 3.0
    return ratings


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_of_all_kinds(make: Any) -> None:
    ratings = some_ratings(6)
    model = JointPMFRecommender(8, n_starts=1)
    expected = model.fit(ratings).predict([(3, 1), (3, 0), (5, 4)])
    row, column = np.nonzero(~np.isnan(ratings))
    long = make({"item": column, "user": row, "rating": ratings[row, column]})
    asked = make({"user": [3, 3, 5], "item": [1, 0, 4]})
    np.testing.assert_allclose(model.fit(long).predict(asked), expected)
    # a wide frame, one of whose items has the name of a column of a long one
    names = ["item", "b", "c", "d", "e", "f"]
    wide = make({name: pa.array(ratings[:, n], from_pandas=True).to_pylist() for n, name in enumerate(names)})
    model.fit(wide)
    assert model.items_.tolist() == names
    np.testing.assert_allclose(model.predict([(3, "b"), (3, "item"), (5, "e")]), expected)


def test_ids_of_other_types() -> None:
    named = pd.DataFrame(some_ratings(7), index=[f"u{u}" for u in range(40)])
    model = JointPMFRecommender(8, n_starts=1).fit(named)
    expected = model.predict([("u3", 2)])
    # numpy makes text of both
    np.testing.assert_array_equal(model.predict(np.array([("u3", 2)])), expected)
    np.testing.assert_array_equal(model.predict([("u3", 2.0)]), expected)
    with pytest.raises(IdError, match="user ids are of type int64 here and were of type string"):
        model.predict([(3, 2)])
    with pytest.raises(IdError, match="item ids are of type string here and were of type int64"):
        model.predict([("u3", "two")])
    with pytest.raises(IdError, match="mixes types"):
        model.predict([("u3", 2), (4, 2)])
    with pytest.raises(DataError, match="'item' has missing ids"):
        model.predict(pd.DataFrame({"user": ["u3"], "item": [None]}))
    with pytest.raises(DataError, match="'item' has missing ids"):
        model.predict(pl.DataFrame({"user": ["u3"], "item": [float("nan")]}))
    with pytest.raises(IdError, match="'user' mixes types"):
        model.fit(pd.DataFrame({"user": ["a", 1], "item": [1, 1], "rating": [3.0, 4.0]}))
    with pytest.raises(IdError, match="mixes types"):
        model.fit(pd.DataFrame([[3.0, 4.0]], columns=["a", 1]))


def test_pairs_in_any_order_alone_and_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = some_ratings(8)
    model = JointPMFRecommender(8, n_starts=2, tol=1e-4).fit(ratings)
    pairs = np.argwhere(np.ones_like(ratings))
    order = np.random.default_rng(0).permutation(len(pairs))
    statistics: tuple[Any, ...] = "mean", "median"
    for statistic in statistics:
        expected = model.predict(pairs, statistic)
        np.testing.assert_allclose(model.predict(pairs[order], statistic), expected[order])
        for p in range(0, len(pairs), 17):
            np.testing.assert_allclose(model.predict(pairs[p : p + 1], statistic), expected[p])
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(pairs, statistic), expected)
    # each from its own conditional
    codes = np.where(np.isnan(ratings), 0, ratings).astype(int) - 1
    each = [model.model_.expectation(n, codes[[u]], model.values_)[0] for u, n in pairs.tolist()]
    np.testing.assert_allclose(model.predict(pairs), each, rtol=1e-12)
    monkeypatch.setattr("consilience.pmf.recommender._USERS", 7)
    np.testing.assert_allclose(model.predict(pairs), each, rtol=1e-12)


def test_a_user_has_one_posterior_for_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    model = JointPMFRecommender(8, n_starts=1).fit(some_ratings(9))
    asked: list[tuple[int, ...]] = []
    posterior = CPD.posterior

    def counted(self: CPD, codes: np.ndarray) -> np.ndarray:
        asked.append(codes.shape)
        return posterior(self, codes)

    monkeypatch.setattr(CPD, "posterior", counted)
    model.predict([(user, item) for user in (3, 5, 8) for item in range(6)])
    assert asked == [(3, 6)]
