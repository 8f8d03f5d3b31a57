"""Unions of subspaces: what is drawn lies where it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.datasets.subspaces import simulate_curves, simulate_subspaces
from consilience.exceptions import ParameterError


def test_samples_lie_in_their_subspaces() -> None:
    drawn = simulate_subspaces(100, 15, 4, 3, offset=2.0, random_state=1)
    assert drawn.data.shape == (100, 15)
    assert np.bincount(drawn.truth).tolist() == [25] * 4
    for k in range(4):
        own = drawn.data[drawn.truth == k] - drawn.centres[k]
        C = drawn.bases[k]
        np.testing.assert_allclose(C.T @ C, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(own @ C @ C.T, own, atol=1e-12)
        assert np.linalg.matrix_rank(own) == 3
        np.testing.assert_allclose(np.linalg.norm(own, axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(drawn.centres, axis=1), 2.0)


def test_independent_subspaces_span_the_sum_of_their_dimensions() -> None:
    data = simulate_subspaces(200, 40, 5, 4).data
    values = np.linalg.svd(data, compute_uv=False)
    assert (values > 1e-10 * values[0]).sum() == 20


def test_noise_has_its_length() -> None:
    drawn = simulate_subspaces(2000, 50, 3, 2, noise=0.4, random_state=2)
    C = drawn.bases[drawn.truth]
    inside = np.einsum("nid,nd->ni", C, np.einsum("nid,ni->nd", C, drawn.data))
    outside = ((drawn.data - inside) ** 2).sum(axis=1).mean()
    assert outside == pytest.approx(0.16 * 48 / 50, rel=0.03)


def test_missing_entries_and_balance() -> None:
    drawn = simulate_subspaces(3000, 10, 4, 2, missing=0.3, balance=1.0, random_state=3)
    gone = np.isnan(drawn.data)
    assert gone.mean() == pytest.approx(0.3 * 0.9, abs=0.01)  # one entry in ten is never taken
    assert not gone.all(axis=1).any()
    assert np.bincount(drawn.truth, minlength=4).std() > 100
    assert not np.isnan(simulate_subspaces(50, 2, 2, 1, missing=0.99).data).all(axis=1).any()


def test_same_seed_same_bytes_across_blocks() -> None:
    a, b, c = (simulate_subspaces(20_000, 3, 2, 1, noise=0.1, random_state=s).data for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert np.isfinite(a).all()


def test_bad_parameters_are_refused() -> None:
    bad: list[dict[str, Any]] = [
        {"n_samples": 0},
        {"n_samples": 2.5},
        {"dimension": 101},
        {"noise": -1.0},
        {"missing": 1.0},
    ]
    for wrong in [*bad, {"offset": -1.0}, {"balance": 0.0}]:
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            simulate_subspaces(**wrong)


def test_curves_lie_in_one_subspace_and_on_closed_lines() -> None:
    data, truth = simulate_curves(600, 12, 3, noise=0.0, random_state=1)
    assert np.linalg.matrix_rank(data - data.mean(axis=0), tol=1e-8) == 3
    assert np.bincount(truth).tolist() == [200, 200, 200]
    # neighbours on a curve are near; 200 points on a line leave small gaps, 200 points in a volume would not
    own = data[truth == 0]
    gaps = np.sort(np.linalg.norm(own[:, None] - own[None], axis=2), axis=1)[:, 1]
    assert np.median(gaps) < 0.05 * np.ptp(own, axis=0).max()
    noisy, _ = simulate_curves(600, 12, 3, noise=0.3, random_state=1)
    assert np.sqrt(np.mean(np.sum((noisy - data) ** 2, axis=1))) == pytest.approx(0.3, rel=0.1)
    with pytest.raises(ParameterError, match="noise"):
        simulate_curves(noise=-1.0)
