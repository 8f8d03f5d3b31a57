"""GLAD: the equations in plain loops, scipy's optimum, crowd-kit's, parameters put in and found, and odd crowds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.conftest import error_percent, real_crowd
from tests.methods.conftest import (
    assert_stops_when_told,
    by_one_and_three_threads,
    labels_of,
    mixed,
    odd_crowds,
    twice,
)

import consilience as cs
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.both_ways import by_annotator
from consilience.kernels.glad import GladSweeps
from consilience.methods.glad import fit_glad, glad
from consilience.methods.majority import majority_vote


def draw(N: int, M: int, K: int, per_item: int, seed: int) -> tuple[cs.Annotations, Ints, Floats, Floats]:
    """A crowd from the very model: annotations, truth, abilities and eases (drawn from their priors)."""
    rng = np.random.default_rng(seed)
    ability, ease = rng.normal(1.0, 1.0, M), rng.normal(1.0, 1.0, N)
    truth = rng.integers(0, K, N)
    who = np.argsort(rng.random((N, M)), axis=1)[:, :per_item]
    right = rng.random((N, per_item)) < expit(ability[who] * np.exp(ease)[:, None])
    wrong = (truth[:, None] + rng.integers(1, K, (N, per_item))) % K
    said = np.where(right, truth[:, None], wrong)
    return labels_of(who, said, M, K), truth, ability, ease


def by_hand(a: cs.Annotations, prior: Floats, ability: Floats, ease: Floats) -> tuple[Floats, float]:
    """Posterior and penalised log-likelihood, one label at a time from the definition."""
    K = a.n_classes
    q = np.empty((a.n_items, K))
    total = -0.5 * float(((ability - 1) ** 2).sum() + ((ease - 1) ** 2).sum())
    for n in range(a.n_items):
        joint = prior.copy()
        for i in range(a.indptr[n], a.indptr[n + 1]):
            right = 1 / (1 + np.exp(-ability[a.annotator[i]] * np.exp(ease[n])))
            for k in range(K):
                joint[k] *= right if a.label[i] == k else (1 - right) / (K - 1)
        if a.gold is not None and a.gold[n] >= 0:
            joint *= np.arange(K) == a.gold[n]
        q[n] = joint / joint.sum()
        total += float(np.log(joint.sum()))
    return q, total


def expected(a: cs.Annotations, q: Floats, ability: Floats, ease: Floats) -> float:
    """What the M-step maximises: Whitehill et al., the function Q, with the log-densities of the priors."""
    total = -0.5 * float(((ability - 1) ** 2).sum() + ((ease - 1) ** 2).sum())
    for n in range(a.n_items):
        for i in range(a.indptr[n], a.indptr[n + 1]):
            right = 1 / (1 + np.exp(-ability[a.annotator[i]] * np.exp(ease[n])))
            w = q[n, a.label[i]]
            total += float(w * np.log(right) + (1 - w) * np.log(1 - right))
    return total


def sweeps_of(a: cs.Annotations) -> GladSweeps:
    return GladSweeps(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


# ---- the equations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 5])
def test_posterior_and_likelihood_are_those_of_the_definition(K: int) -> None:
    a, truth, _, _ = draw(40, 7, K, 4, seed=K)
    a = a.with_gold(np.where(np.arange(40) % 9 == 0, truth, -1))
    rng = np.random.default_rng(0)
    ability, ease, prior = rng.normal(0.5, 1, 7), rng.normal(0, 1, 40), rng.dirichlet(np.ones(K))
    q, sums, log_likelihood = sweeps_of(a).posterior(prior, ability, ease)
    exact, objective = by_hand(a, prior, ability, ease)
    penalty = 0.5 * (((ability - 1) ** 2).sum() + ((ease - 1) ** 2).sum())
    np.testing.assert_allclose(q, exact, atol=1e-13)
    np.testing.assert_allclose(sums, exact.sum(axis=0), atol=1e-12)
    assert log_likelihood - penalty == pytest.approx(objective, abs=1e-9)


def test_many_and_extreme_labels_neither_overflow_nor_vanish() -> None:
    """A thousand labels an item, and abilities that saturate the sigmoid."""
    rng = np.random.default_rng(0)
    a = cs.Annotations.from_matrix(rng.integers(0, 3, (4, 1000)))
    ability = rng.normal(0, 30, 1000)
    q, _, log_likelihood = sweeps_of(a).posterior(np.full(3, 1 / 3), ability, np.full(4, 2.0))
    x = ability * np.exp(2.0)
    log_right, log_wrong = -np.logaddexp(0, -x), -np.logaddexp(0, x) - np.log(2)
    joint = np.array([[np.where(row == k, log_right, log_wrong).sum() for k in range(3)] for row in _matrix(a)])
    exact = np.logaddexp.reduce(joint - np.log(3), axis=1)
    assert log_likelihood == pytest.approx(exact.sum(), rel=1e-12)
    np.testing.assert_allclose(q, np.exp(joint - np.log(3) - exact[:, None]), atol=1e-9)


def _matrix(a: cs.Annotations) -> Ints:
    made = np.empty((a.n_items, a.n_annotators), np.int64)
    made[a.item_of_label(), a.annotator] = a.label
    return made


@pytest.mark.parametrize("side", ["ability", "ease"])
@pytest.mark.parametrize("seed", range(3))
def test_the_climb_ends_where_scipy_does(side: str, seed: int) -> None:
    a, _, _, _ = draw(25, 6, 3, 4, seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), 25)
    ability, ease = rng.normal(1, 1, 6), rng.normal(0, 1, 25)
    sweeps = sweeps_of(a)
    climbed = [expected(a, q, ability, ease)]
    start = {"ability": ability.copy(), "ease": ease.copy()}
    for _ in range(25):
        (sweeps.improve_ability if side == "ability" else sweeps.improve_ease)(q, ability, ease)
        climbed.append(expected(a, q, ability, ease))
    assert (np.diff(climbed) >= -1e-10).all()

    def negative(x: Floats) -> float:
        return -expected(a, q, **{**start, side: x})

    best = minimize(negative, start[side], method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(ability if side == "ability" else ease, best.x, atol=2e-5)
    assert climbed[-1] >= -best.fun - 1e-9


@pytest.mark.parametrize("prior", ["uniform", "learned"])
@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_a_maximum_of_the_penalised_likelihood(prior: str, seed: int) -> None:
    """Finite differences of the likelihood, computed by hand, vanish; scipy finds nothing better nearby."""
    a, _, _, _ = draw(20, 5, 3, 4, seed)
    found = fit_glad(a, prior=prior, tol=1e-15, max_iter=5000)  # type: ignore[arg-type]
    x = np.concatenate([found.ability, found.ease])

    def objective(x: Floats) -> float:
        return by_hand(a, found.prior, x[:5], x[5:])[1]

    assert objective(x) == pytest.approx(found.history[-1], abs=1e-9)
    h = 1e-5
    gradient = [(objective(x + h * e) - objective(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    better = minimize(lambda z: -objective(z), x, method="BFGS", options={"maxiter": 20})
    assert -better.fun <= found.history[-1] + 1e-6
    if prior == "learned":
        np.testing.assert_allclose(found.prior, found.posterior.mean(axis=0), atol=1e-5)
    else:
        np.testing.assert_array_equal(found.prior, 1 / 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_the_objective_never_falls(seed: int, prior: str) -> None:
    sim = cs.simulate(300, 12, 3, spammers=0.2, adversaries=0.2, prior=[0.6, 0.3, 0.1], seed=seed)
    found = fit_glad(sim.annotations, prior=prior, tol=1e-12)  # type: ignore[arg-type]
    history = np.array(found.history)
    assert history.size > 5
    assert (np.diff(history) >= -1e-10 * np.abs(history[1:])).all()


def test_grouping_by_annotator_loses_nothing() -> None:
    a = cs.simulate(50, 6, 3, label_probability=0.3, seed=0).annotations
    indptr, item, label = by_annotator(a.indptr, a.annotator, a.label, 6, 3)
    rows = zip(np.repeat(np.arange(6), np.diff(indptr)), item, label, strict=True)
    assert sorted(rows) == sorted(zip(a.annotator, a.item_of_label(), a.label, strict=True))


# ---- known parameters, and other programs -------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 4])
def test_abilities_and_labels_come_out_as_they_were_put_in(K: int) -> None:
    a, truth, ability, ease = draw(3000, 30, K, 10, seed=K)
    found = fit_glad(a)
    assert np.corrcoef(found.ability, ability)[0, 1] > 0.97
    assert np.abs(found.ability - ability).mean() < 0.25
    assert np.corrcoef(found.ease, ease)[0, 1] > 0.5  # ten labels tell little of one item
    oracle, _ = by_hand(a, np.full(K, 1 / K), ability, ease)
    wrong = np.mean(found.posterior.argmax(axis=1) != truth)
    assert wrong <= np.mean(oracle.argmax(axis=1) != truth) + 0.01
    assert wrong < (0.6 if K == 2 else 0.9) * np.mean(majority_vote(a).choice.best != truth)
    # a probability of right is as often right: the posterior of the model that the data came from is calibrated
    confidence = found.posterior.max(axis=1)
    assert abs(confidence.mean() - (1 - wrong)) < 0.02


@pytest.mark.filterwarnings("ignore:.*keyword.*deprecated")
def test_crowd_kit_agrees() -> None:
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    a, _, _, _ = draw(20, 6, 3, 4, seed=2)
    frame = a.to_frame("pandas").set_axis(["task", "worker", "label"], axis=1)
    theirs = peer.GLAD(n_iter=6, tol=1e-12, m_step_max_iter=20, m_step_tol=1e-5).fit(frame)
    ours = fit_glad(a, tol=1e-13, max_iter=3000)
    np.testing.assert_allclose(ours.posterior, theirs.probas_.loc[a.items, a.classes].to_numpy(), atol=5e-3)
    np.testing.assert_allclose(ours.ability, theirs.alphas_.loc[a.annotators].to_numpy(), atol=5e-3)
    np.testing.assert_allclose(ours.ease, theirs.betas_.loc[a.items].to_numpy(), atol=5e-3)


@pytest.mark.parametrize(("name", "figure"), [("bluebird", 27.78), ("dog52", 17.22), ("rte", 7.50)])
def test_the_errors_on_real_data_are_those_of_crowd_kit(data_folder: Path, name: str, figure: float) -> None:
    """crowd-kit 1.4.2 after 30 iterations, which takes it 30 to 110 seconds."""
    a, truth = real_crowd(name)
    assert error_percent(glad(a).choice.best, truth) == pytest.approx(figure, abs=100.5 / (truth >= 0).sum())


# ---- nothing but what was said counts -----------------------------------------------------------------------


def test_order_and_names_change_nothing() -> None:
    a = cs.simulate(300, 10, 3, adversaries=0.2, seed=8).annotations
    b, order = mixed(a)
    plain, other = fit_glad(a, tol=1e-12), fit_glad(b, tol=1e-12)
    np.testing.assert_allclose(other.posterior[order][:, [2, 0, 1]], plain.posterior, atol=1e-7)
    who = [list(b.annotators).index(f"x{m}") for m in a.annotators]
    np.testing.assert_allclose(other.ability[who], plain.ability, atol=1e-7)


def test_mirror_images_stay_undecided() -> None:
    """Two who always disagree: nothing says whom to believe."""
    matrix = np.array([[0, 1], [1, 0], [0, 1], [2, 1], [1, 2]])
    q = fit_glad(cs.Annotations.from_matrix(matrix), tol=1e-12).posterior
    for row, (i, j) in zip(q, matrix, strict=True):
        assert row[i] == pytest.approx(row[j], abs=1e-9)


def test_threads_do_not_change_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(60_000, 40, 3, labels_per_item=5, seed=0).annotations
    made = by_one_and_three_threads(monkeypatch, a, lambda: fit_glad(a, max_iter=3, tol=0))
    assert made[0].posterior.tobytes() == made[1].posterior.tobytes()
    assert made[0].ability.tobytes() == made[1].ability.tobytes()
    assert made[0].history == made[1].history


# ---- odd crowds, and manners --------------------------------------------------------------------------------


@odd_crowds
@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_odd_crowds_give_probabilities(matrix: Ints, prior: str) -> None:
    done = glad(cs.Annotations.from_matrix(matrix), prior=prior)  # type: ignore[arg-type]
    assert np.isfinite(done.posterior).all()
    np.testing.assert_allclose(done.posterior.sum(axis=1), 1)
    assert np.isfinite(done.history).all()


def test_items_and_annotators_without_labels_are_at_their_priors() -> None:
    matrix = np.array([[0, 0, 1, -1], [1, 1, 1, -1], [-1, -1, -1, -1], [0, 1, 0, -1]])
    found = fit_glad(cs.Annotations.from_matrix(matrix), prior="learned")
    assert found.ability[3] == 1
    assert found.ease[2] == 1
    np.testing.assert_allclose(found.posterior[2], found.prior, atol=1e-9)


def test_gold_is_held_and_teaches() -> None:
    a, truth, _, _ = draw(200, 6, 2, 3, seed=3)
    known = np.arange(200) % 2 == 0
    taught = a.with_gold(np.where(known, truth, -1))
    done = glad(taught)
    assert np.mean((done.choice.best != truth)[~known]) <= np.mean((glad(a).choice.best != truth)[~known])
    np.testing.assert_array_equal(done.posterior[known, truth[known]], 1.0)


def test_repeated_answers_count_each() -> None:
    a = twice(cs.simulate(40, 5, 2, seed=0).annotations)
    found = fit_glad(a)
    exact, objective = by_hand(a, found.prior, found.ability, found.ease)
    np.testing.assert_allclose(found.posterior, exact, atol=1e-10)
    assert found.history[-1] == pytest.approx(objective, abs=1e-8)


def test_callback_tolerance_and_running_out() -> None:
    a, _, _, _ = draw(100, 6, 3, 4, seed=0)
    assert_stops_when_told(glad, a)
    assert not glad(a, max_iter=7, tol=0).cautions
    done = glad(a)
    assert done.converged
    assert not done.cautions
