"""One run of a comparison: failures are reported, and a process ends with its parent."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.answers.conftest import open_crowd

import consilience as cs
from consilience import metrics
from consilience.answers.ordinal_consensus import in_order
from consilience.compare import supervise
from consilience.compare.trial import load_labels, save_labels, trial
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning, ConvergenceWarning, DataWarning, MethodError
from consilience.fitting.fit import Fit, vote_posterior
from consilience.methods.base import registry


def refuses(annotations: Annotations) -> Fit:
    raise MethodError("refuses needs better data")


def breaks(annotations: Annotations) -> Fit:
    raise ZeroDivisionError("division by zero")


def runs_out(annotations: Annotations) -> Fit:
    raise MemoryError


def no_numbers(annotations: Annotations) -> Fit:
    from dataclasses import replace

    return replace(warns(annotations), posterior=np.full((annotations.n_items, annotations.n_classes), np.nan))


def warns(annotations: Annotations) -> Fit:
    cautions = (("it did not converge", ConvergenceWarning), ("take care", DataWarning))
    return Fit.from_posterior(annotations, vote_posterior(annotations), cautions=cautions)


@pytest.mark.parametrize(
    ("function", "status", "note"),
    [
        (refuses, "refused", "refuses needs better data"),
        (breaks, "failed", "ZeroDivisionError: division by zero"),
        (runs_out, "failed", "out of memory"),
        (no_numbers, "failed", "some of its probabilities are NaN or infinite"),
        (warns, "done", "it did not converge; take care"),
    ],
)
def test_failures_are_reported(
    crowd: cs.datasets.Simulation, monkeypatch: pytest.MonkeyPatch, function: Any, status: str, note: str
) -> None:
    method = registry.Method("odd", function, "", "")
    monkeypatch.setattr(registry, "METHODS", {**registry.METHODS, "odd": method})
    row = trial("odd", crowd.annotations, crowd.truth, None, 0)
    assert (row["status"], row["note"]) == (status, note)
    assert ("error" in row) == (status == "done")


def test_labels_go_to_the_process_as_they_are(tmp_path: Path) -> None:
    rows = [("a", "w1", "x"), ("a", "w2", "y"), ("b", "w2", "x"), ("c", "w3", "é")]
    frame = pa.table(dict(zip(("doc", "rater", "value"), map(list, zip(*rows, strict=True)), strict=True)))
    given = Annotations.from_frame(frame, item="doc", gold={"b": "x"})
    save_labels(tmp_path / "labels.npz", given, np.array([0, -1, 2]), "ordinal")
    got, truth, kind = load_labels(tmp_path / "labels.npz")
    for name in ("indptr", "annotator", "label", "gold"):
        np.testing.assert_array_equal(getattr(got, name), getattr(given, name))
    assert (got.annotator_ids, got.class_ids) == (given.annotator_ids, given.class_ids)
    assert (got.origin.item, got.origin.annotator, got.origin.label) == ("doc", "rater", "value")
    assert truth.tolist() == [0, -1, 2]
    assert kind == "ordinal"


@pytest.mark.parametrize("name", ["auto", "ordinal", "ds-em"])
def test_levels_are_fitted_as_aggregate_does(name: str) -> None:
    drawn = cs.datasets.simulate_scale(150, 10, 4, labels_per_item=4, seed=1)
    words = np.array(["poor", "fine", "great", "superb"])  # no known scale, and not in the order of the alphabet
    a = drawn.annotations.relabel(dict(enumerate(words.tolist())))
    levels, _ = in_order(a, words.tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        alone = cs.aggregate(a, name, answers="ordinal", order=words.tolist())
        row = trial(name, levels, drawn.truth.astype(np.int32), 0 if name == "auto" else None, 0, "ordinal")
    assert row["error"] == alone.error_rate(words[drawn.truth])
    assert row["log_loss"] == pytest.approx(metrics.log_loss(alone.posterior, drawn.truth), rel=1e-9)


def test_open_answers_are_fitted_as_aggregate_does() -> None:
    crowd = open_crowd(60, 8, 5, seed=2)
    alone = cs.aggregate(crowd.annotations, answers="open").choice.best
    known = crowd.truth >= 0
    for name in ("auto", "open-answers"):
        row = trial(name, crowd.annotations, crowd.truth.astype(np.int32), None, 0, "open")
        assert row["error"] == pytest.approx(100 * np.mean(alone[known] != crowd.truth[known]))


def test_a_process_ends_with_its_parent(tmp_path: Path, crowd: cs.datasets.Simulation) -> None:
    save_labels(tmp_path / "labels.npz", crowd.annotations, crowd.truth)
    seeds = list(range(5000))  # minutes of work
    command = supervise.command([str(tmp_path / "labels.npz"), "symnmf", seeds])
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    assert json.loads(child.stdout.readline()) == {"ready": True}
    child.stdin.close()
    assert child.wait(30) == 1
    child.stdout.close()
