"""Completion by factors against the dense tensor: the objective, its minimum, and what it fills in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from consilience.factor import completion
from consilience.factor.completion import Completed, LabelTensor, complete
from consilience.kernels._arrays import Floats, Ints


def table(seed: int, N: int = 9, M: int = 5, K: int = 3, share: float = 0.6) -> tuple[LabelTensor, Ints]:
    """Random labels, some pairs twice and some items without any, and the rows (item, annotator, label)."""
    rng = np.random.default_rng(seed)
    item, annotator = np.nonzero(rng.random((N, M)) < share)
    again = rng.integers(0, item.size, 3)
    item, annotator = np.concatenate([item, item[again]]), np.concatenate([annotator, annotator[again]])
    keep = item != 2
    return tensor_of(item[keep], annotator[keep], rng.integers(0, K, int(keep.sum())), N, M, K)


def tensor_of(item: Ints, annotator: Ints, label: Ints, N: int, M: int, K: int) -> tuple[LabelTensor, Ints]:
    order = np.argsort(item, kind="stable")
    rows = np.stack([item, annotator, label], axis=1)[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=N))]).astype(np.int64)
    return LabelTensor(indptr, rows[:, 1], rows[:, 2], M, K), rows


def dense(found: Completed) -> Floats:
    """X with the layer as annotator 0, (N, 1 + M, K)."""
    X: Floats = np.einsum("nr,mkr->nmk", found.items, np.concatenate([found.layer[None], found.annotators]))
    return X


def fit_term(X: Floats, rows: Ints, layer: Floats | None) -> float:
    """½ Σ ‖X - T‖², one label at a time."""
    K = X.shape[2]
    total = 0.0
    for n, m, k in rows:
        total += 0.5 * float(((X[n, 1 + m] - (np.eye(K)[k] - 1 / K)) ** 2).sum())
    if layer is not None:
        total += 0.5 * float(((X[:, 0] - (layer - 1 / K)) ** 2).sum())
    return total


def nuclear(X: Floats) -> float:
    return float(np.linalg.svd(X.reshape(len(X), -1), compute_uv=False).sum())


def start_and_layer(seed: int, N: int, K: int, rank: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(100 + seed)
    return rng.standard_normal((N, rank)), rng.dirichlet(np.ones(K), N)


@pytest.mark.parametrize("with_layer", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_is_the_dense_one_and_never_rises(seed: int, with_layer: bool) -> None:
    tensor, rows = table(seed)
    start, layer = start_and_layer(seed, 9, 3, 3)
    given = layer if with_layer else None
    found = complete(tensor, start, penalty=0.3, layer=given, max_iter=40, tol=0)
    factors = sum(float((f**2).sum()) for f in (found.items, found.annotators, found.layer))
    by_hand = fit_term(dense(found), rows, given) + 0.5 * 0.3 * factors
    assert found.history[-1] == pytest.approx(by_hand, rel=1e-10)
    assert len(found.history) == 40
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(found.history))


@pytest.mark.parametrize("with_layer", [False, True])
def test_at_full_rank_it_is_the_minimum_under_the_nuclear_norm(with_layer: bool) -> None:
    """Soft-impute on the dense tensor, step by step from its definition, ends at the same objective.

    What is known has one best fit; what is missing may have several.
    """
    tensor, rows = table(4, N=7, M=4)
    start, layer = start_and_layer(4, 7, 3, 7)
    given = layer if with_layer else None
    penalty = 0.4
    weight, T = np.zeros((7, 5, 1)), np.zeros((7, 5, 3))
    for n, m, k in rows:
        weight[n, 1 + m] += 1
        T[n, 1 + m] += np.eye(3)[k] - 1 / 3
    if with_layer:
        weight[:, 0] = 1
        T[:, 0] = layer - 1 / 3
    X = np.zeros((7, 5, 3))
    step = 1 / weight.max()
    for _ in range(5000):
        U, s, Vt = np.linalg.svd((X - step * (weight * X - T)).reshape(7, -1), full_matrices=False)
        X = ((U * np.maximum(s - step * penalty, 0)) @ Vt).reshape(7, 5, 3)
    least = fit_term(X, rows, given) + penalty * nuclear(X)
    found = complete(tensor, start, penalty=penalty, layer=given, max_iter=5000, tol=1e-15)
    assert found.converged
    assert found.history[-1] == pytest.approx(least, rel=1e-6)
    known = weight[:, :, 0] > 0
    np.testing.assert_allclose(dense(found)[known], X[known], atol=1e-3)


def test_the_penalty_comes_down_to_the_nuclear_norm() -> None:
    tensor, _ = table(1)
    start, layer = start_and_layer(1, 9, 3, 3)
    found = complete(tensor, start, penalty=0.2, layer=layer, max_iter=3000, tol=1e-14)
    factors = sum(float((f**2).sum()) for f in (found.items, found.annotators, found.layer))
    assert 0.5 * factors == pytest.approx(nuclear(dense(found)), rel=1e-4)


def test_the_end_is_stationary() -> None:
    """The gradient of F by every factor, worked out on the dense tensor, is zero."""
    tensor, rows = table(2)
    start, layer = start_and_layer(2, 9, 3, 3)
    found = complete(tensor, start, penalty=0.3, layer=layer, max_iter=5000, tol=1e-15)
    X, slope = dense(found), np.zeros((9, 6, 3))
    for n, m, k in rows:
        slope[n, 1 + m] += X[n, 1 + m] - (np.eye(3)[k] - 1 / 3)
    slope[:, 0] += X[:, 0] - (layer - 1 / 3)
    others = np.concatenate([found.layer[None], found.annotators])
    np.testing.assert_allclose(np.einsum("nmk,mkr->nr", slope, others) + 0.3 * found.items, 0, atol=1e-9)
    np.testing.assert_allclose(np.einsum("nmk,nr->mkr", slope, found.items) + 0.3 * others, 0, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_noiseless_crowd_is_completed_exactly(seed: int) -> None:
    """Everybody answers by a permutation of their own: the table has rank K - 1, and the missing labels follow."""
    N, M, K = 60, 12, 3
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, N)
    answers = np.stack([rng.permutation(K)[truth] for _ in range(M)], axis=1)
    seen = rng.random((N, M)) < 0.6
    item, annotator = np.nonzero(seen)
    tensor, _ = tensor_of(item, annotator, answers[seen], N, M, K)
    start = rng.standard_normal((N, K))
    found = complete(tensor, start, penalty=1e-4, max_iter=5000, tol=1e-10)
    np.testing.assert_allclose(dense(found)[:, 1:], np.eye(K)[answers] - 1 / K, atol=0.02)
    assert (~seen).sum() > 200


def test_blocks_of_items_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, _ = table(3)
    start, layer = start_and_layer(3, 9, 3, 2)
    whole = complete(tensor, start, penalty=0.3, layer=layer, max_iter=7, tol=0)
    monkeypatch.setattr(completion, "_BLOCK", 8)  # two items a block
    parts = complete(tensor, start, penalty=0.3, layer=layer, max_iter=7, tol=0)
    np.testing.assert_allclose(parts.history, whole.history, rtol=1e-12)
    np.testing.assert_allclose(dense(parts), dense(whole), atol=1e-12)


def test_more_columns_than_the_annotators_have_rows() -> None:
    tensor, _ = tensor_of(np.arange(4), np.zeros(4, np.int64), np.array([0, 1, 0, 1]), 4, 1, 2)
    found = complete(tensor, np.random.default_rng(0).standard_normal((4, 6)), penalty=1e-6, max_iter=500)
    np.testing.assert_allclose(dense(found)[:, 1, 0], [0.5, -0.5, 0.5, -0.5], atol=1e-3)


def test_a_callback_is_told_and_can_stop() -> None:
    tensor, _ = table(0)
    start, _ = start_and_layer(0, 9, 3, 3)
    told: list[tuple[int, float]] = []

    def tell(sweep: int, objective: float, fall: float) -> bool:
        told.append((sweep, objective))
        return sweep == 4

    found = complete(tensor, start, penalty=0.3, max_iter=50, tol=0, callback=tell)
    assert [sweep for sweep, _ in told] == [1, 2, 3, 4]
    assert [objective for _, objective in told] == found.history
    assert not found.converged
