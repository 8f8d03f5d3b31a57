"""Imputation against blocks that are known exactly, against scipy, and with planted bad blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import consilience as cs
from consilience.data.ids import Ids
from consilience.exceptions import MethodError
from consilience.kernels import imputation as kernels
from consilience.kernels._arrays import Floats
from consilience.moments import CoOccurrences, pair_moments
from consilience.moments.graph import Group, groups
from consilience.moments.imputation import block_matrix, designated, random_factors, robust


def exact(
    rng: np.random.Generator, M: int = 12, K: int = 3, missing: float = 0.0, items: float = 1.0
) -> tuple[np.ndarray, CoOccurrences]:
    """Factors H_m = A_m D^(1/2), and noiseless blocks of the pairs that are not missing."""
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1)
    H = A * np.sqrt(rng.dirichlet(5 * np.ones(K)))
    who = np.stack(np.triu_indices(M, 1), axis=1)
    who = who[rng.random(len(who)) >= missing]
    blocks = np.einsum("pik,pjk->pij", H[who[:, 0]], H[who[:, 1]])
    return H, CoOccurrences(who, items * blocks, Ids.range(M), Ids.range(K))


# ---- designated annotators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_designated_imputation_is_exact_on_noiseless_blocks(seed: int) -> None:
    """Theorem 1 without sampling error: every missing block, the diagonal ones too, comes out as it is."""
    H, pairs = exact(np.random.default_rng(seed), missing=0.4)
    done = designated(pairs)
    flat = H.reshape(-1, 3)
    assert done.imputed == 1.0
    assert done.known.all()
    np.testing.assert_allclose(done.matrix, flat @ flat.T, atol=1e-10)


def test_one_path_is_equation_8_by_singular_vectors() -> None:
    """The formula that is computed, R[m, r] R[l, r]⁻¹ R[l, n], is (7)-(8) with the singular vectors written out."""
    a = cs.simulate(4000, 4, 3, label_probability=0.9, seed=1).annotations
    whole = pair_moments(a)
    m, n, via, r = 0, 1, 2, 3
    keep = np.array([p for p, who in enumerate(whole.who.tolist()) if who != [m, n]])
    pairs = CoOccurrences(whole.who[keep], whole.counts[keep], whole.annotators, whole.classes)

    def block(i: int, j: int) -> np.ndarray:
        found = pairs.block(i, j)
        assert found is not None
        return found

    left, _, _ = np.linalg.svd(np.concatenate([block(m, r), block(via, r)]), full_matrices=False)
    expected = left[:3] @ np.linalg.inv(left[3:]) @ block(n, via).T
    other = np.linalg.solve(block(via, r), np.eye(3))
    np.testing.assert_allclose(block(m, r) @ other @ block(via, n), expected, atol=1e-12)
    # The two paths are (via, r) and (r, via); the imputed block is their weighted mean.
    backwards = block(m, via) @ np.linalg.inv(block(r, via)) @ block(r, n)
    found = designated(pairs, rounds=1).matrix.reshape(4, 3, 4, 3)[m, :, n, :]
    low, high = np.minimum(expected, backwards) - 1e-9, np.maximum(expected, backwards) + 1e-9
    assert expected.min() > 0
    assert backwards.min() > 0
    assert ((found >= low) & (found <= high)).all()


def test_only_named_annotators_are_gone_through() -> None:
    H, pairs = exact(np.random.default_rng(1), missing=0.0)
    keep = [p for p, (m, j) in enumerate(pairs.who.tolist()) if m in (0, 1) or j in (0, 1)]
    sparse = CoOccurrences(pairs.who[keep], pairs.counts[keep], pairs.annotators, pairs.classes)
    flat = H.reshape(-1, 3)
    # 0 and 1 met everybody, and each other: enough for everything but their own diagonal blocks' triangles through them
    done = designated(sparse, through=[0, 1], rounds=1)
    known = np.repeat(np.repeat(done.known, 3, 0), 3, 1)
    np.testing.assert_allclose(done.matrix[known], (flat @ flat.T)[known], atol=1e-10)
    assert done.known[2:, 2:].all()
    assert designated(sparse, through=[5, 6], rounds=1).imputed == 0.0


def test_blocks_that_no_path_reaches_stay_zero_and_are_counted() -> None:
    matrix = np.full((40, 6), -1)
    rng = np.random.default_rng(0)
    matrix[:20, :3] = rng.integers(0, 2, (20, 3))
    matrix[20:, 3:] = rng.integers(0, 2, (20, 3))
    done = designated(pair_moments(cs.Annotations.from_matrix(matrix)))
    assert not done.known[:3, 3:].any()
    assert not done.matrix[:6, 6:].any()
    assert 0 < done.imputed < 1
    assert np.isfinite(done.matrix).all()


def test_a_matrix_too_large_to_write_down_is_refused() -> None:
    pairs = CoOccurrences(np.array([[0, 1]]), np.ones((1, 2, 2)), Ids.range(5000), Ids.range(2))
    with pytest.raises(MethodError, match="rob-symnmf"):
        block_matrix(pairs)


# ---- robust factors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.5])
def test_robust_factors_reproduce_noiseless_blocks(missing: float) -> None:
    rng = np.random.default_rng(7)
    H, pairs = exact(rng, M=20, missing=missing)
    found = min(
        (robust(pairs, random_factors(rng, 20, 3), count_weights=False, tol=1e-14, max_iter=5000) for _ in range(4)),
        key=lambda r: r.history[-1],
    )
    U = found.factors.reshape(-1, 3)
    flat = H.reshape(-1, 3)
    # the unobserved blocks too: that is what imputation is for
    np.testing.assert_allclose(U @ U.T, flat @ flat.T, atol=1e-5)


def test_the_objective_never_rises() -> None:
    a = cs.simulate(300, 15, 3, label_probability=0.3, seed=2).annotations
    pairs = pair_moments(a)
    variants: list[dict[str, Any]] = [{}, {"reweigh": False}, {"count_weights": False}]
    for options in variants:
        history = robust(pairs, random_factors(np.random.default_rng(0), 15, 3), tol=0, max_iter=60, **options).history
        assert len(history) == 60
        assert (np.diff(history) <= 1e-9 * np.abs(history[1:])).all()


def test_robust_beats_least_squares_when_blocks_are_bad() -> None:
    """A tenth of the blocks replaced by nonsense: believing all of them alike spoils everybody's factors."""
    rng = np.random.default_rng(11)
    errors: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(5):
        H, pairs = exact(rng, M=20, missing=0.2, items=1000)
        counts = np.array(pairs.counts)
        bad = rng.choice(len(pairs), len(pairs) // 10, replace=False)
        counts[bad] = 1000 * rng.dirichlet(0.3 * np.ones(9), bad.size).reshape(-1, 3, 3)
        spoilt = CoOccurrences(pairs.who, counts, pairs.annotators, pairs.classes)
        flat = H.reshape(-1, 3)
        for reweigh in (True, False):
            found = robust(spoilt, H, reweigh=reweigh, tol=1e-12, max_iter=2000)
            U = found.factors.reshape(-1, 3)
            errors[reweigh].append(float(np.linalg.norm(U @ U.T - flat @ flat.T)))
            if reweigh:
                assert np.median(found.weights[bad]) < 0.2 * np.median(np.delete(found.weights, bad))
    assert np.mean(errors[True]) < 0.2 * np.mean(errors[False])


def test_without_reweighing_all_blocks_count_the_same() -> None:
    """The paper's w = 1: scipy minimises the plain sum of squares to the same value."""
    pairs = pair_moments(cs.simulate(60, 5, 2, label_probability=0.7, seed=4).annotations)
    start = random_factors(np.random.default_rng(0), 5, 2)
    found = robust(pairs, start, reweigh=False, tol=1e-14, max_iter=5000)
    np.testing.assert_array_equal(found.weights, 1.0)

    def squares(flat: Floats) -> float:
        U = flat.reshape(5, 2, 2)
        return float(
            sum(((R - U[m] @ U[j].T) ** 2).sum() for (m, j), R in zip(pairs.who, pairs.frequencies, strict=True))
        )

    best = minimize(squares, start.ravel(), tol=1e-12)
    assert found.history[-1] == pytest.approx(best.fun, rel=1e-5)
    assert squares(found.factors.ravel()) == pytest.approx(found.history[-1])


def test_singular_blocks_still_lead_somewhere() -> None:
    """Two labels per pair: no block is regular, and paths through damped inverses beat zeros."""
    rng = np.random.default_rng(8)
    gains = []
    for _ in range(5):
        H, pairs = exact(rng, M=12, missing=0.3, items=1.0)
        counts = np.stack([rng.multinomial(2, R.ravel()).reshape(3, 3) for R in pairs.frequencies])
        thin = CoOccurrences(pairs.who, counts, pairs.annotators, pairs.classes)
        assert (np.linalg.matrix_rank(thin.frequencies) < 3).all()
        done = designated(thin)
        assert done.imputed > 0.9
        truth = (flat := H.reshape(-1, 3)) @ flat.T
        zeros = block_matrix(thin)
        missing = np.kron(~zeros.known, np.ones((3, 3), bool))
        gains.append(np.linalg.norm((done.matrix - truth)[missing]) / np.linalg.norm(truth[missing]))
    assert np.mean(gains) < 1.0


def test_the_bounded_step_is_the_one_scipy_finds() -> None:
    """One sweep over two annotators is min ‖R - U Vᵀ‖² s.t. ‖U‖ ≤ radius: solved independently by SLSQP."""
    rng = np.random.default_rng(5)
    R = rng.dirichlet(np.ones(9)).reshape(1, 3, 3)
    V = 0.2 * rng.random((3, 3))
    pairs = CoOccurrences(np.array([[0, 1]]), R, Ids.range(2), Ids.range(3))
    for radius in (1.0, 10.0):
        factors = np.stack([np.zeros((3, 3)), V])
        around = pairs.neighbours
        # the second annotator is left alone: only the first row of the graph is given
        indptr = np.array([0, 1, 1])
        kernels.sweep_factors(
            indptr, around.neighbour, around.pair, pairs.counts, pairs.totals, np.ones(1), factors, radius, 0.0
        )

        def loss(u: np.ndarray) -> Any:
            return ((R[0] - u.reshape(3, 3) @ V.T) ** 2).sum()

        def room(u: np.ndarray, radius: float = radius) -> Any:
            return radius**2 - (u**2).sum()

        best = minimize(
            loss,
            0.1 * np.ones(9),
            method="SLSQP",
            constraints={"type": "ineq", "fun": room},
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        assert np.linalg.norm(factors[0]) <= radius * (1 + 1e-9)
        assert loss(factors[0].ravel()) <= best.fun + 1e-9
        if np.linalg.norm(best.x) < radius * 0.999:
            np.testing.assert_allclose(factors[0].ravel(), best.x, atol=1e-3)


def test_an_annotator_who_met_nobody_keeps_their_start() -> None:
    matrix = np.array([[0, 0, 1, -1], [1, 1, 1, -1], [0, 1, 0, -1], [-1, -1, -1, 1]])
    pairs = pair_moments(cs.Annotations.from_matrix(matrix))
    start = random_factors(np.random.default_rng(0), 4, 2)
    found = robust(pairs, start)
    np.testing.assert_array_equal(found.factors[3], start[3])
    assert np.isfinite(found.factors).all()


def test_the_largest_number_of_items_counts_most() -> None:
    """Two copies of a crowd, one with blocks of few items and noise: the fit follows the large ones."""
    rng = np.random.default_rng(2)
    H, pairs = exact(rng, M=15, items=1.0)
    noisy = rng.random(len(pairs)) < 0.4
    counts = np.where(noisy[:, None, None], 0.0, 5000.0 * pairs.counts)
    for p in np.flatnonzero(noisy):
        counts[p] = rng.multinomial(5, pairs.counts[p].ravel() / pairs.counts[p].sum()).reshape(3, 3)
    mixed = CoOccurrences(pairs.who, counts, pairs.annotators, pairs.classes)
    flat = H.reshape(-1, 3)

    def error(count_weights: bool) -> float:
        U = robust(mixed, H, count_weights=count_weights, tol=1e-10).factors.reshape(-1, 3)
        return float(np.linalg.norm(U @ U.T - flat @ flat.T))

    assert error(True) < 0.1 * error(False)


# ---- the graph ----------------------------------------------------------------------------------------------


def groups_of(edges: list[tuple[int, int]], M: int) -> tuple[Group, ...]:
    who = np.array(sorted(edges)).reshape(-1, 2)
    return groups(CoOccurrences(who, np.ones((len(who), 2, 2)), Ids.range(M), Ids.range(2)))


def test_groups_and_their_bipartiteness() -> None:
    found = groups_of([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (5, 6), (3, 6)], 8)
    groups = [(g.members.tolist(), g.bipartite, g.determined) for g in found]
    assert groups == [([3, 4, 5, 6], True, False), ([0, 1, 2], False, True), ([7], True, False)]


def test_random_graphs_are_two_coloured_as_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        M = int(rng.integers(2, 8))
        edges = [(i, j) for i in range(M) for j in range(i + 1, M) if rng.random() < 0.35]
        for group in groups_of(edges, M):
            inside = [(i, j) for i, j in edges if i in group.members]
            possible = any(all((c >> i & 1) != (c >> j & 1) for i, j in inside) for c in range(1 << M))
            assert group.bipartite == possible
