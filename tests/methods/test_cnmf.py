"""Coupled factors: EM on pairs of labels in plain loops, known parameters, published figures, gold and odd crowds."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import error_percent, random_model, real_crowd, sound, table7_crowd, table7_error

import consilience as cs
from consilience.data.ids import Ids
from consilience.fitting.em import ConfusionStep, Parameters, Progress, run_em
from consilience.fitting.fit import vote_start
from consilience.kernels.coupled import sweep_pairs
from consilience.methods import cnmf as module
from consilience.methods.cnmf import cnmf
from consilience.moments.cooccurrence import CoOccurrences, pair_moments


def coupled(pairs: CoOccurrences, learn: bool = True) -> module.Coupled:
    """The objective with nothing added."""
    M, K = pairs.n_annotators, pairs.n_classes
    return module.Coupled(pairs, np.zeros((M, K, K)), np.zeros(K), learn)


# ---- the updates --------------------------------------------------------------------------------------------------


def test_a_pass_over_the_pairs_is_the_sum_over_their_cells() -> None:
    model = random_model(6, 3, seed=0)
    pairs = pair_moments(model.sample(200, label_probability=0.5, random_state=1)[0])
    at = random_model(6, 3, seed=2)
    seen = sweep_pairs(pairs.who, pairs.counts, at.prior, at.confusions)
    objective, sums, classes = 0.0, np.zeros((6, 3, 3)), np.zeros(3)
    for (m, j), block in zip(pairs.who.tolist(), pairs.counts.tolist(), strict=True):
        for a in range(3):
            for b in range(3):
                q = at.prior * at.confusions[m, a] * at.confusions[j, b]
                objective += block[a][b] * np.log(q.sum())
                q *= block[a][b] / q.sum()
                sums[m, a] += q
                sums[j, b] += q
                classes += q
    np.testing.assert_allclose(seen.log_likelihood, objective)
    np.testing.assert_allclose(seen.counts, sums)
    np.testing.assert_allclose(seen.class_counts, classes)


@pytest.mark.parametrize("learn", [True, False])
def test_the_updates_are_dawid_and_skenes_on_pairs_of_labels_as_items(learn: bool) -> None:
    a, _ = random_model(7, 3, seed=3).sample(150, label_probability=0.6, random_state=4)
    rows = []
    for n in range(a.n_items):
        said = range(a.indptr[n], a.indptr[n + 1])
        for i, j in combinations(said, 2):
            row = np.full(7, -1)
            row[a.annotator[i]], row[a.annotator[j]] = a.label[i], a.label[j]
            rows.append(row)
    in_twos = cs.Annotations.from_matrix(np.array(rows))
    start = vote_start(a, ConfusionStep(0.1, learn))
    plain = run_em(in_twos, start, ConfusionStep(0.0, learn), max_iter=30, tol=0, accelerate=False)
    ours = module.run_updates(coupled(pair_moments(a), learn), start, 30, 0.0, None)
    np.testing.assert_allclose(ours.history, plain.history, rtol=1e-9)


@pytest.mark.parametrize("prior", ["learned", "uniform"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.25])
@pytest.mark.parametrize("with_gold", [False, True])
def test_the_objective_never_falls(prior: str, shrinkage: float, with_gold: bool) -> None:
    sim = cs.simulate(300, 12, 3, label_probability=0.4, adversaries=0.3, seed=6)
    a = sim.annotations.with_gold({n: int(sim.truth[n]) for n in range(0, 300, 7)}) if with_gold else sim.annotations
    history = cnmf(a, shrinkage=shrinkage, prior=prior, tol=0, max_iter=200).history  # type: ignore[arg-type]
    assert len(history) == 200
    assert np.diff(history).min() >= -1e-9 * abs(history[-1])
    assert history[-1] - history[0] > 1.0


def test_no_small_change_of_what_was_found_is_better() -> None:
    sim = cs.simulate(300, 6, 2, label_probability=0.7, seed=3)
    a = sim.annotations.with_gold({n: int(sim.truth[n]) for n in range(0, 300, 10)})
    blind = a.select_items(np.arange(300) % 10 > 0)
    pairs = pair_moments(blind)
    target = module.Coupled(pairs, *module.known_counts(a, blind, pairs, 0.25), True)
    found = module.run_updates(target, vote_start(a, ConfusionStep(0.1)), 5000, 1e-14, None)
    rng = np.random.default_rng(0)
    for _ in range(100):
        moved = found.parameters.confusions * np.exp(1e-3 * rng.standard_normal((6, 2, 2)))
        prior = found.parameters.prior * np.exp(1e-3 * rng.standard_normal(2))
        near = Parameters(prior / prior.sum(), moved / moved.sum(axis=1, keepdims=True))
        assert target(near)[0] <= found.objective + 1e-8


# ---- known parameters -----------------------------------------------------------------------------------------------


def test_exact_blocks_are_explained_to_the_last_digit() -> None:
    """Blocks A_m D A_jᵀ: the divergence goes to zero, and with specialists about the model comes back."""
    rng = np.random.default_rng(0)
    K, M = 3, 8
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1).copy()
    A[2] = A[5] = np.eye(K)
    prior = np.array([0.2, 0.3, 0.5])
    who = np.array(list(combinations(range(M), 2)))
    R = np.einsum("pak,k,pbk->pab", A[who[:, 0]], prior, A[who[:, 1]])
    pairs = CoOccurrences(who, R, Ids.range(M), Ids.range(K))
    start = Parameters(np.full(K, 1 / K), 0.7 * A + 0.3 * rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1))
    found = module.run_updates(coupled(pairs), start, 4000, 0.0, None)
    entropy = float((R * np.log(np.where(R > 0, R, 1.0))).sum())
    assert 0 <= entropy - found.objective + 1e-12 < 1e-6
    np.testing.assert_allclose(found.parameters.confusions, A, atol=2e-3)
    np.testing.assert_allclose(found.parameters.prior, prior, atol=2e-3)


@pytest.mark.parametrize(("n_items", "published"), [(1000, 0.0314), (5000, 0.0036), (10_000, 0.0009)])
def test_confusions_are_as_near_as_published(n_items: int, published: float) -> None:
    """Table 7 of Ibrahim & Fu 2022."""
    found = []
    for seed in range(6):
        drawn = table7_crowd(seed, n_items)
        annotations, model = drawn.annotations, drawn.model
        found.append(table7_error(cnmf(annotations).model, model))
    assert np.mean(found) <= published


@pytest.mark.parametrize(
    ("name", "published", "prior"),
    [("bluebird", 11.11, "learned"), ("trec", 29.84, "learned"), ("dog52", 15.86, "uniform"), ("rte", 7.12, "uniform")],
)
def test_the_published_errors_are_reached(data_folder: Path, name: str, published: float, prior: str) -> None:
    """Tables 4 and 5 there, which cut off the third decimal; two of them with a uniform prior only."""
    annotations, truth = real_crowd(name)
    done = cnmf(annotations, prior=prior)  # type: ignore[arg-type]
    assert done.converged
    assert error_percent(done.choice.best, truth) < published + 0.01


@pytest.mark.parametrize("name", ["dog52", "rte", "labelme"])
def test_with_a_learned_prior_the_votes_are_beaten(data_folder: Path, name: str) -> None:
    from consilience.methods.majority import majority_vote

    annotations, truth = real_crowd(name)
    votes = error_percent(majority_vote(annotations).choice.best, truth)
    assert error_percent(cnmf(annotations).choice.best, truth) < votes


def test_the_better_of_both_starts_is_kept() -> None:
    a = table7_crowd(1, 600).annotations
    done = cnmf(a, shrinkage=0.0)
    assert done.details["start"] in ("votes", "multispa")
    start = vote_start(a, ConfusionStep(0.1))
    from_votes = module.run_updates(coupled(pair_moments(a)), start, 2000, 1e-7, None)
    assert done.history[-1] >= from_votes.objective - 1e-6


# ---- shrinkage and gold ---------------------------------------------------------------------------------------------


def test_endless_shrinkage_makes_everybody_the_crowd() -> None:
    a = cs.simulate(300, 6, 3, seed=1).annotations
    assert np.ptp(cnmf(a, shrinkage=0.0).model.confusions, axis=0).max() > 0.1
    assert np.ptp(cnmf(a, shrinkage=1e6).model.confusions, axis=0).max() < 1e-3


def test_shrinkage_by_one_label_is_by_one_label_however_many_pairs_it_is_in() -> None:
    """Who gave n labels to items of nine others each has 9 n in pairs, and so much more is added."""
    model = random_model(10, 2, seed=0)
    a = model.sample(50, random_state=0)[0]
    pairs = pair_moments(a)
    known, _ = module.known_counts(a, a, pairs, 0.5)
    np.testing.assert_allclose(known.sum(axis=1), 9 * 0.5 * 2)
    seen = sweep_pairs(pairs.who, pairs.counts, model.prior, model.confusions)
    np.testing.assert_allclose(seen.counts.sum(axis=(1, 2)), 9 * 50)


def test_gold_items_stay_at_their_gold_and_teach() -> None:
    """Half of the crowd is adverse: blind, the classes cannot be told apart; a few truths name them."""
    K, M = 2, 10
    A = np.stack(
        [np.array([[0.8, 0.2], [0.2, 0.8]]) if m < 4 else np.array([[0.2, 0.8], [0.8, 0.2]]) for m in range(M)]
    )
    model = cs.DawidSkene(np.array([0.5, 0.5]), A, Ids.range(K), Ids.range(M))
    a, truth = model.sample(500, random_state=0)
    gold = {n: int(truth[n]) for n in range(0, 500, 10)}
    blind, taught = cnmf(a), cnmf(a.with_gold(gold))
    np.testing.assert_array_equal(taught.posterior[list(gold), list(gold.values())], 1.0)
    assert error_percent(blind.choice.best, truth) > 90
    assert error_percent(taught.choice.best, truth) < 10


def test_where_every_truth_is_known_the_confusions_are_the_counts() -> None:
    sim = cs.simulate(200, 5, 2, seed=4)
    done = cnmf(sim.annotations.with_gold(sim.truth), shrinkage=0.0)
    counts = np.zeros((5, 2, 2))
    np.add.at(counts, (sim.annotations.annotator, sim.annotations.label, sim.truth[sim.annotations.item_of_label()]), 1)
    np.testing.assert_allclose(done.model.confusions, counts / counts.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(done.model.prior, np.bincount(sim.truth) / 200)


# ---- nothing but what was said counts -------------------------------------------------------------------------------


def test_the_same_data_gives_the_same_bytes() -> None:
    a = cs.simulate(400, 10, 3, seed=1).annotations
    assert cnmf(a).posterior.tobytes() == cnmf(a).posterior.tobytes()


# ---- odd crowds, and the story of a fit -----------------------------------------------------------------------------


def test_a_callback_is_told_and_stops_the_whole_fit() -> None:
    a = table7_crowd(0, 500).annotations
    told: list[Progress] = []

    def tell(state: Progress) -> bool:
        told.append(state)
        return state.iteration >= 3

    done = cnmf(a, callback=tell)
    assert [state.iteration for state in told] == [1, 2, 3]
    assert [state.objective for state in told] == done.history
    assert not done.converged


def test_not_converged_is_said() -> None:
    done = cnmf(table7_crowd(0, 500).annotations, max_iter=2, tol=1e-12)
    assert not done.converged
    assert any("did not converge in 2 passes" in sentence for sentence, _ in done.cautions)
    assert sound(cnmf(table7_crowd(0, 500).annotations, max_iter=0))
