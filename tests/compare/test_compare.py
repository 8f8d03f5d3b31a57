"""Comparing methods: the figures are those of single runs, and nothing that a method does stops the others."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss

import consilience as cs
from consilience import metrics
from consilience.compare import supervise
from consilience.compare.compare import Step, compare, expand
from consilience.compare.comparison import Comparison
from consilience.data.annotations import Annotations
from consilience.exceptions import DataError, DataWarning, FewLabelsWarning, ParameterError
from consilience.fitting.fit import vote_posterior
from consilience.methods.base import registry

#: Methods that the processes know too: they find this module on the way up, and import it.
PLUGIN = '''
import os, sys, time
from collections import ChainMap
import numpy as np
from consilience.methods.base import registry
from consilience.fitting.fit import Fit, vote_posterior

def seeded(annotations, *, random_state=None):
    """Flips the first ``random_state`` items."""
    posterior = vote_posterior(annotations)
    posterior[:random_state] = posterior[:random_state, ::-1]
    return Fit.from_posterior(annotations, posterior)

def slow_second(annotations, *, random_state=None):
    if random_state == 1:
        time.sleep(600)
    return seeded(annotations, random_state=0)

def dies(annotations):
    sys.stderr.write("first words\\\\nlast words\\\\n")
    sys.stderr.flush()
    os._exit(3)

def prints(annotations):
    print("noise")
    os.write(1, b"more noise\\\\n")
    return seeded(annotations, random_state=0)

def hungry(annotations):
    if annotations.n_items >= 300:
        np.ones(100_000_000 // 8)
    return seeded(annotations, random_state=0)

mine = (seeded, slow_second, dies, prints, hungry)
mine = {function.__name__: registry.Method(function.__name__, function, "", "") for function in mine}
registry.METHODS = ChainMap(mine, registry.METHODS)
'''


@pytest.fixture
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the methods above known to this process and to those that it starts."""
    place = tmp_path / "plugin"
    place.mkdir()
    (place / "sitecustomize.py").write_text(PLUGIN.replace("\\\\n", "\\n"), "utf-8")
    here = str(Path(cs.__file__).parents[1])
    known = [str(place), here, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, known)))
    monkeypatch.setattr(registry, "METHODS", registry.METHODS)  # restored at the end
    exec(compile(PLUGIN.replace("\\\\n", "\\n"), "plugin", "exec"), {"__name__": "plugin"})


def rows_of(found: Comparison) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in found.summaries}


# ---- figures --------------------------------------------------------------------------------------------


def test_the_figures_are_those_of_single_runs(crowd: cs.datasets.Simulation) -> None:
    found = compare(crowd.annotations, crowd.truth, methods=["rob-symnmf", "majority", "ds-em+em"], seeds=[4, 2])
    assert found.methods == ("rob-symnmf", "majority", "ds-em+em")
    runs = {(row["method"], row["seed"]): row for row in found.results}
    assert list(runs) == [("rob-symnmf", 4), ("rob-symnmf", 2), ("majority", None), ("ds-em+em", None)]
    for (name, seed), row in runs.items():
        alone = cs.aggregate(crowd.annotations, name, seed=seed or 0)
        assert row["status"] == "done"
        assert row["error"] == alone.error_rate(crowd.truth)
        assert row["log_loss"] == pytest.approx(log_loss(crowd.truth, alone.posterior), rel=1e-9)
        chosen = alone.posterior[np.arange(300), alone.choice.best]
        assert row["confidence"] == pytest.approx(chosen.mean(), rel=1e-9)
        bins = metrics.reliability(alone.posterior, crowd.truth, labels=alone.choice.best)
        assert [b["count"] for b in row["bins"]] == bins.count.tolist()
        assert row["ece"] == pytest.approx(bins.calibration_error, rel=1e-9)
        assert 0 < row["seconds"] < 60
    errors = [row["error"] for row in found.summaries]
    assert errors == sorted(errors)
    assert found.facts["judged"] == 300
    assert found.notes == ()


