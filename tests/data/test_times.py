"""Times of labels come along from any frame or file, and stay with their labels."""

from __future__ import annotations

import json
import pickle
import warnings
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
from consilience.data.times import parse_times


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


def studio(who: int, hour: str, said: str, cancelled: bool = False) -> dict[str, Any]:
    value = {"from_name": "animal", "to_name": "text", "type": "choices", "value": {"choices": [said]}}
    when = f"2026-01-05T{hour}:00:00Z"
    return {"completed_by": who, "created_at": when, "was_cancelled": cancelled, "result": [value]}


def flat(who: int, hour: str, said: str) -> dict[str, Any]:
    when = f"2026-01-05T{hour}:00:00Z"
    return {"id": 1, "text": "x", "animal": said, "annotator": who, "annotation_id": who, "created_at": when}


EXPORTS = {
    "batch.csv": (
        "HITId,WorkerId,AssignmentStatus,SubmitTime,Answer.animal\n"
        "h1,w1,Approved,Mon Jan 05 10:00:00 PST 2026,cat\nh1,w2,Rejected,Mon Jan 05 09:00:00 PST 2026,dog\n"
        "h1,w3,Approved,Mon Jan 05 11:00:00 PST 2026,dog\n"
    ),
    "answers.tsv": (
        "OUTPUT:animal\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\tASSIGNMENT:submitted\n"
        "cat\tt1\tw1\tAPPROVED\t2026-01-05T10:00:00\ndog\tt1\tw2\tREJECTED\t2026-01-05T09:00:00\n"
        "dog\tt1\tw3\tAPPROVED\t2026-01-05T11:00:00\n"
    ),
    "full.csv": (
        "_unit_id,_created_at,_worker_id,animal,animal_gold\n1,1/5/2026 10:00:00,w1,cat,\n1,1/5/2026 11:00:00,w3,dog,\n"
    ),
    "studio.json": json.dumps(
        [
            {
                "id": 1,
                "data": {"text": "x"},
                "annotations": [studio(1, "10", "cat"), studio(2, "09", "dog", True), studio(3, "11", "dog")],
            }
        ]
    ),
    "flat.json": json.dumps([flat(1, "10", "cat"), flat(3, "11", "dog")]),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_of_tools_have_times(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(EXPORTS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)  # what is left out
        annotations = cs.read(tmp_path / name, question="animal")
    assert np.datetime_as_string(np.asarray(annotations.time), unit="h").tolist() == ["2026-01-05T10", "2026-01-05T11"]


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
    for text in ("2/24/2015 11:35:55", "Tue Feb 24 11:35:55 PST 2015"):
        assert str(np.asarray(parse_times([text, None]))[0]) == "2015-02-24T11:35:55.000000"
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
