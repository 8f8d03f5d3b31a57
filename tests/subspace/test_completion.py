"""Dictionaries of samples with gaps: sums over blocks, what is filled and what is not, and what it is good for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.subspace.test_clustering import accuracy

from consilience.datasets.subspaces import simulate_subspaces
from consilience.kernels._arrays import Floats
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.completion import dictionary_of, filled, totals
from consilience.subspace.sketches import make_sketch


def of_low_rank(seed: int, N: int = 400, D: int = 60, rank: int = 5, observed: float = 0.6) -> tuple[Floats, Floats]:
    """Samples far from the origin, whole and with gaps."""
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal((N, rank)) @ rng.standard_normal((rank, D)) + 3.0 * rng.standard_normal(D)
    return whole, np.where(rng.random((N, D)) < observed, whole, np.nan)


def test_totals_add_up_and_give_the_means() -> None:
    _, X = of_low_rank(0)
    sums, counts = totals(X)
    np.testing.assert_allclose(sums / counts, np.nanmean(X, axis=0))
    np.testing.assert_allclose(totals(X[:100]) + totals(X[100:]), [sums, counts])


def test_single_precision_is_summed_in_double() -> None:
    X = np.full((200_000, 2), 0.1, np.float32)
    X[::2, 1] = np.nan
    sums, counts = totals(X)
    np.testing.assert_allclose(sums / counts, np.float64(np.float32(0.1)), rtol=1e-12)


def test_only_gaps_are_filled_and_well() -> None:
    whole, X = of_low_rank(1)
    B = np.linalg.svd(whole, full_matrices=False)[2][:8]
    means = np.nanmean(X, axis=0)
    made, there = filled(X, means, B, lam=1e6), ~np.isnan(X)
    np.testing.assert_array_equal(made[there], X[there])
    np.testing.assert_allclose(made, whole, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(filled(X, means)[~there], np.broadcast_to(means, X.shape)[~there])
    assert filled(whole, means, B) is whole


@pytest.mark.parametrize("gaps", [False, True])
def test_how_often_it_is_sketched(gaps: bool) -> None:
    whole, X = of_low_rank(2)
    X = X if gaps else whole
    sketch = make_sketch("gaussian", len(X), 12, 0)
    calls: list[Any] = []
    errors: list[float] = []

    def sketched(fill: Any) -> Any:
        calls.append(fill)
        errors.append(float(np.linalg.norm(fill(X) - whole)))
        return sketch.apply(fill(X))

    B = dictionary_of(sketched, totals(X), X, len(X))
    assert len(calls) == (3 if gaps else 1)
    if gaps:  # each time the entries that are hidden from it are foretold better
        assert errors[2] < 0.9 * errors[1]
        assert errors[1] < 0.75 * errors[0]
    else:
        np.testing.assert_array_equal(B, sketch.apply(whole))


def test_where_codes_foretell_nothing_gaps_keep_the_means() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 30)) < 0.5, rng.standard_normal((300, 30)), np.nan)
    sketch = make_sketch("rademacher", 300, 28, 0)
    means = np.nanmean(X, axis=0)
    B = dictionary_of(lambda fill: sketch.apply(fill(X)), totals(X), X, 300)
    np.testing.assert_allclose(B, sketch.apply(np.where(np.isnan(X), means, X)))


@pytest.mark.parametrize("seed", range(3))
def test_the_dictionary_is_nearer_to_that_of_the_whole_samples_than_others(seed: int) -> None:
    whole, X = of_low_rank(seed)
    sketch = make_sketch("rademacher", len(X), 14, seed)
    true = sketch.apply(whole)
    found = dictionary_of(lambda fill: sketch.apply(fill(X)), totals(X), X, len(X))
    for other in (np.nan_to_num(X), filled(X, np.nanmean(X, axis=0))):
        assert np.linalg.norm(found - true) < 0.7 * np.linalg.norm(sketch.apply(other) - true)


def test_samples_far_from_the_origin_are_clustered_in_spite_of_gaps() -> None:
    drawn = simulate_subspaces(600, 200, 4, 4, noise=0.1, offset=1.0, missing=0.5, random_state=0)
    model = SketchedSubspaceClustering(4).fit(drawn.data)
    assert accuracy(model.labels_, drawn.truth) > 0.95
