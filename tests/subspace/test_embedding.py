"""Eigenvectors of the normalised Laplacian against dense ones, whatever the components of the graph; k-means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array
from scipy.sparse.csgraph import laplacian
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace import embedding as module
from consilience.subspace.embedding import cluster_embedding, spectral_embedding


def blocks(sizes: list[int], inside: float, across: float, seed: int = 0) -> tuple[csr_array, Ints]:
    """A random graph of blocks with weights, and the block of every node."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(sizes)), sizes)
    odds = np.where(label[:, None] == label, inside, across)
    upper = np.triu(rng.random(odds.shape) < odds, 1) * rng.uniform(0.5, 1.5, odds.shape)
    return csr_array(upper + upper.T), label


def dense(W: csr_array, K: int) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh(laplacian(W.toarray(), normed=True))
    return values[:K], vectors[:, :K]


@pytest.mark.parametrize("sizes", [[60, 80, 100], [300, 350, 250]], ids=["all at once", "arpack"])
@pytest.mark.parametrize("apart", [False, True], ids=["connected", "components"])
def test_eigenvectors_are_those_of_the_laplacian(sizes: list[int], apart: bool) -> None:
    W, label = blocks(sizes, 0.2, 0.01)
    if apart:  # two components; three blocks
        cut = (label[:, None] == 2) != (label == 2)
        W = csr_array(W.toarray() * ~cut)
    found = spectral_embedding(W, 4, tol=1e-10)
    values, vectors = dense(W, 4)
    assert found.n_components == 1 + apart
    np.testing.assert_allclose(found.values, values, atol=1e-8)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, vectors @ vectors.T, atol=1e-6)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-8)


@pytest.mark.parametrize("sizes", [[50, 60, 70], [400, 500, 300]])
def test_blocks_are_found(sizes: list[int]) -> None:
    W, label = blocks(sizes, 0.3, 0.02, seed=1)
    labels, centres = cluster_embedding(spectral_embedding(W, 3), 3)
    np.testing.assert_array_equal(labels, label)  # numbered in the order of their first samples
    assert centres.shape == (3, 3)


def test_as_many_components_as_clusters_need_no_solver() -> None:
    W, label = blocks([40] * 12, 0.5, 0.0, seed=2)
    found = spectral_embedding(W, 12)
    assert found.n_components == 12
    np.testing.assert_array_equal(found.values, 0.0)
    product = laplacian(W, normed=True) @ found.vectors
    np.testing.assert_allclose(product, 0.0, atol=1e-12)
    np.testing.assert_array_equal(cluster_embedding(found, 12)[0], label)


def test_more_components_than_clusters_and_isolated_samples() -> None:
    W, label = blocks([60, 50, 5], 0.6, 0.0, seed=3)
    W = csr_array(block_diag([W, np.zeros((4, 4))]))
    with pytest.warns(DataWarning, match="7 components"):
        found = spectral_embedding(W, 2)
    labels, _ = cluster_embedding(found, 2)
    assert found.n_components == 7
    np.testing.assert_array_equal(labels[:110], label[:110])
    assert not found.vectors[110:].any()
    # one isolated sample beside enough clusters is one of them
    W, label = blocks([250, 250], 0.2, 0.01, seed=4)
    found = spectral_embedding(csr_array(block_diag([W, np.zeros((1, 1))])), 3)
    labels, _ = cluster_embedding(found, 3)
    assert adjusted_rand_score(labels, np.append(label, 2)) == 1.0


def test_many_clusters_of_many_samples_are_not_solved_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    W, _ = blocks([70, 80], 0.3, 0.05, seed=7)
    values, _ = dense(W, 60)
    monkeypatch.setattr(module, "_DENSE", 50)
    np.testing.assert_allclose(spectral_embedding(W, 60).values, values, atol=1e-8)
    monkeypatch.setattr(module, "_DENSE_MOST", 100)
    monkeypatch.setattr(np.linalg, "eigh", None)
    np.testing.assert_allclose(spectral_embedding(W, 60, tol=1e-10).values, values, atol=1e-8)


def test_no_edges_at_all() -> None:
    with pytest.warns(DataWarning, match="6 components"):
        found = spectral_embedding(csr_array((6, 6)), 2)
    assert np.isfinite(found.vectors).all()
    assert cluster_embedding(found, 2)[0].shape == (6,)


def test_the_same_seed_gives_the_same_bytes() -> None:
    W, _ = blocks([300, 300], 0.1, 0.05, seed=5)
    first, second = spectral_embedding(W, 5, 1), spectral_embedding(W, 5, 1)
    assert first.vectors.tobytes() == second.vectors.tobytes()
    np.testing.assert_array_equal(cluster_embedding(first, 5, 2)[0], cluster_embedding(second, 5, 2)[0])


def test_many_rows_start_from_some() -> None:
    rng = np.random.default_rng(6)
    label = np.sort(rng.integers(4, size=30_000))
    rows = 3.0 * np.eye(4)[label] + 0.2 * rng.standard_normal((30_000, 4))
    labels, centres = cluster_embedding(rows, 4)
    np.testing.assert_array_equal(labels, label)
    assert np.linalg.norm(centres - np.eye(4)) < 0.1


def test_one_cluster() -> None:
    W, _ = blocks([30], 0.5, 0.0)
    assert (cluster_embedding(spectral_embedding(W, 1), 1)[0] == 0).all()


def test_running_out_is_told() -> None:
    ring = csr_array(np.roll(np.eye(2000), 1, axis=1) + np.roll(np.eye(2000), -1, axis=1))
    with pytest.warns(ConvergenceWarning, match="tolerance"):
        found = spectral_embedding(ring, 6, tol=1e-12, max_iter=1)
    assert not found.converged
    assert found.vectors.shape == (2000, 6)


def test_what_makes_no_sense_is_refused() -> None:
    W, _ = blocks([20], 0.5, 0.0)
    for K in (0, 21, 1.5, True):
        with pytest.raises(ParameterError, match="from 1 to 20"):
            spectral_embedding(W, K)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="square"):
        spectral_embedding(W[:5], 2)
    with pytest.raises(DataError, match="≥ 0"):
        spectral_embedding(-W, 2)


def test_many_clusters_of_different_size_are_found_from_their_most_orthogonal_rows() -> None:
    """Forty of them, which three random starts do not find."""
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(40), rng.integers(3, 60, 40)))
    rows = np.eye(40)[truth] + rng.normal(0.0, 0.05, (truth.size, 40))
    labels, centres = cluster_embedding(rows, 40)
    assert len(set(zip(labels.tolist(), truth.tolist(), strict=True))) == 40
    assert centres.shape == (40, 40)
    drawn = KMeans(40, n_init=3, random_state=0).fit(rows).labels_
    assert len(set(zip(drawn.tolist(), truth.tolist(), strict=True))) > 40
