"""``consilience aggregate --features`` and ``--probabilities``: the labels of the Python API, and a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Run, table, write

import consilience as cs


@pytest.mark.parametrize("option", ["features", "probabilities"])
@pytest.mark.filterwarnings("ignore::consilience.exceptions.FewLabelsWarning")
def test_a_file_beside_the_labels(run: Run, tmp_path: Path, option: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    said = np.where(rng.random((200, 3)) < 0.3, 1 - truth[:, None], truth[:, None])
    names = np.array(["no", "yes"])
    rows = [(f"i{n}", f"w{m}", names[said[n, m]]) for n in range(190) for m in range(3)]  # ten items have no label
    sure = 1 / (1 + np.exp(-rng.normal(2.0 * (2 * truth - 1))))
    beside = [(f"i{n}", 1 - p, p) for n, p in enumerate(sure)]
    labels = write(tmp_path / "labels.csv", rows)
    given = write(tmp_path / "beside.csv", beside[::-1], "task,no,yes")
    done = run("aggregate", labels, f"--{option}", given, "--out", tmp_path / "run")
    assert done.status == 0
    assert "The classifier counts: held-out labels are predicted better with it" in done.out
    found = {row["task"]: row["label"] for row in table(tmp_path / "run/labels.csv")}
    assert len(found) == 200
    assert np.mean([found[f"i{n}"] == names[truth[n]] for n in range(200)]) > 0.93  # votes: 0.78
    options: Any = {option: given}
    again = cs.aggregate(labels, **options).labels
    assert found == dict(zip(again["task"], again["label"], strict=True))


def test_a_classifier_that_does_not_count_is_named(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"i{n}", f"w{m}", "yes" if rng.random() < 0.8 else "no") for n in range(100) for m in range(3)]
    given = write(tmp_path / "noise.csv", [(f"i{n}", rng.normal()) for n in range(100)], "task,x")
    done = run("aggregate", write(tmp_path / "labels.csv", rows), "--features", given, "--out", tmp_path / "run")
    assert done.status == 0
    assert "The classifier does not count: held-out labels are not clearly predicted better with it" in done.out
