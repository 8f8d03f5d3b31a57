"""Successive projection: pure columns found with and without noise, and the same ones that pivoted QR takes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import qr
from scipy.sparse import csc_matrix

from consilience.exceptions import ParameterError
from consilience.factor.spa import shrunk_counts, spa, vertices
from consilience.kernels._arrays import Floats, Ints


def separable(seed: int, rows: int = 12, K: int = 5, mixtures: int = 60) -> tuple[Floats, Floats, Ints]:
    """A matrix whose columns are mixtures of K of them, those K, and their places."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(0.5 * np.ones(rows), K).T
    H = np.concatenate([np.eye(K), rng.dirichlet(np.ones(K), mixtures)])
    where = rng.permutation(K + mixtures)
    X = np.empty((rows, K + mixtures))
    X[:, where] = W @ H.T
    return X, W, where[:K]


@pytest.mark.parametrize("seed", range(10))
def test_the_pure_columns_of_a_separable_matrix_are_found(seed: int) -> None:
    X, _, pure = separable(seed)
    assert set(spa(X, 5).tolist()) == set(pure.tolist())


@pytest.mark.parametrize("seed", range(10))
def test_with_noise_the_columns_found_are_as_near_as_the_noise_is_small(seed: int) -> None:
    X, W, _ = separable(seed)
    rng = np.random.default_rng(100 + seed)
    E = rng.standard_normal(X.shape)
    E /= np.linalg.norm(E, axis=0)
    smallest = np.linalg.svd(W, compute_uv=False)[-1]
    condition = np.linalg.norm(W, axis=0).max() / smallest
    for noise in (1e-6, 1e-5, 1e-4):
        found = X[:, spa(X + noise * E, 5)]
        distance = np.linalg.norm(W[:, :, None] - found[:, None, :], axis=0)
        # Gillis & Vavasis 2014, Theorem 3: ε (1 + 80 K(W)² / σ(W)²), K the longest column, σ the least singular value
        assert distance.min(axis=1).max() <= (1 + 80 * condition**2) * noise
        assert len(set(distance.argmin(axis=1).tolist())) == 5


