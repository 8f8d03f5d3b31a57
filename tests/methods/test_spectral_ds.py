"""The spectral method: known parameters, published figures, invariances and odd crowds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd, table7_crowd, table7_error

import consilience as cs
from consilience.data.ids import Ids
from consilience.fitting.em import Parameters, Progress
from consilience.methods.base.refinement import refine
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.majority import majority_vote
from consilience.methods.spectral_ds import group_confusions, spectral_ds


def wrong(labels: np.ndarray, truth: np.ndarray) -> float:
    return 100.0 * float(np.mean(labels != truth))


# ---- known parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", range(3))
def test_exact_moments_of_three_groups_give_prior_and_confusions(c: int) -> None:
    rng = np.random.default_rng(c)
    K, prior = 4, np.array([0.4, 0.3, 0.2, 0.1])
    C = 0.6 * np.eye(K) + 0.4 * rng.dirichlet(np.ones(K), (3, K)).transpose(0, 2, 1)
    cross = np.einsum("gik,k,hjk->ghij", C, prior, C)
    triple = np.einsum("xk,yk,zk,k->xyz", *C, prior)
    found_prior, found = group_confusions(cross, np.moveaxis(triple, c, 2), c, rng)
    order = np.argmax(found[c], axis=1)
    np.testing.assert_allclose(found_prior[order], prior, atol=1e-6)
    np.testing.assert_allclose(found[:, :, order], C, atol=1e-6)


def test_the_error_falls_with_the_number_of_items() -> None:
    found = []
    for n_items in (1000, 50_000):
        sim = cs.simulate(n_items, 15, 3, labels_per_item=8, seed=1)
        found.append(table7_error(spectral_ds(sim.annotations, partitions=2, rounds=1, shrinkage=0.0).model, sim.model))
    assert found[1] < 0.05 * found[0]


def test_confusions_come_out_as_they_were_put_in() -> None:
    """Table 7 at N = 5000, where the paper has 0.0259 after EM; a single round is lost among arbitrary annotators."""
    sims = [table7_crowd(seed, 5000) for seed in range(2)]
    several = [table7_error(spectral_ds(sim.annotations).model, sim.model) for sim in sims]
    single = [table7_error(spectral_ds(sim.annotations, rounds=1).model, sim.model) for sim in sims]
    assert np.mean(several) <= 0.002
    assert np.mean(single) > 10 * np.mean(several)


def test_em_from_the_spectrum_is_em_from_the_truth() -> None:
    for seed in range(2):
        sim = table7_crowd(seed, 2000)
        ours = refine(sim.annotations, spectral_ds(sim.annotations, partitions=3))
        best = dawid_skene_em(sim.annotations, start=Parameters(sim.model.prior, sim.model.confusions))
        assert table7_error(ours.model, sim.model) <= 1.02 * table7_error(best.model, sim.model)


def test_it_is_better_than_the_votes_on_a_crowd_with_adversaries() -> None:
    sim = cs.simulate(3000, 20, 3, label_probability=0.4, experts=0.3, adversaries=0.3, seed=4)
    votes = wrong(majority_vote(sim.annotations).choice.best, sim.truth)
    assert wrong(spectral_ds(sim.annotations).choice.best, sim.truth) < 0.5 * votes


# ---- real crowds -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("name", "votes", "refined"),
    [("bluebird", 24.07, 12.03), ("dog52", 17.91, 17.84), ("rte", 10.31, 7.12), ("trec", 34.86, 29.58)],
)
def test_the_published_figures_include_em(name: str, votes: float, refined: float) -> None:
    """Ibrahim & Fu (2022), Tables 4 and 5; the first stage alone is better than the votes with ties split."""
    a, truth = real_crowd(name)
    done = spectral_ds(a)
    assert error_percent(done.choice.best, truth) < votes
    assert error_percent(refine(a, done).choice.best, truth) <= refined + 0.006


# ---- nothing but what was said counts --------------------------------------------------------------------


def test_the_seed_decides() -> None:
    a = table7_crowd(3, 300).annotations
    one, two, other = (spectral_ds(a, partitions=2, random_state=s) for s in (5, 5, 6))
    assert one.model == two.model
    assert one.posterior.tobytes() == two.posterior.tobytes()
    assert one.model != other.model


# ---- odd crowds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0, 1], [1, 1], [0, 0], [1, 0]]),
        np.array([[0], [1], [0]]),
        np.zeros((4, 3), int),
        np.array([[0, 1, 1]]),
        np.array([[0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 1], [-1, -1, 0, 0]]),
        np.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]),
    ],
    ids=["two annotators", "one annotator", "one class", "one item", "two crowds of two", "all agree"],
)
def test_odd_crowds_get_probabilities(matrix: np.ndarray) -> None:
    done = spectral_ds(cs.Annotations.from_matrix(matrix))
    assert np.isfinite(done.posterior).all()
    np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)


def test_silence_and_gold_are_taken() -> None:
    sim = cs.simulate(200, 6, 3, seed=0)
    silent = sim.annotations.recode(Ids([*sim.annotations.annotators, "silent"]), sim.annotations.class_ids)
    silent = silent.with_gold({n: int(sim.truth[n]) for n in range(0, 200, 10)})
    done, known = spectral_ds(silent), silent.gold
    assert known is not None
    np.testing.assert_array_equal(done.posterior[known >= 0, known[known >= 0]], 1.0)
    assert np.isfinite(done.posterior).all()


def test_a_callback_is_told_the_best_likelihood_and_can_stop() -> None:
    told: list[Progress] = []

    def tell(state: Progress) -> bool:
        told.append(state)
        return state.iteration >= 3

    done = spectral_ds(table7_crowd(0, 500).annotations, callback=tell)
    assert [state.iteration for state in told] == [1, 2, 3]
    assert [state.objective for state in told] == done.history[:3]
    assert all(np.diff(done.history) >= 0)
