"""Answers on a scale that are on disk, or on a Dask cluster: the same result as in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.answers import kinds
from consilience.datasets import simulate_scale
from consilience.exceptions import EngineWarning, MethodError, ParameterError

WORDS = ["poor", "fair", "good", "very good", "excellent"]


@pytest.fixture(scope="module")
def crowd() -> Any:
    return simulate_scale(300, 12, 5, severity=0.6, seed=2)


@pytest.fixture(scope="module")
def frame(crowd: Any) -> pd.DataFrame:
    """Levels are words whose order is not that of the alphabet."""
    made = crowd.annotations.to_frame("pandas")
    return made.assign(label=[WORDS[k] for k in made["label"]])


@pytest.fixture
def folder(frame: pd.DataFrame, tmp_path: Path) -> Path:
    (tmp_path / "labels").mkdir()
    frame.to_parquet(tmp_path / "labels" / "part.parquet")
    return tmp_path / "labels"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No labels fit in memory."""
    monkeypatch.setattr(kinds, "fits", lambda scanned: False)
    monkeypatch.setattr(kinds, "room", lambda memory: 0)


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("method", "known"), [("auto", 0), ("ordinal", 6)])
def test_from_disk(frame: pd.DataFrame, folder: Path, tmp_path: Path, crowd: Any, method: str, known: int) -> None:
    truth = {n: WORDS[k] for n, k in enumerate(crowd.truth)}
    gold = {n: truth[n] for n in range(known)} or None
    here = cs.aggregate(frame, method, answers="ordinal", gold=gold)
    there = cs.aggregate(folder, method, answers="ordinal", gold=gold)
    assert there.run["engine"] == "stream"
    np.testing.assert_allclose(there.posterior, here.posterior, atol=1e-10)
    np.testing.assert_allclose(there.model.confusions, here.model.confusions, atol=1e-10)
    for name in ("labels", "annotators"):
        pd.testing.assert_frame_equal(getattr(there, name), getattr(here, name), rtol=1e-10)
    assert isinstance(there, cs.OrdinalRun)
    assert isinstance(here, cs.OrdinalRun)
    pd.testing.assert_frame_equal(there.intervals(0.8), here.intervals(0.8))
    assert there.error_rate(truth) == here.error_rate(truth)
    assert there.verdict == here.verdict
    there.save(tmp_path / "run")
    loaded = cs.load(tmp_path / "run")
    assert isinstance(loaded, cs.OrdinalRun)
    pd.testing.assert_frame_equal(loaded.labels, here.labels, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.usefixtures("small")
def test_known_answers_from_disk(crowd: Any, tmp_path: Path) -> None:
    crowd.annotations.to_frame("pandas").to_parquet(tmp_path / "part.parquet")
    gold = {n: int(crowd.truth[n]) for n in range(20)}
    there = cs.aggregate(tmp_path, answers="ordinal", gold=gold)
    here = cs.aggregate(crowd.annotations, answers="ordinal", gold=gold)
    np.testing.assert_allclose(there.posterior, here.posterior, atol=1e-10)
    assert there.estimated_error.value == pytest.approx(here.estimated_error.value)


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.usefixtures("small")
def test_on_a_cluster(frame: pd.DataFrame, folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        there = cs.aggregate(folder, "ordinal", engine=client)
    assert there.run["engine"] == "dask"
    np.testing.assert_allclose(there.posterior, cs.aggregate(frame, "ordinal").posterior, atol=1e-10)


def test_labels_on_disk_are_examined(frame: pd.DataFrame, folder: Path) -> None:
    with pytest.warns(cs.exceptions.DataWarning, match="treated as a scale from poor to excellent"):
        found = cs.aggregate(folder)
    assert found.run["answers"] == "ordinal"
    with pytest.warns(EngineWarning, match="answers='ordinal' ran in this process"):
        cs.aggregate(frame, answers="ordinal", engine="stream")


def test_numbers_on_disk_are_not_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cs.datasets.simulate_numeric(200, 12, labels_per_item=5, seed=3).annotations
    drawn.to_frame("pandas").to_parquet(tmp_path / "part.parquet")
    with pytest.warns(cs.exceptions.DataWarning, match="they are treated as numbers"):
        assert isinstance(cs.aggregate(tmp_path), cs.NumericRun)
    monkeypatch.setattr(kinds, "room", lambda memory: 0)
    with pytest.raises(MethodError, match="answers='numeric' needs all labels in memory, where these 1000 do not fit"):
        cs.aggregate(tmp_path)


@pytest.mark.usefixtures("small")
def test_what_is_refused(folder: Path) -> None:
    with pytest.raises(MethodError, match="ds-em of answers on a scale needs all labels in memory"):
        cs.aggregate(folder, "ds-em", answers="ordinal")
    with pytest.raises(ParameterError, match="cannot be streamed"):
        cs.aggregate(folder, answers="ordinal", items=[1, 2])


def test_scanned_sets_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("item,annotator,label\n1,a,x|y\n1,b,\n2,a,y\n")
    with pytest.warns(cs.exceptions.DataWarning, match="have no label"):
        scanned = cs.scan(file)
    with pytest.raises(ParameterError, match="cannot be scanned, which leaves out answers that tick nothing"):
        cs.aggregate(scanned, answers="multi")


def test_a_checkpoint_makes_no_classes_of_levels(frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "numbered").mkdir()
    levels = frame.assign(label=[WORDS.index(word) for word in frame["label"]])
    levels.to_parquet(tmp_path / "numbered" / "part.parquet")
    with pytest.raises(ParameterError, match="answers='ordinal' keeps no checkpoint"):
        cs.aggregate(tmp_path / "numbered", checkpoint=tmp_path / "kept")
    with pytest.warns(EngineWarning, match="keeps no checkpoint on its way"):
        found = cs.aggregate(tmp_path / "numbered", answers="nominal", checkpoint=tmp_path / "kept")
    assert found.run["answers"] == "nominal"
