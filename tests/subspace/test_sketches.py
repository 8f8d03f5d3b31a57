"""Sketches: distribution, agreement of blocks, and the range that Proposition 2.1 promises."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from consilience.exceptions import DataError, ParameterError
from consilience.subspace.sketches import SketchKind, default_n_sketch, make_sketch

KINDS: list[SketchKind] = ["rademacher", "gaussian", "count", "hadamard"]
#: More than two blocks of rows.
LONG = 9000


def samples(N: int, D: int, rank: int | None = None, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if rank is None:
        return rng.standard_normal((N, D))
    return rng.standard_normal((N, rank)) @ rng.standard_normal((rank, D))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_apply_is_the_product_with_the_array(kind: SketchKind, dtype: Any) -> None:
    X = samples(LONG, 4).astype(dtype)
    sketch = make_sketch(kind, LONG, 13, random_state=3)
    R = sketch.toarray()
    assert R.shape == sketch.shape == (LONG, 13)
    given = sketch.apply(X)
    assert given.dtype == dtype
    np.testing.assert_allclose(given, R.T @ X, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cuts", [[1, 17, 4096, 4097, 8999], [3000, 6000], list(range(0, LONG, 701))])
def test_blocks_add_up(kind: SketchKind, cuts: list[int]) -> None:
    X = samples(LONG, 5)
    edges = sorted({0, *cuts, LONG})
    # Every node makes the sketch itself, from the seed.
    parts = [make_sketch(kind, LONG, 20, random_state=8).apply_block(X[a:b], a) for a, b in pairwise(edges)]
    np.testing.assert_allclose(sum(parts), make_sketch(kind, LONG, 20, random_state=8).apply(X), atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_decides(kind: SketchKind) -> None:
    one, same, other = (make_sketch(kind, 300, 8, random_state=seed).toarray() for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_kept_on_average(kind: SketchKind) -> None:
    """E[R Rᵀ] = I, in rows of different blocks too."""
    x = np.random.default_rng(5).standard_normal((5000, 1))
    x /= np.linalg.norm(x)
    lengths = [float((make_sketch(kind, 5000, 50, random_state=seed).apply(x) ** 2).sum()) for seed in range(200)]
    # Each has a variance of 2/n = 0.04 or less: five standard errors of the mean are 0.07.
    assert abs(np.mean(lengths) - 1.0) < 0.07
    assert np.std(lengths) < 0.3


def test_entries_are_of_their_kind() -> None:
    n = 16
    np.testing.assert_allclose(np.abs(make_sketch("rademacher", 5000, n, 0).toarray()), 1 / np.sqrt(n))
    gaussian = make_sketch("gaussian", 5000, n, 0).toarray() * np.sqrt(n)
    assert abs(gaussian.std() - 1) < 0.02
    assert abs((gaussian**4).mean() - 3) < 0.15
    count = make_sketch("count", 5000, n, 0).toarray()
    assert ((count != 0).sum(axis=1) == 1).all()
    assert set(np.unique(count)) == {-1.0, 0.0, 1.0}
    assert (count != 0).sum(axis=0).min() > 5000 / n / 2


def test_hadamard_columns_are_orthogonal() -> None:
    """Columns of a Hadamard matrix with signed rows: N a power of two, two blocks."""
    R = make_sketch("hadamard", 8192, 12, 0).toarray()
    np.testing.assert_allclose(R.T @ R, 8192 / 12 * np.eye(12), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_range_is_preserved(kind: SketchKind) -> None:
    """Proposition 2.1: range(B) = range(X)."""
    for seed in range(5):
        X = samples(600, 40, rank=12, seed=seed)
        B = make_sketch(kind, 600, 48, random_state=seed).apply(X)
        assert np.linalg.matrix_rank(B) == 12
        inside = X @ np.linalg.pinv(B) @ B
        np.testing.assert_allclose(inside, X, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_features_keep_distances(kind: SketchKind) -> None:
    """Alg. 2.2 and Lemma 2.1: the same sketch on the other side."""
    X = samples(60, 500)
    reduced = make_sketch(kind, 500, 250, random_state=0).apply(X.T).T
    assert reduced.shape == (60, 250)
    before = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(60, 1)]
    after = ((reduced[:, None] - reduced[None]) ** 2).sum(axis=2)[np.triu_indices(60, 1)]
    assert (after / before).min() > 0.5
    assert (after / before).max() < 1.6


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "count", "hadamard"])
def test_from_the_right_it_is_the_product_with_the_matrix(kind: Any) -> None:
    sketch, X = make_sketch(kind, 40, 7, 3), samples(25, 40)
    np.testing.assert_allclose(sketch.apply_right(X), X @ sketch.toarray(), atol=1e-12)


def test_number_of_columns_follows_the_rank() -> None:
    assert default_n_sketch(samples(3000, 80, rank=20)) == 50
    noisy = samples(3000, 80, rank=20) + 1e-2 * samples(3000, 80, seed=1)
    assert 40 <= default_n_sketch(noisy) <= 60
    assert default_n_sketch(samples(5, 80, rank=2)) == 5
    assert default_n_sketch(np.zeros((5, 3))) == 1
    missing = samples(300, 20)
    missing[::7, 3] = np.nan
    assert default_n_sketch(missing) > 10


def test_bad_input_is_explained() -> None:
    with pytest.raises(ParameterError, match="'rademacher'"):
        make_sketch("dense", 10, 2)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="n_columns"):
        make_sketch("count", 10, 0)
    with pytest.raises(ParameterError, match="at most 16"):
        make_sketch("hadamard", 10, 17)
    sketch = make_sketch("gaussian", 10, 2, 0)
    with pytest.raises(DataError, match="for 10 rows"):
        sketch.apply(np.ones((9, 2)))
    with pytest.raises(DataError, match="rows 5 … 12"):
        sketch.apply_block(np.ones((8, 2)), 5)
