"""Runs over open answers: tables, files, report, diagnosis, and what they cost."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.answers.conftest import OpenCrowd, open_crowd

import consilience as cs
from consilience.exceptions import FormatError
from consilience.report import render


@pytest.fixture(scope="module")
def crowd() -> OpenCrowd:
    return open_crowd(200, 12, 6, seed=8)


@pytest.fixture(scope="module")
def run(crowd: OpenCrowd) -> Any:
    return cs.aggregate(crowd.annotations, answers="open")


def frame_of(crowd: OpenCrowd) -> pd.DataFrame:
    frame: pd.DataFrame = crowd.annotations.to_frame("pandas")
    return frame


def named_truth(crowd: OpenCrowd) -> dict[int, str]:
    a = crowd.annotations
    return {n: a.classes[k] for n, k in enumerate(crowd.truth.tolist()) if k >= 0}


def test_labels_and_candidates_agree(run: Any, crowd: OpenCrowd) -> None:
    labels, candidates = run.labels, run.candidates
    assert list(labels.columns) == ["item", "label", "confidence", "runner_up", "margin", "n_labels"]
    by_item = candidates.sort_values(["item", "probability"]).groupby("item")
    best = by_item.tail(1).set_index("item")
    labels = labels.set_index("item")
    clear = labels["margin"] > 0
    assert clear.mean() > 0.9
    assert (labels["label"][clear] == best["answer"].loc[labels.index][clear]).all()
    np.testing.assert_allclose(labels["confidence"], best["probability"].loc[labels.index])
    assert (by_item["probability"].sum() <= 1 + 1e-9).all()
    assert (by_item["n_labels"].sum() == 6).all()
    one = by_item.size() == 1
    assert labels["runner_up"].isna().to_numpy().tolist() == one.loc[labels.index].tolist()
    assert run.error_rate(named_truth(crowd)) == pytest.approx(
        100 * np.mean((run.choice.best != crowd.truth)[crowd.truth >= 0])
    )


def test_annotators_have_an_accuracy_and_no_table(run: Any, crowd: OpenCrowd) -> None:
    frame = run.annotators
    assert list(frame.columns) == ["annotator", "n_labels", "accuracy", "information", "bias", "flags", "low", "high"]
    assert run.counts.shape == (12, 2)
    assert not hasattr(run.model, "confusions")
    np.testing.assert_allclose(frame["accuracy"], crowd.accuracy, atol=0.08)
    assert np.mean((frame["low"] <= crowd.accuracy) & (crowd.accuracy <= frame["high"])) >= 0.8
    order = np.argsort(run.model.accuracy)
    assert (np.diff(np.asarray(frame["information"])[order]) >= 0).all()


def test_shown_in_a_notebook_and_with_another_record(run: Any) -> None:
    assert "Items to look at first" in run._repr_html_()
    other = run.with_run({**run.run, "title": "again"})
    assert isinstance(other, cs.OpenRun)
    assert other.summary()["title"] == "again"
    np.testing.assert_array_equal(other.first, run.first)


def test_a_guesser_is_flagged() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(300)[:, None] * 10
    right = rng.random((300, 6)) < 0.7
    matrix = truth + np.where(right, 0, rng.integers(1, 10, (300, 6)))
    matrix[:, 5] = truth[:, 0] + rng.integers(0, 10, 300)
    run = cs.aggregate(matrix, answers="open", options=10)
    assert run.annotator_columns["flags"].to_pylist() == [""] * 5 + ["spammer"]


def test_saved_and_loaded(run: Any, crowd: OpenCrowd, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again: Any = cs.load(tmp_path / "run")
    assert isinstance(again, cs.OpenRun)
    assert again.model == run.model
    for name in ("posterior", "first", "answer", "size", "counts", "n_labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    for name in ("label_columns", "annotator_columns"):
        assert all(a.equals(b) for a, b in zip(getattr(again, name).values(), getattr(run, name).values(), strict=True))
    assert again.run["answers"] == "open"
    assert again.annotations == crowd.annotations
    assert str(cs.diagnose(again.annotations, consensus=again)) == str(run.diagnosis)
    (tmp_path / "run/candidates.parquet").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="is damaged"):
        cs.load(tmp_path / "run")


def test_report_shows_items_and_annotators_without_classes(run: Any, crowd: OpenCrowd) -> None:
    page = render(run, truth=named_truth(crowd))
    assert "The labels show who is right." in page
    assert 'id="classes"' not in page
    assert "<th data-still>confusion</th>" not in page
    assert "expected calibration error" in page
    assert f">{run.doubtful(1)['label'][0]}<" in page


def test_codes_for_calibration_do_not_depend_on_the_names(run: Any, crowd: OpenCrowd) -> None:
    posterior, best, truth = run.judged_by(np.where(crowd.truth < 0, 10**6, crowd.truth))
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    np.testing.assert_array_equal(best == truth, run.choice.best == crowd.truth)
    rows = np.arange(len(best))
    confidence = np.asarray(run.label_columns["confidence"])
    np.testing.assert_allclose(posterior[rows, best], confidence)


def test_known_answers_that_nobody_gave() -> None:
    frame = frame_of(open_crowd(40, 6, 4, seed=3))
    gold = {0: "something else", 1: str(frame["label"][frame["item"] == 1].iloc[0])}
    run = cs.aggregate(frame, answers="open", gold=gold)
    labels = run.labels.set_index("item")
    assert labels["label"].loc[[0, 1]].tolist() == list(gold.values())
    assert labels["confidence"].loc[[0, 1]].tolist() == [1.0, 1.0]
    assert run.run["gold_items"] == 2


def test_verdicts() -> None:
    def verdict(matrix: Any, **options: Any) -> str:
        with pytest.warns() if options.pop("warns", False) else nullcontext():
            return str(cs.aggregate(matrix, answers="open", **options).diagnosis.verdict)

    items = 10 * np.arange(60)[:, None]
    rng = np.random.default_rng(0)
    good = items + np.where(rng.random((60, 5)) < 0.8, 0, rng.integers(1, 9, (60, 5)))
    assert verdict(good) == "identified"
    assert verdict(good[:, :2], warns=True) == "not"
    assert verdict(items + np.arange(5)) == "not"  # nobody agrees
    pairs = np.where(rng.random((60, 5)).argsort(axis=1) < 2, good, -1)
    assert verdict(pairs) == "weakly"


def test_items_without_labels_stay_without() -> None:
    with pytest.warns(match="1 item has no label and stays unlabelled"):
        run = cs.aggregate([[1, 1, 2], [3, 3, 3], [-1, -1, -1], [4, 4, 5]], answers="open")
    labels = pd.DataFrame({name: column.to_pylist() for name, column in run.label_columns.items()})
    assert labels["label"].isna().tolist() == [False, False, True, False]
    assert labels["confidence"][2] == labels["margin"][2] == 0.0


def test_1300_items_with_1200_answers_take_little_time() -> None:
    """44 annotators, all items: one second or less in all; the limit allows for a busy machine."""
    rng = np.random.default_rng(0)
    N, M, K = 1300, 44, 1200
    truth, accuracy = rng.integers(0, K, N), rng.uniform(0.2, 0.9, M)
    said = np.where(rng.random((N, M)) < accuracy, truth[:, None], rng.integers(0, K, (N, M)))
    frame = pd.DataFrame(
        {
            "task": np.repeat(np.arange(N), M),
            "worker": np.tile(np.arange(M), N),
            "label": [f"answer {k}" for k in said.ravel()],
        }
    )
    cs.aggregate(frame[:200], answers="open")  # compiles
    begun = time.process_time()
    with pytest.warns(match="there are 1200 different answers"):
        run: Any = cs.aggregate(frame)
    labels, annotators, verdict = run.labels, run.annotators, run.diagnosis.verdict
    assert time.process_time() - begun < 6.0
    assert verdict == "identified"
    assert (labels["label"] == [f"answer {k}" for k in truth]).mean() > 0.99
    np.testing.assert_allclose(annotators["accuracy"], accuracy, atol=0.06)


def test_on_mmlu_pro_it_is_far_better_than_votes(data_folder: Path) -> None:
    """One item in five; all of them have 29.3 % (votes 40.0 %)."""
    folder = data_folder / "llm_mmlu_pro"
    if not folder.is_dir():
        pytest.skip("llm_mmlu_pro is not there")
    labels, truth = (pd.read_csv(folder / f"{name}.csv.gz") for name in ("labels", "truth"))
    chosen = truth[truth["task"].isin(np.random.default_rng(0).choice(truth["task"], 2400, replace=False))]
    some = labels[labels["task"].isin(chosen["task"])]
    run = cs.aggregate(some, answers="open")
    votes = cs.aggregate(some, "majority")
    assert run.error_rate(chosen) < votes.error_rate(chosen) - 7.0
    right = run.labels["label"].to_numpy() == chosen.set_index("task").iloc[:, 0].loc[run.labels["task"]].to_numpy()
    assert abs(run.labels["confidence"].mean() - right.mean()) < 0.12
