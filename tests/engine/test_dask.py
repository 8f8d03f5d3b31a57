"""Passes on a real Dask cluster of processes: the answer of one process, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.datasets.networks import simulate_network
from consilience.engine.dask import Cluster, Group, OnCluster, connect, cut_for
from consilience.engine.passes import InMemory
from consilience.engine.place import spilled
from consilience.exceptions import EngineError, EngineWarning, ParameterError
from consilience.kernels import blocks
from consilience.kernels.chains import ChainSweep
from consilience.kernels.cpd import TablePass
from consilience.methods.base import registry
from consilience.models.hidden_markov import chain_sweep

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a few ten thousand labels into blocks enough for both workers."""
    monkeypatch.setattr(blocks, "_LABELS_PER_BLOCK", 1 << 10)


def a_crowd(K: int = 4, accuracy: tuple[float, float] = (0.5, 0.9)) -> cs.Annotations:
    return cs.simulate(4000, 30, K, labels_per_item=8, accuracy=accuracy, seed=K).annotations


@pytest.mark.parametrize(
    ("method", "K"), [("ds-em", 2), ("ds-em", 4), ("majority", 4), ("rob-symnmf+em", 4), ("tensor-admm", 4)]
)
def test_runs_on_dask_are_those_in_memory(client: Any, method: str, K: int) -> None:
    a = a_crowd(K)
    assert InMemory(a).part.share.n > 2
    here = cs.aggregate(a, method)
    there = cs.aggregate(a, method, engine=client)
    assert there.model == here.model
    np.testing.assert_array_equal(there.posterior, here.posterior)
    for name in ("log_likelihood", "history", "iterations"):
        assert there.run[name] == here.run[name]
    assert there.run["engine"] == "dask"


