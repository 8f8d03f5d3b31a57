"""Minimax conditional entropy: plain loops, scipy's optimum, published figures, known parameters, and odd crowds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.conftest import error_percent, real_crowd
from tests.methods.conftest import (
    assert_stops_when_told,
    by_one_and_three_threads,
    labels_of,
    odd_crowds,
    twice,
)

import consilience as cs
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.minimax import MinimaxSweeps
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.minimax_entropy import fit_minimax_entropy, minimax_entropy, penalties


def draw(
    N: int, M: int, K: int, per_item: int, spread: float, seed: int
) -> tuple[cs.Annotations, Ints, Floats, Floats]:
    """A crowd from the very model: annotations, truth, σ and τ; ``spread`` is the size of τ."""
    rng = np.random.default_rng(seed)
    sigma = rng.normal(0.0, 0.7, (M, K, K)) + 1.5 * np.eye(K)
    tau = rng.normal(0.0, spread, (N, K, K))
    truth = rng.integers(0, K, N)
    who = np.argsort(rng.random((N, M)), axis=1)[:, :per_item]
    logits = sigma[who, truth[:, None]] + tau[np.arange(N), truth][:, None]
    said = (logits + rng.gumbel(size=logits.shape)).argmax(axis=2)
    return labels_of(who, said, M, K), truth, sigma, tau


def probability(sigma: Floats, tau: Floats) -> Floats:
    """Pr(c | k) of one annotator on one item, (K, K)."""
    made = np.exp(sigma + tau)
    return np.asarray(made / made.sum(axis=1, keepdims=True))


def by_hand(a: cs.Annotations, prior: Floats, sigma: Floats, tau: Floats) -> tuple[Floats, float]:
    """Posterior and log-likelihood, one label at a time from the definition."""
    q = np.empty((a.n_items, a.n_classes))
    total = 0.0
    for n in range(a.n_items):
        joint = prior.copy()
        for i in range(a.indptr[n], a.indptr[n + 1]):
            joint *= probability(sigma[a.annotator[i]], tau[n])[:, a.label[i]]
        if a.gold is not None and a.gold[n] >= 0:
            joint *= np.arange(a.n_classes) == a.gold[n]
        q[n] = joint / joint.sum()
        total += float(np.log(joint.sum()))
    return q, total


def expected(a: cs.Annotations, q: Floats, sigma: Floats, tau: Floats, weights: tuple[float, float]) -> float:
    """The dual objective for a fixed posterior, one label at a time."""
    total = -0.5 * weights[0] * float((sigma**2).sum()) - 0.5 * weights[1] * float((tau**2).sum())
    for n in range(a.n_items):
        for i in range(a.indptr[n], a.indptr[n + 1]):
            total += float(q[n] @ np.log(probability(sigma[a.annotator[i]], tau[n])[:, a.label[i]]))
    return total


def sweeps_of(a: cs.Annotations) -> MinimaxSweeps:
    return MinimaxSweeps(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


# ---- the equations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 5])
def test_posterior_and_likelihood_are_those_of_the_definition(K: int) -> None:
    a, truth, sigma, tau = draw(30, 6, K, 4, 0.5, seed=K)
    a = a.with_gold(np.where(np.arange(30) % 7 == 0, truth, -1))
    prior = np.random.default_rng(0).dirichlet(np.ones(K))
    q = np.empty((30, K))
    sums, log_likelihood = sweeps_of(a).posterior(prior, np.exp(sigma), np.exp(tau), q)
    exact, total = by_hand(a, prior, sigma, tau)
    np.testing.assert_allclose(q, exact, atol=1e-13)
    np.testing.assert_allclose(sums, exact.sum(axis=0), atol=1e-12)
    assert log_likelihood == pytest.approx(total, abs=1e-10)


def test_items_with_thousands_of_labels_do_not_vanish() -> None:
    rng = np.random.default_rng(0)
    a = cs.Annotations.from_matrix(rng.integers(0, 2, (3, 4000)))
    sigma = rng.normal(0, 2, (4000, 2, 2))
    q = np.empty((3, 2))
    _, log_likelihood = sweeps_of(a).posterior(np.full(2, 0.5), np.exp(sigma), np.ones((3, 2, 2)), q)
    log_p = sigma - np.logaddexp.reduce(sigma, axis=2)[:, :, None]
    joint = np.zeros((3, 2))
    np.add.at(joint, a.item_of_label(), log_p[a.annotator, :, a.label])
    exact = np.logaddexp.reduce(joint + np.log(0.5), axis=1)
    assert log_likelihood == pytest.approx(exact.sum(), rel=1e-12)
    np.testing.assert_allclose(q, np.exp(joint + np.log(0.5) - exact[:, None]), atol=1e-9)


@pytest.mark.parametrize("of_items", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_climb_ends_where_scipy_does(of_items: bool, seed: int) -> None:
    a, _, _, _ = draw(12, 4, 3, 3, 0.5, seed)
    rng = np.random.default_rng(seed)
    q, weights = rng.dirichlet(np.ones(3), 12), (0.7, 0.4)
    tables = [np.exp(rng.normal(0, 1, (4, 3, 3))), np.exp(rng.normal(0, 1, (12, 3, 3)))]
    start = [np.log(table) for table in tables]
    sweeps = sweeps_of(a)
    climb = sweeps.improve_items if of_items else sweeps.improve_annotators
    climbed = [expected(a, q, start[0], start[1], weights)]
    for _ in range(12):
        squares = climb(q, tables[0], tables[1], weights[of_items])
        climbed.append(expected(a, q, np.log(tables[0]), np.log(tables[1]), weights))
    assert (np.diff(climbed) >= -1e-10).all()
    assert squares == pytest.approx(float((np.log(tables[of_items]) ** 2).sum()), rel=1e-9)
    shape = start[of_items].shape

    def negative(x: Floats) -> float:
        at = list(start)
        at[of_items] = x.reshape(shape)
        return -expected(a, q, at[0], at[1], weights)

    # the function is strictly concave: where finite differences vanish, and scipy finds nothing better, is its maximum
    x = np.log(tables[of_items]).ravel()
    h = 1e-5
    gradient = [(negative(x + h * e) - negative(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    np.testing.assert_allclose(gradient, 0, atol=1e-7)
    # a row that sums to zero is what the penalty prefers of all that give the same probabilities
    np.testing.assert_allclose(np.log(tables[of_items]).sum(axis=2), 0, atol=1e-7)


def test_an_annotators_optimum_is_scipys() -> None:
    a, _, _, _ = draw(10, 3, 2, 3, 0.5, seed=0)
    q = np.random.default_rng(1).dirichlet(np.ones(2), 10)
    annotators, items = np.ones((3, 2, 2)), np.ones((10, 2, 2))
    for _ in range(10):
        sweeps_of(a).improve_annotators(q, annotators, items, 0.3)
    best = minimize(
        lambda x: -expected(a, q, x.reshape(3, 2, 2), np.zeros((10, 2, 2)), (0.3, 1.0)), np.zeros(12), method="BFGS"
    )
    np.testing.assert_allclose(np.log(annotators).ravel(), best.x, atol=1e-4)


@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_the_fit_is_a_maximum_of_the_penalised_likelihood(prior: str) -> None:
    """Finite differences of the likelihood, computed by hand, vanish in every σ and τ; scipy finds nothing better."""
    a, _, _, _ = draw(10, 4, 2, 4, 0.5, seed=2)
    weights = penalties(a, 1.0, 1.0)
    found = fit_minimax_entropy(a, prior=prior, tol=1e-15, max_iter=5000)  # type: ignore[arg-type]
    x = np.concatenate([np.log(found.annotators).ravel(), np.log(found.items).ravel()])

    def objective(x: Floats) -> float:
        sigma, tau = x[:16].reshape(4, 2, 2), x[16:].reshape(10, 2, 2)
        penalty = 0.5 * weights[0] * (sigma**2).sum() + 0.5 * weights[1] * (tau**2).sum()
        return by_hand(a, found.prior, sigma, tau)[1] - float(penalty)

    assert objective(x) == pytest.approx(found.history[-1], abs=1e-9)
    h = 1e-5
    gradient = [(objective(x + h * e) - objective(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    np.testing.assert_allclose(gradient, 0, atol=2e-5)
    better = minimize(lambda z: -objective(z), x, method="BFGS", options={"maxiter": 10})
    assert -better.fun <= found.history[-1] + 1e-7
    if prior == "learned":
        np.testing.assert_allclose(found.prior, found.posterior.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_the_objective_never_falls(seed: int, prior: str) -> None:
    sim = cs.simulate(200, 12, 3, spammers=0.2, adversaries=0.2, prior=[0.6, 0.3, 0.1], seed=seed)
    for strength in (0.01, 1.0, 20.0):
        found = fit_minimax_entropy(
            sim.annotations,
            annotator_penalty=strength,
            item_penalty=strength,
            prior=prior,  # type: ignore[arg-type]
            tol=1e-10,
        )
        history = np.array(found.history)
        assert history.size > 3
        assert (np.diff(history) >= -1e-10 * np.abs(history[1:])).all()


def test_the_penalties_are_the_authors_with_two_classes() -> None:
    """γ K² with γ = 1/4, and times labels per annotator over labels per item; empty rows and columns do not count."""
    matrix = np.random.default_rng(0).integers(0, 2, (60, 5))
    assert penalties(cs.Annotations.from_matrix(matrix), 1.0, 1.0) == pytest.approx((1.0, 60 / 5))
    padded = np.full((70, 8), -1)
    padded[:60, :5] = matrix
    assert penalties(cs.Annotations.from_matrix(padded), 1.0, 3.0) == pytest.approx((1.0, 3 * 60 / 5))


# ---- known parameters, other methods, published figures -----------------------------------------------------


def test_confusions_come_out_as_they_were_put_in() -> None:
    a, truth, sigma, tau = draw(3000, 15, 3, 10, 0.3, seed=1)
    found = fit_minimax_entropy(a)
    # who knows the annotators, but no more of an item than its ten labels
    oracle, _ = by_hand(a, np.full(3, 1 / 3), sigma, np.zeros_like(tau))
    wrong = np.mean(found.posterior.argmax(axis=1) != truth)
    assert wrong <= np.mean(oracle.argmax(axis=1) != truth) + 0.01
    centred = sigma - sigma.mean(axis=2, keepdims=True)
    assert np.corrcoef(np.log(found.annotators).ravel(), centred.ravel())[0, 1] > 0.97
    assert np.abs(np.log(found.annotators) - centred).mean() < 0.15


def test_items_that_mislead_are_seen() -> None:
    """Where an item pulls everybody to one wrong answer, its own confusion finds more of them than Dawid and Skene."""
    rng = np.random.default_rng(0)
    N, M = 400, 30
    truth = rng.integers(0, 2, N)
    hard = rng.random(N) < 0.3
    right = np.where(hard[:, None], rng.uniform(0.35, 0.65, (1, M)), rng.uniform(0.8, 0.95, (1, M)))
    said = np.where(rng.random((N, M)) < right, truth[:, None], 1 - truth[:, None])
    found = fit_minimax_entropy(cs.Annotations.from_matrix(said))
    size = np.abs(np.log(found.items)).max(axis=(1, 2))
    assert size[hard].mean() > 1.5 * size[~hard].mean()


def test_without_item_confusions_it_is_dawid_and_skene() -> None:
    """A huge item penalty and a tiny annotator penalty leave maximum likelihood of the confusions."""
    sim = cs.simulate(1500, 8, 3, label_probability=0.9, seed=3)
    found = fit_minimax_entropy(sim.annotations, annotator_penalty=1e-4, item_penalty=1e9, tol=1e-11)
    other = dawid_skene_em(sim.annotations, prior="uniform", tol=1e-11)
    np.testing.assert_allclose(found.items, 1.0, atol=1e-6)
    confusions = found.annotators / found.annotators.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(confusions.transpose(0, 2, 1), other.model.confusions, atol=2e-3)
    np.testing.assert_allclose(found.posterior, other.posterior, atol=0.02)


@pytest.mark.parametrize(("name", "figure"), [("bluebird", 8.33), ("dog52", 16.23), ("rte", 7.5)])
def test_published_figures(data_folder: Path, name: str, figure: float) -> None:
    """Ibrahim & Fu (2022), Tables 4 and 5, within one item, with the λ = ¼ K² of the authors' demonstration."""
    a, truth = real_crowd(name)
    authors = 0.25 * a.n_classes**2 / (2 / a.n_classes)
    done = minimax_entropy(a, annotator_penalty=authors, item_penalty=authors)
    assert error_percent(done.choice.best, truth) == pytest.approx(figure, abs=100.5 / (truth >= 0).sum() + 0.005)


