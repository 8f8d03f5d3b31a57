"""Labels of tokens in order: every way in gives the same object, and every way out gives it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.data.annotations import Annotations
from consilience.data.frames import columns_of, make
from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.datasets import simulate_sequences
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError

ROWS: dict[str, list[Any]] = {
    "sentence": ["s2", "s2", "s2", "s1", "s1", "s2"],
    "position": [10, 2, 2, 0, 7, 3],
    "worker": ["u", "u", "v", "v", "u", "v"],
    "label": ["O", "B", "I", "O", "B", "O"],
}
KINDS = ["pandas", "polars", "pyarrow"]


def table(kind: str = "pandas", **changes: Any) -> Any:
    return make({name: pa.array(values) for name, values in {**ROWS, **changes}.items()}, kind)


def as_rows(s: SequenceAnnotations) -> list[tuple[Any, ...]]:
    return list(zip(*s.to_frame("pyarrow").to_pydict().values(), strict=True))


# ---- in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame(kind: str) -> None:
    s = SequenceAnnotations.from_frame(table(kind))
    assert s.sequences.tolist() == ["s2", "s1"]  # by first appearance
    assert s.indptr.tolist() == [0, 3, 5]
    assert s.lengths.tolist() == [3, 2]
    assert list(s.position_ids) == [0, 2, 3, 7, 10]
    assert [s.position_ids[p] for p in s.position.tolist()] == [2, 3, 10, 0, 7]
    assert s.sequence_of_token().tolist() == [0, 0, 0, 1, 1]
    assert s.tokens.labels_per_item.tolist() == [2, 1, 1, 1, 1]
    assert (s.n_sequences, s.n_tokens) == (2, 5)
    assert repr(s) == "<SequenceAnnotations: 6 labels, 2 sequences, 5 tokens, 2 annotators, 3 classes>"
    out = s.to_frame()
    assert isinstance(out, {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}[kind])
    assert columns_of(out) == list(ROWS)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = simulate_sequences(5, (1, 6), 4, 3, label_probability=0.6, seed=seed % 50).annotations.to_frame("pandas")
    first = SequenceAnnotations.from_frame(frame)
    second = SequenceAnnotations.from_frame(frame.sample(frac=1.0, random_state=int(rng.integers(2**31))))
    assert sorted(as_rows(first)) == sorted(as_rows(second))
    assert list(first.position_ids) == list(second.position_ids)
    assert first.tokens.class_ids == second.tokens.class_ids
    # up to the order of the sequences (and of annotators), which is that of first appearance
    again = second.select_sequences(second.sequence_ids.codes_of(first.sequence_ids.to_arrow()))
    assert np.array_equal(first.indptr, again.indptr)
    assert np.array_equal(first.position, again.position)
    assert first.sequence_ids == again.sequence_ids
    tokens = [
        {(n, a.annotators[m], int(i)) for n, m, i in zip(a.item_of_label(), a.annotator, a.label, strict=True)}
        for a in (first.tokens, again.tokens)
    ]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize(
    ("positions", "order"),
    [
        ([10, 2, 2, 0, 7, 3], [2, 3, 10, 0, 7]),
        (["10", "2", "2", "0", "7", "3"], ["10", "2", "3", "0", "7"]),  # text is ordered as text
        ([1.5, -2.0, -2.0, 0.0, 7.0, 0.25], [-2.0, 0.25, 1.5, 0.0, 7.0]),
    ],
)
def test_positions_keep_their_type_and_give_the_order(positions: list[Any], order: list[Any]) -> None:
    s = SequenceAnnotations.from_frame(table(position=positions))
    assert [s.position_ids[p] for p in s.position.tolist()] == order


def test_untyped_text_is_numbers_where_all_are() -> None:
    columns = {name: pa.array([str(v) for v in values]) for name, values in ROWS.items()}
    s = SequenceAnnotations.from_columns(
        columns["sentence"], columns["position"], columns["worker"], columns["label"], untyped=True
    )
    assert [s.position_ids[p] for p in s.position.tolist()] == [2, 3, 10, 0, 7]
    assert list(s.sequence_ids) == ["s2", "s1"]


def test_columns_may_be_named() -> None:
    renamed = pd.DataFrame(ROWS).rename(columns={"sentence": "a", "position": "b", "worker": "c", "label": "d"})
    s = SequenceAnnotations.from_frame(renamed, sequence="a", position="b", annotator="c", label="d")
    assert list(s.to_frame().columns) == ["a", "b", "c", "d"]
    with pytest.raises(ColumnError, match="sequence"):
        SequenceAnnotations.from_frame(renamed)
    with pytest.raises(ColumnError, match="no column 'x'"):
        SequenceAnnotations.from_frame(renamed, sequence="x")


@pytest.mark.parametrize(
    ("column", "role"), [("sentence", "sequence"), ("position", "position"), ("worker", "annotator")]
)
def test_a_row_without_an_id_is_an_error_that_names_it(column: str, role: str) -> None:
    values = [*ROWS[column][:4], None, ROWS[column][5]]
    with pytest.raises(IdError, match=rf"no {role} in row 5 \(column '{column}'\)"):
        SequenceAnnotations.from_frame(table("pyarrow", **{column: values}))


def test_a_row_without_a_label_makes_its_token_known() -> None:
    with pytest.warns(DataWarning, match="1 of 6 rows have no label"):
        s = SequenceAnnotations.from_frame(table(label=["O", "B", "I", None, "B", "O"]))
    assert s.n_tokens == 5
    assert s.tokens.labels_per_item.tolist() == [2, 1, 1, 0, 1]
    with pytest.raises(DataError, match="no rows"):
        SequenceAnnotations.from_frame(pd.DataFrame(ROWS)[:0])


def test_repeated_answers() -> None:
    twice: dict[str, Any] = {name: [*values, values[1]] for name, values in ROWS.items()}
    twice["label"][-1] = "O"
    with pytest.warns(DataWarning, match="repeat an answer"):
        last = SequenceAnnotations.from_frame(table(**twice))
    with pytest.warns(DataWarning, match="repeat an answer"):
        first = SequenceAnnotations.from_frame(table(**twice), duplicates="first")
    kept = SequenceAnnotations.from_frame(table(**twice), duplicates="keep")
    assert ("s2", 2, "u", "O") in as_rows(last)
    assert ("s2", 2, "u", "B") not in as_rows(last)
    assert ("s2", 2, "u", "B") in as_rows(first)
    assert kept.tokens.n_labels == 7
    with pytest.raises(DataError, match="annotator 'u' answers item 's2:2' in rows 2 and 7"):
        SequenceAnnotations.from_frame(table(**twice), duplicates="error")
    fine = SequenceAnnotations.from_frame(table(), duplicates="error")
    assert fine.tokens == SequenceAnnotations.from_frame(table()).tokens


def test_classes_may_be_given() -> None:
    s = SequenceAnnotations.from_frame(table(), classes=["O", "I", "B"])
    assert s.tokens.classes.tolist() == ["O", "I", "B"]
    with pytest.raises(IdError, match="does not name: 'I'"):
        SequenceAnnotations.from_frame(table(), classes=["O", "B"])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    tokens = Annotations.from_matrix(np.array([[0, 1], [1, 1], [0, 0]]))
    for indptr, position in (([0, 2], [0, 1, 2]), ([0, 1, 3], [0, 0, 1]), ([0, 3], [0, 1]), ([1, 3], [0, 1, 2])):
        with pytest.raises(DataError, match="sizes that do not match"):
            SequenceAnnotations(tokens, np.array(indptr), Ids(["s"]), np.array(position, np.int32), Ids.range(3))
    with pytest.raises(DataError, match="sizes that do not match"):  # no sequence is shorter than nothing
        SequenceAnnotations(tokens, np.array([0, 3, 2, 3]), Ids.range(3), np.zeros(3, np.int32), Ids.range(3))
    s = SequenceAnnotations(tokens, np.array([0, 3]), Ids(["s"]), np.arange(3, dtype=np.int32), Ids.range(3))
    with pytest.raises(ValueError, match="read-only"):
        s.indptr[0] = 1
    small = SequenceAnnotations(tokens, np.array([0, 3], np.int32), Ids(["s"]), np.arange(3), Ids.range(3))
    assert (small.indptr.dtype.name, small.position.dtype.name) == ("int64", "int32")  # what the kernels take


# ---- known truths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gold_by_frame(kind: str) -> None:
    s = SequenceAnnotations.from_frame(table())
    gold = make(
        {"sentence": pa.array(["s1", "s2"]), "position": pa.array([7, 10]), "truth": pa.array(["I", "O"])}, kind
    )
    with_gold = s.with_gold(gold)
    assert with_gold.tokens.gold is not None
    assert with_gold.tokens.gold.tolist() == [-1, -1, 2, -1, 1]
    assert s.codes_of_truth(gold).tolist() == [-1, -1, 2, -1, 1]
    assert "gold for 2" in repr(with_gold)
    assert with_gold.with_gold(None).tokens.gold is None
    assert SequenceAnnotations.from_frame(table(), gold=gold).tokens == with_gold.tokens


def test_gold_by_array() -> None:
    s = SequenceAnnotations.from_frame(table(), gold=["B", None, "O", None, None])
    assert s.tokens.gold is not None
    assert s.tokens.gold.tolist() == [0, -1, 2, -1, -1]
    with pytest.raises(DataError, match="one value for each of the 5"):
        SequenceAnnotations.from_frame(table(), gold=["B", "O"])


def test_gold_that_cannot_be_used() -> None:
    s = SequenceAnnotations.from_frame(table())
    with pytest.warns(DataWarning, match="1 tokens are not among"):
        found = s.codes_of_truth(pd.DataFrame({"sentence": ["s1", "s9"], "position": [0, 0], "label": ["O", "O"]}))
    assert found.tolist() == [-1, -1, -1, 2, -1]
    with pytest.raises(IdError, match="none of the 1 tokens"):
        s.with_gold(pd.DataFrame({"sentence": ["s9"], "position": [0], "label": ["O"]}))
    with pytest.raises(IdError, match="which no annotator used"):
        s.with_gold(pd.DataFrame({"sentence": ["s1"], "position": [0], "label": ["X"]}))
    with pytest.raises(DataError, match="two different labels"):
        s.with_gold(pd.DataFrame({"sentence": ["s1"] * 2, "position": [0] * 2, "label": ["O", "B"]}))
    with pytest.raises(ColumnError, match="position"):
        s.with_gold(pd.DataFrame({"sentence": ["s1"], "label": ["O"]}))
    with pytest.warns(DataWarning, match="which no annotator used"):
        strange = s.codes_of_truth(pd.DataFrame({"sentence": ["s1"], "position": [0], "label": ["X"]}), strict=False)
    assert strange.tolist() == [-1, -1, -1, 3, -1]


# ---- looking at it, and taking parts ----------------------------------------------------------------------------


def test_tokens_are_found_by_sequence_and_position() -> None:
    s = SequenceAnnotations.from_frame(table())
    found = s.token_of(["s1", "s2", "s2", "s1", "s3", "s2"], [7, 10, 7, 0, 0, 99])
    assert found.tolist() == [4, 2, -1, 3, -1, -1]
    every = s.token_columns()
    assert s.token_of(every["sentence"], every["position"]).tolist() == list(range(5))


def test_a_frame_and_back_again() -> None:
    drawn = simulate_sequences(40, (1, 12), 5, 4, label_probability=0.8, seed=1).annotations
    again = SequenceAnnotations.from_frame(drawn.to_frame())
    assert sorted(as_rows(drawn)) == sorted(as_rows(again))
    assert as_rows(again) == as_rows(SequenceAnnotations.from_frame(again.to_frame()))


def test_select_sequences() -> None:
    drawn = simulate_sequences(9, (1, 6), 3, 3, seed=1)
    s = drawn.annotations.with_gold(np.where(np.arange(drawn.truth.size) % 3, -1, drawn.truth))
    rows = as_rows(s)
    for which in ([4, 1], slice(2, 7, 2), np.arange(9) % 2 == 0, [8]):
        part = s.select_sequences(which)
        chosen = np.arange(9)[which]
        assert part.sequences.tolist() == chosen.tolist()
        assert part.lengths.tolist() == s.lengths[chosen].tolist()
        assert as_rows(part) == [row for q in chosen for row in rows if row[0] == q]
        assert part.tokens.gold is not None
        assert s.tokens.gold is not None
        gold = [s.tokens.gold[s.indptr[q] : s.indptr[q + 1]] for q in chosen]
        assert part.tokens.gold.tolist() == np.concatenate(gold).tolist()
        assert part.tokens.items.tolist() == list(range(part.n_tokens))


def test_words_go_with_their_tokens() -> None:
    columns = {name: pa.array(values) for name, values in ROWS.items()}
    word = pa.array(["ten", "two", "two", "zero", "seven", "three"])
    s = SequenceAnnotations.from_columns(
        columns["sentence"], columns["position"], columns["worker"], columns["label"], word=word
    )
    assert s.token_columns()["word"].to_pylist() == ["two", "three", "ten", "zero", "seven"]
    assert s.select_sequences([1]).token_columns()["word"].to_pylist() == ["zero", "seven"]


def test_describe() -> None:
    told = SequenceAnnotations.from_frame(table(), gold=["B", None, None, None, None]).describe()
    assert told["sequences"] == 2
    assert told["tokens"] == 5
    assert told["tokens_per_sequence"] == {"min": 2, "median": 2.5, "max": 3}
    assert told["labels"] == 6
    assert told["annotators"] == 2
    assert told["gold_items"] == 1
    assert "items" not in told
