"""Reviews of every kind of labels: numbers, sets, free answers, scales, tokens, saved runs."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.web.conftest import client_of, labels_frame

import consilience as cs
from consilience.exceptions import DataError, ParameterError
from consilience.web.filters import Filter
from consilience.web.start import open_review


def frame_of(label: Any, n: int = 30, m: int = 5) -> pd.DataFrame:
    rows = [(f"i{i}", f"w{j}", label(i, j)) for i, j in itertools.product(range(n), range(m))]
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


@pytest.mark.parametrize(
    ("answers", "label", "decision", "column"),
    [
        ("numeric", lambda i, j: 10.0 * (i % 7) + ((i * 7 + j * 3) % 11) / 5, "12.5", "value"),
        ("multi", lambda i, j: "|".join(sorted({"abcd"[i % 4], "abcd"[(i // 4 + (i + j) // 4) % 4]})), "a|c", "label"),
        ("open", lambda i, j: f"word {i}" if (i + j) % 4 else f"x{i}{j}", "something else", "label"),
        ("ordinal", lambda i, j: (i % 5 + (i * j) % 3 // 2) % 5, "3", "label"),
    ],
)  # fmt: skip
def test_every_kind_of_answer(tmp_path: Path, answers: str, label: Any, decision: str, column: str) -> None:
    path = tmp_path / "labels.csv"
    frame_of(label).to_csv(path, index=False)
    made = open_review(path, answers=answers)
    made.live.start()
    assert made.live.wait(60)
    client = client_of(made)
    n = made.next("Ada", Filter())
    assert n is not None
    item = made.material.key(n)
    assert item in client.get("/").text
    assert client.post("/decide", {"item": item, "answer": decision}).status == 303
    assert made.live.wait(60), made.live.failure
    for page in ("/", "/items", "/annotator/0", "/progress", "/accept"):
        assert client.get(page).status == 200
    table = pd.read_csv(io.BytesIO(client.get("/export/labels?format=csv").body)).set_index("item")
    assert str(table.loc[item, column]) == decision
    made.live.stop()
    made.store.close()


def test_numbers_must_be_numbers(tmp_path: Path) -> None:
    frame_of(lambda i, j: 10.0 * (i % 7) + ((i * 7 + j * 3) % 11) / 5).to_csv(tmp_path / "n.csv", index=False)
    made = open_review(tmp_path / "n.csv", answers="numeric")
    made.live.start()
    assert made.live.wait(60)
    with pytest.raises(ParameterError, match="is not a number"):
        made.act("decide", "Ada", "i1", "many")
    made.live.stop()
    made.store.close()


def test_tokens(tmp_path: Path) -> None:
    rows = []
    words = ["Ada", "Lovelace", "met", "Charles", "Babbage", "in", "London"]
    tags = ["B-PER", "I-PER", "O", "B-PER", "I-PER", "O", "B-LOC"]
    for s in range(6):
        for m in range(4):
            rows += [(f"s{s}", p, f"w{m}", "O" if (s + p + m) % 6 == 0 else t) for p, t in enumerate(tags)]
    data = cs.SequenceAnnotations.from_frame(pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"]))
    data = replace(data, words=pa.array(words * 6))
    made = open_review(data, decisions=tmp_path / "d.db")
    made.live.start()
    assert made.live.wait(60)
    client = client_of(made)
    n = made.material.find("s2 · 1")
    assert n is not None
    text = client.get(f"/item/{n}").text
    assert "<mark>Lovelace</mark>" in text
    assert client.post("/decide", {"item": "s2 · 1", "answer": "O"}).status == 303
    assert made.live.wait(60), made.live.failure
    table = pd.read_csv(io.BytesIO(client.get("/export/labels?format=csv").body))
    row = table[(table["sequence"] == "s2") & (table["position"] == 1)]
    assert row["label"].tolist() == ["O"]
    assert pd.read_csv(io.BytesIO(client.get("/export/gold.csv").body)).columns.tolist() == [
        "sequence",
        "position",
        "label",
    ]
    made.live.stop()
    made.store.close()


def test_a_saved_run(tmp_path: Path) -> None:
    cs.aggregate(labels_frame(), "ds-em").save(tmp_path / "run")
    made = open_review(tmp_path / "run")
    made.live.start()
    assert made.live.wait(60)
    assert made.store.path == tmp_path / "run.review.db"
    made.act("decide", "Ada", "i1", "cat")
    assert made.live.wait(60)
    assert made.now.run is not None
    assert made.now.run.run["method"] == "ds-em"
    made.live.stop()
    made.store.close()


def test_what_cannot_be_reviewed(tmp_path: Path, labels: Path) -> None:
    with pytest.raises(ParameterError, match="decisions=…"):
        open_review(cs.read(labels))
    with pytest.raises(ParameterError, match="not of int"):
        open_review(3)
    (tmp_path / "tasks.csv").write_text("name,text\nzz,hello\n")
    with pytest.raises(DataError, match="no field that holds ids of items"):
        open_review(labels, task_data=tmp_path / "tasks.csv")
