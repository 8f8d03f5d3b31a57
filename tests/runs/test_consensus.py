"""Consensus: its tables, its ties, its errors, and how it came about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import quietly
from tests.tables import FRAME_TYPES, columns_of, make, rows_of

import consilience as cs
from consilience.exceptions import ConsilienceError, DataError, DataWarning, IdError
from consilience.runs.consensus import TIE, choose

METHODS = ("majority", "ds-em", "one-coin", "ds-em+em")

LABEL_COLUMNS = ["label", "confidence", "runner_up", "margin", "n_labels"]
ANNOTATOR_COLUMNS = ["n_labels", "accuracy", "information", "bias", "flags", "low", "high"]


# ---- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAME_TYPES)
@pytest.mark.parametrize("method", METHODS)
def test_tables_have_the_documented_columns_and_the_kind_of_the_input(kind: str, method: str) -> None:
    consensus = cs.aggregate(make(kind, rows_of()), method)
    assert isinstance(consensus.labels, FRAME_TYPES[kind])
    assert isinstance(consensus.annotators, FRAME_TYPES[kind])
    labels, people = columns_of(consensus.labels), columns_of(consensus.annotators)
    assert list(labels) == ["task", *LABEL_COLUMNS]
    assert list(people) == ["worker", *ANNOTATOR_COLUMNS]
    assert labels["task"] == [f"i{n}" for n in range(30)]
    assert labels["label"] == ["abc"[n % 3] for n in range(30)]
    assert labels["n_labels"] == [5] * 30
    assert people["worker"] == [0, 10, 20, 30, 40]
    assert people["n_labels"] == [30] * 5
    for n in range(30):
        ordered = np.sort(consensus.posterior[n])[::-1]
        assert labels["confidence"][n] == pytest.approx(ordered[0])
        assert labels["margin"][n] == pytest.approx(ordered[0] - ordered[1], abs=2 * TIE)
        assert labels["runner_up"][n] != labels["label"][n]


@pytest.mark.parametrize("kind", FRAME_TYPES)
def test_tables_keep_the_users_own_names(kind: str) -> None:
    columns = dict(zip(("question", "judge", "response"), rows_of().values(), strict=True))
    consensus = cs.aggregate(make(kind, columns))
    assert next(iter(columns_of(consensus.labels))) == "question"
    assert next(iter(columns_of(consensus.annotators))) == "judge"
    named = dict(zip(("picture", "who", "said"), rows_of().values(), strict=True))
    annotations = cs.Annotations.from_frame(make(kind, named), item="picture", annotator="who", label="said")
    consensus = cs.aggregate(annotations)
    assert next(iter(columns_of(consensus.labels))) == "picture"
    assert next(iter(columns_of(consensus.annotators))) == "who"


@pytest.mark.parametrize(("item", "annotator"), [("label", "flags"), ("margin", "n_labels"), ("confidence", "low")])
def test_names_that_are_ours_do_not_collide(item: str, annotator: str, tmp_path: Path) -> None:
    columns = dict(zip((item, annotator, "said"), rows_of().values(), strict=True))
    annotations = cs.Annotations.from_frame(pd.DataFrame(columns), item=item, annotator=annotator, label="said")
    consensus = cs.aggregate(annotations)
    assert list(consensus.labels.columns) == ["item", *LABEL_COLUMNS]
    assert list(consensus.annotators.columns) == ["annotator", *ANNOTATOR_COLUMNS]
    consensus.save(tmp_path / "run")
    assert list(cs.load(tmp_path / "run").labels.columns) == ["item", *LABEL_COLUMNS]


@pytest.mark.parametrize("kind", FRAME_TYPES)
def test_labels_keep_their_type_beside_unlabelled_items(kind: str) -> None:
    """A label 2**53 + 1 that comes back as a float is another label."""
    one, two = 2**53 + 1, 7
    columns: dict[str, list[Any]] = {
        "task": ["p", "p", "p", "q", "q", "q", "r"],
        "worker": ["a", "b", "c", "a", "b", "c", "a"],
        "label": [one, one, one, two, two, two, None],
    }
    frame = pd.DataFrame({**columns, "label": pd.array(columns["label"], "Int64")}) if kind == "pandas" else None
    consensus = quietly(make(kind, columns) if frame is None else frame, "majority")
    labels = columns_of(consensus.labels)["label"]
    assert labels[:2] == [one, two]
    assert all(isinstance(label, int | np.integer) for label in labels[:2])
    assert pd.isna(labels[2])


def test_a_gold_item_that_nobody_labelled_has_its_gold() -> None:
    columns = rows_of()
    frame = pd.DataFrame(columns)
    frame.loc[len(frame)] = ["extra", 0, None]
    consensus = quietly(frame, "ds-em", gold={"extra": "b"})
    last = consensus.labels.iloc[-1]
    assert (last["task"], last["label"], last["confidence"], last["n_labels"]) == ("extra", "b", 1.0, 0)


# ---- ties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_tie_is_visible(method: str) -> None:
    """Two annotators who always differ: nothing in the data prefers one class."""
    columns = {"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["x", "y", "y", "x"]}
    consensus = quietly(pd.DataFrame(columns), method)
    assert consensus.labels["margin"].tolist() == [0.0, 0.0]
    assert consensus.labels["confidence"].tolist() == pytest.approx([0.5, 0.5])
    assert consensus.labels["label"].tolist() == ["x", "x"], "the first in the order of the classes"
    assert consensus.labels["runner_up"].tolist() == ["y", "y"]
    other = quietly(cs.Annotations.from_frame(pd.DataFrame(columns), classes=["y", "x"]), method)
    assert other.labels["label"].tolist() == ["y", "y"]


def test_a_tie_of_votes_has_margin_zero_and_follows_the_better_annotator() -> None:
    columns = rows_of()
    # on a new item, annotator 0 (never wrong from here on) and annotator 40 disagree
    frame = pd.DataFrame(columns)
    truth = {f"i{n}": "abc"[n % 3] for n in range(30)}
    frame.loc[frame["worker"] == 0, "label"] = frame.loc[frame["worker"] == 0, "task"].map(truth)
    for good, bad in (("a", "b"), ("b", "a")):
        extra = pd.DataFrame({"task": ["tied", "tied"], "worker": [0, 40], "label": [good, bad]})
        consensus = cs.aggregate(pd.concat([frame, extra]), "majority")
        last = consensus.labels.iloc[-1]
        assert (last["task"], last["margin"], last["confidence"]) == ("tied", 0.0, 0.5)
        assert (last["label"], last["runner_up"]) == (good, bad)


def naive_choice(posterior: list[float], prior: list[float], hint: list[float] | None) -> tuple[int, set[int], float]:
    """The rule as it is documented, for one item: the class, whoever may be runner-up, and the margin."""
    top = max(posterior)
    left = [k for k, p in enumerate(posterior) if p >= top - TIE]
    for opinion in (hint, prior):
        if opinion is not None:
            most = max(opinion[k] for k in left)
            left = [k for k in left if opinion[k] >= most - TIE]
    best = left[0]
    others = [k for k in range(len(posterior)) if k != best]
    if not others:
        return best, {best}, posterior[best]
    second = max(posterior[k] for k in others)
    margin = posterior[best] - second
    runners = {k for k in others if posterior[k] >= second - TIE}
    return best, runners, 0.0 if margin <= TIE else margin


@settings(max_examples=150, deadline=None, database=None)
@given(data=st.data())
def test_choose_against_the_rule_as_it_is_written(data: st.DataObject) -> None:
    K, N = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))

    def distributions(n: int) -> Any:
        weights = st.lists(st.integers(0, 3), min_size=K, max_size=K).filter(any)
        drawn = data.draw(st.lists(weights, min_size=n, max_size=n))
        return np.array([np.array(w) / sum(w) for w in drawn])

    posterior, prior = distributions(N), distributions(1)[0]
    # Far below the tie: as rounding would leave it.
    posterior = posterior + data.draw(st.sampled_from([0.0, 1e-13])) * np.arange(K)
    hint = distributions(N) if data.draw(st.booleans()) else None
    best, second, margin = choose(posterior, prior, hint)
    for n in range(N):
        wanted, runners, gap = naive_choice(
            posterior[n].tolist(), prior.tolist(), None if hint is None else hint[n].tolist()
        )
        assert best[n] == wanted
        assert second[n] in runners
        assert margin[n] == pytest.approx(gap, abs=1e-12)
        assert (margin[n] == 0) == (gap == 0)


def test_choose_does_not_change_its_arguments() -> None:
    posterior, prior, hint = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0.4, 0.6]), np.array([[0.9, 0.1], [1, 0]])
    before = [values.copy() for values in (posterior, prior, hint)]
    assert choose(posterior, prior, hint).best.tolist() == [0, 1]
    assert choose(posterior, prior).best.tolist() == [1, 1]
    assert all(np.array_equal(a, b) for a, b in zip(before, (posterior, prior, hint), strict=True))


# ---- error rate ---------------------------------------------------------------------------------------------


def test_error_rate_by_hand() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    truth = {f"i{n}": "abc"[n % 3] for n in range(30)}
    assert consensus.error_rate(truth) == 0
    wrong = {**truth, "i0": "b", "i1": "c", "i2": "b"}
    forms = (
        wrong,
        pd.Series(wrong),
        pd.DataFrame({"task": list(wrong), "label": list(wrong.values())}),
        pl.DataFrame({"item": list(wrong), "truth": list(wrong.values())}),
        list(wrong.values()),
    )
    for form in forms:
        assert consensus.error_rate(form) == pytest.approx(10.0)
    assert consensus.error_rate({"i0": "b", "i1": "b", "i2": None, "i3": "a"}) == pytest.approx(100 / 3)


def test_a_truth_that_nobody_said_is_an_error_of_the_crowd() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    with pytest.warns(DataWarning, match="'z', which no annotator used"):
        assert consensus.error_rate({"i0": "z", "i1": "b"}) == pytest.approx(50.0)


def test_error_rate_without_anything_to_compare() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    with pytest.raises(IdError, match="none of the 1 items"):
        consensus.error_rate({"elsewhere": "a"})
    with pytest.raises(DataError, match="no item has both"):
        consensus.error_rate({"i0": None})
    with pytest.raises(DataError, match="two different labels"):
        consensus.error_rate(pd.DataFrame({"task": ["i0", "i0"], "label": ["a", "b"]}))


def test_unlabelled_items_do_not_count_as_errors() -> None:
    frame = pd.DataFrame(rows_of())
    frame.loc[len(frame)] = ["extra", 0, None]
    consensus = quietly(frame)
    assert consensus.error_rate({"i0": "a", "extra": "c"}) == 0
    assert consensus.error_rate({"i0": "b", "extra": "c"}) == 100


# ---- the run ------------------------------------------------------------------------------------------------


def test_the_summary_tells_what_was_done() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()), "ds-em", seed=4, smoothing=0.25)
    summary = consensus.summary()
    assert (summary["N"], summary["M"], summary["K"], summary["labels"]) == (30, 5, 3, 150)
    assert (summary["method"], summary["seed"], summary["converged"]) == ("ds-em", 4, True)
    assert summary["iterations"] == len(summary["history"])
    assert summary["log_likelihood"] == pytest.approx(
        consensus.model.log_likelihood(cs.Annotations.from_frame(pd.DataFrame(rows_of())))
    )
    assert json.loads(json.dumps(summary)) == summary
    assert consensus.warnings == []


def test_aggregate_takes_frames_matrices_files_and_annotations(tmp_path: Path) -> None:
    frame = pd.DataFrame(rows_of())
    frame.to_csv(tmp_path / "labels.csv", index=False)
    wide = frame.pivot_table(index="task", columns="worker", values="label", aggfunc="first", sort=False)
    codes = wide.replace({"a": 0, "b": 1, "c": 2}).to_numpy(int)
    expected = cs.aggregate(cs.Annotations.from_frame(frame)).posterior
    for data in (frame, pl.DataFrame(rows_of()), tmp_path / "labels.csv", str(tmp_path / "labels.csv"), codes, wide):
        np.testing.assert_allclose(cs.aggregate(data).posterior, expected, atol=1e-12)


def test_wrong_arguments_are_refused() -> None:
    frame = pd.DataFrame(rows_of())
    wrong: tuple[dict[str, Any], ...] = (
        {"method": "nonsense"},
        {"engine": "moon"},
        {"method": "majority", "smoothing": 1.0},
        {"tol": -1},
        {"max_iter": 2.5},
        {"max_iter": True},
        {"prior": "mine"},
        {"accelerate": "yes"},
        {"nonsense": 1},
    )
    for bad in wrong:
        with pytest.raises(ConsilienceError):
            cs.aggregate(frame, **bad)


def test_tables_are_computed_once_and_cannot_be_changed() -> None:
    made = cs.aggregate(cs.simulate(30, 5, 2, seed=0).annotations, "majority")
    labels, annotators = made.label_columns, made.annotator_columns
    again = made.with_run({**made.run, "seconds": 1.0})
    assert again.run["seconds"] == 1.0
    assert again.label_columns is labels
    assert again.annotator_columns is annotators
    assert list(labels) == list(columns_of(made.labels))
    assert list(annotators) == list(columns_of(made.annotators))
    with pytest.raises(TypeError):
        labels["label"] = labels["margin"]  # type: ignore[index]
