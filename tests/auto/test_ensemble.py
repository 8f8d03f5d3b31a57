"""Averages of models: weights that suit opinions of different worth, and less confidence where models differ."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import random_model

import consilience as cs
from consilience.auto import ensemble
from consilience.auto.calibration import temper
from consilience.auto.ensemble import Ensemble, mean_opinion, votes_of, weights_by_distance
from consilience.data.annotations import Annotations


def test_opinions_are_weighed_like_measurements_of_different_variance() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), 200_000)
    deviations = np.array([0.02, 0.02, 0.04, 0.3])
    opinions = [truth + rng.normal(0.0, s, truth.shape) for s in deviations]
    averaged, weights = mean_opinion(opinions)
    solved = np.linalg.lstsq(np.stack([q.ravel() for q in opinions], axis=1), averaged.ravel(), rcond=None)[0]
    np.testing.assert_allclose(weights, solved, rtol=1e-9)
    np.testing.assert_allclose(weights.sum(), 1.0)
    # distance to the mean of the others: s_j² + Σ s_i² / 9
    variances = deviations**2
    expected = 1.0 / (variances + (variances.sum() - variances) / 9)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=0.02)
    # far better than the plain mean, and nearly as good as the best that weights can do
    error = np.mean((averaged - truth) ** 2)
    assert error < 0.3 * np.mean((np.mean(opinions, axis=0) - truth) ** 2)
    same = rng.dirichlet(np.ones(3), 50)
    np.testing.assert_allclose(mean_opinion([same, same, same])[0], same)


def test_models_are_weighed_by_what_they_say_and_one_has_all_the_weight() -> None:
    models = [random_model(8, 3, seed=seed) for seed in (0, 0, 5)]
    a, _ = models[0].sample(60, label_probability=0.5, random_state=1)
    weights = Ensemble.of(models, a, np.ones(8), 0.0).weights
    np.testing.assert_allclose(weights, weights_by_distance([model.posterior(a) for model in models]))
    assert weights[2] < weights[0] == weights[1]
    np.testing.assert_array_equal(Ensemble.of(models[:1], a, np.ones(8), 0.0).weights, [1.0])


def test_the_mean_of_models_is_that_of_their_posteriors() -> None:
    models = tuple(random_model(8, 3, seed=seed) for seed in range(3))
    a, _ = models[0].sample(60, label_probability=0.5, random_state=1)
    shares = np.array([0.5, 0.3, 0.2])
    probabilities, votes = Ensemble(models, shares, np.ones(8), 0.0)(a)
    expected = sum(w * model.posterior(a) for w, model in zip(shares, models, strict=True))
    np.testing.assert_allclose(probabilities, expected, atol=1e-14)
    np.testing.assert_array_equal(votes, votes_of(a, np.ones(8))[0])


def test_opinions_are_tempered_before_they_are_averaged() -> None:
    """Errors that go together: what all models say is as sure as one of them says it, what divides them is open."""
    models = tuple(random_model(8, 3, seed=seed) for seed in (0, 0, 5))
    a, _ = models[0].sample(200, labels_per_item=6, random_state=1)
    alone, _ = Ensemble(models[:1], np.ones(1), np.ones(8), 0.2)(a)
    twice, _ = Ensemble(models[:2], np.array([0.5, 0.5]), np.ones(8), 0.2)(a)
    np.testing.assert_allclose(twice, alone, atol=1e-14)
    three, votes = Ensemble(models, np.full(3, 1 / 3), np.ones(8), 0.2)(a)
    n = a.labels_per_item.astype(float)
    mild = sum(temper(model.posterior(a), n) for model in models) / 3
    doubt = 0.03 * np.log2(3)
    cautious = (1 - doubt) * (n[:, None] ** 2 * mild + votes) / (n[:, None] ** 2 + 1) + doubt / 3
    np.testing.assert_allclose(three, cautious, atol=1e-14)


def test_labels_of_copies_count_less_and_strangers_once() -> None:
    a = Annotations.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]], classes=[0, 1])
    shares, n = votes_of(a, np.array([1 / 3, 1 / 3, 1 / 3, 1.0]))
    np.testing.assert_allclose(shares, 0.5)
    np.testing.assert_allclose(n, 2.0)
    gold, _ = votes_of(a.with_gold(np.array([1, -1])), np.array([1 / 3, 1 / 3, 1 / 3, 1.0]))
    np.testing.assert_allclose(gold, [[0.0, 1.0], [0.5, 0.5]])


@pytest.mark.parametrize("prior", [None, [0.9, 0.1]])
def test_the_estimator_averages_on_new_items_as_on_old_ones(prior: list[float] | None) -> None:
    crowd = cs.simulate(400, 20, 2, labels_per_item=5, spammers=0.2, prior=prior, seed=4)
    model = cs.Auto().fit(crowd.annotations)
    assert len(model.details_["weights"]) == 4
    np.testing.assert_allclose(model.predict_proba(crowd.annotations), model.probas_, atol=1e-12)
    few = crowd.annotations.select_items(np.arange(7))
    np.testing.assert_allclose(model.predict_proba(few), model.probas_[:7], atol=1e-12)


def test_many_items_are_looked_at_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    models = tuple(random_model(8, 3, seed=seed) for seed in range(3))
    a, truth = models[0].sample(500, labels_per_item=4, random_state=2)
    a = a.with_gold(np.where(np.arange(500) % 50 == 0, truth, -1))
    together = Ensemble.of(models, a, np.ones(8), 0.2)
    whole = together(a)
    monkeypatch.setattr(ensemble, "_BLOCK", 64)
    for one, other in zip(together(a), whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)
