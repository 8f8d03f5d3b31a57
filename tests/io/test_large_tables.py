"""Large tables of text, read in pieces on all cores, against pandas: codes, names, repeated answers."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.exceptions import DataWarning

N_ROWS = 60_000


def text_of(seed: int, *, quoted: bool, line_end: str, blank_lines: bool, names: str, last_line_ends: bool) -> str:
    rng = np.random.default_rng(seed)
    fields = [
        [f"{names}-{i}" for i in rng.integers(0, 20_000, N_ROWS)],
        [f"wörker {w}, {w}" if quoted else f"w{w}" for w in rng.integers(0, 300, N_ROWS)],
        [["cat", "dog", "bird", ""][k] for k in rng.choice(4, N_ROWS, p=[0.4, 0.3, 0.2, 0.1])],
    ]
    if quoted:
        fields = [[f'"{value}"' for value in column] for column in fields]
    lines = [",".join(row) for row in zip(*fields, strict=True)]
    if blank_lines:
        lines = [line + line_end * int(more) for line, more in zip(lines, rng.random(N_ROWS) < 0.01, strict=True)]
    return line_end.join(["task,worker,label", *lines]) + line_end * last_line_ends


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("duplicates", ["first", "last"])
@pytest.mark.parametrize(
    "kind",
    [
        {"quoted": False, "line_end": "\n", "blank_lines": False, "names": "item", "last_line_ends": True},
        {"quoted": True, "line_end": "\n", "blank_lines": True, "names": "日本語", "last_line_ends": False},
        {"quoted": True, "line_end": "\r\n", "blank_lines": False, "names": "item", "last_line_ends": True},
        {"quoted": False, "line_end": "\r\n", "blank_lines": True, "names": "é" * 9, "last_line_ends": False},
    ],
)
def test_what_pandas_reads_is_read(
    kind: dict[str, object], duplicates: str, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSILIENCE_THREADS", threads)
    text = text_of(0, **kind)  # type: ignore[arg-type]
    (tmp_path / "labels.csv").write_bytes(text.encode())
    assert len(text.encode()) > 1 << 20
    a = cs.read(tmp_path / "labels.csv", duplicates=duplicates)  # type: ignore[arg-type]

    frame = pd.read_csv(io.StringIO(text, newline=""), keep_default_na=False)
    item, items = pd.factorize(frame["task"])
    by, annotators = pd.factorize(frame["worker"])
    said = frame["label"].map({"bird": 0, "cat": 1, "dog": 2, "": -1})
    rows = pd.DataFrame({"item": item, "by": by, "said": said})
    rows = rows[rows["said"] >= 0].drop_duplicates(["item", "by"], keep=duplicates)
    rows = rows.sort_values("item", kind="stable")
    assert a.items.tolist() == list(items)
    assert a.annotators.tolist() == list(annotators)
    assert a.classes.tolist() == ["bird", "cat", "dog"]
    np.testing.assert_array_equal(a.labels_per_item, np.bincount(rows["item"], minlength=len(items)))
    np.testing.assert_array_equal(a.annotator, rows["by"])
    np.testing.assert_array_equal(a.label, rows["said"])


def test_more_classes_than_small_codes_hold(tmp_path: Path) -> None:
    """Three labels fit eight bits, the codes of a thousand given classes do not."""
    rng = np.random.default_rng(1)
    lines = [f"an item with a long name {n},w{w},{k}" for n, (w, k) in enumerate(rng.integers(0, 3, (40_000, 2)))]
    (tmp_path / "labels.csv").write_text("\n".join(["task,worker,label", *lines]))
    with pytest.warns(DataWarning, match="nobody used"):
        a = cs.read(tmp_path / "labels.csv", classes=[*range(1000, 1, -1), 0, 1])
    assert a.classes[a.label].tolist() == [int(line.rsplit(",")[-1]) for line in lines]
