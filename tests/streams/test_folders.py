"""Streams on disk: saved, taken up again, and made of runs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly
from tests.streams.streams import METHODS, SUMS, best_of, cut, streamed

import consilience as cs
from consilience.exceptions import (
    ConsilienceWarning,
    FolderError,
    FormatError,
    MethodError,
    ParameterError,
)
from consilience.files import write_checksums


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    return cs.simulate(300, 12, 3, spammers=0.2, seed=1)


# ---- folders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {"window": 400}) for method in METHODS),
        *((method, options) for method in ("ds-em", "majority") for options in ({}, SUMS)),
        *((method, {"forget": 0.2}) for method in ("ds-em", "rob-symnmf")),
    ],
)
def test_a_saved_stream_goes_on_as_if_it_had_not_been_saved(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    parts = cut(crowd.annotations, 5, "labels")
    stream = streamed(parts[:3], method, **options)
    stream.save(tmp_path / "run")
    again = cs.Stream.load(tmp_path / "run")
    assert repr(again) == repr(stream)
    for part in parts[3:]:
        for one in (stream, again):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConsilienceWarning)
                one.update(part)
                _ = one.consensus
    assert again.model == stream.model
    np.testing.assert_allclose(again.consensus.posterior, stream.consensus.posterior, atol=1e-12)
    assert again.consensus.run["updates"] == 5
    assert cs.load(tmp_path / "run").run["updates"] == 3
    for archive in (tmp_path / "run").glob("*.npz"):
        with np.load(archive, allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_few_labels_goes_on_as_if_all_had_come_at_once(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str
) -> None:
    first, second = cut(crowd.annotations, 2)
    cs.aggregate(first, method).save(tmp_path / "run")
    found = cs.Stream.load(tmp_path / "run").update(second).consensus
    batch = cs.aggregate(pd.concat([first, second]), method)
    assert found.posterior.tobytes() == batch.posterior.tobytes()
    assert found.run["updates"] == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_a_run_of_many_labels_goes_on_from_its_sums(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    first, second = cut(crowd.annotations, 2)
    run = quietly(first, method)
    run.save(tmp_path / "run")
    if "remember" in options and not method.startswith("rob-symnmf"):
        (tmp_path / "run/answers.parquet").unlink()  # the old labels are not read
    stream = cs.Stream.load(tmp_path / "run", **options)
    np.testing.assert_allclose(stream.consensus.posterior, run.posterior, atol=1e-12)
    assert np.array_equal(stream.consensus.choice.best, run.choice.best)
    stream.update(second)
    batch = cs.aggregate(crowd.annotations, method)
    assert np.mean(best_of(stream.consensus, crowd.annotations) == batch.choice.best) >= 0.93
    assert stream.n_labels == len(crowd.annotations)


def test_a_run_of_another_method_goes_on_as_ds_em_when_asked(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    first, second = cut(crowd.annotations, 2)
    gold = {int(n): int(crowd.truth[n]) for n in first["item"].unique()[:9]}
    cs.aggregate(first, "glad", gold=gold).save(tmp_path / "run")
    with pytest.raises(MethodError, match=r"made by glad.*method='ds-em'"):
        cs.Stream.load(tmp_path / "run")
    (tmp_path / "run/answers.parquet").unlink()
    write_checksums(tmp_path / "run")  # as a run that was saved without its labels
    with pytest.raises(MethodError, match="keeps no votes"):
        cs.Stream.load(tmp_path / "run", method="majority")
    with pytest.raises(MethodError, match="keeps no labels whose pairs"):
        cs.Stream.load(tmp_path / "run", method="rob-symnmf")
    stream = cs.Stream.load(tmp_path / "run", method="ds-em").update(second)
    assert stream.consensus.run["gold_items"] == 9
    assert stream.consensus.error_rate(dict(enumerate(crowd.truth.tolist()))) < 15


def test_folders_that_are_not_of_a_stream_are_refused(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not the folder of a run"):
        cs.Stream.load(tmp_path)
    stream = cs.Stream(window=0).update(crowd.annotations)
    stream.save(tmp_path / "run")
    with pytest.raises(ParameterError, match="cannot continue as one-coin"):
        cs.Stream.load(tmp_path / "run", method="one-coin")
    content = (tmp_path / "run/stream.npz").read_bytes()
    for damaged in (b"", b"words", content[: len(content) // 2]):
        (tmp_path / "run/stream.npz").write_bytes(damaged)
        with pytest.raises(FormatError, match="run"):
            cs.Stream.load(tmp_path / "run")
    other = cs.Stream(window=0).update(crowd.annotations.select_items(slice(0, 200)))
    other.save(tmp_path / "other")
    (tmp_path / "run/stream.npz").write_bytes((tmp_path / "other/stream.npz").read_bytes())
    with pytest.raises(FormatError, match="is not as it was written"):
        cs.Stream.load(tmp_path / "run")


def test_runs_whose_items_are_not_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("Ann B-PER B-PER\nLee I-PER O\nsaw O O\n\nBob B-PER O\nslept O O\n")
    quietly(cs.read_sequences(tmp_path / "names.conll"), "majority+hmm").save(tmp_path / "sentences")
    with pytest.raises(MethodError, match="a run over sequences, which cannot continue from sums"):
        cs.Stream.load(tmp_path / "sentences")
    rows = pd.DataFrame([(n, w, n % 2) for n in range(4) for w in "abc"], columns=["task", "worker", "label"])
    quietly(rows, graph=[(0, 2), (1, 3)], delta=1.0).save(tmp_path / "network")
    with pytest.raises(MethodError, match="a run over a graph, which cannot continue from sums"):
        cs.Stream.load(tmp_path / "network", method="ds-em")


def test_of_two_updates_at_a_time_none_is_lost(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    first, second, third = cut(crowd.annotations, 3)
    cs.Stream().update(first).save(tmp_path / "run")
    one, two = cs.Stream.load(tmp_path / "run"), cs.Stream.load(tmp_path / "run")
    one.update(second).save(tmp_path / "run")
    with pytest.raises(FolderError, match="has changed since it was loaded"):
        two.update(third).save(tmp_path / "run")
    one.update(third).save(tmp_path / "run")
    assert cs.load(tmp_path / "run").run["labels"] == len(crowd.annotations)
