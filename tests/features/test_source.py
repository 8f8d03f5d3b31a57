"""A classifier as a source: gradient, monotone steps, temperature, confusion and uselessness."""

from typing import Any

import numpy as np
import pytest

from consilience.features.source import Source, fit_source, penalty


def softmax(x: Any) -> Any:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def draw(n: Any, k: Any, seed: Any, accuracy: Any = 0.75) -> Any:
    """Return truths, calibrated probabilities that they were drawn from, and likelihoods of one label each."""
    rng = np.random.default_rng(seed)
    p = softmax(1.5 * rng.normal(size=(n, k)))
    truth = (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    said = np.where(rng.random(n) < accuracy, truth, (truth + rng.integers(1, k, n)) % k)
    likelihood = np.where(np.arange(k) == said[:, None], accuracy, (1 - accuracy) / (k - 1))
    return truth, p, likelihood


def objective(source: Any, members: Any, likelihood: Any) -> Any:
    return float(np.log((source(members) * likelihood).sum(axis=1)).sum()) + penalty(source)


@pytest.mark.parametrize("exponent", [0.4, 1.0, 3.0])
def test_temperature_is_recovered(exponent: Any) -> None:
    _, p, likelihood = draw(20_000, 3, 0)
    stated = p**exponent
    stated /= stated.sum(axis=1, keepdims=True)
    found = fit_source(stated[None], likelihood, Source.at_its_word(1, 3), rounds=20)
    assert found.weights[0] == pytest.approx(1 / exponent, rel=0.15)


def test_confusion_is_recovered() -> None:
    # the classifier calls two of the classes by each other's name
    _, p, likelihood = draw(5_000, 3, 1)
    found = fit_source(p[:, [1, 0, 2]][None], likelihood, Source.at_its_word(1, 3), rounds=60)
    assert found.confusion.argmax(axis=1).tolist() == [1, 0, 2]
    assert np.abs(found(p[:, [1, 0, 2]][None]) - p).mean() < 0.05


def test_useless_classifier_says_the_shares_of_the_classes() -> None:
    rng = np.random.default_rng(2)
    truth = rng.choice(3, 20_000, p=[0.6, 0.3, 0.1])
    said = np.where(rng.random(truth.size) < 0.8, truth, (truth + rng.integers(1, 3, truth.size)) % 3)
    likelihood = np.where(np.arange(3) == said[:, None], 0.8, 0.1)
    noise = rng.dirichlet(np.ones(3), truth.size)
    found = fit_source(noise[None], likelihood, Source.at_its_word(1, 3), rounds=60)
    assert np.abs(found(noise[None]) - [0.6, 0.3, 0.1]).max() < 0.05


def test_good_member_counts_and_useless_one_does_not() -> None:
    _, p, likelihood = draw(5_000, 3, 3)
    noise = np.random.default_rng(0).dirichlet(np.ones(3), len(p))
    found = fit_source(np.stack([noise, p]), likelihood, Source.at_its_word(2, 3), rounds=20)
    assert found.weights[0] < 0.1
    assert found.weights[1] == pytest.approx(1.0, abs=0.15)


def test_no_round_lowers_the_objective() -> None:
    _, p, likelihood = draw(500, 4, 4)
    members = np.stack([p**2 / (p**2).sum(axis=1, keepdims=True), p[:, ::-1]])
    source = Source.at_its_word(2, 4)
    values = [objective(source, members, likelihood)]
    for _ in range(15):
        source = fit_source(members, likelihood, source)
        values.append(objective(source, members, likelihood))
    assert np.all(np.diff(values) > -1e-6)
    assert values[-1] > values[0]
