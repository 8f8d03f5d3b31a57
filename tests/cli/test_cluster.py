"""``consilience cluster``: what it prints, writes and refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score
from tests.cli.conftest import Run, strict_json

from consilience.datasets.subspaces import simulate_curves, simulate_subspaces


@pytest.fixture
def cluster(run: Run) -> Run:
    """Call the verb."""
    return partial(run, "cluster")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    drawn = simulate_subspaces(150, 20, 3, 2, noise=0.1)
    frame = pd.DataFrame(drawn.data, columns=[f"x{d}" for d in range(20)])
    frame.insert(0, "id", [f"s{n}" for n in range(150)])
    frame.loc[3, "x2"] = None
    frame.to_csv(tmp_path / "samples.csv", index=False)
    np.save(tmp_path / "truth.npy", drawn.truth)
    return tmp_path / "samples.csv"


@pytest.mark.parametrize("options", [(), ("--representation", "ssc"), ("--refine", "5", "--normalise")])
def test_clusters_are_written(cluster: Run, samples: Path, options: tuple[str, ...]) -> None:
    out = samples.parent / "clusters.csv"
    done = cluster(samples, "--clusters", "3", "--out", out, *options)
    assert done.status == 0
    assert "150 samples with 20 features in 3 clusters" in done.out
    assert "dimension 2" in done.out
    written = pd.read_csv(out)
    assert list(written.columns) == ["id", "cluster"]
    assert adjusted_rand_score(written["cluster"], np.load(samples.parent / "truth.npy")) > 0.97


def test_arrays_kernels_and_json(cluster: Run, tmp_path: Path) -> None:
    X, _ = simulate_curves(120, 6, 2, random_state=1)
    np.save(tmp_path / "curves.npy", X)
    done = cluster(tmp_path / "curves.npy", "--clusters", "2", "--kernel", "rbf", "--json")
    found = strict_json(done.out)
    assert found["N"] == sum(found["sizes"]) == 120
    batch = cluster(tmp_path / "curves.npy", "--clusters", "2", "--batch", "--affine")
    assert batch.status == 0
    assert cluster(tmp_path / "curves.npy", "--clusters", "2", "--batch", "--kernel", "rbf").status == 2


def test_what_is_no_number_is_named(cluster: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("id,x,colour\na,1,red\nb,2,blue\n")
    done = cluster(tmp_path / "bad.csv", "--clusters", "2")
    assert done.status == 1
    assert "'colour'" in done.err
    assert "--item" in done.err
    assert cluster(tmp_path / "bad.csv", "--clusters", "2", "--item", "name").status == 1
