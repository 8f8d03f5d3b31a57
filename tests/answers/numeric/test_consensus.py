"""Runs over numbers: values, intervals, known values, files, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.answers.kinds import examine_answers
from consilience.datasets import simulate_numeric
from consilience.exceptions import DataError, DataWarning, IdError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")

COLUMNS = ["value", "low", "high", "n_labels"]


def frame_of(crowd: Any) -> pd.DataFrame:
    return pd.DataFrame(crowd.annotations.to_frame("pandas"))


@pytest.fixture(scope="module")
def crowd() -> Any:
    return simulate_numeric(200, 15, labels_per_item=5, slips=0.01, careless=0.1, seed=7)


@pytest.fixture(scope="module")
def run(crowd: Any) -> cs.NumericRun:
    found = cs.aggregate(frame_of(crowd), answers="numeric")
    assert isinstance(found, cs.NumericRun)
    return found


def test_tables(crowd: Any, run: cs.NumericRun) -> None:
    assert list(run.labels.columns) == ["item", *COLUMNS]
    assert list(run.annotators.columns) == ["annotator", "n_labels", "bias", "scale", "noise", "slips", "flags"]
    assert (run.labels["low"] <= run.labels["value"]).all()
    assert (run.labels["value"] <= run.labels["high"]).all()
    quality = run.label_quality
    assert list(quality.columns) == ["item", "annotator", "label", "weight", "flag"]
    assert quality.groupby("item")["weight"].sum().to_numpy() == pytest.approx(np.ones(200))
    assert (quality["weight"][quality["flag"] != ""] == 0).all()
    assert len(run.slips) == run.run["slips"] > 0
    assert set(run.slips["flag"]) <= {"×10", "÷10", "outlier"}
    assert run.verdict == run.diagnosis.verdict == "identified"
    assert "numbers" in repr(run)
    assert "Items to look at first" in run._repr_html_()


def test_values_are_nearer_than_those_of_mean_and_median(crowd: Any, run: cs.NumericRun) -> None:
    answers = frame_of(crowd).groupby("item")["label"]
    error = run.errors(crowd.truth)
    assert error.items == 200
    assert error.mean_absolute < np.abs(answers.mean() - crowd.truth).mean()
    assert error.root_mean_square < np.sqrt(((answers.median() - crowd.truth) ** 2).mean())
    assert error.covered >= 0.9
    assert run.estimated_error.low < error.mean_absolute < run.estimated_error.high
    assert run.estimated_error.basis == "labels"


def test_intervals_cover_in_many_simulations() -> None:
    """They also allow for what the whole crowd gets wrong, which is not simulated: so they cover more than 90 %."""
    covered = [
        cs.aggregate(crowd.annotations, answers="numeric").errors(crowd.truth).covered  # type: ignore[attr-defined]
        for crowd in (simulate_numeric(150, 12, labels_per_item=3 + seed, careless=0.2, seed=seed) for seed in range(4))
    ]
    assert min(covered) >= 0.9


def test_order_of_rows_and_names_do_not_matter(crowd: Any, run: cs.NumericRun) -> None:
    frame = frame_of(crowd).sample(frac=1.0, random_state=3)
    renamed = frame.assign(annotator="x" + frame["annotator"])
    for each in (frame, renamed):
        other = cs.aggregate(each, answers="numeric").labels.sort_values("item")
        assert other["value"].to_numpy() == pytest.approx(run.labels["value"].to_numpy(), abs=1e-6)
        assert other["low"].to_numpy() == pytest.approx(run.labels["low"].to_numpy(), abs=1e-5)


def test_the_same_answers_give_the_same_bytes(crowd: Any, run: cs.NumericRun) -> None:
    again = cs.aggregate(frame_of(crowd), answers="numeric")
    assert again.labels.equals(run.labels)
    assert again.annotators.equals(run.annotators)


@pytest.mark.parametrize(("factor", "shift"), [(3.0, 20.0), (-1.0, 0.0)])
def test_affine_maps(factor: float, shift: float) -> None:
    crowd = simulate_numeric(100, 10, seed=9)
    frame = frame_of(crowd)
    one = cs.aggregate(frame, answers="numeric")
    other = cs.aggregate(frame.assign(label=factor * frame["label"] + shift), answers="numeric")
    near: dict[str, Any] = {"abs": 1e-2 * abs(factor)}
    assert other.labels["value"].to_numpy() == pytest.approx(factor * one.labels["value"].to_numpy() + shift, **near)
    ends = ["low", "high"] if factor > 0 else ["high", "low"]
    assert other.labels["low"].to_numpy() == pytest.approx(factor * one.labels[ends[0]].to_numpy() + shift, **near)
    assert isinstance(one, cs.NumericRun)
    assert isinstance(other, cs.NumericRun)
    assert other.model.scale == pytest.approx(one.model.scale, abs=1e-3)
    assert other.model.bias == pytest.approx(factor * one.model.bias, **near)


def test_a_tiny_case_by_hand() -> None:
    """Without differences between annotators, nothing but the mean is in the data: the average of equal members."""
    values = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    matrix = values[:, None] + np.array([-1.0, 1.0, 0.0])[np.argsort(np.arange(18).reshape(6, 3) * 7 % 5, axis=1)]
    run = cs.aggregate(matrix, answers="numeric")
    assert run.labels["value"].to_numpy() == pytest.approx(values, abs=0.75)


def test_unanimous_answers_are_kept() -> None:
    matrix = np.array([[5.0] * 4, [7.0] * 4, [9.5] * 4, [1.0] * 4])
    found = cs.aggregate(matrix, answers="numeric")
    assert found.labels["value"].to_numpy() == pytest.approx([5.0, 7.0, 9.5, 1.0])
    same = cs.aggregate(np.full((5, 3), 2.0), answers="numeric")
    assert same.labels["value"].to_numpy() == pytest.approx(np.full(5, 2.0))


def test_known_values_are_kept_and_correct_the_crowd() -> None:
    crowd = simulate_numeric(300, 15, labels_per_item=5, seed=11)
    truth = 1.4 * crowd.truth + 30.0  # the whole crowd is too low, and its scale is too small
    gold = {n: float(truth[n]) for n in range(40)}
    alone, taught = (cs.aggregate(crowd.annotations, answers="numeric", gold=g) for g in (None, gold))
    rest = {n: float(truth[n]) for n in range(40, 300)}
    assert taught.errors(rest).mean_absolute < 0.4 * alone.errors(rest).mean_absolute  # type: ignore[attr-defined]
    assert taught.errors(rest).covered > 0.8  # type: ignore[attr-defined]
    first = taught.labels[:40]
    assert first["value"].to_numpy() == pytest.approx(truth[:40])
    assert (first["low"] == first["high"]).all()
    assert taught.estimated_error.basis == "known answers"
    assert taught.run["gold_items"] == 40
    assert taught.run["crowd_scale"] == pytest.approx(1.4, abs=0.15)
    # the scale of annotators is that of true values
    assert float(np.mean(taught.model.scale)) == pytest.approx(1 / 1.4, abs=0.1)  # type: ignore[attr-defined]


def test_saved_and_loaded(run: cs.NumericRun, crowd: Any, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert isinstance(again, cs.NumericRun)
    assert again.model == run.model
    for name in ("labels", "annotators", "slips", "label_quality"):
        one, other = (pd.DataFrame(getattr(each, name)) for each in (run, again))
        assert one.to_numpy().tolist() == other.to_numpy().tolist()
    assert again.errors(crowd.truth) == run.errors(crowd.truth)
    assert (again.estimated_error, again.verdict) == (run.estimated_error, "identified")
    (tmp_path / "run/values.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"values\.parquet"):
        cs.load(tmp_path / "run")


def test_the_report_shows_values_and_escapes_names(crowd: Any, tmp_path: Path) -> None:
    frame = frame_of(crowd)
    frame["annotator"] = frame["annotator"].replace("a1", "<script>alert(1)</script>")
    found = cs.aggregate(frame, answers="numeric")
    page = cs.report(found, tmp_path / "page.html", truth=crowd.truth).read_text("utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;" in page
    assert "Mean absolute error" in page
    assert "Answers that were left out" in page


def test_flags() -> None:
    crowd = simulate_numeric(200, 12, labels_per_item=12, noise=(2.0, 4.0), bias=1.0, scale=0.05, seed=2)
    frame = frame_of(crowd)
    rng = np.random.default_rng(0)
    y, who = frame["label"].to_numpy(copy=True), frame["annotator"]
    y[who == "a1"] = rng.permutation(y[who == "a1"])
    y[who == "a2"] = 100.0 - y[who == "a2"]
    y[who == "a3"] /= 1000.0
    y[who == "a4"] += 15.0
    keep = (who != "a5") | (frame["item"] < 4)
    flags = cs.aggregate(frame.assign(label=y)[keep], answers="numeric").annotators.set_index("annotator")["flags"]
    assert flags["a0"] == ""
    assert flags["a1"] == "spammer"
    assert flags["a2"] == "adversary"
    assert flags["a3"].startswith("unit ÷1000 (")
    assert flags["a4"] == "high"
    assert flags["a5"] == "few labels"


# ---- what answers are taken for -------------------------------------------------------------------------------------


def test_many_numbers_are_taken_as_numbers_and_that_is_said(crowd: Any) -> None:
    with pytest.warns(DataWarning, match=r"different numbers from .* treated as numbers .*say answers='nominal'"):
        found = cs.aggregate(frame_of(crowd))
    assert isinstance(found, cs.NumericRun)
    assert found.run["answers"] == "numeric"
    assert found.run["chosen"] == "numeric"
    text = frame_of(crowd).assign(label=lambda f: f["label"].round(1).map("{:04.1f}".format))
    assert examine_answers(cs.Annotations.from_frame(text)).kind == "numeric"


def test_scales_and_codes_are_not_taken_for_numbers() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 21, 300)
    near = np.clip(truth[:, None] + rng.integers(-2, 3, (300, 5)), 0, 20)
    assert examine_answers(cs.Annotations.from_matrix(near)).kind != "numeric"
    tenths = cs.Annotations.from_matrix(np.clip(near, 0, 10) / 10)
    assert examine_answers(tenths).kind == "ordinal"
    codes = rng.integers(0, 100, 2000)
    said = np.where(rng.random((2000, 6)) < 0.6, codes[:, None], rng.integers(0, 100, (2000, 6)))
    assert examine_answers(cs.Annotations.from_matrix(said)).kind == "nominal"
    with pytest.warns(DataWarning, match="100 different numbers, taken as names of classes"):
        assert cs.aggregate(8 * said + 3, "majority").run["answers"] == "nominal"


def test_minus_one_is_a_number_in_a_matrix_of_numbers() -> None:
    matrix = np.array([[-1.0, -1.5, -0.5], [np.nan, 3.0, 4.0], [8.0, -1.0, 9.0]])
    found = cs.aggregate(matrix, answers="numeric")
    assert found.n_labels.tolist() == [3, 2, 3]
    assert -1.5 <= found.labels["value"][0] <= -0.5


@pytest.mark.parametrize("name", ["emotion_full", "snow_affect_numeric", "movie_reviews"])
def test_public_numbers(data_folder: Path, name: str) -> None:
    labels = cs.read(data_folder / name / "labels.csv.gz")
    assert examine_answers(labels).kind == "numeric"
    truth = pd.read_csv(data_folder / name / "truth.csv.gz").set_index("task")["label"]
    frame = pd.read_csv(data_folder / name / "labels.csv.gz")
    mean = frame.groupby("task")["label"].mean()
    away = (mean - truth.reindex(mean.index)).dropna()
    found = cs.aggregate(labels).errors(truth)  # type: ignore[attr-defined]
    assert found.mean_absolute < float(away.abs().mean())
    assert found.root_mean_square < float(np.sqrt((away**2).mean()))
    assert found.covered >= 0.85


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_bad_input(crowd: Any, run: cs.NumericRun) -> None:
    a = crowd.annotations
    frame = pd.DataFrame({"item": [1, 1, 2], "annotator": ["a", "b", "a"], "label": ["5", "many", "7"]})
    with pytest.raises(DataError, match=r"must be finite numbers .* but there is 'many'\. Write it as a number"):
        cs.aggregate(frame, answers="numeric")
    with pytest.raises(ParameterError, match="'auto' or 'numeric' or 'kernel-density', not 'ds-em'"):
        cs.aggregate(a, "ds-em", answers="numeric")
    with pytest.raises(ParameterError, match="silence can only be 'random'"):
        cs.aggregate(a, answers="numeric", silence="informative")
    with pytest.raises(ParameterError, match="smoothing"):
        cs.aggregate(a, answers="numeric", smoothing=1.0)
    with pytest.raises(IdError, match="none of the 1 items in gold"):
        cs.aggregate(a, answers="numeric", gold={"nobody": 3.0})
    with pytest.raises(DataError, match="gold must be numbers"):
        cs.aggregate(a, answers="numeric", gold={0: "three"})
    for use in (run.error_rate, run.codes_of_truth):
        with pytest.raises(DataError, match="numbers"):
            use(crowd.truth)
    with pytest.raises(DataError, match="for classes"):
        _ = run.probabilities


@pytest.mark.parametrize(
    ("matrix", "verdict"),
    [
        ([[1.0], [2.0], [3.0]], "not"),
        ([[1.0, 1.2], [2.0, 2.1], [30.0, 28.0]], "weakly"),
        ([[1.0, np.nan, np.nan], [np.nan, 5.0, np.nan], [np.nan, np.nan, 7.0]], "not"),
    ],
)
def test_little_data(matrix: list[list[float]], verdict: str) -> None:
    found = cs.aggregate(np.array(matrix), answers="numeric")
    assert found.verdict == verdict
    assert np.isfinite(found.labels[COLUMNS].to_numpy(float)).all()
    assert found.annotators["noise"].notna().all()


def test_the_method_can_be_named(crowd: Any) -> None:
    found = cs.aggregate(crowd.annotations, "numeric", max_iter=3)
    assert isinstance(found, cs.NumericRun)
    assert not found.run["converged"]
    assert any("3 passes" in note for note in found.warnings)
    none = cs.aggregate(crowd.annotations, "numeric", max_iter=0)
    assert np.isfinite(none.run["log_likelihood"])
    assert np.isfinite(none.labels["value"]).all()


def test_items_without_answers_have_no_value() -> None:
    frame = pd.DataFrame({"item": [1, 1, 2, 2, 3], "annotator": list("ababa"), "label": [1.0, 2.5, 7.0, 8.0, None]})
    found = cs.aggregate(frame, answers="numeric")
    assert found.labels["value"].isna().tolist() == [False, False, True]
    assert found.labels["low"].isna().tolist() == [False, False, True]
    assert found.run["N"] == 3
    polars = pytest.importorskip("polars")
    again = cs.aggregate(polars.DataFrame(frame), answers="numeric").labels
    assert again["value"].null_count() == 1


def test_numbers_on_disk_are_not_silently_classes(tmp_path: Path) -> None:
    frame = simulate_numeric(40, 6, labels_per_item=4, seed=0).annotations.to_frame("pandas")
    (tmp_path / "labels").mkdir()
    frame.to_parquet(tmp_path / "labels/part.parquet")
    with pytest.warns(DataWarning, match=r"different numbers, taken as names of classes"):
        cs.aggregate(tmp_path / "labels", "majority")
