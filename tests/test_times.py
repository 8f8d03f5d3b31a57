"""Times of labels come along from any frame or file, and stay with their labels."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience import Annotations
from consilience._times import parse_times


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Labels in any order, each with its own time."""
    made = cs.simulate(300, 8, 3, seed=1).annotations.to_frame("pandas")
    seconds = np.random.default_rng(0).permutation(len(made))
    made["created_at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(seconds, unit="s")
    return made.sample(frac=1, random_state=0)


def moments(annotations: Annotations) -> dict[tuple[Any, Any], str]:
    assert annotations.time is not None
    items, annotators = annotations.items[annotations.item_of_label()], annotations.annotators[annotations.annotator]
    times = np.datetime_as_string(annotations.time, unit="s")
    return {(int(i), str(m)): str(t) for i, m, t in zip(items, annotators, times, strict=True)}


def wanted(frame: pd.DataFrame) -> dict[tuple[Any, Any], str]:
    when = frame["created_at"].dt.strftime("%Y-%m-%dT%H:%M:%S")
    return dict(zip(zip(frame["item"], frame["annotator"], strict=True), when, strict=True))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "csv", "parquet", "jsonl", "large csv"])
def test_times_stay_with_their_labels(frame: pd.DataFrame, kind: str, tmp_path: Path) -> None:
    if kind == "large csv":  # through the compiled reader
        frame = pd.concat([frame.assign(item=frame["item"] + 300 * k) for k in range(40)])
    path = tmp_path / f"labels.{kind.split()[-1]}"
    if kind.endswith("csv"):
        frame.to_csv(path, index=False)
        assert (path.stat().st_size > 1 << 20) == (kind == "large csv")
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.assign(created_at=frame["created_at"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")).to_json(
            path, orient="records", lines=True
        )
    data: Any = {"polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}.get(kind, frame)
    annotations = cs.read(path) if path.exists() else Annotations.from_frame(data)
    assert moments(annotations) == wanted(frame)


def test_times_stay_with_parts(frame: pd.DataFrame) -> None:
    annotations, when = Annotations.from_frame(frame), wanted(frame)
    for part in (
        annotations.select_items(slice(40, 90)),
        annotations.select_annotators([1, 5]),
        annotations.with_gold({0: 1}),
        pickle.loads(pickle.dumps(annotations)),
    ):
        found = moments(part)
        assert len(found) == part.n_labels
        assert found.items() <= when.items()


@pytest.mark.parametrize(("keep", "late"), [("first", 0), ("last", 100)])
def test_of_repeated_answers_the_time_is_that_of_the_answer_kept(frame: pd.DataFrame, keep: Any, late: int) -> None:
    again = frame.iloc[:100].assign(created_at=pd.Timestamp("2027-01-01"))
    whole = pd.concat([frame, again])
    with pytest.warns(cs.exceptions.DataWarning):
        annotations = Annotations.from_frame(whole, duplicates=keep)
    times = np.asarray(annotations.time)
    assert (times == np.datetime64("2027-01-01")).sum() == late
    assert moments(annotations).items() <= (wanted(whole).items() if keep == "last" else wanted(frame).items())


def test_columns_of_times() -> None:
    assert parse_times(["2026-01-02", "2026-01-01T10:00:00"]).tolist() == [  # type: ignore[union-attr]
        pd.Timestamp("2026-01-02"),
        pd.Timestamp("2026-01-01 10:00"),
    ]
    with_zone = parse_times(["2026-01-01T10:00:00+02:00", None])
    assert str(np.asarray(with_zone)[0]) == "2026-01-01T08:00:00.000000"
    assert np.isnat(np.asarray(with_zone)[1])
    numbers = parse_times([3, None, 1])
    np.testing.assert_array_equal(np.asarray(numbers), [3.0, np.nan, 1.0])
    np.testing.assert_array_equal(np.asarray(parse_times(["10.5", "9"])), [10.5, 9.0])
    assert parse_times(["soon", "later"]) is None
    assert parse_times([None, None]) is None
    assert parse_times([True, False]) is None


def test_a_column_that_only_looks_like_times_is_left_alone(frame: pd.DataFrame) -> None:
    words = frame.assign(created_at="whenever")
    assert Annotations.from_frame(words).time is None
    assert Annotations.from_frame(frame.drop(columns="created_at")).time is None
    with pytest.raises(cs.exceptions.DataError, match="'created_at' holds no times: expected dates"):
        Annotations.from_frame(words, time="created_at")
    with pytest.raises(cs.exceptions.ColumnError, match="has no column 'when'"):
        Annotations.from_frame(words, time="when")
    named = Annotations.from_frame(frame.rename(columns={"created_at": "when"}), time="when")
    assert moments(named) == wanted(frame)


def test_times_change_no_label(frame: pd.DataFrame) -> None:
    plain = quietly(frame.drop(columns="created_at"))
    np.testing.assert_array_equal(quietly(frame).posterior, plain.posterior)