def test_trec_is_not_worse_than_published(data_folder: Path) -> None:
    """Table 5 has 30.89, no whole number of the 2275 items with truth; at the optimum the error is 30.02."""
    a, truth = real_crowd("trec")
    done = minimax_entropy(a)
    assert done.converged
    assert error_percent(done.choice.best, truth) == pytest.approx(30.02, abs=0.1)


def test_many_classes_do_not_collapse(data_folder: Path) -> None:
    """With the authors' λ = ¼ K² the posterior of eight classes is nearly uniform, and its best class is arbitrary."""
    a, truth = real_crowd("labelme")
    authors = 0.25 * 8**2 / (2 / 8)
    assert minimax_entropy(a, annotator_penalty=authors, item_penalty=authors).posterior.max() < 0.3
    assert error_percent(minimax_entropy(a).choice.best, truth) < 21


# ---- nothing but what was said counts -----------------------------------------------------------------------


def test_mirror_images_stay_undecided() -> None:
    """Two who always disagree: nothing says whom to believe."""
    matrix = np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
    q = fit_minimax_entropy(cs.Annotations.from_matrix(matrix), tol=1e-12).posterior
    np.testing.assert_allclose(q, 0.5, atol=1e-9)


def test_threads_do_not_change_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(60_000, 40, 2, labels_per_item=5, seed=0).annotations
    made = by_one_and_three_threads(monkeypatch, a, lambda: fit_minimax_entropy(a, max_iter=2, tol=0))
    assert made[0].posterior.tobytes() == made[1].posterior.tobytes()
    assert made[0].annotators.tobytes() == made[1].annotators.tobytes()
    assert made[0].history == made[1].history


