"""Reviews of every kind of labels: numbers, sets, free answers, scales, tokens, saved runs."""

from __future__ import annotations

import io
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.web.conftest import client_of, labels_frame

import consilience as cs
from consilience.exceptions import DataError, ParameterError
from consilience.web.card import card
from consilience.web.exports import formats_of
from consilience.web.filters import Filter
from consilience.web.lists import annotator_page
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


def test_numbers_are_off_by_an_amount(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    frame_of(lambda i, j: 10.0 * (i % 7) + ((i * 7 + j * 3) % 11) / 5 + j).to_csv(path, index=False)
    made = open_review(path, answers="numeric")
    made.live.start()
    assert made.live.wait(60)
    client, run = client_of(made), made.now.numbers
    assert run is not None
    assert made.now.error.value == pytest.approx(run.estimated_error.value)
    for page in ("/", "/items", "/annotator/0", "/progress"):
        text = client.get(page).text
        assert "of the labels are wrong" not in text
        assert not re.search(r"\d\.\d{7}", text), page  # no figure with all its digits
    n = made.next("Ada", Filter())
    assert n is not None
    low, high = (run.label_columns[name][n].as_py() for name in ("low", "high"))
    assert f"probably {low:.4g} to {high:.4g}" in client.get(f"/item/{n}").text
    # the target is in the unit of the answers, and deciding items lowers the error
    client.post("/target", {"target": "250"})
    assert made.target == 250.0
    before = made.now.error.value
    for item in range(10):
        made.act("decide", "Ada", f"i{item}", str(10.0 * (item % 7)))
    assert made.live.wait(60), made.live.failure
    assert made.now.error.value < before
    # a value counts as changed if it moves by more than it is off
    now, final = made.now, made.now.numbers
    assert final is not None
    for part, changed in ((0.9, 0), (1.1, 20)):
        earlier = replace(now, run=replace(final, value=final.value + part * now.wrong))
        assert made.live._compared(earlier, now, made.ledger.answers()).n_flips == changed
    # examples of mistakes begin with the number that is farthest off
    off = [abs(float(row["said"].unescape()[5:-6]) - float(row["right"].unescape()[5:-6]))
           for row in annotator_page(made, 0)["mistakes"] if not row["decided"]]  # fmt: skip
    assert off
    assert off == sorted(off, reverse=True)
    made.live.stop()
    made.store.close()


def test_sets_have_one_spelling(tmp_path: Path) -> None:
    path = tmp_path / "sets.csv"

    def label(i: int, j: int) -> str:
        return "|".join(sorted({"abcd"[i % 4], "abcd"[(i // 4 + (i + j) // 4) % 4]}, reverse=j % 2 == 0))

    frame_of(label).to_csv(path, index=False)
    made = open_review(path, answers="multi")
    made.live.start()
    assert made.live.wait(60)
    for n in range(30):
        shown = card(made, n, "Ada", Filter())
        answers = [button["answer"] for button in shown["buttons"]]
        assert len(set(answers)) == len(answers)
        assert sum(button["is_label"] for button in shown["buttons"]) == 1
        assert sum(len(button["who"]) for button in shown["buttons"]) == 5
    assert made.act("decide", "Ada", "i1", " c | a|c").answer == "a|c"
    assert made.act("decide", "Bob", "i2", "").answer == ""  # nothing applies
    with pytest.raises(ParameterError, match=r"there is no option 'x'; .* are a, b, c, d"):
        made.act("decide", "Ada", "i1", "x|a")
    assert made.live.wait(60), made.live.failure
    assert made.now.label[2] == ""
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


def test_a_table_of_tokens(tmp_path: Path) -> None:
    rows = [(s, p, f"w{m}", "O" if (s + p) % 3 else "B-X") for s in range(4) for p in range(5) for m in range(3)]
    path = tmp_path / "tokens.csv"
    pd.DataFrame(rows, columns=["doc", "position", "worker", "label"]).to_csv(path, index=False)
    (tmp_path / "gold.csv").write_text("doc,position,label\n2,1,O\n")
    made = open_review(path, reading={"sequence": "doc"}, gold=tmp_path / "gold.csv")
    assert np.flatnonzero(made.material.known_before).tolist() == [11]
    assert made.material.find("3 · 4") == 19
    assert formats_of(made) == ["csv", "parquet", "excel"]
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
