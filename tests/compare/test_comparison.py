"""A comparison that is done: tables, files and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from consilience.compare import comparison_plot
from consilience.compare.comparison import Comparison
from consilience.data.annotations import Origin
from consilience.exceptions import FolderError, ParameterError


def run_row(method: str, seed: int | None, error: float, **more: Any) -> dict[str, Any]:
    bins = [{"count": 0, "confidence": 0.0, "right": 0}, {"count": 10, "confidence": 8.0, "right": 5 + (seed or 0)}]
    figures = {"log_loss": 0.5, "brier": 0.3, "ece": 0.1, "confidence": 0.8, "seconds": 1.0, "memory_mb": 2.0}
    return {
        "method": method,
        "seed": seed,
        "status": "done",
        "note": "",
        "error": error,
        **figures,
        "bins": bins,
    } | more


FACTS = {"N": 12, "M": 3, "K": 2, "labels": 36, "judged": 10, "jobs": 1, "timeout": None}


def made(kind: str | None = None, facts: Mapping[str, Any] = FACTS) -> Comparison:
    refused = {"method": "kos", "seed": None, "status": "refused", "note": 'it needs, "say", more'}
    rows = (
        refused,
        run_row("b", 0, 20.0, memory_mb=5.0),
        run_row("b", 1, 40.0, seconds=3.0, note="slow"),
        run_row("majority", None, 10.0),
        run_row("c", 0, 10.0, log_loss=0.4),
        {"method": "c", "seed": 1, "status": "out of time", "note": "not done in 9 s"},
    )
    return Comparison(("kos", "b", "majority", "c"), rows, facts, ("a note",), Origin(frame=kind))


def test_rows_of_the_table() -> None:
    table = {row["method"]: row for row in made("pyarrow").table.to_pylist()}
    assert list(table) == ["c", "majority", "b", "kos"], "by error, then log-loss; none last"
    b = table["b"]
    assert (b["error"], b["seconds"], b["memory_mb"], b["runs"], b["note"]) == (30.0, 2.0, 5.0, 2, "slow")
    assert b["error_sd"] == pytest.approx(np.sqrt(200))
    assert b["low"] < 30.0 < b["high"]
    assert (table["majority"]["error_sd"], table["c"]["error_sd"]) == (0.0, None)
    assert (table["c"]["status"], table["c"]["note"]) == ("out of time", "1 of 2 runs: not done in 9 s")
    assert all(table["kos"][name] is None for name in ("error", "low", "log_loss", "seconds", "memory_mb"))
    bins = [row for row in made("pyarrow").reliability.to_pylist() if row["method"] == "b"]
    assert [(row["low"], row["high"], row["count"]) for row in bins] == [(0.0, 0.5, 0), (0.5, 1.0, 20)]
    assert (bins[0]["confidence"], bins[1]["confidence"], bins[1]["accuracy"]) == (None, 0.8, 0.55)


def test_the_interval_covers() -> None:
    """Of many samples with a known error, about 95 in a hundred have it in their interval."""

    def interval(percent: float, judged: int) -> tuple[float, float]:
        found = Comparison(("b",), (run_row("b", None, percent),), {**FACTS, "judged": judged}).summaries[0]
        return found["low"], found["high"]

    wrong = np.random.default_rng(0).binomial(200, 0.1, 2000)
    bounds = {n: interval(100 * n / 200, 200) for n in set(wrong.tolist())}
    covered = np.mean([bounds[n][0] <= 10.0 <= bounds[n][1] for n in wrong.tolist()])
    assert 0.92 < covered < 0.98
    assert interval(0.0, 50)[0] == 0.0
    assert interval(100.0, 50)[1] == 100.0


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_are_of_the_users_kind(kind: str) -> None:
    pytest.importorskip(kind)
    found = made(kind)
    for frame in (found.table, found.runs, found.reliability):
        assert type(frame).__module__.split(".")[0] == kind
    assert list(found.runs["seed"])[1:3] == [0, 1] or found.runs["seed"].to_pylist()[1:3] == [0, 1]


def test_csv_json_and_folder(tmp_path: Path) -> None:
    import pyarrow.csv

    found = made()
    found.to_csv(tmp_path / "deep" / "table.csv")
    read = pyarrow.csv.read_csv(tmp_path / "deep/table.csv").to_pylist()
    assert [row["method"] for row in read] == ["c", "majority", "b", "kos"]
    assert read[3]["note"] == 'it needs, "say", more'
    found.save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "comparison.csv",
        "reliability.csv",
        "runs.csv",
        "summary.json",
    ]
    assert (tmp_path / "run/comparison.csv").read_bytes() == (tmp_path / "deep/table.csv").read_bytes()
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary == found.to_dict()
    assert (summary["format"], summary["judged"], summary["notes"]) == ("consilience.Comparison", 10, ["a note"])
    assert "NaN" not in (tmp_path / "run/summary.json").read_text("utf-8")
    found.save(tmp_path / "run")  # an earlier comparison may be replaced, other folders may not
    with pytest.raises(FolderError):
        found.save(tmp_path / "deep")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.csv

    place = tmp_path / "table.csv"
    place.write_text("old")

    def half(_: Any, path: Path) -> None:
        Path(path).write_text("hal")
        raise OSError("the disk is full")

    monkeypatch.setattr(pyarrow.csv, "write_csv", half)
    with pytest.raises(OSError, match="full"):
        made().to_csv(place)
    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_repr_says_who_is_best() -> None:
    assert repr(made()) == "<Comparison: 4 methods on 10 items, best c (10.00% wrong)>"
    none = Comparison(("kos",), ({"method": "kos", "seed": None, "status": "refused", "note": ""},), FACTS)
    assert repr(none) == "<Comparison: 1 methods on 10 items, none gave a result>"


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    found = made()
    for name, start in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")):
        figure = found.plot(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    first = (tmp_path / "a.SVG").read_bytes()
    found.plot(str(tmp_path / "a.SVG"))
    assert (tmp_path / "a.SVG").read_bytes() == first
    ax = Figure().subplots()
    assert found.plot(ax) is ax
    assert [text.get_text() for text in ax.get_yticklabels()] == ["c", "majority", "b", "kos"]
    dots = {line.get_ydata()[0]: line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1}
    assert dots == {0: 10.0, 1: 10.0, 2: 30.0}
    assert [text.get_text() for text in figure.axes[2].get_legend().get_texts()] == ["c", "majority", "b"]
    alone = Comparison(("kos",), ({"method": "kos", "seed": None, "status": "refused", "note": ""},), FACTS)
    alone.plot(tmp_path / "alone.png")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".SVG", ".pdf", ".png", ".png"]


def test_a_picture_that_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match=r"ends in \.png, \.svg, \.pdf, not 'a\.jpeg'"):
        made().plot(tmp_path / "a.jpeg")
    monkeypatch.setattr(comparison_plot, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'consilience\[plot\]'"):
        made().plot(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


# ---- text for papers and pages --------------------------------------------------------------------------


def _odd() -> Comparison:
    facts = {"N": 12, "M": 3, "K": 2, "labels": 36, "judged": 10, "jobs": 1, "timeout": None}
    rows = (
        run_row(r"a_b|50% \x <i>{#1}&~^$", None, 12.5),
        {"method": "plain", "seed": None, "status": "done", "note": "", "error": 20.0, "seconds": 0.5},
        {"method": "kos", "seed": None, "status": "refused", "note": "needs two classes"},
    )
    return Comparison(tuple(str(row["method"]) for row in rows), rows, facts)


def test_markdown_has_a_row_for_each_method_and_escapes_names() -> None:
    import re

    lines = _odd().to_markdown().splitlines()
    table = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert {len(cells) for cells in table} == {9}, "no name adds a cell"
    unescaped = re.sub(r"\\(.)", r"\1", table[2][0])
    assert unescaped == r"a_b|50% \x <i>{#1}&~^$"
    low, high = 100 * beta(1.25 + 0.5, 8.75 + 0.5).ppf([0.025, 0.975])  # Jeffreys, 1.25 of 10 wrong
    assert table[2][1:4] == ["12.50", "0.00", f"{low:.1f} to {high:.1f}"]
    assert table[3] == ["plain", "20.00", "0.00", table[3][3], "-", "-", "-", "-", "0.500"]
    assert table[4][:3] == ["kos", "refused", "-"]


def test_latex_escapes_every_special_character() -> None:
    import re

    text = _odd().to_latex()
    assert r"a\_b\textbar{}50\% \textbackslash{}x \textless{}i\textgreater{}\{\#1\}\&\textasciitilde{}" in text
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip().splitlines()
    for line in body:
        assert line.endswith(r" \\")
        assert len(re.split(r"(?<!\\)&", line)) == 9
        plain = re.sub(r"\\text\w+\{\}|\\[&%$#_{}]| \\\\$", "", line)
        assert not re.search(r"[%$#_{}~^\\]", plain)
    assert text.startswith("\\begin{tabular}{lrrrrrrrr}\n\\toprule\n")
    floating = _odd().to_latex("Errors", "tab:errors")
    assert floating.startswith("\\begin{table}\n\\centering\n\\caption{Errors}\n\\label{tab:errors}\n\\begin{tabular}")
    assert floating.endswith("\\end{tabular}\n\\end{table}\n")


def test_a_picture_of_methods_without_probabilities(tmp_path: Path) -> None:
    _odd().plot(tmp_path / "comparison.svg")
    assert (tmp_path / "comparison.svg").stat().st_size > 1000
