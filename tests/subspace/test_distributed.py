"""Distributed runs return the labels of local ones."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from consilience.datasets.subspaces import simulate_curves, simulate_subspaces
from consilience.exceptions import DataError, DataWarning, ParameterError
from consilience.subspace import distributed as module
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.distributed import check_chunks

da = pytest.importorskip("dask.array")


@pytest.mark.parametrize("representation", ["lsr", "ssc", "lrr"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_labels_are_those_of_the_local_run(representation: Any, missing: float) -> None:
    drawn = simulate_subspaces(500, 30, 4, 3, noise=0.3, missing=missing, random_state=1)
    options: dict[str, Any] = {"representation": representation, "random_state": 3}
    local = SketchedSubspaceClustering(4, **options).fit(drawn.data)
    X = da.from_array(drawn.data, chunks=((7, 200, 100, 193), (20, 10)))
    spread = SketchedSubspaceClustering(4, **options).fit(X)
    np.testing.assert_array_equal(spread.labels_, local.labels_)
    np.testing.assert_allclose(spread.dictionary_, local.dictionary_, atol=1e-12)
    assert spread.lam_ == pytest.approx(local.lam_)
    assert (spread.n_sketch_, spread.n_neighbors_) == (local.n_sketch_, local.n_neighbors_)
    again = spread.predict(X)
    assert again.chunks == ((7, 200, 100, 193),)
    np.testing.assert_array_equal(again.compute(), local.predict(drawn.data))


@pytest.mark.parametrize("kind", ["gaussian", "count", "hadamard"])
def test_every_kind_of_sketch_is_cut(kind: Any) -> None:
    drawn = simulate_subspaces(5000, 30, 4, 4, noise=0.2, random_state=2)
    options: dict[str, Any] = {"sketch": kind, "n_features": 25}
    local = SketchedSubspaceClustering(4, **options).fit(drawn.data)
    spread = SketchedSubspaceClustering(4, **options).fit(da.from_array(drawn.data, chunks=(1999, -1)))
    np.testing.assert_array_equal(spread.labels_, local.labels_)
    np.testing.assert_allclose(spread.dictionary_, local.dictionary_, atol=1e-10)


def test_kernels_of_chunks() -> None:
    X, _ = simulate_curves(400, 10, 2, random_state=1)
    local = SketchedSubspaceClustering(2, kernel="rbf").fit(X)
    spread = SketchedSubspaceClustering(2, kernel="rbf").fit(da.from_array(X, chunks=(150, -1)))
    np.testing.assert_array_equal(spread.labels_, local.labels_)
    np.testing.assert_array_equal(spread.predict(da.from_array(X, chunks=(90, -1))).compute(), local.predict(X))
    for options in ({"refine": 3}, {"representation": "lrr", "fit_norm": "l21"}):
        with pytest.raises(ParameterError, match="in memory"):
            SketchedSubspaceClustering(2, **options).fit(da.from_array(X, chunks=(150, -1)))


def test_on_workers() -> None:
    distributed = pytest.importorskip("distributed")
    drawn = simulate_subspaces(400, 20, 3, 3, noise=0.2, random_state=4)
    local = SketchedSubspaceClustering(3).fit(drawn.data)
    told: list[str] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        X = da.from_array(drawn.data, chunks=(150, -1))
        spread = SketchedSubspaceClustering(3, callback=told.append).fit(X)
        predicted = spread.predict(X).compute()
    np.testing.assert_array_equal(spread.labels_, local.labels_)
    np.testing.assert_array_equal(predicted, local.predict(drawn.data))
    assert told == ["sketch", "codes", "graph", "embedding", "clusters"]


def test_tasks_carry_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent can be pickled whatever the callback holds, and is small beside the graph."""
    drawn = simulate_subspaces(400, 20, 3, 3, noise=0.2, random_state=4)
    told: list[str] = []
    lock = threading.Lock()  # cannot be pickled

    def tell(stage: str) -> None:
        with lock:
            told.append(stage)

    dask = importlib.import_module("dask")
    compute = dask.compute
    sent: list[int] = []

    def pickled(*jobs: Any) -> Any:
        sent.extend(len(pickle.dumps(dict(job.dask))) for job in jobs)
        return compute(*(pickle.loads(pickle.dumps(job)) for job in jobs))

    monkeypatch.setattr(dask, "compute", pickled)
    X = da.from_array(drawn.data, chunks=(150, -1))
    spread = SketchedSubspaceClustering(3, callback=tell).fit(X)
    assert sent
    assert len(told) == 5
    lazy = spread.predict(X)
    model_parts = pickle.dumps(dict(lazy.dask))
    assert b"SketchedSubspaceClustering" not in model_parts
    assert model_parts.count(spread.bases_[0].tobytes()) == 1
    assert spread.codes_[:50].tobytes() not in model_parts
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(lazy)).compute(), spread.labels_)


