"""Whoever calls ``aggregate`` and never looks at the verdict still reads that labels do not show who is right."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning, VerdictWarning


def _warned(data: Any, **options: Any) -> tuple[list[str], cs.Consensus]:
    """The warnings about the verdict, and the consensus."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore", ConsilienceWarning)
        warnings.simplefilter("always", VerdictWarning)
        consensus = cs.aggregate(data, **options)
    assert all(str(w.filename) == __file__ for w in found)
    return [str(w.message) for w in found], consensus


def _guessers(seed: int = 0, n: int = 60) -> Annotations:
    return Annotations.from_matrix(np.random.default_rng(seed).integers(0, 2, (n, 4)))


def test_guesses_and_two_annotators_are_warned_of() -> None:
    (said,), consensus = _warned(_guessers())
    assert said.startswith("Not identified")
    assert "guessing" in said
    assert consensus.verdict == "not"
    two = cs.simulate(200, 2, 2, labels_per_item=2).annotations
    (said,), consensus = _warned(two)
    assert said.startswith("Not identified")
    assert "only two annotators" in said
    assert consensus.verdict == "not"


@pytest.mark.parametrize("method", ["auto", "majority", "ds-em", "rob-symnmf"])
def test_a_sound_crowd_is_not_warned_of(method: str) -> None:
    said, consensus = _warned(cs.simulate(500, 10, 2, labels_per_item=5, experts=0.3).annotations, method=method)
    assert not said
    assert consensus.verdict == "identified"


@pytest.mark.parametrize("seed", range(12))
def test_the_warning_is_the_verdict(seed: int) -> None:
    # crowds of all qualities; a class that only a bootstrap shows to be uncertain is not warned of
    rng = np.random.default_rng(seed)
    items, people, classes = int(rng.integers(5, 200)), int(rng.integers(2, 9)), int(rng.integers(2, 5))
    crowd = cs.simulate(items, people, classes, labels_per_item=int(rng.integers(1, people + 1)), seed=seed)
    said, consensus = _warned(crowd.annotations)
    by_bootstrap = "is uncertain" in " ".join(consensus.diagnosis.reasons[:1])
    assert (consensus.verdict == "not" and not by_bootstrap) == any(each.startswith("Not") for each in said)
    if said:
        assert consensus.diagnosis.reasons[0] in said[0]


def test_annotators_who_err_together_are_warned_of(data_folder: Path) -> None:
    crowd: Any = cs.datasets.load("duck")
    (said,), consensus = _warned(crowd.annotations)
    assert said.startswith("Weakly identified")
    assert "err together" in said
    assert consensus.verdict == "weakly"


def test_labels_on_disk_and_other_answers_are_warned_of(tmp_path: Path) -> None:
    guesses = _guessers(n=200)
    frame = pd.DataFrame(
        {"item": np.repeat(np.arange(200), 4), "annotator": guesses.annotator, "label": np.asarray(guesses.label)}
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    assert _warned(tmp_path / "labels.csv", engine="stream")[0][0].startswith("Not identified")
    numbers = frame.assign(label=np.random.default_rng(0).normal(size=len(frame)))[frame.annotator < 2]
    assert _warned(numbers, answers="numeric")[0][0].startswith("Not identified")
    tokens = frame.assign(sequence=frame.item // 10, position=frame.item % 10).drop(columns="item")
    sequences = cs.SequenceAnnotations.from_frame(tokens)
    assert _warned(sequences)[0][0].startswith("Not identified")
