"""Functions and estimators in a comparison: their figures are those of what they return, in whatever form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss

import consilience as cs
from consilience.compare.compare import compare
from consilience.compare.comparison import Comparison
from consilience.data.annotations import Annotations
from consilience.exceptions import ParameterError
from consilience.fitting.fit import Fit, vote_posterior


def rows_of(found: Comparison) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in found.summaries}


@pytest.fixture(scope="module")
def named() -> tuple[Annotations, dict[str, str]]:
    """A crowd of three classes whose items and classes have names, and its truth."""
    crowd = cs.simulate(200, 8, 3, experts=0.3, spammers=0.3, seed=5)
    frame = crowd.annotations.to_frame("pandas").astype(str)
    frame["item"] = "item " + frame["item"]
    frame["label"] = frame["label"].map({"0": "cat", "1": "dog", "2": "owl"})
    truth = {f"item {n}": ("cat", "dog", "owl")[k] for n, k in enumerate(crowd.truth.tolist())}
    return Annotations.from_frame(frame), truth


def _posterior(a: Annotations) -> np.ndarray[Any, Any]:
    return cs.aggregate(a, "ds-em").posterior


def _labels(a: Annotations) -> np.ndarray[Any, Any]:
    return a.classes[cs.aggregate(a, "ds-em").choice.best]


def _shuffled(a: Annotations) -> pd.DataFrame:
    frame = pd.DataFrame(_posterior(a), index=a.items, columns=a.classes)
    return frame.sample(frac=1.0, random_state=1)[a.classes[::-1]]


FORMS: dict[str, Callable[[Annotations], Any]] = {
    "consensus": lambda a: cs.aggregate(a, "ds-em"),
    "fit": lambda a: Fit.from_posterior(a, _posterior(a)),
    "array": _posterior,
    "frame by item": _shuffled,
    "labels": _labels,
    "list": lambda a: _labels(a).tolist(),
    "mapping": lambda a: dict(zip(a.items.tolist()[::-1], _labels(a)[::-1], strict=True)),
    "series": lambda a: pd.Series(_labels(a), a.items).sample(frac=1.0, random_state=2),
    "table": lambda a: pa.table({"item": a.items.tolist(), "label": _labels(a).tolist()}),
}


def test_every_form_of_a_result_has_the_same_error(named: tuple[Annotations, dict[str, str]]) -> None:
    annotations, truth = named
    found = compare(annotations, truth, methods=FORMS)
    expected = cs.aggregate(annotations, "ds-em")
    codes = [annotations.classes.tolist().index(truth[item]) for item in annotations.items]
    wrong = 100 * np.mean(expected.choice.best != codes)
    rows = rows_of(found)
    assert set(rows) == set(FORMS)
    for name, row in rows.items():
        assert row["status"] == "done", row["note"]
        assert row["error"] == pytest.approx(wrong)
        if name in ("consensus", "fit", "array", "frame by item"):
            assert row["log_loss"] == pytest.approx(log_loss(codes, expected.posterior), rel=1e-9)
            assert name in found.bins
        else:
            assert row["log_loss"] is row["ece"] is row["confidence"] is None
            assert name not in found.bins
    assert "ran in this process" in found.notes[0]


def test_estimators_are_their_methods(crowd: cs.datasets.Simulation) -> None:
    mine = [cs.DawidSkeneEM(smoothing=0.5), cs.RobustSymNMF(refine="em", random_state=9), cs.crowdkit.MajorityVote()]
    found = compare(crowd.annotations, crowd.truth, methods=["rob-symnmf+em", "majority", *mine], seeds=[2, 4])
    rows = rows_of(found)
    own = next(name for name in rows if name.startswith("RobustSymNMF"))
    smoothed = cs.aggregate(crowd.annotations, "ds-em", smoothing=0.5)
    assert rows["DawidSkeneEM(smoothing=0.5)"]["error"] == smoothed.error_rate(crowd.truth)
    assert rows["DawidSkeneEM(smoothing=0.5)"]["runs"] == 1
    errors = {name: [r["error"] for r in found.results if r["method"] == name] for name in (own, "rob-symnmf+em")}
    assert errors[own] == errors["rob-symnmf+em"], "the seeds replace its random_state"
    assert len(errors[own]) == 2
    votes = vote_posterior(crowd.annotations)
    untied = next(name for name in rows if name.startswith("MajorityVote"))
    assert rows[untied]["log_loss"] == pytest.approx(rows["majority"]["log_loss"])
    assert rows[untied]["error"] == pytest.approx(100 * np.mean(votes.argmax(axis=1) != crowd.truth), abs=3.0)


def test_seeds_go_to_those_who_take_them_and_failures_stop_nobody(crowd: cs.datasets.Simulation) -> None:
    seen: list[Any] = []

    def random(a: Annotations, random_state: int) -> Any:
        seen.append(random_state)
        return np.random.default_rng(random_state).integers(0, 2, a.n_items)

    def breaks(a: Annotations) -> Any:
        raise ZeroDivisionError("division by zero")

    def short(a: Annotations) -> Any:
        return np.full((3, 2), 0.5)

    def off(a: Annotations) -> Any:
        return np.full((a.n_items, a.n_classes), 0.7)

    steps: list[Any] = []
    found = compare(
        crowd.annotations, crowd.truth, methods=[breaks, random, short, off], seeds=[3, 1], callback=steps.append
    )
    assert seen == [3, 1]
    rows = rows_of(found)
    labels = [np.random.default_rng(seed).integers(0, 2, 300) for seed in (3, 1)]
    assert rows["random"]["error"] == pytest.approx(np.mean([100 * np.mean(each != crowd.truth) for each in labels]))
    assert rows["random"]["error_sd"] > 0
    assert rows["breaks"]["note"] == "ZeroDivisionError: division by zero"
    assert "expected probabilities of 300 items and 2 classes, got an array of (3, 2)" in rows["short"]["note"]
    assert "negative or do not sum to one" in rows["off"]["note"]
    assert [rows[name]["status"] for name in ("breaks", "short", "off")] == ["failed"] * 3
    assert (steps[0].done, steps[-1].done, steps[-1].total) == (0, 5, 5)
    stopped = compare(crowd.annotations, crowd.truth, methods=[short, off], callback=lambda step: True)
    assert [row["status"] for row in stopped.results] == ["stopped", "stopped"]


def test_the_time_limit_holds_between_seeds(crowd: cs.datasets.Simulation) -> None:
    import time

    def slow(a: Annotations, random_state: int) -> Any:
        time.sleep(0.05)
        return a.with_gold(None).labels_per_item * 0

    found = compare(crowd.annotations, crowd.truth, methods=slow, seeds=3, timeout=0.01)
    (row,) = found.summaries
    assert (row["status"], row["runs"]) == ("out of time", 1)
    assert row["note"] == "2 of 3 runs: not done in 0.01 s"


def test_what_cannot_be_compared_is_said_before_anything_runs(crowd: cs.datasets.Simulation) -> None:
    def mine(a: Annotations) -> Any:
        raise AssertionError("nothing runs")

    for methods, match in (
        ([cs.EBCC], r"give an instance of EBCC, not the class: EBCC\(\)"),
        ([7], "a name, a function of annotations or an estimator, not int"),
        ([mine, mine], "two methods are called 'mine'"),
        ({"majority": mine}, "two methods are called 'majority'"),
        ({"mine": "ds-em"}, "a mapping gives names to functions and estimators"),
        ({}, "no method to compare"),
        ([mine, "majorty"], "did you mean 'majority'"),
    ):
        with pytest.raises(ParameterError, match=match):
            compare(crowd.annotations, crowd.truth, methods=methods)
