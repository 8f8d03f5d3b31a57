"""The default on a scale: tables, files, known answers, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.datasets import simulate_scale
from consilience.exceptions import ConsilienceWarning, DataWarning, MethodError, ParameterError

WORDS = ["never", "rarely", "sometimes", "often"]


def frame_of(crowd: Any, names: list[Any]) -> pd.DataFrame:
    frame = crowd.annotations.to_frame("pandas")
    frame.columns = ["task", "worker", "label"]
    return frame.assign(label=[names[k] for k in frame["label"]])


@pytest.fixture(scope="module")
def crowd() -> Any:
    return simulate_scale(400, 20, 4, seed=4, severity=0.8)


@pytest.fixture(scope="module")
def run(crowd: Any) -> cs.OrdinalRun:
    made = cs.aggregate(frame_of(crowd, WORDS), answers="ordinal")
    assert isinstance(made, cs.OrdinalRun)
    return made


def test_labels_have_mean_and_median(run: cs.OrdinalRun) -> None:
    labels = run.labels
    usual = ["task", "label", "confidence", "runner_up", "margin", "n_labels"]
    assert list(labels.columns) == [*usual, "mean", "median"]
    assert list(run.model.classes) == WORDS
    assert run.run["scale"] == [1.0, 2.0, 3.0, 4.0]
    # by hand
    for n in range(0, 400, 37):
        p = run.posterior[n]
        assert labels["mean"][n] == pytest.approx(sum((k + 1) * p[k] for k in range(4)))
        k = WORDS.index(labels["median"][n])
        assert p[: k + 1].sum() >= 0.5 - 1e-9
        assert p[k:].sum() >= 0.5 - 1e-9
        assert labels["label"][n] == WORDS[int(p.argmax())]


def test_intervals_hold_the_truth_as_often_as_they_say(crowd: Any, run: cs.OrdinalRun) -> None:
    for coverage in (0.5, 0.9):
        table = run.intervals(coverage)
        assert list(table.columns) == ["task", "low", "high"]
        low, high = (np.array([WORDS.index(x) for x in table[name]]) for name in ("low", "high"))
        inside = [run.posterior[n, low[n] : high[n] + 1].sum() for n in range(400)]
        assert min(inside) >= coverage - 1e-9
        assert ((low <= crowd.truth) & (crowd.truth <= high)).mean() > coverage - 0.05


def test_severity_and_spread_of_annotators(crowd: Any, run: cs.OrdinalRun) -> None:
    table = run.annotators
    assert list(table.columns[-2:]) == ["severity", "spread"]
    off = np.subtract.outer(np.arange(4.0), np.arange(4.0))
    true = np.einsum("mik,k,ik->m", crowd.model.confusions, crowd.model.prior, off)
    codes = crowd.annotations.annotator_ids.codes_of(list(table["worker"]))
    assert np.corrcoef(table["severity"], true[codes])[0, 1] > 0.95
    assert (table["spread"] > 0).all()


def test_it_is_better_than_votes_and_the_nominal_default() -> None:
    errors = []
    for seed in range(4):
        crowd = simulate_scale(400, 60, 5, seed=seed, severity=1.0)
        runs = [cs.aggregate(crowd.annotations, answers=how) for how in ("ordinal", "nominal")]
        runs.append(cs.aggregate(crowd.annotations, "majority"))
        errors.append([np.abs(each.choice.best - crowd.truth).mean() for each in runs])
    ordinal, nominal, votes = np.mean(errors, axis=0)
    assert ordinal < 0.9 * nominal
    assert ordinal < 0.95 * votes


def test_saved_and_loaded(run: cs.OrdinalRun, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert isinstance(again, cs.OrdinalRun)
    assert again.run["answers"] == "ordinal"
    for name in ("label_columns", "annotator_columns"):
        here, there = getattr(run, name), getattr(again, name)
        assert {k: v.to_pylist() for k, v in here.items()} == {k: v.to_pylist() for k, v in there.items()}
    assert repr(again) == "<OrdinalRun: 400 items, 20 annotators, 4 levels by auto>"


def test_reversed_levels_and_shuffled_rows(crowd: Any, run: cs.OrdinalRun) -> None:
    rows = frame_of(crowd, WORDS).sample(frac=1, random_state=1)
    other = cs.aggregate(rows, order=WORDS[::-1])
    at = other.item_ids.codes_of(run.item_ids.to_arrow())
    np.testing.assert_allclose(other.posterior[at][:, ::-1], run.posterior, atol=1e-5)
    np.testing.assert_allclose(5.0 - np.asarray(other.labels["mean"])[at], run.labels["mean"], atol=1e-5)
    people = pd.merge(run.annotators, other.annotators, on="worker")
    np.testing.assert_allclose(people["severity_x"], -people["severity_y"], atol=1e-5)


def test_numbers_keep_their_values(crowd: Any) -> None:
    run = cs.aggregate(frame_of(crowd, [-10, 0, 10, 20]), answers="ordinal")
    assert set(run.labels["label"]) <= {-10, 0, 10, 20}
    assert run.labels["mean"].between(-10, 20).all()
    assert run.labels["median"].dtype == run.labels["label"].dtype


def test_found_by_itself_and_reported() -> None:
    crowd = simulate_scale(1500, 30, 5, seed=7)
    with pytest.warns(DataWarning, match=r"treated as a scale from 0 to 4 .*use answers='nominal'"):
        run = cs.aggregate(crowd.annotations)
    assert isinstance(run, cs.OrdinalRun)
    assert "treated as a scale from 0 to 4" in run.warnings[0]
    assert not isinstance(cs.aggregate(crowd.annotations, answers="nominal"), cs.OrdinalRun)
    assert not isinstance(cs.aggregate(crowd.annotations, "ds-em"), cs.OrdinalRun)


def test_other_methods_on_a_scale(crowd: Any) -> None:
    for method in ("ordinal", "ordinal+em", "ds-em", "majority"):
        run = cs.aggregate(frame_of(crowd, WORDS), method, answers="ordinal")
        assert isinstance(run, cs.OrdinalRun)
        assert run.run["method"] == method
        assert list(run.model.classes) == WORDS
    assert isinstance(cs.aggregate(crowd.annotations, "ordinal"), cs.OrdinalRun)


def test_known_answers_are_kept_and_teach() -> None:
    crowd = simulate_scale(600, 12, 4, seed=8, sharpness=(0.1, 1.5), spammers=0.4)
    gold = {n: int(crowd.truth[n]) for n in range(150)}
    blind = cs.aggregate(crowd.annotations, answers="ordinal")
    with pytest.warns(DataWarning, match="on your 150 known answers"):
        run = cs.aggregate(crowd.annotations, answers="ordinal", gold=gold)
    assert run.choice.best[:150].tolist() == list(gold.values())
    errors = [np.abs(each.choice.best[150:] - crowd.truth[150:]).mean() for each in (run, blind)]
    assert errors[0] < errors[1]
    assert run.estimated_error.basis == "known answers"


def test_items_without_labels(crowd: Any) -> None:
    frame = frame_of(crowd, WORDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        run = cs.aggregate(frame, answers="ordinal", items=[*range(400), 1000])
    assert isinstance(run, cs.OrdinalRun)
    last = run.labels.iloc[-1]
    assert last["task"] == 1000
    assert pd.isna(last["label"])
    assert pd.isna(last["mean"])
    assert pd.isna(last["median"])
    assert pd.isna(run.intervals().iloc[-1]["low"])


@pytest.mark.parametrize(("M", "K"), [(1, 3), (2, 3), (4, 1)])
def test_labels_that_show_nothing(M: int, K: int) -> None:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        run = cs.aggregate(rng.integers(0, K, (30, M)), answers="ordinal")
    assert isinstance(run, cs.OrdinalRun)
    assert np.isfinite(run.posterior).all()


def test_the_same_seed_gives_the_same_bytes(crowd: Any) -> None:
    one, other = (cs.aggregate(crowd.annotations, answers="ordinal", seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.posterior, other.posterior)


def test_what_is_refused(crowd: Any, tmp_path: Path) -> None:
    frame = frame_of(crowd, ["w", "x", "y", "z"])
    with pytest.raises(MethodError, match=r"the order of the levels 'w', 'x', 'y', 'z' is not known; .* order=\[…\]"):
        cs.aggregate(frame, answers="ordinal")
    assert isinstance(cs.aggregate(frame, order=["w", "x", "y", "z"]), cs.OrdinalRun)
    with pytest.raises(ParameterError, match="order=… is for answers='ordinal', not 'nominal'"):
        cs.aggregate(frame, answers="nominal", order=["w", "x", "y", "z"])
    with pytest.raises(ParameterError, match="silence can only be 'random'"):
        cs.aggregate(frame, order=["w", "x", "y", "z"], silence="informative")
    with pytest.raises(ParameterError, match="answers='ordinal' keeps no checkpoint"):
        cs.aggregate(frame, order=["w", "x", "y", "z"], checkpoint=tmp_path)
    with pytest.raises(ParameterError, match="nominal answers, not 'ordinal'"):
        cs.aggregate(frame, answers="ordinal", graph=[(0, 1)])


def test_a_report_and_a_diagnosis(run: cs.OrdinalRun, tmp_path: Path) -> None:
    assert run.verdict in ("identified", "weakly", "not")
    cs.report(run, tmp_path / "report.html")
    assert "sometimes" in (tmp_path / "report.html").read_text("utf-8")
