"""The sufficiently scattered condition: shapes whose inner ball is known, and three ways to one number."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from consilience.diagnose import scatter as module
from consilience.diagnose.scatter import in_plane, scatter, shortfall_by_programs
from consilience.kernels._arrays import Floats


def rows_of(K: int, J: int, seed: int, sparse: float = 0.3) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(K, sparse), J)


def equal_shares(K: int, n: int) -> Floats:
    """All rows with n equal entries."""
    return np.array([[float(k in which) / n for k in range(K)] for which in combinations(range(K), n)])


def by_directions(rows: Floats, n: int = 100_000) -> float:
    """The definition: the smallest reach of the hull over many directions."""
    K = rows.shape[1]
    u = np.random.default_rng(0).standard_normal((n, K - 1))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    reach = float((u @ in_plane(rows).T).max(axis=1).min())
    return float(np.clip(1 - reach * np.sqrt(K * (K - 1)), 0, 1))


def by_hull(rows: Floats) -> float:
    K = rows.shape[1]
    radius = -ConvexHull(in_plane(rows)).equations[:, -1].max()
    return float(np.clip(1 - radius * np.sqrt(K * (K - 1)), 0, 1))


@pytest.mark.parametrize("K", [2, 3, 4, 5, 8])
def test_specialists_for_every_class_are_enough(K: int) -> None:
    rng = np.random.default_rng(K)
    rows = np.concatenate([np.diag(rng.uniform(0.1, 2, K)), rng.dirichlet(np.ones(K), 20)])
    found = scatter(rows)
    assert found.shortfall == pytest.approx(0, abs=1e-7)
    assert found.row.tolist() == list(range(K))
    np.testing.assert_allclose(found.distance, 0, atol=1e-7)
    assert found.exact == (K <= 3)


@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_spammers_have_no_scatter(K: int) -> None:
    rng = np.random.default_rng(0)
    assert scatter(np.outer(rng.random(9), np.ones(K))).shortfall == pytest.approx(1, abs=1e-4)
    lopsided = 0.5 * np.eye(K)[0] + 0.5 * rng.dirichlet(np.ones(K), 30)
    assert scatter(lopsided).shortfall == 1, "the hull does not surround the centre"


@pytest.mark.parametrize(
    ("K", "n", "shortfall"),
    [
        # the sides of the hull are x_k = 0, at r, and x_k = 1/n, at (1/n - 1/K) / √(1 - 1/K)
        (3, 2, 0.5),
        (4, 2, 0.0),
        (4, 3, 2 / 3),
        (5, 2, 0.0),
        (5, 3, 1 / 3),
        (5, 4, 3 / 4),
        (6, 3, 0.0),
    ],
)
def test_shapes_whose_inner_ball_is_known(K: int, n: int, shortfall: float) -> None:
    assert scatter(equal_shares(K, n)).shortfall == pytest.approx(shortfall, abs=1e-6)


def test_two_classes() -> None:
    found = scatter(np.array([[0.9, 0.1], [0.2, 0.8], [2.0, 2.0], [0.0, 0.0]]))
    # the segment from (0.9, 0.1) to (0.2, 0.8) reaches 0.6 of the way from the centre to the nearer end
    assert found.shortfall == pytest.approx(0.4)
    assert found.row.tolist() == [0, 1]
    np.testing.assert_allclose(found.distance, [0.1 * np.sqrt(2), 0.2 * np.sqrt(2)])
    np.testing.assert_allclose(found.angle, np.degrees(np.arctan2([0.1, 0.2], [0.9, 0.8])))


@pytest.mark.parametrize("seed", range(12))
def test_three_ways_to_one_number(seed: int) -> None:
    K = 2 + seed % 2
    rows = rows_of(K, 4 + 2 * seed, seed, 0.2 + 0.1 * (seed % 4))
    exact = scatter(rows).shortfall
    assert shortfall_by_programs(rows) == pytest.approx(exact, abs=2e-4)
    assert by_directions(rows) == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("K", [4, 5])
def test_programs_find_the_nearest_side_of_the_hull(K: int, seed: int) -> None:
    rows = rows_of(K, 30, seed, 0.25)
    exact, found = by_hull(rows), scatter(rows).shortfall
    assert found <= exact + 1e-6, "a lower bound"
    assert found == pytest.approx(exact, abs=0.02)
    assert by_directions(rows) <= exact + 1e-9


def test_programs_hold_only_the_rows_that_matter() -> None:
    rows = rows_of(4, 20_000, 1, 0.6)
    assert shortfall_by_programs(rows) == pytest.approx(by_hull(rows), abs=1e-3)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_more_rows_scatter_no_less(K: int) -> None:
    rows = rows_of(K, 60, 3, 0.4)
    found = [scatter(rows[:n]).shortfall for n in (5, 10, 20, 40, 60)]
    assert all(after <= before + 1e-6 for before, after in pairwise(found))
    assert found[-1] < found[0]


@pytest.mark.parametrize("K", [2, 3, 5])
def test_scale_and_order_do_not_matter(K: int) -> None:
    rng = np.random.default_rng(1)
    H = rows_of(K, 40, 2)
    found = scatter(H)
    order, classes = rng.permutation(40), rng.permutation(K)
    again = scatter((H * rng.uniform(0.1, 9, (40, 1)))[order][:, classes])
    assert again.shortfall == pytest.approx(found.shortfall, abs=0.01 if K > 3 else 1e-9)
    np.testing.assert_allclose(again.distance, found.distance[classes])
    np.testing.assert_array_equal(order[again.row], found.row[classes])


def test_corner_cases() -> None:
    assert scatter(np.ones((4, 1))).shortfall == 0, "one class is told apart from nothing"
    empty = scatter(np.zeros((4, 3)))
    assert (empty.shortfall, empty.row.tolist()) == (1.0, [-1, -1, -1])
    assert scatter(np.eye(3)[:2]).shortfall == 1, "all on one line"
    assert scatter(np.eye(40)).shortfall == pytest.approx(0, abs=1e-6), "many classes"


def test_without_the_search_the_shortfall_is_a_lower_bound_and_said_to_be_one() -> None:
    H = np.full((6, 4), 0.25)
    found, quick = scatter(H), scatter(H, search=False)
    assert found.shortfall == 1.0
    assert (quick.shortfall, quick.exact) == (0.0, False)
    np.testing.assert_array_equal(quick.distance, found.distance)
    # up to three classes nothing is searched for, so nothing is left out
    assert scatter(H[:, :3], search=False).shortfall == scatter(H[:, :3]).shortfall == 1.0


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.repeat(rows_of(5, 300, seed=4), 2, axis=0)  # with ties
    whole = shortfall_by_programs(rows)
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert shortfall_by_programs(rows) == pytest.approx(whole, rel=1e-9)
    assert 0.0 < whole < 1.0
