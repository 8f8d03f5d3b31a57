"""Estimators of numbers and several options: scikit-learn's manners, recovery, new items, frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.estimators import failed_checks

import consilience as cs
from consilience.data.set_labels import as_sets

pytestmark = pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")


@pytest.mark.parametrize("name", ["NumericConsensus", "MultiLabelConsensus"])
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn(name: str) -> None:
    assert failed_checks(getattr(cs, name)(), at_least=25) == {}


def test_numbers_are_recovered_and_new_items_judged() -> None:
    crowd = cs.datasets.simulate_numeric(300, 10, labels_per_item=6, slips=0.0, careless=0.0, seed=1)
    a = crowd.annotations
    matrix = np.full((300, 10), np.nan)
    matrix[a.item_of_label(), a.annotator] = a.classes[a.label].astype(float)
    model = cs.NumericConsensus().fit(matrix[:200])
    away = np.abs(model.values_ - crowd.truth[:200]).mean()
    plain = np.abs(np.nanmean(matrix[:200], axis=1) - crowd.truth[:200]).mean()
    assert away < plain
    new = model.predict(matrix[200:])
    assert np.abs(new - crowd.truth[200:]).mean() < np.abs(np.nanmean(matrix[200:], axis=1) - crowd.truth[200:]).mean()
    assert model.score(matrix[200:], crowd.truth[200:]) > 0.8
    whole: Any = cs.aggregate(matrix[:200], answers="numeric")
    assert model.values_ == pytest.approx(whole.value)
    assert model.bias_ == pytest.approx(whole.model.bias)
    inside = (model.intervals_[:, 0] <= model.values_) & (model.values_ <= model.intervals_[:, 1])
    assert inside.all()
    taught = cs.NumericConsensus().fit(matrix, gold={n: float(crowd.truth[n]) for n in range(30)})
    assert taught.values_[:30] == pytest.approx(crowd.truth[:30])


def test_rows_without_answers_and_minus_one() -> None:
    matrix = np.array([[-1.0, 0.0, -2.0], [np.nan] * 3, [10.0, 11.0, np.nan], [5.0, 7.0, 6.0]])
    model = cs.NumericConsensus().fit(matrix)
    assert model.values_[0] == pytest.approx(-1.0, abs=0.7)
    assert np.isnan(model.values_[1])
    assert np.isnan(model.predict(matrix)[1])
    with pytest.raises(AttributeError, match="no probabilities"):
        model.predict_proba(matrix)


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_come_back(library: Any) -> None:
    numbers = cs.datasets.simulate_numeric(40, 6, labels_per_item=4, seed=0).annotations.to_frame("pandas")
    several = as_sets(cs.datasets.simulate_multi(40, 6, 3, labels_per_item=4, seed=0).annotations).to_frame("pandas")
    for estimator, frame in ((cs.NumericConsensus(), numbers), (cs.MultiLabelConsensus(), several)):
        found = estimator.fit_predict(library.DataFrame(frame.to_dict("list")))
        assert isinstance(found, pd.Series if library is pd else pl.DataFrame)
        assert len(found) == 40


def test_options_are_recovered_and_new_items_judged() -> None:
    crowd = cs.datasets.simulate_multi(300, 15, 4, labels_per_item=5, seed=1)
    frame = as_sets(crowd.annotations).to_frame("pandas")
    seen, new = frame[frame["item"] < 200], frame[frame["item"] >= 200]
    model = cs.MultiLabelConsensus().fit(seen)
    assert isinstance(model.run_, cs.MultiRun)
    assert model.run_.option_scores({n: crowd.truth[n] for n in range(200)}).f1 > 0.9
    found = model.predict(new)
    right = [found[n] == crowd.truth[n] for n in range(200, 300)]
    assert np.mean(right) > 0.6
    p = model.predict_proba(new)
    assert p.columns.tolist() == model.classes_.tolist()
    told = [{option for option in model.classes_ if p.loc[n, option] > 0.5} for n in range(200, 300)]
    assert [{*str(found[n]).split("|")} - {""} for n in range(200, 300)] == told
    assert model.score(new, {n: crowd.truth[n] for n in range(200, 300)}) > 0.85