# ---- odd crowds, and manners --------------------------------------------------------------------------------


@odd_crowds
@pytest.mark.parametrize("prior", ["uniform", "learned"])
@pytest.mark.parametrize("strength", [1e-6, 1.0, 1e6])
def test_odd_crowds_give_probabilities(matrix: Ints, prior: str, strength: float) -> None:
    done = minimax_entropy(
        cs.Annotations.from_matrix(matrix),
        prior=prior,  # type: ignore[arg-type]
        annotator_penalty=strength,
        item_penalty=strength,
        max_iter=200,
    )
    assert np.isfinite(done.posterior).all()
    np.testing.assert_allclose(done.posterior.sum(axis=1), 1)
    assert np.isfinite(done.history).all()
    assert (np.diff(done.history) >= -1e-9).all()


def test_items_and_annotators_without_labels() -> None:
    matrix = np.array([[0, 0, 1, -1], [1, 1, 1, -1], [-1, -1, -1, -1], [0, 1, 0, -1]])
    found = fit_minimax_entropy(cs.Annotations.from_matrix(matrix))
    np.testing.assert_array_equal(found.annotators[3], 1.0)
    np.testing.assert_array_equal(found.items[2], 1.0)
    np.testing.assert_allclose(found.posterior[2], 0.5)