@pytest.mark.usefixtures("_plugin")
def test_whatever_a_method_does_the_others_run(
    crowd: cs.datasets.Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))  # others may compare at the same time
    ballast = np.ones(250_000_000 // 8)  # the peak of this process is not that of a method
    steps: list[Step] = []
    methods = "dies, slow_second ,hungry,prints,seeded,auto"
    found = compare(crowd.annotations, crowd.truth, methods=methods, seeds=3, jobs=2, timeout=4, callback=steps.append)
    assert ballast.size
    rows = rows_of(found)
    assert rows["dies"]["status"] == "failed"
    assert rows["dies"]["note"] == "its process ended early (exit status 3): last words"
    assert rows["dies"]["error"] is None
    assert rows["slow_second"]["status"] == "out of time"
    assert rows["slow_second"]["note"] == "2 of 3 runs: not done in 4 s"
    assert rows["slow_second"]["runs"] == 1
    votes = vote_posterior(crowd.annotations)
    assert rows["slow_second"]["error"] == metrics.error_rate(votes.argmax(axis=1), crowd.truth)
    assert rows["prints"]["status"] == rows["hungry"]["status"] == rows["seeded"]["status"] == "done"
    assert "explains the labels" in rows["auto"]["note"]

    # flipping an item makes it right or wrong: counted here without the library
    labels = cs.aggregate(crowd.annotations, "majority").choice.best
    errors = []
    for flipped in range(3):
        labels_now = labels.copy()
        labels_now[:flipped] = 1 - labels_now[:flipped]
        errors.append(100 * float(np.mean(labels_now != crowd.truth)))
    assert [row["error"] for row in found.results if row["method"] == "seeded"] == pytest.approx(errors)
    assert rows["seeded"]["error"] == pytest.approx(np.mean(errors))
    assert rows["seeded"]["error_sd"] == pytest.approx(np.std(errors, ddof=1))
    assert rows["seeded"]["error_sd"] > 0
    assert rows["prints"]["error_sd"] == 0.0, "it takes no seed, so it is known"
    assert rows["slow_second"]["error_sd"] is None

    if Path("/proc/self/clear_refs").exists():
        assert 95 < rows["hungry"]["memory_mb"] < 130
        assert rows["prints"]["memory_mb"] < 20

    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[0].done, steps[-1].done, steps[-1].total) == (0, 12, 12)
    assert max(len(step.running) for step in steps) == 2
    assert [step.row for step in steps if step.row is not None and step.row["method"] == "prints"] == [
        row for row in found.results if row["method"] == "prints"
    ]
    assert len(found.notes) == 1
    assert "2 methods ran at a time" in found.notes[0]
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("_plugin")
def test_a_callback_ends_the_comparison_and_what_still_runs(crowd: cs.datasets.Simulation) -> None:
    begun = time.monotonic()
    found = compare(
        crowd.annotations,
        crowd.truth,
        methods=["slow_second", "majority"],
        seeds=3,
        callback=lambda step: step.done == 1,
    )
    assert time.monotonic() - begun < 60, "the second seed would sleep for ten minutes"
    assert [row["status"] for row in found.results] == ["done", "stopped", "stopped", "stopped"]
    assert [row["runs"] for row in found.summaries] == [1, 0]


def test_items_without_a_truth_or_a_label_are_not_judged(crowd: cs.datasets.Simulation) -> None:
    a = crowd.annotations
    silent = np.flatnonzero(np.arange(300) % 10 == 0)
    kept = np.delete(np.arange(300), silent)
    indptr = np.concatenate([[0], np.cumsum(np.where(np.isin(np.arange(300), silent), 0, a.labels_per_item))])
    gaps = Annotations(
        indptr,
        a.select_items(kept).annotator,
        a.select_items(kept).label,
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=a.class_ids,
    )
    truth: dict[int, Any] = {n: int(crowd.truth[n]) for n in range(0, 300, 3)}
    truth[1] = "elephant"  # nobody named it
    with pytest.warns(FewLabelsWarning, match="30 items have no label"), pytest.warns(DataWarning, match="elephant"):
        found = compare(gaps, {str(n): str(value) for n, value in truth.items()}, methods="majority")
    judged = [n for n in truth if n % 10]
    assert found.facts["judged"] == len(judged)
    with pytest.warns(FewLabelsWarning):
        labels = cs.aggregate(gaps, "majority").choice.best
    wrong = sum(labels[n] != truth[n] for n in judged)
    assert found.results[0]["error"] == pytest.approx(100 * wrong / len(judged))
    assert found.results[0]["log_loss"] > -np.log(metrics.FLOOR) / len(judged)
    with pytest.raises(DataError, match="both a truth and a label"):
        compare(gaps, {0: 1, 10: 0}, methods="majority")


def test_files_in_and_out(tmp_path: Path, crowd: cs.datasets.Simulation) -> None:
    import pyarrow.csv

    frame = crowd.annotations.to_frame("pyarrow").rename_columns(["task", "worker", "label"])
    pyarrow.csv.write_csv(frame, tmp_path / "labels.csv")
    pyarrow.csv.write_csv(pa.table({"task": crowd.annotations.items, "label": crowd.truth}), tmp_path / "truth.csv")
    # a script without a guard around its main part, as people write them
    script = """
        from consilience.compare.compare import compare
        print(compare("labels.csv", "truth.csv", methods="majority"))
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script), "utf-8")
    here = str(Path(cs.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    error = cs.aggregate(crowd.annotations, "majority").error_rate(crowd.truth)
    assert done.stdout == f"<Comparison: 1 methods on 300 items, best majority ({error:.2f}% wrong)>\n"


# ---- which methods, and how often -----------------------------------------------------------------------


def test_names_and_groups() -> None:
    assert expand() == expand("all") == list(registry.METHODS)
    assert expand("all+em") == [f"{name}+em" for name in registry.METHODS]
    assert expand(" ds-em, majority ,ds-em,") == ["ds-em", "majority"]
    assert expand(["one-coin+em", "all"])[:2] == ["one-coin+em", "auto"]
    assert len(set(expand("all,all+em,auto"))) == len(expand("all,all+em,auto")) == 2 * len(registry.METHODS)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"methods": "majorty"}, "did you mean 'majority'"),
        ({"methods": []}, "no method to compare"),
        ({"methods": " , "}, "no method to compare"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": True}, "seeds must be"),
        ({"seeds": [1, 1]}, "seeds must be"),
        ({"seeds": [-1]}, "seeds must be"),
        ({"seeds": [0.5]}, "seeds must be"),
        ({"jobs": 0}, "jobs must be"),
        ({"jobs": 1.5}, "jobs must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"timeout": float("inf")}, "timeout must be"),
    ],
)
def test_wrong_arguments_are_found_before_anything_runs(
    crowd: cs.datasets.Simulation, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], match: str
) -> None:
    def started(*_: Any, **__: Any) -> Iterator[Any]:
        raise AssertionError("a process was started")

    monkeypatch.setattr(supervise, "run", started)
    with pytest.raises(ParameterError, match=match):
        compare(crowd.annotations, crowd.truth, **options)
