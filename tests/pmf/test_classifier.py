"""The classifier: scikit-learn's checks, Bayes' rule on a known model, missing features, and real tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from consilience.exceptions import ColumnError, ConsilienceWarning, DataError, DataWarning, ParameterError
from consilience.pmf.classifier import JointPMFClassifier, fit_by_class
from consilience.pmf.em import fit_joint_pmf, run_cpd_em
from consilience.pmf.joint_pmf import JointPMF


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks() -> None:
    results = check_estimator(JointPMFClassifier(2, n_starts=2, max_iter=20), on_fail=None, on_skip=None)
    assert {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"} == {}
    assert sum(each["status"] == "passed" for each in results) > 40


def naive_bayes(rng: np.random.Generator, rows: int) -> tuple[Any, Any, Any]:
    """Features that are independent given the class, and the true posterior of every row."""
    prior = np.array([0.5, 0.3, 0.2])
    tables = [rng.dirichlet(0.5 * np.ones(size), 3) for size in (3, 4, 5, 3, 4, 5)]
    y = rng.choice(3, rows, p=prior)
    X = np.stack([(rng.random(rows)[:, None] > t.cumsum(axis=1)[y][:, :-1]).sum(axis=1) for t in tables], axis=1)
    joint = prior * np.prod([t[:, X[:, n]].T for n, t in enumerate(tables)], axis=0)
    return X, y, joint / joint.sum(axis=1, keepdims=True)


def test_probabilities_are_those_of_the_true_model() -> None:
    X, y, posterior = naive_bayes(np.random.default_rng(0), 8000)
    names = np.array(["c", "a", "b"])
    model = JointPMFClassifier(1, random_state=0).fit(X, names[y])
    assert model.classes_.tolist() == ["a", "b", "c"]
    found = model.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.abs(found - posterior[:, [1, 2, 0]]).mean() < 0.02
    oracle = np.mean(posterior.argmax(axis=1) == y)
    assert model.score(X, names[y]) > oracle - 0.005


def test_missing_features_are_summed_out() -> None:
    X, y, _ = naive_bayes(np.random.default_rng(1), 3000)
    model = JointPMFClassifier(2).fit(X, y)
    nothing = model.predict_proba(np.full((1, 6), np.nan))
    np.testing.assert_allclose(nothing[0], model.joint_.marginal([6]), atol=1e-12)
    # Pr(y | x_0) from the pair's marginal
    pair = model.joint_.marginal([0, 6])
    one = np.full((1, 6), -1)
    one[0, 0] = 2
    np.testing.assert_allclose(model.predict_proba(one)[0], pair[2] / pair[2].sum(), atol=1e-10)
    assert isinstance(model.joint_, JointPMF)


def test_frames_are_matched_by_name_and_unseen_categories_are_missing() -> None:
    X, y, _ = naive_bayes(np.random.default_rng(2), 600)
    letters = np.array(list("abcdefgh"))
    frame = pd.DataFrame(letters[X], columns=list("uvwxyz"))
    model = JointPMFClassifier(2).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("uvwxyz")
    same = JointPMFClassifier(2).fit(pl.from_pandas(frame), y)
    np.testing.assert_allclose(model.predict_proba(frame), same.predict_proba(pl.from_pandas(frame)))
    odd = frame.head(3).copy()
    odd["u"] = "never seen"
    gone = odd.copy()
    gone["u"] = None
    with pytest.warns(DataWarning, match="no category"):
        strange = model.predict_proba(odd)
    np.testing.assert_allclose(strange, model.predict_proba(gone))


def test_components_of_one_class_are_what_em_of_the_whole_table_keeps() -> None:
    """EM of the joint distribution never leaves a label factor of zeros and ones, so it is EM class by class."""
    X, y, _ = naive_bayes(np.random.default_rng(5), 900)
    X[np.random.default_rng(6).random(X.shape) < 0.1] = -1
    codes, sizes = np.column_stack([X, y]), [3, 4, 5, 3, 4, 5, 3]
    fit = fit_by_class(codes, sizes, 2, smoothing=0.0, tol=1e-12, max_iter=5000)
    label = fit.model.factors[-1]
    assert np.array_equal(label, np.repeat(np.eye(3), 2, axis=1))
    assert np.allclose([fit.model.weights[label[k] > 0].sum() for k in range(3)], np.bincount(y) / 900)
    # a step of EM on all rows and the label: nothing moves
    whole = run_cpd_em(codes, sizes, fit.model.weights, fit.model.stacked, smoothing=0.0, max_iter=3, tol=0)
    np.testing.assert_allclose(whole.at.stacked[-3:], label, atol=1e-8)
    np.testing.assert_allclose(whole.log_likelihood, fit.model.log_prob(codes).sum(), atol=1e-4)
    # and Bayes' rule from one distribution of the features for each class
    joint = np.zeros((900, 3))
    for k in range(3):
        one = fit_joint_pmf(codes[y == k, :-1], sizes[:-1], 2, smoothing=0.0, tol=1e-12, max_iter=5000).model
        joint[:, k] = np.mean(y == k) * np.exp(one.log_prob(X))
    np.testing.assert_allclose(fit.model.conditional(6, codes), joint / joint.sum(axis=1, keepdims=True), atol=1e-9)


def test_the_rank_is_chosen_by_held_out_labels() -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(2, size=(1000, 3))
    y = X[:, 0] ^ X[:, 1]  # one component for each class cannot say this, two can
    assert JointPMFClassifier(1).fit(X, y).score(X, y) < 0.8
    model = JointPMFClassifier(random_state=0, tol=1e-5).fit(X, y)
    assert model.n_components_ >= 2
    assert model.score(X, y) > 0.97
    assert model.rank_scores_[model.n_components_] == max(model.rank_scores_.values())


def test_what_cannot_be_used_is_refused() -> None:
    X = np.zeros((4, 2), int)
    with pytest.raises(DataError, match="every row of a fit needs a label"):
        JointPMFClassifier(1).fit(X, np.array(["a", None, "b", "a"], object))
    with pytest.raises(DataError, match="4 rows and y has 3"):
        JointPMFClassifier(1).fit(X, [0, 1, 1])
    with pytest.raises(ParameterError, match="smoothing"):
        JointPMFClassifier(1, smoothing=-1.0).fit(X, [0, 1, 1, 0])
    with pytest.raises(NotFittedError):
        JointPMFClassifier(1).predict(X)


@pytest.mark.parametrize(("name", "rank", "least"), [("uci_car", 20, 0.93), ("uci_mushroom", 10, 0.995)])
def test_published_accuracy(data_folder: Path, name: str, rank: int, least: float) -> None:
    frame = pd.read_csv(data_folder / name / "table.csv", dtype=str)
    order = np.random.default_rng(0).permutation(len(frame))
    train, test = np.split(order, [len(frame) // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        features, label = frame.drop(columns="class"), frame["class"]
        model = JointPMFClassifier(rank, max_iter=300).fit(features.iloc[train], label.iloc[train])
        assert model.score(features.iloc[test], label.iloc[test]) > least


def test_rows_one_by_one_and_all_at_once() -> None:
    X = np.array([[-1, 0.5], [0, 1.0], [-1, 1.0], [0, 0.5]] * 10)
    model = JointPMFClassifier(2).fit(X, X[:, 0] < 0)
    together = model.predict_proba(X)
    np.testing.assert_allclose(np.concatenate([model.predict_proba(row[None]) for row in X]), together, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X[:3]), together[:3], atol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), together)
    assert together[0, 1] > 0.9


@pytest.mark.parametrize(
    "y",
    [
        pd.array([0, None, 1, 0], "Int64"),
        pd.array(["a", None, "b", "a"], "string"),
        pd.array([True, None, False, True], "boolean"),
        np.array([1, np.nan, 0, 1], object),
        [0.0, np.nan, 1.0, 0.0],
    ],
)
def test_labels_that_are_missing_are_refused(y: Any) -> None:
    with pytest.raises(DataError, match="every row of a fit needs a label"):
        JointPMFClassifier(1).fit(np.zeros((4, 2), int), y)


def test_columns_of_one_name_are_refused() -> None:
    for names in (["a", "a"], [1, "1"]):
        with pytest.raises(ColumnError, match=f"named '{names[0]}'"):
            JointPMFClassifier(1).fit(pd.DataFrame([[0, 1], [1, 0]], columns=names), [0, 1])
