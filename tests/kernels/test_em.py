"""The sweep against the definition, against a sweep in numpy, and where plain products would underflow."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.conftest import brute_force, random_model
from tests.kernels import em_numpy

from consilience.data.annotations import Annotations
from consilience.kernels import blocks
from consilience.kernels.em import Sweep
from consilience.models.dawid_skene import DawidSkene


def sweep_of(a: Annotations) -> Sweep:
    return Sweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 17])
@pytest.mark.parametrize("gold", [False, True])
def test_compiled_sweep_is_the_definition(K: int, gold: bool) -> None:
    model = random_model(6, K, seed=K)
    a, truth = model.sample(60, label_probability=0.6, random_state=1)
    if gold:
        a = a.with_gold(np.where(np.arange(60) % 3 == 0, truth, -1))
    posterior, counts, total = brute_force(a, model.prior, model.confusions)
    statistics = sweep_of(a)(model.prior, model.confusions)
    np.testing.assert_allclose(statistics.counts, counts, atol=1e-12)
    np.testing.assert_allclose(statistics.class_counts, posterior.sum(axis=0), atol=1e-12)
    assert statistics.log_likelihood == pytest.approx(total, rel=1e-12)
    q, log_likelihood = sweep_of(a).posterior(model.prior, model.confusions)
    np.testing.assert_allclose(q, posterior, atol=1e-13)
    assert log_likelihood == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("K", [2, 4])
def test_numpy_sweep_is_the_definition(K: int) -> None:
    model = random_model(5, K, seed=2)
    a, _ = model.sample(40, label_probability=0.5, random_state=3)
    posterior, counts, total = brute_force(a, model.prior, model.confusions)
    none = np.empty(0, np.int32)
    statistics = em_numpy.statistics(a.indptr, a.annotator, a.label, none, model.prior, model.confusions)
    np.testing.assert_allclose(statistics.counts, counts, atol=1e-12)
    assert statistics.log_likelihood == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(
        em_numpy.posterior(a.indptr, a.annotator, a.label, none, model.prior, model.confusions)[0],
        posterior,
        atol=1e-13,
    )


@pytest.mark.parametrize("K", [2, 20])
def test_thousands_of_labels_on_one_item_do_not_underflow(K: int) -> None:
    """Two thousand annotators say 0, then two thousand and one say 1: class 1 must win by exactly one vote's odds."""
    M = 4001
    accuracy, other = 0.9, 0.1 / max(K - 1, 1)
    confusion = np.full((K, K), other) + (accuracy - other) * np.eye(K)
    model = DawidSkene(np.full(K, 1 / K), np.tile(confusion, (M, 1, 1)), list(range(K)), list(range(M)))  # type: ignore[arg-type]
    matrix = np.r_[np.zeros(2000, int), np.ones(2001, int)][None, :]
    a = Annotations.from_matrix(np.vstack([matrix, matrix[:, ::-1]]), classes=range(K)) if K == 2 else None
    if a is None:
        with pytest.warns(match="nobody used"):
            a = Annotations.from_matrix(np.vstack([matrix, matrix[:, ::-1]]), classes=range(K))
    q, log_likelihood = sweep_of(a).posterior(model.prior, model.confusions)
    np.testing.assert_allclose(q[:, 1] / q[:, 0], accuracy / other, rtol=1e-8)
    _, _, total = brute_force(a, model.prior, model.confusions)
    assert log_likelihood == pytest.approx(total, rel=1e-12)


def test_zero_probabilities_give_finite_posteriors() -> None:
    a = Annotations.from_matrix([[0, 1, 1], [1, 0, 0]])
    q, log_likelihood = sweep_of(a).posterior(np.array([1.0, 0.0]), np.tile(np.eye(2), (3, 1, 1)))
    assert np.isfinite(q).all()
    assert np.isfinite(log_likelihood)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)


@pytest.mark.parametrize(("M", "K"), [(50, 4), (4000, 4)])
def test_results_do_not_depend_on_the_number_of_threads(M: int, K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """4000 annotators × 16 cells × 16 bytes are beyond the cache: the prefetching kernel runs too."""
    model = random_model(M, K, seed=0)
    a, _ = model.sample(220_000, labels_per_item=5, random_state=0)
    sweep = sweep_of(a)
    assert len(sweep.share.blocks) > 1
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setattr(blocks, "thread_count", lambda t=threads: int(t))
        results.append(sweep(model.prior, model.confusions))
    for other in results[1:]:
        assert other.counts.tobytes() == results[0].counts.tobytes()
        assert other.log_likelihood == results[0].log_likelihood
    none = np.empty(0, np.int32)
    reference = em_numpy.statistics(a.indptr, a.annotator, a.label, none, model.prior, model.confusions)
    np.testing.assert_allclose(results[0].counts, reference.counts, rtol=1e-9, atol=1e-9)
    assert results[0].log_likelihood == pytest.approx(reference.log_likelihood, rel=1e-12)


def test_blocks_cover_all_items_once() -> None:
    lengths = np.random.default_rng(0).integers(0, 50, 60_000)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    cut = blocks.cut(indptr, 100)
    assert len(cut) > 1
    assert cut[0][0] == 0
    assert cut[-1][1] == lengths.size
    assert all(a[1] == b[0] for a, b in pairwise(cut))
    sizes = [indptr[b] - indptr[a] for a, b in cut]
    assert max(sizes) < 1.1 * min(sizes)


@pytest.mark.parametrize("K", [2, 17])
def test_gold_that_hundreds_of_labels_contradict_stays_gold(K: int) -> None:
    M = 500
    confusions = np.full((M, K, K), 1e-9)
    confusions[:, np.arange(K), np.arange(K)] = 1.0 - (K - 1) * 1e-9
    # one further item for each class, so that all are used
    matrix = np.vstack([np.zeros((1, M)), np.tile(np.arange(K)[:, None], (1, M))])
    a = Annotations.from_matrix(matrix).select_items([0]).with_gold([1])
    prior = np.full(K, 1.0 / K)
    q, log_likelihood = sweep_of(a).posterior(prior, confusions)
    np.testing.assert_array_equal(q[0], np.arange(K) == 1)
    expected = np.log(1.0 / K) + M * np.log(1e-9)
    assert log_likelihood == pytest.approx(expected, rel=1e-9)
    assert sweep_of(a)(prior, confusions).log_likelihood == pytest.approx(expected, rel=1e-9)
