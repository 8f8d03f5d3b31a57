"""The default where labels do not fit in memory: the same consensus, verdict and estimate as in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.engine.passes import OnDisk
from consilience.exceptions import DataWarning, MethodError
from consilience.kernels import blocks


@pytest.fixture(autouse=True)
def too_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """No labels fit in memory, samples are small, and passes and tables are cut into blocks."""
    monkeypatch.setattr("consilience.methods.base.running.fits", lambda _: False)
    monkeypatch.setattr(constants, "SAMPLE", 12_000)
    monkeypatch.setattr(blocks, "_LABELS_PER_BLOCK", 1 << 11)
    monkeypatch.setattr("consilience.engine.streamed._BLOCK", 5000)


def independent() -> Annotations:
    return cs.simulate(4000, 20, 3, labels_per_item=5, experts=0.3, seed=1).annotations


def fooled() -> Annotations:
    """Three of nine annotators are fooled together by a third of the items of a class."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 4000)
    right = np.full((4000, 9), 0.75)
    right[np.ix_((rng.random(4000) < 0.33) & (truth == 0), range(3))] = 0.08
    return Annotations.from_matrix(np.where(rng.random((4000, 9)) < right, truth[:, None], 1 - truth[:, None]))


def copies() -> Annotations:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 2000)
    said = np.where(rng.random((2000, 6)) < 0.8, truth[:, None], 1 - truth[:, None])
    return Annotations.from_matrix(np.hstack([said, np.repeat(said[:, :1], 4, axis=1)]))


def with_known_and_blank_items() -> Annotations:
    """Some truths are known, some items have no label, and of one of these the truth is known."""
    crowd = cs.simulate(4000, 15, 3, labels_per_item=5, seed=3)
    assert crowd.annotations.n_labels > constants.SAMPLE
    wide = crowd.annotations.including([f"blank {n}" for n in range(300)])
    known = {wide.items[n]: wide.classes[crowd.truth[n]] for n in range(0, 4000, 50)}
    return wide.with_gold({**known, "blank 7": wide.classes[0]})


def guesses() -> Annotations:
    return Annotations.from_matrix(np.random.default_rng(0).integers(0, 2, (4000, 4)))


@pytest.mark.parametrize(
    ("crowd", "chosen"),
    [
        (independent, "confusions+votes"),
        (fooled, "subtypes+votes"),
        (copies, "confusions+votes"),
        (with_known_and_blank_items, "confusions+votes"),
        (guesses, "labels"),
    ],
)
def test_streamed_labels_get_the_consensus_of_labels_in_memory(crowd: Callable[[], Annotations], chosen: str) -> None:
    a = crowd()
    here, there = quietly(a), quietly(a, engine="stream")
    assert type(there).__name__ == "StreamedConsensus"
    assert (there.run["method"], there.run["chosen"]) == ("auto", chosen)
    for name in ("chosen", "why", "copies", "weights", "warnings"):
        assert there.run[name] == here.run[name]
    # blank items are left out before or after the sums
    np.testing.assert_allclose(there.posterior, here.posterior, atol=1e-6)
    np.testing.assert_array_equal(there.choice.best, here.choice.best)
    np.testing.assert_allclose(there.counts, here.counts, atol=1e-3)
    np.testing.assert_allclose(there.run["log_likelihood"], here.run["log_likelihood"], rtol=1e-9)
    assert there.verdict == here.verdict
    assert list(there.diagnosis.reasons) == list(here.diagnosis.reasons)
    np.testing.assert_allclose(there.estimated_error.value, here.estimated_error.value, atol=1e-4)
    if "known_answers" in here.run:
        assert there.run["known_answers"]["shares"] == pytest.approx(here.run["known_answers"]["shares"], abs=1e-4)


def test_a_saved_run_has_verdict_and_estimate(tmp_path: Path) -> None:
    found = quietly(independent(), engine="stream")
    found.save(tmp_path / "run")
    loaded = cs.load(tmp_path / "run")
    assert loaded.verdict == found.verdict == "identified"
    assert loaded.estimated_error == found.estimated_error
    np.testing.assert_array_equal(loaded.posterior, found.posterior)


def test_the_verdict_of_many_labels_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilience.methods.base.running.JUDGED", 5000)
    a = independent()
    here, there = quietly(a), quietly(a, engine="stream")
    assert there.run["judged_labels"] == 5000
    assert there.diagnosis.n_labels == 5000
    assert abs(there.estimated_error.value - here.estimated_error.value) < 0.01


def test_informative_silence_is_not_used_and_said(recwarn: Any) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 4000)
    speaks = rng.random((4000, 6)) < np.where(np.arange(6) % 2 == truth[:, None], 0.5, 0.1)
    functions = Annotations.from_matrix(np.where(speaks, np.arange(6) % 2, -1))
    with pytest.warns(DataWarning, match="who labelled an item seems to say something"):
        found = cs.aggregate(functions, engine="stream")
    assert any("silence counts for nothing here" in sentence for sentence in found.run["warnings"])
    with pytest.raises(MethodError, match="silence='informative' needs all labels in memory"):
        cs.aggregate(functions, engine="stream", silence="informative")


def test_too_many_classes_leave_the_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MOST_MODEL_CELLS", 100)
    a = independent()
    found = quietly(a, engine="stream")
    assert found.run["chosen"] == "votes"
    np.testing.assert_array_equal(found.posterior, quietly(a, "majority").posterior)


class KilledError(Exception):
    """Ends a run on its way."""


@pytest.mark.parametrize("crowd", [independent, fooled])
def test_a_killed_run_continues_to_the_same_bytes(
    crowd: Callable[[], Annotations], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consilience.engine.checkpoint._PATIENCE", 0.0)
    a = crowd()
    whole = quietly(a, engine="stream", tol=1e-9)
    name, files = "sweep" if crowd is independent else "subtype_sweep", ("hierarchy.npz", "subtypes.npz")
    swept, calls = getattr(OnDisk, name), 0

    def killed(self: OnDisk, *tables: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 8 == 0:
            raise KilledError
        return swept(self, *tables, **options)

    with monkeypatch.context() as patched:
        patched.setattr(OnDisk, name, killed)
        for _ in range(3):
            with pytest.raises(KilledError):
                quietly(a, engine="stream", tol=1e-9, checkpoint=tmp_path / "kept")
    assert (tmp_path / "kept" / files[crowd is fooled]).exists()
    found = quietly(a, engine="stream", tol=1e-9, checkpoint=tmp_path / "kept")
    assert found.run["history"] == whole.run["history"]
    np.testing.assert_array_equal(found.posterior, whole.posterior)
