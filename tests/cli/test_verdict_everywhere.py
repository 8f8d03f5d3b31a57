"""One verdict and one effective number of annotators, wherever they are shown."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from tests.cli.conftest import Run, strict_json
from tests.cli.test_diagnose import write

import consilience as cs
from consilience.datasets.hard_cases import clones
from consilience.diagnose.decision import decide
from consilience.exceptions import ConsilienceWarning

CROWDS = {
    "identified": lambda: cs.simulate(300, 8, 3, experts=0.4, seed=2).annotations,
    "weakly": lambda: clones(1).annotations.select_items(slice(0, 500)),
    "weakly, two labels, eight classes": lambda: cs.simulate(300, 15, 8, labels_per_item=2, seed=1).annotations,
    "not": lambda: cs.simulate(200, 2, 2, labels_per_item=2).annotations,
}


@pytest.mark.parametrize("name", CROWDS)
def test_the_same_verdict_and_number_everywhere(name: str, run: Run, tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.csv", CROWDS[name]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(labels)
        diagnosis = cs.diagnose(cs.read(labels))
    assert consensus.verdict == name.split(",")[0]
    done = run("aggregate", labels, "--out", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    printed = strict_json(run("diagnose", labels, "--json").out)
    verdicts = {consensus.verdict, consensus.diagnosis.verdict, diagnosis.verdict, summary["verdict"]}
    verdicts |= {printed["verdict"], cs.Consensus.load(tmp_path / "run").verdict}
    assert len(verdicts) == 1
    assert decide(consensus).headline in done.out
    assert "consensus.diagnosis" not in done.err  # the Python warning
    assert printed["advice"] == diagnosis.advice == consensus.diagnosis.advice
    numbers = {consensus.effective_annotators, consensus.health.effective, consensus.diagnosis.effective_annotators}
    numbers |= {diagnosis.effective_annotators, summary["effective_annotators"], printed["effective_annotators"]}
    assert len(numbers) == 1
