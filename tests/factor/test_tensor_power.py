"""The tensor power method: orthogonal terms and mixtures come back."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from consilience.factor.tensor_power import mixture_of_moments, power_decomposition
from consilience.kernels._arrays import Floats


def orthonormal(K: int, seed: int) -> Floats:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((K, K)))[0]


@pytest.mark.parametrize("K", [1, 2, 3, 6, 10])
def test_orthogonal_terms_come_back(K: int) -> None:
    rng = np.random.default_rng(K)
    V, alpha = orthonormal(K, K), rng.uniform(1.0, 4.0, K)
    values, vectors = power_decomposition(np.einsum("h,ih,jh,kh->ijk", alpha, V, V, V), rng)
    order = np.argsort(values)
    np.testing.assert_allclose(values[order], np.sort(alpha), atol=1e-8)
    np.testing.assert_allclose(vectors[:, order], V[:, np.argsort(alpha)], atol=1e-6)


def test_noise_moves_the_terms_by_its_size() -> None:
    rng = np.random.default_rng(0)
    V, alpha = orthonormal(5, 1), np.array([1.0, 1.5, 2.0, 2.5, 3.0])
    noise = rng.standard_normal((5, 5, 5))
    noise = np.mean([noise.transpose(o) for o in permutations(range(3))], axis=0)
    for size in (1e-2, 1e-3, 1e-4):
        values, _ = power_decomposition(np.einsum("h,ih,jh,kh->ijk", alpha, V, V, V) + size * noise, rng)
        assert np.abs(np.sort(values) - alpha).max() <= 5 * size


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_mixtures_come_back_from_their_exact_moments(K: int) -> None:
    rng = np.random.default_rng(K)
    w = rng.dirichlet(5 * np.ones(K))
    mu = 0.6 * np.eye(K) + 0.4 * rng.dirichlet(np.ones(K), K).T
    second = np.einsum("h,ih,jh->ij", w, mu, mu)
    third = np.einsum("h,ih,jh,kh->ijk", w, mu, mu, mu)
    weights, means = mixture_of_moments(second, third, rng)
    order = np.argmax(means, axis=1)  # the largest entry of row i is class i's
    np.testing.assert_allclose(weights[order], w, atol=1e-6)
    np.testing.assert_allclose(means[:, order], mu, atol=1e-6)


def test_the_same_generator_gives_the_same_bytes_and_nothing_is_nan() -> None:
    T = np.random.default_rng(0).standard_normal((4, 4, 4))
    one, two = (power_decomposition(T, np.random.default_rng(5)) for _ in range(2))
    assert one[1].tobytes() == two[1].tobytes()
    for second, third in ((np.zeros((3, 3)), np.zeros((3, 3, 3))), (-np.eye(3), np.ones((3, 3, 3)))):
        assert all(np.isfinite(x).all() for x in mixture_of_moments(second, third, np.random.default_rng(0)))
