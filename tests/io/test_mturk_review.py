"""Decisions on a batch of Mechanical Turk: everything but the two columns stays, and nobody is rejected unasked."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError, ParameterError

HEADER = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "Input.text", "Answer.kind", "Approve", "Reject"]


def _batch(folder: Path, n: int = 60, *, header: list[str] = HEADER) -> Path:
    """Five good workers, one who answers at random, and one who always says the opposite."""
    rng = np.random.default_rng(1)
    rows = []
    for item in range(n):
        truth = item % 2
        for worker in range(7):
            right = rng.random() < 0.9 if worker < 5 else rng.random() < 0.5 if worker == 5 else False
            said = ("no", "yes")[truth if right else 1 - truth]
            status = "Approved" if item == 0 else "Rejected" if item == 1 and worker == 0 else "Submitted"
            text = 'null, "quoted"\nand more' if item == 2 else f"text {item}"
            row = [f"H{item}", f"A{item}-{worker}", f"W{worker}", status, text, said, "", ""]
            if item == 3 and worker == 1:
                row[-1] = "by hand"
            if item == 4 and worker == 2:
                row[-2] = "x"
            rows.append(row[: len(header)])
    path = folder / "Batch_1_batch_results.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    return _batch(tmp_path)


@pytest.fixture
def run(batch: Path) -> cs.Consensus:
    with pytest.warns(DataWarning, match="rejected"):
        annotations = cs.read(batch)
    consensus = quietly(annotations, "ds-em")
    flags = dict(zip(consensus.model.annotators, consensus.annotator_columns["flags"].to_pylist(), strict=True))
    assert flags["W5"] == "spammer"
    assert flags["W6"] == "adversary"
    return consensus


@pytest.mark.parametrize("reject", [False, True])
def test_only_open_assignments_are_decided(tmp_path: Path, batch: Path, run: cs.Consensus, reject: bool) -> None:
    out = tmp_path / "reviewed.csv"
    if reject:
        cs.write(run, out, source=batch, reject=True)
    else:
        note = r"118 assignments are left open, of W5 \(spammer\) and W6 \(adversary\)\. Decide yourself; reject=True"
        with pytest.warns(DataWarning, match=note):
            cs.write(run, out, source=batch)
    before, after = _rows(batch), _rows(out)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        assert list(new) == HEADER
        assert {k: v for k, v in new.items() if k not in ("Approve", "Reject")} == {
            k: v for k, v in old.items() if k not in ("Approve", "Reject")
        }
        assert not (new["Approve"] and new["Reject"])
        decided = old["AssignmentStatus"] != "Submitted" or old["Approve"] or old["Reject"]
        if decided:
            assert (new["Approve"], new["Reject"]) == (old["Approve"], old["Reject"])
        elif new["WorkerId"] in ("W5", "W6"):
            assert new["Approve"] == ""
            assert bool(new["Reject"]) == reject
        else:
            assert (new["Approve"], new["Reject"]) == ("X", "")
    reasons = {row["WorkerId"]: row["Reject"] for row in after if row["Reject"] and row["Reject"] != "by hand"}
    assert set(reasons) == ({"W5", "W6"} if reject else set())
    if reject:
        assert "random" in reasons["W5"]
        assert "contradict" in reasons["W6"]


def test_columns_are_added_where_there_are_none(tmp_path: Path) -> None:
    batch = _batch(tmp_path, header=HEADER[:-2])
    with pytest.warns(DataWarning, match="rejected"):
        run = quietly(cs.read(batch), "ds-em")
    with pytest.warns(DataWarning, match="left open"):
        cs.write(run, tmp_path / "out.csv", source=batch, format="mturk")
    assert list(_rows(tmp_path / "out.csv")[0]) == HEADER


def test_workers_who_are_not_in_the_run_and_copies_are_left_open(
    tmp_path: Path, batch: Path, run: cs.Consensus
) -> None:
    from consilience.runs.annotator_table import Health

    assert list(run.model.annotators) == [f"W{m}" for m in range(7)]
    run.__dict__["health"] = Health(copies=((1, 3),))
    strange = tmp_path / "Batch_2_batch_results.csv"
    strange.write_text(batch.read_text("utf-8").replace('"W4"', '"W9"'), "utf-8")
    with pytest.warns(DataWarning, match=r"W3 \(copies\), W1 \(copies\) and W9 \(not in the run\)"):
        cs.write(run, tmp_path / "out.csv", source=strange, reject=True)
    after = _rows(tmp_path / "out.csv")
    assert {row["WorkerId"] for row in after if row["Approve"] == "X"} == {"W0", "W2"}
    assert {row["WorkerId"] for row in after if row["Reject"] not in ("", "by hand")} == {"W5", "W6"}


def test_nobody_is_rejected_where_the_labels_show_nothing(tmp_path: Path, batch: Path, run: cs.Consensus) -> None:
    run.__dict__["verdict"] = "not"
    with pytest.raises(DataError, match="the labels do not show who is right, so nobody can be rejected"):
        cs.write(run, tmp_path / "out.csv", source=batch, reject=True)
    with pytest.warns(DataWarning, match="left open"):
        cs.write(run, tmp_path / "out.csv", source=batch)


def test_sources_that_do_not_fit(tmp_path: Path, run: cs.Consensus) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(ParameterError, match=r"name the results of the batch with source=… \(--source …\)"):
        cs.write(run, out, format="mturk")
    with pytest.raises(FormatError, match="there is no file"):
        cs.write(run, out, format="mturk", source=tmp_path / "absent.csv")
    for text, error, match in (
        ("a,b\n1,2\n", ColumnError, "no column 'WorkerId'"),
        ("WorkerId,AssignmentStatus\n1,2,3\n", FormatError, "more fields than its header"),
        ("", FormatError, "cannot be read as results"),
        ('WorkerId,AssignmentStatus\n"1,2\n', FormatError, "cannot be read as results"),
    ):
        odd = tmp_path / "odd.csv"
        odd.write_text(text)
        with pytest.raises(error, match=match):
            cs.write(run, out, format="mturk", source=odd)
    assert not out.exists()
