"""The estimators: scikit-learn's own checks, crowd-kit's manners, and nothing lost between class and function."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from tests.conftest import random_model

import consilience as cs
from consilience.aggregation import estimators, registry
from consilience.exceptions import ConsilienceWarning, ConvergenceWarning, ParameterError

ESTIMATORS = [
    cs.MajorityVote(),
    cs.DawidSkeneEM(),
    cs.OneCoin(),
    cs.RobustSymNMF(random_state=0),
    cs.RobustSymNMF(refine="em", random_state=0),
    cs.DesignatedSymNMF(random_state=0),
    cs.PlainSymNMF(random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator: Any) -> None:
    """No check is expected to fail."""
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 30


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    a, _ = random_model(8, 3, seed=0).sample(200, labels_per_item=4, random_state=0)
    long = a.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})
    long["task"] = "t" + long["task"].astype(str)
    long["label"] = long["label"].map({0: "cat", 1: "dog", 2: "fox"})
    return long.sample(frac=1.0, random_state=1)


def test_crowd_kit_frames_get_series_by_task(frame: pd.DataFrame) -> None:
    labels = cs.DawidSkeneEM().fit_predict(frame)
    assert isinstance(labels, pd.Series)
    assert labels.index.name == "task"
    assert labels.name == "agg_label"
    assert set(labels.index) == set(frame["task"])
    probabilities = cs.DawidSkeneEM().fit_predict_proba(frame)
    assert isinstance(probabilities, pd.DataFrame)
    assert list(probabilities.columns) == ["cat", "dog", "fox"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities.idxmax(axis=1) == labels).all()


def test_majority_is_a_count_of_votes(frame: pd.DataFrame) -> None:
    counts = frame.groupby(["task", "label"]).size().unstack(fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0)
    ours = cs.MajorityVote().fit_predict_proba(frame).loc[shares.index, shares.columns]
    np.testing.assert_allclose(ours.to_numpy(), shares.to_numpy())
    labels = cs.MajorityVote().fit_predict(frame).loc[shares.index]
    chosen = shares.to_numpy()[np.arange(len(labels)), shares.columns.get_indexer(labels)]
    np.testing.assert_allclose(chosen, shares.max(axis=1))


def test_crowd_kit_agrees(frame: pd.DataFrame) -> None:
    """The peer itself, where it is installed (make bench installs it)."""
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    theirs = peer.DawidSkene(n_iter=20, tol=0).fit_predict_proba(frame)
    # their last E-step is our final posterior; they add 1e-10 under every logarithm
    ours = cs.DawidSkeneEM(tol=0, max_iter=19, accelerate=False).fit_predict_proba(frame)
    np.testing.assert_allclose(ours.loc[theirs.index, theirs.columns], theirs, atol=1e-6)


def test_prior_and_confusions_have_crowd_kits_names(frame: pd.DataFrame) -> None:
    fitted = cs.DawidSkeneEM().fit(frame)
    assert fitted.priors_["dog"] == fitted.prior_[1]
    worker = frame["worker"].iloc[0]
    m = list(fitted.model_.annotators).index(worker)
    assert fitted.errors_.loc[(worker, "cat"), "fox"] == fitted.confusions_[m, 0, 2]


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas])
def test_other_frames_get_their_own_kind(frame: pd.DataFrame, make: Any) -> None:
    theirs = make(frame.reset_index(drop=True))
    labels = cs.DawidSkeneEM().fit_predict(theirs)
    assert type(labels) is type(theirs)
    by_pandas = cs.DawidSkeneEM().fit_predict(frame)
    table = labels if isinstance(labels, pa.Table) else labels.to_arrow()
    assert table["task"].to_pylist() == list(by_pandas.index)
    assert table["label"].to_pylist() == list(by_pandas)


def test_fitted_annotators_judge_new_items() -> None:
    model = random_model(10, 3, seed=2, skill=0.8)
    old, _ = model.sample(3000, labels_per_item=5, random_state=0)
    new, truth = model.sample(500, labels_per_item=5, random_state=1)
    fitted = cs.DawidSkeneEM().fit(old)
    assert np.mean(fitted.predict(new) == truth) > 0.85
    np.testing.assert_allclose(fitted.predict_proba(new), fitted.model_.posterior(new))
    np.testing.assert_array_equal(fitted.predict(old), fitted.labels_)


def test_gold_and_its_crowd_kit_name(frame: pd.DataFrame) -> None:
    known = pd.Series({"t0": "fox", "t1": "cat"})
    for fitted in (cs.DawidSkeneEM().fit(frame, gold=known), cs.DawidSkeneEM().fit(frame, true_labels=known)):
        assert fitted.labels_[["t0", "t1"]].tolist() == ["fox", "cat"]
        assert fitted.probas_.loc["t0", "fox"] == 1.0


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_class_and_function_are_the_same(estimator: Any) -> None:
    """Every parameter of the function is one of the class, with the same default, and is passed on."""
    method = registry.METHODS[estimator._method]
    ours = {k: v for k, v in estimator.get_params().items() if k not in ("random_state", "refine")}
    import inspect

    theirs = {
        name: p.default
        for name, p in inspect.signature(method.function).parameters.items()
        if p.kind == p.KEYWORD_ONLY and name not in ("start", "random_state")
    }
    assert ours == theirs
    a, _ = random_model(5, 2, seed=0).sample(100, random_state=0)
    changed = {"smoothing": 0.7, "shrinkage": 0.1, "prior": "uniform", "max_iter": 5, "tol": 0.0, "accelerate": False}
    options = {k: v for k, v in changed.items() if k in ours}
    fitted = clone(estimator).set_params(**options).fit(a)
    direct = registry.fit(estimator._name(), a, **options)
    assert fitted.model_ == direct.model
    assert fitted.history_ == direct.history


def test_bad_parameters_and_use_before_fit() -> None:
    votes = [[0, 1, 1], [1, 0, 0]]
    for bad in ({"max_iter": -1}, {"tol": 2.0}, {"smoothing": -0.1}, {"prior": "flat"}, {"max_iter": 2.5}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            cs.DawidSkeneEM(**bad).fit(votes)
    with pytest.raises(NotFittedError):
        cs.DawidSkeneEM().predict(votes)


def test_running_out_of_passes_is_said(frame: pd.DataFrame) -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes"):
        fitted = cs.DawidSkeneEM(max_iter=2).fit(frame)
    assert not fitted.converged_
    assert fitted.n_iter_ == 2


def test_wide_frames_are_matrices() -> None:
    wide = pd.DataFrame({"ann": [0, 1, 0, np.nan], "bob": [0, 1, 1, 1], "cyd": [0, np.nan, 0, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        fitted = cs.MajorityVote().fit(wide)
    assert fitted.labels_.tolist() == [0, 1, 0, 1]
    assert fitted.feature_names_in_.tolist() == ["ann", "bob", "cyd"]


def test_every_method_has_its_class() -> None:
    for method in registry.METHODS.values():
        assert getattr(cs, method.estimator)._method == method.name
        assert method.estimator in estimators.__all__
