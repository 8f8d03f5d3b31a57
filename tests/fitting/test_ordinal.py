"""The parts of the ordinal model against numerical optimisation and textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

from consilience.fitting.ordinal import OrdinalBeliefs
from consilience.fitting.variational import LEAST, RATE, Dirichlet
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics


def drawn(M: int, K: int, places: int, seed: int) -> Statistics:
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.7, 4.0, (M, K, K * places))
    return Statistics(counts, rng.gamma(2.0, 5.0, K * places), 0.0)


def table(c: float, w: float, K: int, places: int) -> Floats:
    """P of one annotator, cell by cell."""
    made = np.zeros((K, K * places))
    for j in range(K * places):
        z = (j + 0.5) / places - 0.5
        for i in range(K):
            d = abs(i - z) if places == 1 else (i - z) ** 2 / 2
            made[i, j] = np.exp(c * (i - (K - 1) / 2) - w * d)
        made[:, j] /= made[:, j].sum()
    return made


def polya(counts: Floats, expected: Floats, strength: float, places: int) -> float:
    """Log-probability of the counts, confusions integrated out."""
    a = strength * expected + LEAST / places
    return float((gammaln(counts + a) - gammaln(a)).sum() - (gammaln((counts + a).sum(-2)) - gammaln(a.sum(-2))).sum())


@pytest.mark.parametrize("places", [1, 3])
def test_the_form_is_the_one_described(places: int) -> None:
    beliefs = OrdinalBeliefs(None, 2, 4, places)
    beliefs.tilt = np.array([[0.3, 1.2], [-0.8, 0.4]])
    for m, (c, w) in enumerate(beliefs.tilt):
        np.testing.assert_allclose(beliefs.expected[m], table(c, w, 4, places), atol=1e-12)


@pytest.mark.parametrize("places", [1, 3])
def test_learning_ends_where_a_numerical_optimiser_does(places: int) -> None:
    """With the variances held, severity, sharpness, their centre and the strength maximise the penalised likelihood."""
    M, K = 3, 3
    counts = drawn(M, K, places, 1).counts
    beliefs = OrdinalBeliefs(None, M, K, places)

    def loss(x: Floats) -> float:
        tilt, centre, strength = x[: 2 * M].reshape(M, 2), np.array([0.0, x[2 * M]]), np.exp(x[-1])
        expected = np.stack([table(c, w, K, places) for c, w in tilt])
        off = 0.5 * ((tilt - centre) ** 2 / beliefs.variance).sum() + 0.5 * ((centre[1] - 2.0) / 2.0) ** 2
        return float(off + RATE * K * places * strength) - polya(counts, expected, strength, places)

    for _ in range(3000):
        beliefs._learn(counts)
    start = np.concatenate([np.tile([0.0, 1.0], M), [1.0, 1.0]])
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    found = np.concatenate([beliefs.tilt.ravel(), beliefs.centre[1:], [np.log(beliefs.strength)]])
    assert loss(found) == pytest.approx(best.fun, abs=1e-5)
    np.testing.assert_allclose(found, best.x, atol=5e-3)


@pytest.mark.parametrize("seed", range(4))
def test_every_step_of_learning_helps(seed: int) -> None:
    """The divergence plus penalty, minus what the counts gain, never rises while the counts stay."""
    statistics = drawn(5, 4, 1, seed)
    beliefs = OrdinalBeliefs(Dirichlet(np.ones(4)), 5, 4)
    values = []
    for _ in range(40):
        expected = beliefs.expected
        values.append(polya(statistics.counts, expected, beliefs.strength, 1) - beliefs._penalty())
        beliefs._learn(statistics.counts)
    assert min(np.diff(values)) > -1e-9
    assert values[-1] > values[0] + 1.0


def test_reversing_the_scale_reverses_the_beliefs() -> None:
    one = drawn(4, 5, 3, 2)
    other = Statistics(one.counts[:, ::-1, ::-1].copy(), one.class_counts[::-1].copy(), 0.0)
    first, second = (OrdinalBeliefs(Dirichlet(np.full(15, 1 / 3)), 4, 5, 3) for _ in range(2))
    for _ in range(20):
        a, b = first(one), second(other)
        first.learn_variance(one)
        second.learn_variance(other)
    np.testing.assert_allclose(a.tables.confusions, b.tables.confusions[:, ::-1, ::-1], rtol=1e-6)
    np.testing.assert_allclose(first.tilt, second.tilt * [-1.0, 1.0], atol=1e-6)
    assert a.divergence == pytest.approx(b.divergence)


def test_means_of_places_taken_together() -> None:
    statistics = drawn(2, 3, 3, 5)
    beliefs = OrdinalBeliefs(Dirichlet(np.full(9, 1 / 3)), 2, 3, 3)
    shares, answers = beliefs.places_means(statistics)
    prior, confusions = beliefs.means(statistics)
    for k in range(3):
        inside = slice(3 * k, 3 * k + 3)
        assert prior[k] == pytest.approx(shares[inside].sum())
        np.testing.assert_allclose(
            confusions[:, :, k], (answers[:, :, inside] * shares[inside]).sum(-1) / shares[inside].sum()
        )