@pytest.mark.parametrize("seed", range(5))
def test_it_is_qr_with_column_pivoting(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((8, 30))
    assert spa(X, 6).tolist() == qr(X, mode="r", pivoting=True)[1][:6].tolist()


def test_rotating_rows_scaling_and_moving_columns_change_nothing() -> None:
    X, _, _ = separable(3)
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    found = spa(X, 5)
    assert spa(Q @ X, 5).tolist() == found.tolist()
    assert spa(1e-8 * X, 5).tolist() == found.tolist()
    mixed = rng.permutation(X.shape[1])
    assert mixed[spa(X[:, mixed], 5)].tolist() == found.tolist()


def test_a_matrix_of_lower_rank_has_fewer_columns_to_find() -> None:
    X, _, pure = separable(1, K=3)
    assert set(spa(X, 7).tolist()) == set(pure.tolist())
    assert spa(np.zeros((3, 4)), 2).size == 0
    assert spa(np.empty((3, 0)), 2).size == 0
    assert spa(np.array([[0.0, 2.0, 0.0]]), 3).tolist() == [1]


@pytest.mark.parametrize("shape", [(50, 8), (8, 50)])
@pytest.mark.parametrize("n_components", [3, 6, 8])
def test_rounding_is_no_direction(shape: tuple[int, int], n_components: int) -> None:
    rng = np.random.default_rng(0)
    low = rng.random((shape[0], 3)) @ rng.random((3, shape[1]))
    found = spa(low, n_components).tolist()
    assert len(found) == 3
    assert spa(low, n_components, denoise="svd").tolist() == found
    assert spa(csc_matrix(low), n_components).tolist() == found
    assert spa(np.zeros(shape), n_components, denoise="svd").size == 0


@pytest.mark.parametrize("n_components", [3, 5])
def test_leading_directions_are_those_of_the_singular_values(n_components: int) -> None:
    """A tall matrix with noise: the search in U_kᵀ X, by Xᵀ X here, is that in the whole of U_k U_kᵀ X."""
    X = separable(2, rows=200, K=3, mixtures=30)[0]
    X += 1e-3 * np.random.default_rng(0).standard_normal(X.shape)
    U, s, V = np.linalg.svd(X, full_matrices=False)
    cut = (U[:, :n_components] * s[:n_components]) @ V[:n_components]
    assert spa(X, n_components, denoise="svd").tolist() == spa(cut, n_components).tolist()


def test_means_are_of_columns_that_reach_in_the_direction_found() -> None:
    opposite = vertices(np.array([[1.0, -1.0], [0.0, 0.0]]), 1, average=2)
    np.testing.assert_array_equal(opposite.columns, [[1.0], [0.0]])
    X = np.random.default_rng(3).random((4, 5))
    found = vertices(X, 3, average=5)
    np.testing.assert_allclose(found.columns[:, 0], X.mean(axis=1))
    assert np.linalg.matrix_rank(found.columns) == 3
    # the residuals of all columns sum to zero once their mean is out: not all reach
    rest = X - np.outer(X.mean(axis=1), X.mean(axis=1) @ X) / (X.mean(axis=1) ** 2).sum()
    reach = rest[:, found.indices[1]] @ rest
    assert 0 < (reach > 0).sum() < 5
    np.testing.assert_allclose(found.columns[:, 1], X[:, reach > 0].mean(axis=1))
    with pytest.raises(ParameterError, match="average=10 is more than the 5 samples"):
        vertices(X, 3, average=10)


def test_of_columns_of_one_length_the_first_is_taken() -> None:
    a = np.array([0.6, 0.8])
    assert spa(np.stack([0.1 * a, a * (1 - 1e-13), a[::-1], a], axis=1), 2).tolist() == [1, 2]


def test_the_matrix_is_left_as_it_was() -> None:
    X, _, _ = separable(0)
    before = X.copy()
    spa(X, 5)
    assert np.array_equal(X, before)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ParameterError, match="rows and columns"):
        spa(np.zeros(3), 1)
    with pytest.raises(ParameterError, match="NaN or infinite"):
        spa(np.array([[np.nan, 1.0]]), 1)
    with pytest.raises(ParameterError, match="n_components"):
        spa(np.eye(2), 0)


def test_the_spread_of_the_columns_tells_how_far_to_shrink_them() -> None:
    rng = np.random.default_rng(0)
    mean = np.array([0.5, 0.3, 0.2])
    for s in (0.5, 4.0, 30.0):
        n = rng.integers(1, 40, 4000)
        counts = np.array([rng.multinomial(c, rng.dirichlet(s * mean)) for c in n]).T
        mean_seen = counts.sum(axis=1) / counts.sum()
        # of one column alone: (x + s μ) / (n + s), solved for s
        x, total = counts[:, 0], n[0]
        i = int(np.argmax(np.abs(x / total - mean_seen)))
        p = shrunk_counts(counts)[i, 0]
        np.testing.assert_allclose((x[i] - p * total) / (p - mean_seen[i]), s, rtol=0.15)
    pure = np.eye(3)[:, rng.choice(3, 200, p=mean)] * 5
    np.testing.assert_allclose(shrunk_counts(pure), pure / 5, atol=1e-9)
    chance = rng.multinomial(10, mean, 50).T
    drawn, raw = shrunk_counts(chance), chance / 10
    assert (
        np.abs(drawn - drawn.mean(axis=1, keepdims=True)).max() < 0.25 * np.abs(raw - raw.mean(axis=1)[:, None]).max()
    )


def test_a_column_without_counts_becomes_the_mean() -> None:
    counts = np.array([[6.0, 0.0, 2.0], [2.0, 0.0, 6.0]])
    np.testing.assert_allclose(shrunk_counts(counts)[:, 1], [0.5, 0.5])
