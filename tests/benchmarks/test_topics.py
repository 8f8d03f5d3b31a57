"""Mixtures of known features: what is drawn has the distribution that it is said to have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.topics import perturbed, simulate_topics

from consilience.exceptions import ParameterError


@pytest.mark.parametrize("kind", ["DIR", "CTM", "NEG", "NOISE"])
def test_shapes_signs_and_sums(kind: Any) -> None:
    drawn = simulate_topics(kind, 300, 7, 40, seed=1)
    assert drawn.data.shape == (40, 300)
    assert drawn.features.shape == (40, 7)
    assert (drawn.weights >= 0).all()
    np.testing.assert_allclose(drawn.weights.sum(axis=0), 1.0)
    if kind == "NEG":
        assert drawn.features.min() < -0.4
        assert drawn.features.max() < 0.5
    else:
        assert (drawn.features >= 0).all()
        np.testing.assert_allclose(drawn.features.sum(axis=0), 1.0)
    exact = np.allclose(drawn.data, drawn.features @ drawn.weights, atol=1e-12)
    assert exact is (kind != "NOISE")


def test_dirichlet_moments() -> None:
    D, c = 5, 0.3
    X = simulate_topics("DIR", 40_000, D, 10, concentration=c, seed=2).weights
    np.testing.assert_allclose(X.mean(axis=1), 1 / D, atol=0.01)
    np.testing.assert_allclose(X.var(axis=1), (1 / D) * (1 - 1 / D) / (D * c + 1), rtol=0.05)


def test_logits_have_the_spread_and_go_together() -> None:
    drawn = simulate_topics("CTM", 20_000, 6, 10, spread=2.0, seed=3)
    logits = np.log(drawn.weights)
    contrasts = logits[1:] - logits[0]
    correlation = np.corrcoef(contrasts - contrasts.mean(axis=0))
    assert np.abs(correlation[np.triu_indices(5, 1)]).max() > 0.3
    centred = simulate_topics("CTM", 5000, 200, 10, spread=2.0, seed=4).weights
    logits = np.log(centred)
    assert (logits - logits.mean(axis=0)).std() == pytest.approx(2.0, rel=0.1)


def test_noise_has_its_length() -> None:
    drawn = simulate_topics("NOISE", 500, 5, 400, noise=0.3, seed=5)
    lengths = np.linalg.norm(drawn.data - drawn.features @ drawn.weights, axis=0)
    np.testing.assert_allclose(lengths, 0.3, rtol=0.2)
    assert lengths.mean() == pytest.approx(0.3, rel=0.01)


def test_the_start_of_the_paper() -> None:
    truth = simulate_topics("NEG", 10, 20, 50, seed=6).features
    U = np.linalg.lstsq(truth, perturbed(truth, seed=1))[0] - np.eye(20)
    assert np.abs(U).max() <= 0.05 + 1e-9
    assert U.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.1)
    outside = perturbed(truth, in_span=0.0, out_of_span=2.0, seed=1) - truth
    assert np.abs(outside).max() <= 0.1
    assert outside.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.1)


def test_same_seed_same_bytes_and_own_features() -> None:
    a, b, c = (simulate_topics("DIR", 50, 4, 12, seed=s) for s in (1, 1, 2))
    assert np.array_equal(a.data, b.data)
    assert not np.array_equal(a.data, c.data)
    own = simulate_topics("CTM", 50, features=np.eye(3), seed=1)
    np.testing.assert_array_equal(own.data, own.weights)
    assert np.isfinite(simulate_topics("DIR", 200, 3, 5, concentration=1e-4).weights).all()  # all gammas underflow


def test_bad_parameters_are_refused() -> None:
    for bad in ({"kind": "X"}, {"n_samples": 0}, {"concentration": 0.0}, {"features": np.ones(3)}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            simulate_topics(**bad)
