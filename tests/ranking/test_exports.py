"""Comparisons in exports of annotation tools, written after the documentation of the tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ranking.test_comparisons import won

import consilience as cs
from consilience.exceptions import ColumnError, DataError
from consilience.ranking.reading import read_comparisons


def pairwise(who: int, said: str, **more: Any) -> dict[str, Any]:
    result = {"from_name": "pw", "to_name": "txt-1,txt-2", "type": "pairwise", "value": {"selected": said}}
    return {"completed_by": who, "was_cancelled": False, "ground_truth": False, "result": [result], **more}


def ranker(who: int, order: Any) -> dict[str, Any]:
    value = {"ranker": order}
    return {"completed_by": who, "result": [{"from_name": "rank", "to_name": "r", "type": "ranker", "value": value}]}


SHOWN = [{"id": name, "title": name, "body": "…"} for name in ("blog", "mdn", "wiki")]


def written(folder: Path, records: list[dict[str, Any]], lines: bool = False) -> Path:
    path = folder / ("export.jsonl" if lines else "export.json")
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return path


def test_label_studio_pairwise(tmp_path: Path) -> None:
    tasks = [
        {
            "id": 1,
            "data": {"prompt": "?", "text1": "x", "text2": "y", "model_a": "gpt", "model_b": "llama"},
            "annotations": [pairwise(7, "left"), pairwise(8, "right"), pairwise(9, "left", was_cancelled=True)],
        },
        {
            "id": 2,
            "data": {"prompt": "!", "text1": "x", "text2": "z", "model_a": "llama", "model_b": "phi"},
            "annotations": [pairwise(7, "left"), {"completed_by": 8, "result": []}],
        },
    ]
    path = written(tmp_path, tasks)
    with pytest.warns(cs.exceptions.DataWarning, match="1 of 5 annotations were left out"):
        data = read_comparisons(path)
    assert won(data) == [(7, "gpt", "llama", "gpt"), (7, "llama", "phi", "llama"), (8, "gpt", "llama", "llama")]
    assert [str(name) for name in data.task_ids] == ["1", "2"]
    with pytest.warns(cs.exceptions.DataWarning):
        by_text = read_comparisons(path, {"left": "text1", "right": "text2"})
    assert won(by_text)[0] == (7, "x", "y", "x")
    with pytest.raises(ColumnError, match=r"'data' has no field 'text3'; its fields are 'model_a'"):
        read_comparisons(path, {"left": "text3", "right": "text2"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"txt-1": "p", "txt-2": "q"}, ("p", "q")),  # those that the control names
        ({"summary1": "p", "summary2": "q", "text": "t"}, ("p", "q")),
        ({"answer_a": "p", "answer_b": "q"}, ("p", "q")),
    ],
)
def test_fields_of_a_pair(tmp_path: Path, fields: dict[str, str], expected: tuple[str, str]) -> None:
    path = written(tmp_path, [{"id": 1, "data": fields, "annotations": [pairwise(1, "right")]}])
    assert won(read_comparisons(path)) == [(1, *expected, expected[1])]


def test_a_pair_without_fields_says_what_to_do(tmp_path: Path) -> None:
    data = {"one": "p", "other": "q"}
    path = written(tmp_path, [{"id": 1, "data": data, "annotations": [pairwise(1, "right")]}])
    with pytest.raises(ColumnError, match=r"which fields of 'data' hold the two items.*left=…, right=… \(--left"):
        read_comparisons(path)


@pytest.mark.parametrize("order", [{"rank": ["wiki", "blog", "mdn"]}, ["wiki", "blog", "mdn"]])
def test_label_studio_ranker(tmp_path: Path, order: Any) -> None:
    path = written(tmp_path, [{"id": 1, "data": {"items": SHOWN}, "annotations": [ranker(3, order)]}])
    # the left item is the one that was shown first
    assert won(read_comparisons(path)) == [
        (3, "blog", "mdn", "blog"),
        (3, "blog", "wiki", "wiki"),
        (3, "mdn", "wiki", "wiki"),
    ]


def test_label_studio_buckets_have_no_order(tmp_path: Path) -> None:
    order = {"_": ["mdn"], "good": ["wiki"], "bad": ["blog"]}
    path = written(tmp_path, [{"id": 1, "data": {"items": SHOWN}, "annotations": [ranker(3, order)]}])
    with pytest.raises(DataError, match="sorts items into 'good', 'bad', which are in no order"):
        read_comparisons(path)
    only = written(tmp_path, [{"id": 1, "data": {}, "annotations": [ranker(3, {"_": ["x"], "good": ["b", "a"]})]}])
    assert won(read_comparisons(only)) == [(3, "a", "b", "b")]


@pytest.mark.parametrize("nested", [False, True])
def test_argilla_ranking(tmp_path: Path, nested: bool) -> None:
    def ranks(**given: int | None) -> list[dict[str, Any]]:
        return [{"rank": rank, "value": name} for name, rank in given.items()]

    said = [ranks(reply_1=2, reply_2=1, reply_3=2), ranks(reply_1=1, reply_2=2, reply_3=None), ranks(reply_1=1)]
    users, status = ["u", "v", "w"], ["submitted", "submitted", "discarded"]
    record: dict[str, Any] = {"id": "r1", "metadata": {"reply_2_model": "llama"}}
    if nested:
        given = zip(users, said, status, strict=True)
        answers = [{"user_id": user, "value": value, "status": state} for user, value, state in given]
        record |= {"fields": {}, "suggestions": {}, "responses": {"order": answers}}
    else:
        record |= {"order.responses": said, "order.responses.users": users, "order.responses.status": status}
    path = written(tmp_path, [record], lines=not nested)
    with pytest.warns(cs.exceptions.DataWarning, match="1 of 3 responses were left out: discarded or draft"):
        data = read_comparisons(path)
    assert won(data) == sorted(
        [
            ("u", "reply_1", "llama", "llama"),
            ("u", "reply_1", "reply_3", None),
            ("u", "llama", "reply_3", "llama"),
            ("v", "reply_1", "llama", "reply_1"),
        ],
        key=str,
    )


@pytest.mark.parametrize("nested", [False, True])
def test_argilla_2_has_orders_of_names(tmp_path: Path, nested: bool) -> None:
    orders = {"u": ["b", "a", "c"], "v": ["a", "b", "c"]}
    record: dict[str, Any] = {"id": "r1"}
    if nested:
        answers = [{"user_id": user, "value": order} for user, order in orders.items()]
        record |= {"fields": {}, "suggestions": {}, "responses": {"order": answers}}
    else:
        record |= {"order.responses": [*orders.values()], "order.responses.users": [*orders]}
    path = written(tmp_path, [record], lines=not nested)
    beaten = {"u": ["ba", "bc", "ac"], "v": ["ab", "ac", "bc"]}
    expected = [(who, *sorted(pair), pair[0]) for who, pairs in beaten.items() for pair in pairs]
    assert won(read_comparisons(path)) == sorted(expected, key=str)
    with pytest.raises(DataError, match=r"'order' \(ranking\).*cs\.rank"):
        cs.read(path)


def test_reading_labels_points_to_rank(tmp_path: Path) -> None:
    ranks = [{"rank": 1, "value": "a"}, {"rank": 2, "value": "b"}]
    record = {"id": "r", "order.responses": [ranks], "order.responses.users": ["u"], "order.responses.status": [None]}
    asked = written(tmp_path, [record], lines=True)
    with pytest.raises(DataError, match=r"'order' \(ranking\).*cs\.rank"):
        cs.read(asked)
    order = written(tmp_path, [{"id": 1, "data": {}, "annotations": [ranker(3, {"rank": ["b", "a"]})]}])
    with pytest.raises(DataError, match=r"cs\.rank"):
        cs.read(order)
    pair = written(tmp_path, [{"id": 1, "data": {}, "annotations": [pairwise(3, "left")]}])
    with pytest.warns(cs.exceptions.DataWarning, match=r"'pw' compares two items.*cs\.rank"):
        labels = cs.read(pair)
    assert labels.classes.tolist() == ["left"]


def test_several_questions(tmp_path: Path) -> None:
    both = pairwise(1, "left")
    both["result"] += ranker(1, {"rank": ["b", "a"]})["result"]
    data = {"left": "p", "right": "q", "items": [{"id": "a"}, {"id": "b"}]}
    path = written(tmp_path, [{"id": 1, "data": data, "annotations": [both]}])
    with pytest.raises(ColumnError, match="several questions: 'pw', 'rank'"):
        cs.rank(path)
    assert cs.rank(path, question="rank").scores["item"].tolist() == ["b", "a"]


def test_intervals_of_orders_cover(tmp_path: Path) -> None:
    """Orders of ten items: taken as 45 independent comparisons, three quarters of the scores would be covered."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(8):
        scores = rng.standard_normal(20)
        records = []
        for task in range(25):
            shown = rng.choice(20, 10, replace=False)
            order = shown[np.argsort(-(scores[shown] + rng.gumbel(size=10)))]  # Plackett and Luce's model
            listed = [{"id": f"i{k}"} for k in shown]
            ids = [f"i{k}" for k in order]
            records.append({"id": task, "data": {"items": listed}, "annotations": [ranker(1, ids)]})
        found = cs.rank(written(tmp_path, records), judges=False, position=False).columns("scores")
        truth = {f"i{k}": score for k, score in enumerate(scores - scores.mean())}
        ends = zip(found["item"].to_pylist(), found["low"], found["high"], strict=True)
        covered += [low <= truth[name] <= high for name, low, high in ends]
    assert 0.9 <= np.mean(covered) <= 0.99