def test_the_default_runs_on_dask_where_labels_do_not_fit(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilience.methods.base.running.fits", lambda _: False)
    a = a_crowd()
    here, there = cs.aggregate(a), cs.aggregate(spilled(a), engine=client)
    assert type(there).__name__ == "StreamedConsensus"
    assert (there.run["method"], there.run["engine"], there.verdict) == ("auto", "dask", here.verdict)
    np.testing.assert_array_equal(there.posterior, here.posterior)


def test_scanned_labels_are_mapped_by_the_workers_and_others_travel(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    table = a_crowd().to_frame("pyarrow")
    (tmp_path / "labels").mkdir()
    pq.write_table(table, tmp_path / "labels" / "a.parquet")
    here = cs.aggregate(cs.Annotations.from_frame(table), "ds-em")
    there = cs.aggregate(tmp_path / "labels", "ds-em", engine=client)
    assert type(there).__name__ == "StreamedConsensus"
    assert there.model == here.model
    with connect(client) as cluster, OnCluster(InMemory(cs.Annotations.from_frame(table)), cluster) as passes:
        assert passes.mapped
    monkeypatch.setattr("consilience.engine.dask._sees", lambda folder, fingerprint: False)
    with connect(client) as cluster, OnCluster(InMemory(cs.Annotations.from_frame(table)), cluster) as passes:
        assert not passes.mapped
        assert "2 workers, which were sent" in passes.place
        assert registry.fit("ds-em", passes).model == here.model


@pytest.mark.parametrize("method", ["ds-em+hmm+em", "auto"])
def test_sequences_on_dask_are_those_in_memory(client: Any, method: str) -> None:
    crowd = cs.datasets.simulate_sequences(600, 12, 5, 3, seed=0).annotations
    sweep = chain_sweep(crowd, context=False, states=1)
    assert isinstance(sweep, ChainSweep)
    assert sweep.share.n > 2
    options: dict[str, Any] = {"max_iter": 8, "tol": 0.0}
    here = cs.aggregate(crowd, method, **options)
    there = cs.aggregate(crowd, method, engine=client, **options)
    np.testing.assert_array_equal(there.posterior, here.posterior)
    assert there.run["history"] == here.run["history"]
    if method != "auto":
        model = cs.SequenceConsensus(method=method, engine=client, **options).fit(crowd)
        assert model.history_ == here.run["history"]


@pytest.mark.parametrize("method", ["ds-em", "sml"])
def test_networks_on_dask_are_those_in_memory(client: Any, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers make the passes of a crowd method that runs everywhere."""
    drawn = simulate_network(2000, 10, 2, degree=4, agreement=0.8, labels_per_item=3, seed=1)
    asked, each = [], Group.each

    def noted(self: Group, what: str, *given: Any, **more: Any) -> list[Any]:
        asked.append(what)
        return each(self, what, *given, **more)

    monkeypatch.setattr(Group, "each", noted)
    here = cs.aggregate(drawn.annotations, method, graph=drawn.edges)
    there = cs.aggregate(drawn.annotations, method, graph=drawn.edges, engine=client)
    assert ("parts" in asked) == (method == "ds-em")
    assert there.model == here.model
    assert np.array_equal(there.posterior, here.posterior)


def test_tables_on_dask_are_those_in_memory(client: Any) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 12_000)
    rows = (rng.random((12_000, 6)) < np.array([0.2, 0.5, 0.9])[kind, None]).astype(np.int64)
    rows[rng.random(rows.shape) < 0.2] = -1
    assert TablePass(rows, [2] * 6).share(3).n > 1
    here = cs.JointPMF(3, max_iter=40, tol=0.0).fit(rows)
    there = cs.JointPMF(3, max_iter=40, tol=0.0, engine=client).fit(rows)
    assert there.history_ == here.history_
    np.testing.assert_array_equal(there.weights_, here.weights_)
    for one, other in zip(here.factors_, there.factors_, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [1, 16, 64, 1000, 1024])
def test_workers_get_equal_ranges_of_few_nodes(n: int) -> None:
    for workers in {1, 2, 3, 5, 8, 50} & set(range(1, n + 1)):
        ranges = cut_for(workers, n)
        assert len(ranges) == workers
        assert [a for a, _ in ranges[1:]] == [b for _, b in ranges[:-1]]
        assert (ranges[0][0], ranges[-1][1]) == (0, n)
        sizes = [b - a for a, b in ranges]
        assert min(sizes) > 0
        assert max(sizes) <= 1.0625 * n / workers + 1
        if n == 1024:
            shares = [blocks.Share([(0, 0)] * (b - a), a, n) for a, b in ranges]
            assert max(len(blocks.within(share)) for share in shares) <= (1 if workers in (1, 2, 8) else 6)


def test_methods_of_one_process_warn(client: Any) -> None:
    with pytest.warns(EngineWarning, match="ibcc ran in this process"):
        run = cs.aggregate(a_crowd(2), "ibcc", engine=client, max_iter=3, tol=0.0)
    assert any("in this process" in note for note in run.warnings)


def test_a_run_continues_without_a_killed_worker(client: Any) -> None:
    a = a_crowd(4, (0.3, 0.45))
    here = registry.fit("ds-em", a, tol=0.0, max_iter=60)
    victim = next(iter(client.run(os.getpid).values()))

    killed: list[int] = []

    def kill(state: Any) -> None:
        if state.iteration == 6:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    with OnCluster(InMemory(a), Cluster(client)) as passes:
        there = registry.fit("ds-em", passes, tol=0.0, max_iter=60, callback=kill)
    assert there.model == here.model
    assert there.history == here.history
    assert killed == [victim]


def test_a_missing_scheduler_is_named() -> None:
    import consilience.engine.dask as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CONNECT", 0.5)
        with pytest.raises(EngineError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
            cs.aggregate(a_crowd(2), "ds-em", engine="dask", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ParameterError, match="engine must be"):
        cs.JointPMF(2, engine="spark").fit([[0, 1], [1, 0]])


def test_when_the_scheduler_is_lost_the_checkpoint_is_not(tmp_path: Path) -> None:
    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*command, "--scheduler-file", str(place)], **quiet)  # type: ignore[call-overload]
    worker = None
    try:
        deadline = time.monotonic() + 60
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        address = json.loads(place.read_text())["address"]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
        worker = subprocess.Popen([*command, "--no-nanny"], **quiet)  # type: ignore[call-overload]
        a = a_crowd(4, accuracy=(0.3, 0.45))
        options: dict[str, Any] = {"tol": 0.0, "max_iter": 60, "checkpoint": tmp_path / "kept"}

        def kill(state: Any) -> None:
            if state.iteration == 30:
                scheduler.kill()

        begun = time.monotonic()
        with pytest.raises(EngineError, match=r"its scheduler is gone\. A checkpoint, if one was asked for, is intact"):
            cs.aggregate(a, "ds-em", engine="dask", scheduler=address, callback=kill, **options)
        assert time.monotonic() - begun < 60
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()
    passes: list[int] = []
    resumed = cs.aggregate(a, "ds-em", callback=lambda state: passes.append(state.iteration), **options)
    assert 1 < passes[0] <= 31
    del options["checkpoint"]
    whole = cs.aggregate(a, "ds-em", **options)
    assert resumed.model == whole.model
    assert resumed.run["history"] == whole.run["history"]


def test_a_local_cluster_listens_on_loopback_only() -> None:
    with connect() as cluster:
        info = cluster.client.scheduler_info(n_workers=-1)
        pids = {os.getpid(), *(worker.get("pid", 0) for worker in info["workers"].values())}
        pids |= {int(p) for p in subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True).stdout.split()}
        assert _listening(pids) == {"127.0.0.1"}


def _listening(pids: set[int]) -> set[str]:
    """Return the addresses on which these processes accept connections, from the tables of the system."""
    inodes = set()
    for pid in pids - {0}:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(str(link.readlink()))
            except OSError:
                continue
    found = set()
    for line in (*_sockets("tcp"), *_sockets("tcp6")):
        local, state, inode = line[1], line[3], f"socket:[{line[9]}]"
        if state == "0A" and inode in inodes:
            address = local.split(":")[0]
            found.add("127.0.0.1" if address == "0100007F" else address)
    return found


def _sockets(table: str) -> list[list[str]]:
    path = Path("/proc/net") / table
    return [line.split() for line in path.read_text().splitlines()[1:]] if path.exists() else []


@pytest.mark.parametrize("address", ["nonsense://x", "", "tcp://127.0.0.1:port", "tcp://host", "tls://127.0.0.1:1"])
def test_an_address_that_cannot_be_one_is_refused_at_once(address: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ParameterError, match=r"address of a Dask scheduler|needs certificates"):
        cs.aggregate(a_crowd(2), "ds-em", engine="dask", scheduler=address)
    assert time.monotonic() - begun < 10
