"""The class-conditional one-coin model: between one coin and a confusion matrix, and the latter where K = 2."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import error_percent, random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.fitting.em import ClassOneCoinStep, Parameters, run_em
from consilience.fitting.fit import vote_posterior, vote_start
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import vote_statistics
from consilience.methods.class_one_coin import class_one_coin
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.one_coin import one_coin


def even_confusions(accuracy: Floats) -> Floats:
    """Confusions of these accuracies (M, K), one cell after the other."""
    M, K = accuracy.shape
    confusions = np.empty((M, K, K))
    for m in range(M):
        for k in range(K):
            for i in range(K):
                confusions[m, i, k] = accuracy[m, k] if i == k else (1 - accuracy[m, k]) / (K - 1)
    return confusions


@pytest.fixture(scope="module")
def crowd() -> Annotations:
    return random_model(15, 4, seed=4, skill=0.6).sample(1500, labels_per_item=5, random_state=0)[0]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_m_step_is_a_maximum(crowd: Annotations, smoothing: float) -> None:
    """Its accuracies are shares of right answers, and moving any of them lowers what it maximises."""
    a, K = crowd, 4
    statistics = vote_statistics(a.indptr, a.annotator, a.label, vote_posterior(a), a.n_annotators)
    step = ClassOneCoinStep(smoothing)
    found = step(statistics)
    accuracy = np.empty((a.n_annotators, K))
    for m in range(a.n_annotators):
        for k in range(K):
            counts = statistics.counts[m, :, k]
            accuracy[m, k] = (counts[k] + smoothing) / (counts.sum() + 2 * smoothing)
    np.testing.assert_allclose(found.confusions, even_confusions(accuracy), atol=1e-14)
    np.testing.assert_allclose(found.prior, statistics.class_counts / a.n_items)

    def value(p: Floats) -> float:
        here = Parameters(found.prior, even_confusions(p))
        return float((statistics.counts * np.log(here.confusions)).sum()) + step.penalty(here)

    top, rng = value(accuracy), np.random.default_rng(0)
    for _ in range(20):
        assert value(np.clip(accuracy + 0.02 * rng.standard_normal(accuracy.shape), 0.01, 0.99)) < top


def test_an_annotator_who_never_met_a_class_guesses_it() -> None:
    matrix = [[0, 0, -1], [0, 0, 0], [1, 1, -1], [2, 2, -1]]
    start = vote_start(Annotations.from_matrix(matrix), ClassOneCoinStep())
    np.testing.assert_allclose(start.confusions[2, :, 0], [1, 0, 0])
    np.testing.assert_allclose(start.confusions[2, :, 1:], 1 / 3)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("prior", ["learned", "uniform"])
def test_with_two_classes_it_is_dawid_and_skene(smoothing: float, prior: str) -> None:
    a, _ = random_model(12, 2, seed=1).sample(600, labels_per_item=4, random_state=2)
    options: dict[str, object] = {
        "smoothing": smoothing,
        "prior": prior,
        "max_iter": 40,
        "tol": 0.0,
        "accelerate": False,
    }
    ours, theirs = class_one_coin(a, **options), dawid_skene_em(a, **options)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.model.confusions, theirs.model.confusions, atol=1e-6)
    np.testing.assert_allclose(ours.posterior, theirs.posterior, atol=1e-5)
    np.testing.assert_allclose(ours.history, theirs.history, rtol=1e-9)
    # accelerated in different ways, they end at the same maximum
    options |= {"accelerate": True, "max_iter": 1000, "tol": 1e-12}
    ours, theirs = class_one_coin(a, **options), dawid_skene_em(a, **options)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.model.confusions, theirs.model.confusions, atol=1e-3)
    assert ours.history[-1] == pytest.approx(theirs.history[-1], rel=1e-9)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_the_objective_never_falls(crowd: Annotations, smoothing: float, accelerate: bool) -> None:
    step = ClassOneCoinStep(smoothing)
    result = run_em(crowd, vote_start(crowd, step), step, max_iter=60, tol=0, accelerate=accelerate)
    steps = np.diff(result.history)
    assert steps.min() >= -1e-10 * abs(result.history[-1])
    assert steps.max() > 0


def test_accuracies_are_recovered_where_one_coin_cannot() -> None:
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(0.3, 0.95, (20, 3))
    model = cs.DawidSkene(np.array([0.5, 0.3, 0.2]), even_confusions(accuracy), [0, 1, 2], list(range(20)))  # type: ignore[arg-type]
    a, truth = model.sample(20_000, labels_per_item=6, random_state=0)
    found = class_one_coin(a)
    np.testing.assert_allclose(np.einsum("mkk->mk", found.model.confusions), accuracy, atol=0.04)
    np.testing.assert_allclose(found.model.prior, model.prior, atol=0.02)
    # neither richer nor poorer models explain these labels better, counting parameters (BIC)
    bic = {
        name: np.log(a.n_labels) * parameters * 20 - 2 * fit(a).log_likelihood
        for name, fit, parameters in (("coin", one_coin, 1), ("class", class_one_coin, 3), ("full", dawid_skene_em, 6))
    }
    assert min(bic, key=bic.__getitem__) == "class"
    assert error_percent(found.choice.best, truth) < error_percent(one_coin(a).choice.best, truth)


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bluebird", 10.19),
        ("dog52", 16.48),
        ("rte", 7.25),
        ("trec", 29.36),
        ("labelme", 22.60),
        ("music", 20.29),
        ("sentence_polarity", 8.42),
        ("zencrowd_us", 22.21),
        ("product", 15.89),
        ("adult2", 23.12),
    ],
)
def test_public_crowds(name: str, expected: float) -> None:
    """Errors of another implementation, which smooths by about a label in its own way: a few items more or less."""
    a, truth = real_crowd(name)
    error = error_percent(class_one_coin(a, prior="uniform", smoothing=1.0).choice.best, truth)
    assert error == pytest.approx(expected, abs=max(0.7, 310 / np.count_nonzero(truth >= 0)))
