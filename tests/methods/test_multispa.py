"""MultiSPA: exact blocks, simulated and real crowds, the joint order against brute force, and odd crowds."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.conftest import error_percent, real_crowd, table7_crowd, table7_error

import consilience as cs
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats
from consilience.methods import multispa as module
from consilience.methods.multispa import multispa, vertex_model
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.moments.graph import groups


def exact_pairs(model: cs.DawidSkene, size: float) -> CoOccurrences:
    """The blocks A_m D A_jᵀ themselves, as if counted on ``size`` items."""
    M = len(model.annotators)
    who = np.array([(m, j) for m in range(M) for j in range(m + 1, M)])
    A = model.confusions
    R = np.einsum("pak,k,pbk->pab", A[who[:, 0]], model.prior, A[who[:, 1]])
    return CoOccurrences(who, size * R, model.annotators, model.classes)


# ---- known parameters -----------------------------------------------------------------------------------------


def test_exact_blocks_with_two_specialists_give_the_model_back() -> None:
    """Two who never err: for everybody, somebody else shows every class alone."""
    rng = np.random.default_rng(0)
    K, M = 4, 8
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1).copy()
    A[2] = A[5] = np.eye(K)
    model = cs.DawidSkene(np.array([0.1, 0.2, 0.3, 0.4]), A, Ids.range(K), Ids.range(M))
    pairs = exact_pairs(model, 1e9)
    everybody = model.sample(10**5, labels_per_item=1, random_state=0)[0]
    found = vertex_model(everybody, pairs, groups(pairs), shrinkage=0.0, learn_prior=True)
    again = cs.DawidSkene(*found, model.classes, model.annotators).align(model)
    np.testing.assert_allclose(again.confusions, A, atol=1e-5)
    np.testing.assert_allclose(again.prior, model.prior, atol=1e-4)  # one item more of every class


@pytest.mark.parametrize(("n_items", "limit"), [(1000, 0.06), (5000, 0.02)])
def test_confusions_are_nearer_than_published(n_items: int, limit: float) -> None:
    """Table 7 has 0.2248 and 0.1645: orders chosen annotator by annotator do not fit together."""
    found = []
    for seed in range(6):
        drawn = table7_crowd(seed, n_items)
        annotations, model = drawn.annotations, drawn.model
        found.append(table7_error(multispa(annotations).model, model))
    assert np.mean(found) <= limit


@pytest.mark.parametrize(("name", "published"), [("bluebird", 13.88), ("dog52", 17.96), ("rte", 8.37), ("trec", 31.56)])
def test_the_published_errors_are_reached(data_folder: Path, name: str, published: float) -> None:
    """Tables 4 and 5 of Ibrahim & Fu 2022, which cut off the third decimal."""
    annotations, truth = real_crowd(name)
    assert error_percent(multispa(annotations).choice.best, truth) < published + 0.01


# ---- the parts ------------------------------------------------------------------------------------------------


def matched(pairs: CoOccurrences, links: Floats, order: np.ndarray) -> float:
    """The sum that the orders are to maximise, one pair and class at a time."""
    return sum(
        float(links[p, order[m, k], order[j, k]])
        for p, (m, j) in enumerate(pairs.who.tolist())
        for k in range(pairs.n_classes)
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_joint_order_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, M = 3, 5
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1).copy()
    model = cs.DawidSkene(np.full(K, 1 / K), A, Ids.range(K), Ids.range(M))
    annotations = model.sample(3000, random_state=rng)[0]
    pairs = pair_moments(annotations)
    confusions = module.vertices(pairs)[0]
    links = module.links_of(pairs, confusions)
    orders = [np.array(o) for o in permutations(range(K))]
    best = max(matched(pairs, links, np.stack([orders[0], *chosen])) for chosen in product(orders, repeat=M - 1))
    ours = module.common_order(pairs, confusions, groups(pairs), annotations.labels_per_annotator)
    np.testing.assert_allclose(matched(pairs, links, ours), best, rtol=1e-9)


def test_a_chain_of_annotators_half_of_them_adverse_comes_out_in_one_order() -> None:
    """Everybody meets six others only.  Their own labels would put the adverse half the wrong way round."""
    M, K = 40, 3
    rng = np.random.default_rng(1)
    model = cs.simulate(10, M, K, adversaries=0.5, accuracy=(0.8, 0.95), seed=1).model
    matrix = np.full((40 * M, M), -1)
    truth = rng.integers(0, K, len(matrix))
    for n, k in enumerate(truth):
        for m in range(4):
            who = (n // 40 + m) % M
            matrix[n, who] = rng.choice(K, p=model.confusions[who, :, k])
    annotations = cs.Annotations.from_matrix(matrix, annotators=list(model.annotators), classes=list(range(K)))
    assert table7_error(multispa(annotations).model, model) < 0.1
    pairs = pair_moments(annotations)
    confusions = module.vertices(pairs)[0]
    own = np.array([module.best_assignment(A) for A in confusions])
    alone = cs.DawidSkene(
        model.prior, np.take_along_axis(confusions, own[:, None, :], axis=2), model.classes, model.annotators
    )
    assert table7_error(alone, model) > 0.3


@pytest.mark.parametrize("seed", range(8))
def test_the_prior_is_the_best_on_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, M = 3, 5
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1).copy()
    who = np.array([(0, 1), (0, 3), (1, 2), (2, 4), (3, 4)])
    counts = rng.integers(1, 20, (5, K, K))  # blocks of no model at all: some of these priors have zeros
    pairs = CoOccurrences(who, counts, Ids.range(M), Ids.range(K))

    def misfit(prior: Floats) -> float:
        total = 0.0
        for (m, j), block in zip(who, counts, strict=True):
            total += block.sum() * ((block / block.sum() - A[m] @ np.diag(prior) @ A[j].T) ** 2).sum()
        return total

    ours = module.least_squares_prior(pairs, A)
    assert ours.min() >= 0
    np.testing.assert_allclose(ours.sum(), 1.0)
    simplex = {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    reference = minimize(
        misfit, np.full(K, 1 / K), bounds=[(0, 1)] * K, constraints=simplex, method="SLSQP", options={"ftol": 1e-14}
    )
    assert misfit(ours) <= reference.fun + 1e-8
    np.testing.assert_allclose(ours, reference.x, atol=1e-4)


def test_who_always_says_the_same_tells_nothing() -> None:
    sim = cs.simulate(400, 8, 2, label_probability=0.8, seed=3)
    matrix = np.full((400, 9), -1)
    a = sim.annotations
    matrix[a.item_of_label(), a.annotator] = a.label
    matrix[:, 8] = 1
    done = multispa(cs.Annotations.from_matrix(matrix))
    np.testing.assert_allclose(done.model.confusions[8, 1, 0], done.model.confusions[8, 1, 1], atol=0.01)


# ---- nothing but what was said counts ---------------------------------------------------------------------------


def test_the_same_data_gives_the_same_bytes() -> None:
    a = cs.simulate(400, 10, 3, seed=1).annotations
    assert multispa(a).posterior.tobytes() == multispa(a).posterior.tobytes()


# ---- odd crowds -------------------------------------------------------------------------------------------------


def test_who_meets_nobody_is_named_and_answers_as_others_do() -> None:
    sim = cs.simulate(300, 6, 2, label_probability=0.9, seed=0)
    matrix = np.full((303, 7), -1)
    matrix[sim.annotations.item_of_label(), sim.annotations.annotator] = sim.annotations.label
    matrix[300:, 6] = (0, 1, 1)
    done = multispa(cs.Annotations.from_matrix(matrix))
    assert any("no item in common with anyone: 1" in sentence for sentence, _ in done.cautions)
    assert done.choice.best[300:].tolist() == [0, 1, 1]


def test_gold_items_stay_at_their_gold() -> None:
    sim = cs.simulate(300, 8, 3, seed=5)
    gold = {n: int(sim.truth[n]) for n in range(0, 300, 10)}
    done = multispa(sim.annotations.with_gold(gold))
    np.testing.assert_array_equal(done.posterior[list(gold), list(gold.values())], 1.0)


def test_a_uniform_prior_is_uniform() -> None:
    sim = cs.simulate(500, 8, 3, prior=[0.7, 0.2, 0.1], seed=2)
    assert multispa(sim.annotations).model.prior.max() > 0.5
    np.testing.assert_allclose(multispa(sim.annotations, prior="uniform").model.prior, 1 / 3)