def test_gold_is_held_and_names_the_classes() -> None:
    """Everybody swaps the two classes; gold of two items in three tells, against all the votes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    said = np.where(rng.random((300, 7)) < 0.85, 1 - truth[:, None], truth[:, None])
    known = np.arange(300) < 200
    a = cs.Annotations.from_matrix(said)
    blind, taught = minimax_entropy(a), minimax_entropy(a.with_gold(np.where(known, truth, -1)))
    np.testing.assert_array_equal(taught.posterior[known, truth[known]], 1.0)
    assert np.mean((blind.choice.best != truth)[~known]) > 0.9
    assert np.mean((taught.choice.best != truth)[~known]) < 0.05


def test_repeated_answers_count_each() -> None:
    a = twice(cs.simulate(40, 5, 2, seed=0).annotations)
    found = fit_minimax_entropy(a)
    exact, total = by_hand(a, found.prior, np.log(found.annotators), np.log(found.items))
    np.testing.assert_allclose(found.posterior, exact, atol=1e-10)
    assert found.log_likelihood == pytest.approx(total, abs=1e-9)


def test_callback_tolerance_and_running_out() -> None:
    a, _, _, _ = draw(100, 6, 3, 4, 0.3, seed=0)
    assert_stops_when_told(minimax_entropy, a)
    assert minimax_entropy(a).converged
