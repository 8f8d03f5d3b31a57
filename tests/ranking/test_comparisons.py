"""Reading comparisons: columns, winners, and what bad data get."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import consilience as cs
from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError, IdError, ParameterError
from consilience.ranking.comparisons import Comparisons, from_frame
from consilience.ranking.reading import read_comparisons

ROWS = [("a", "b", "x", "left"), ("c", "a", "x", "right"), ("b", "c", "y", "tie"), ("b", "a", "y", "left")]
COLUMNS = ["left", "right", "worker", "winner"]
FRAME = pd.DataFrame(ROWS, columns=COLUMNS)


def won(data: Comparisons) -> list[tuple[Any, Any, Any, Any]]:
    """Return the comparisons as (judge, left, right, winner), sorted."""
    rows = []
    for i, j, m, d, y in zip(data.first, data.second, data.judge, data.side, data.outcome, strict=True):
        one, two = data.item_ids[i], data.item_ids[j]
        left, right = (one, two) if d == 1 else (two, one)
        rows.append((data.judge_ids[m], left, right, {1: one, -1: two, 0: None}[int(y)]))
    return sorted(rows, key=str)


EXPECTED = sorted(
    [("x", "a", "b", "a"), ("x", "c", "a", "a"), ("y", "b", "c", None), ("y", "b", "a", "b")], key=str
)  # fmt: skip


def test_sides_and_winners() -> None:
    data = from_frame(FRAME)
    assert won(data) == EXPECTED
    assert (data.n_items, data.n_judges, data.n_comparisons) == (3, 2, 4)


@pytest.mark.parametrize(
    ("columns", "winners"),
    [
        (["model_a", "model_b", "judge", "winner"], ["model_a", "model_b", "tie (bothbad)", "model_a"]),
        (["Left", "RIGHT", "annotator", "label"], ["a", "a", "tie", "b"]),
        (["left", "right", "rater", "preference"], [1, 2, 0, 1]),
        (["left", "right", "rater", "preference"], [1.2, 2.0, 1.5, 1.0]),
        (["item_a", "item_b", "user", "choice"], ["FIRST", " second", "Draw", "first"]),
    ],
)
def test_other_names_and_words(columns: list[str], winners: list[Any]) -> None:
    frame = pd.DataFrame([row[:3] for row in ROWS], columns=columns[:3]).assign(**{columns[3]: winners})
    assert won(from_frame(frame)) == EXPECTED


def test_named_columns() -> None:
    frame = FRAME.rename(columns={"left": "one", "right": "two", "worker": "who", "winner": "best"})
    given = {"left": "one", "right": "two", "worker": "who", "winner": "best"}
    assert won(from_frame(frame, given)) == EXPECTED
    assert next(iter(cs.rank(frame, **given).judges)) == "who"  # type: ignore[arg-type]


def test_the_name_of_an_item_goes_before_a_word() -> None:
    frame = pd.DataFrame({"left": ["b", "b"], "right": ["a", "a"], "worker": "w", "winner": ["a", "b"]})
    assert [row[3] for row in won(from_frame(frame))] == ["a", "b"]
    numbered = pd.DataFrame({"left": [2, 2], "right": [1, 1], "worker": "w", "winner": [1, 2]})
    assert [row[3] for row in won(from_frame(numbered))] == [1, 2]


def test_frames_come_back_in_their_kind() -> None:
    assert isinstance(cs.rank(FRAME).scores, pd.DataFrame)
    assert isinstance(cs.rank(pl.from_pandas(FRAME)).scores, pl.DataFrame)
    assert isinstance(cs.rank(pa.Table.from_pandas(FRAME)).pairs, pa.Table)


def test_rows_that_are_left_out_are_reported() -> None:
    more = pd.DataFrame([("a", "b", "x", None), ("a", "a", "x", "left")], columns=COLUMNS)
    with pytest.warns(DataWarning) as told:
        data = from_frame(pd.concat([FRAME, more]))
    assert won(data) == EXPECTED
    said = [str(each.message) for each in told]
    assert any("1 of 6 comparisons have no winner" in sentence for sentence in said)
    assert any("1 of 6 comparisons compare an item with itself" in sentence for sentence in said)


def test_without_judges_all_comparisons_are_those_of_one() -> None:
    with pytest.warns(DataWarning, match="no column of judges"):
        data = from_frame(FRAME.drop(columns="worker"))
    assert data.n_judges == 1


def test_missing_lengths_are_left_out() -> None:
    frame = FRAME.assign(left_length=[1.0, 2.0, None, 3.0], right_length=1)
    with pytest.warns(DataWarning, match="lengths are left out"):
        assert from_frame(frame).length.size == 0
    with pytest.warns(DataWarning, match="no counterpart"):
        assert from_frame(FRAME.assign(left_length=1)).length.size == 0


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (FRAME.drop(columns="left"), ColumnError, "no left column: looked for left, item_a"),
        (FRAME.drop(columns="winner"), ColumnError, "no winner column"),
        (FRAME[:0], DataError, "has no rows"),
        (FRAME.assign(winner="d"), DataError, "'d' in rows 1, 2, 3 and 4 .* neither side"),
        (FRAME.assign(winner=["c", "left", "left", "left"]), DataError, "'c' in row 1"),
        (FRAME.assign(left=["a", None, "b", "b"]), IdError, "no item in row 2"),
        (FRAME.assign(worker=["x", "x", "", "y"]), IdError, "no judge in row 3"),
        (FRAME.assign(left_length="long", right_length=1), DataError, "must be numbers"),
        (FRAME.assign(left="a", right="a"), DataError, "no comparison is left"),
        (FRAME.assign(left=["a", 1, "b", "b"]), IdError, "mixes types"),
    ],
)
def test_what_bad_frames_get(frame: pd.DataFrame, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cs.rank(frame)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"spread": -1}, ParameterError, "spread must be"),
        ({"spread": 1e300}, ParameterError, "spread must be between"),
        ({"left": "right"}, ColumnError, "'right' is the left column"),
        ({"judges": 3}, ParameterError, "judges must be True or False"),
        ({"seed": -1}, ParameterError, "seed"),
        ({"max_iter": -1}, ParameterError, "max_iter"),
        ({"left": "nobody"}, ColumnError, "no column 'nobody'"),
    ],
)
def test_what_bad_options_get(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cs.rank(FRAME, **options)


def test_swapped_bytes() -> None:
    frame = pd.DataFrame({"left": [0, 1, 0], "right": [1, 2, 2], "worker": 0, "winner": ["left", "right", "tie"]})
    swapped = frame.assign(left=frame["left"].to_numpy().astype(">i4"))
    assert from_frame(swapped).item_ids == from_frame(frame).item_ids


def test_what_is_no_frame_gets() -> None:
    with pytest.raises(DataError, match="not list"):
        cs.rank([1, 2])


# ---- files ---------------------------------------------------------------------------------------------------------


def test_tables(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "c.csv", index=False)
    FRAME.to_csv(tmp_path / "c.tsv", index=False, sep="\t")
    FRAME.to_json(tmp_path / "c.jsonl", orient="records", lines=True)
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "c.parquet")
    with gzip.open(tmp_path / "d.csv.gz", "wt") as file:
        file.write(FRAME.to_csv(index=False))
    for path in sorted(tmp_path.iterdir()):
        assert won(read_comparisons(path)) == EXPECTED, path


def test_ids_in_text_files_become_numbers(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("left,right,worker,winner\n7,8,1,7\n8,9,1,tie\n")
    data = read_comparisons(tmp_path / "c.csv")
    assert list(data.item_ids) == [7, 8, 9]
    assert won(data) == [(1, 7, 8, 7), (1, 8, 9, None)]


def test_mt_bench_games_with_changed_places(tmp_path: Path) -> None:
    pair = {"question_id": 81, "model_1": "m1", "model_2": "m2", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    records = [
        {"question_id": 81, "model": "m1", "judge": ["gpt-4", "single-v1"], "score": 8, "turn": 1},
        {**pair, "g1_winner": "model_1", "g2_winner": "tie"},
        {**pair, "question_id": 82, "g1_winner": "error", "g2_winner": "model_2"},
        {"question_id": 83, "model_a": "m2", "model_b": "m3", "winner": "model_b", "judge": "expert_1", "turn": 2},
    ]
    path = tmp_path / "judgments.jsonl"
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    with pytest.warns(DataWarning):
        data = read_comparisons(path)
    # in the second game model_2 is shown first
    assert won(data) == [
        ("expert_1", "m2", "m3", "m3"),
        ("gpt-4/pair-v2", "m1", "m2", "m1"),
        ("gpt-4/pair-v2", "m2", "m1", "m2"),
        ("gpt-4/pair-v2", "m2", "m1", None),
    ]
    assert set(data.task_ids) == {"81/turn 1", "82/turn 1", "83/turn 2"}
    assert any("1 of 5 comparisons have no winner" in note for note in data.origin.notes)


def test_alpaca_eval_annotations(tmp_path: Path) -> None:
    common = {"generator_1": "ref", "output_1": "x" * 10, "annotator": "gpt4", "instruction": "Say it"}
    records = [
        {**common, "generator_2": "m", "output_2": "x" * 30, "preference": 1.98},
        {**common, "generator_2": "n", "output_2": "x" * 5, "preference": 1},
        {**common, "generator_2": "n", "output_2": "", "preference": None},
        {**common, "generator_2": "o", "output_2": "xx", "preference": 1.5},
    ]
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(records))
    with pytest.warns(DataWarning, match="1 of 4 comparisons have no winner"):
        data = read_comparisons(path)
    assert won(data) == [("gpt4", "ref", "m", "m"), ("gpt4", "ref", "n", "ref"), ("gpt4", "ref", "o", None)]
    assert data.length.size == 3


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", FormatError, "empty"),
        ("left,right,worker,winner\n", DataError, "has no rows"),
        ("left,right\na,b\n", ColumnError, "c.csv has no winner column"),
        ("left,right,worker,winner\na,b,x,d\n", DataError, "c.csv: the winner 'd' in row 1"),
    ],
)
def test_what_bad_files_get(content: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(content)
    with pytest.raises(error, match=message):
        cs.rank(tmp_path / "c.csv")


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no file"):
        cs.rank(tmp_path / "nothing.csv")
    with pytest.raises(ParameterError, match="no format 'xml'"):
        cs.rank(tmp_path / "nothing.csv", format="xml")