def test_on_workers_in_processes_of_their_own() -> None:
    distributed = pytest.importorskip("distributed")
    drawn = simulate_subspaces(300, 20, 3, 3, noise=0.2, random_state=4)
    lock = threading.Lock()
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        X = da.from_array(drawn.data, chunks=(150, -1))
        spread = SketchedSubspaceClustering(3, callback=lambda _: lock.locked()).fit(X)
        predicted = spread.predict(X).compute()
    np.testing.assert_array_equal(spread.labels_, SketchedSubspaceClustering(3).fit(drawn.data).labels_)
    np.testing.assert_array_equal(predicted, spread.labels_)


@pytest.mark.parametrize("representation", ["lsr", "ssc", "lrr"])
def test_chunks_of_zeros_and_of_nothing(representation: Any) -> None:
    drawn = simulate_subspaces(300, 20, 3, 3, noise=0.1, random_state=5)
    data = drawn.data.copy()
    data[100:110] = 0.0
    X = da.from_array(np.concatenate([data[:100], np.ones((5, 20)), data[100:]]), chunks=((100, 5, 10, 190), (20,)))
    X = X[da.from_array(np.arange(305) // 5 != 20, chunks=((100, 5, 10, 190),))]
    X.compute_chunk_sizes()
    assert X.chunks[0] == (100, 0, 10, 190)
    with pytest.warns(DataWarning, match="10 of 300"):
        spread = SketchedSubspaceClustering(3, representation=representation).fit(X)
    with pytest.warns(DataWarning, match="10 of 300"):
        local = SketchedSubspaceClustering(3, representation=representation).fit(data)
    np.testing.assert_array_equal(spread.labels_, local.labels_)
    with pytest.warns(DataWarning, match="10 of 10"):
        np.testing.assert_array_equal(spread.predict(X).compute(), local.labels_)
    with pytest.raises(DataError, match="zero"):
        SketchedSubspaceClustering(3, representation=representation).fit(0 * X)


def test_checks_are_those_of_the_local_run() -> None:
    pandas = pytest.importorskip("pandas")
    data = simulate_subspaces(60, 6, 2, 2).data
    X = da.from_array(data, chunks=(25, -1))
    model = SketchedSubspaceClustering(2).fit(pandas.DataFrame(data, columns=list("abcdef")))
    assert list(model.feature_names_in_) == list("abcdef")
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 6
    with pytest.raises(ValueError, match="5 features"):
        model.predict(X[:, :5])
    with pytest.raises(DataError, match="at least 2 samples"):
        SketchedSubspaceClustering(1).fit(X[:1])
    with pytest.raises(DataError, match="numbers"):
        SketchedSubspaceClustering(2).fit(X.astype(complex))
    with pytest.raises(ParameterError, match="max_iter"):
        SketchedSubspaceClustering(2, max_iter=0).fit(X)


def test_whole_numbers_and_bad_input() -> None:
    whole = np.random.default_rng(0).integers(-9, 9, (60, 6))
    spread = SketchedSubspaceClustering(2).fit(da.from_array(whole, chunks=(25, -1)))
    np.testing.assert_array_equal(spread.labels_, SketchedSubspaceClustering(2).fit(whole).labels_)
    with pytest.raises(DataError, match="Dask array"):
        check_chunks(whole)
    X = da.from_array(whole.astype(float), chunks=(25, -1))
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        SketchedSubspaceClustering(2).fit(X[X[:, 0] > 0])
    with pytest.raises(DataError, match="must be dense"):
        SketchedSubspaceClustering(2).fit(X.map_blocks(csr_array))
    with pytest.raises(DataError, match="infinite"):
        SketchedSubspaceClustering(2).fit(da.where(X > 5, np.inf, X))


def test_dask_is_imported_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "dask" not in {name for name, _ in inspect.getmembers(module, inspect.ismodule)}
    source = inspect.getsource(module)
    assert "\nimport dask" not in source
    assert "\nfrom dask" not in source
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(ParameterError, match=r"pip install consilience\[dask\]"):
        check_chunks(np.ones((4, 2)))
