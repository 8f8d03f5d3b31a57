"""Variational Bayes: its equations one label at a time, the exact posterior where it can be had, and what it is for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, psi
from tests.conftest import brute_force, error_percent, random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Progress, sweep_of
from consilience.fitting.fit import Fit, vote_posterior
from consilience.fitting.variational import Dirichlet
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import FLOOR
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.ibcc import ibcc, pseudo_labels


def triples(a: Annotations) -> list[tuple[int, int, int]]:
    """The labels, one (item, annotator, label) each."""
    return [(int(n), int(m), int(i)) for n, m, i in zip(a.item_of_label(), a.annotator, a.label, strict=True)]


def slow(a: Annotations, alpha: Floats, beta: Floats, rounds: int) -> tuple[Floats, Floats, Floats, float]:
    """Simpson et al. (2013), one label at a time: q(truth), the Dirichlet parameters, and the bound by definition."""
    N, M, K = a.n_items, a.n_annotators, a.n_classes
    q = vote_posterior(a)
    for _ in range(rounds):
        nu, mu = alpha + q.sum(axis=0), np.tile(beta, (M, 1, 1))
        for n, m, i in triples(a):
            mu[m, i] += q[n]
        log_pi = psi(nu) - psi(nu.sum())
        log_a = psi(mu) - psi(mu.sum(axis=1, keepdims=True))
        joint = np.tile(log_pi, (N, 1))
        for n, m, i in triples(a):
            joint[n] += log_a[m, i]
        q = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    # E log p(labels, truth, π, A) - E log q(truth) - E log q(π) - E log q(A)
    bound = float((q * joint).sum() - (q * np.log(np.maximum(q, 1e-300))).sum())
    bound += _expected_density(alpha, log_pi) - _expected_density(nu, log_pi)
    for m, k in product(range(M), range(K)):
        bound += _expected_density(beta[:, k], log_a[m, :, k]) - _expected_density(mu[m, :, k], log_a[m, :, k])
    return q, nu, mu, bound


def _expected_density(parameters: Floats, expected_log: Floats) -> float:
    """E log Dirichlet(p; parameters), where E log p is given."""
    normaliser = gammaln(parameters.sum()) - gammaln(parameters).sum()
    return float(normaliser + ((parameters - 1) * expected_log).sum())


def exact(a: Annotations, alpha: Floats, beta: Floats) -> tuple[Floats, float]:
    """The posterior of every item and the log-probability of all labels, trying all truths, models integrated out."""
    N, M, K = a.n_items, a.n_annotators, a.n_classes
    logs, truths = [], list(product(range(K), repeat=N))
    for truth in truths:
        items = np.bincount(truth, minlength=K)
        counts = np.zeros((M, K, K))
        for n, m, i in triples(a):
            counts[m, i, truth[n]] += 1
        log_p = _polya(alpha, items)
        log_p += sum(_polya(beta[:, k], counts[m, :, k]) for m in range(M) for k in range(K))
        logs.append(log_p)
    evidence = float(logsumexp(logs))
    posterior = np.zeros((N, K))
    for truth, log_p in zip(truths, logs, strict=True):
        posterior[np.arange(N), truth] += np.exp(log_p - evidence)
    return posterior, evidence


def _polya(parameters: Floats, counts: Floats | Ints) -> float:
    """Log-probability of one sequence with these counts, the probabilities drawn from a Dirichlet distribution."""
    total = gammaln(parameters.sum()) - gammaln(parameters.sum() + counts.sum())
    return float(total + (gammaln(parameters + counts) - gammaln(parameters)).sum())


def calibration_error(fit: Fit, truth: Ints) -> float:
    """The gap between confidence and accuracy, over ten bins."""
    confidence, right = fit.posterior.max(axis=1), fit.posterior.argmax(axis=1) == truth
    bins = np.minimum((confidence * 10).astype(int), 9)
    return float(
        sum(
            np.mean(bins == b) * abs(confidence[bins == b].mean() - right[bins == b].mean())
            for b in range(10)
            if (bins == b).any()
        )
    )


# ---- the equations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 4])
def test_steps_and_bound_are_those_of_the_paper(rounds: int) -> None:
    a, _ = random_model(6, 3, seed=1).sample(40, labels_per_item=4, random_state=0)
    alpha, beta = np.ones(3), pseudo_labels(a, 0.7, 2.0)
    np.testing.assert_allclose(beta, 0.7 + 2.0 * np.eye(3))
    q, nu, mu, bound = slow(a, alpha, beta, rounds)
    fit = ibcc(a, smoothing=0.7, diagonal=2.0, max_iter=rounds, tol=0, accelerate=False)
    np.testing.assert_allclose(fit.posterior, q, atol=1e-8)
    np.testing.assert_allclose(fit.model.prior, nu / nu.sum(), atol=1e-9)
    np.testing.assert_allclose(fit.model.confusions, mu / mu.sum(axis=1, keepdims=True), atol=1e-8)
    assert fit.history[-1] == pytest.approx(bound, abs=1e-6)
    assert fit.details["lower_bound"] == fit.history[-1]


def test_the_bound_is_below_the_evidence_and_the_posterior_near_the_exact_one() -> None:
    model = random_model(4, 2, seed=3, skill=0.8)
    gaps, ours, plain = [], [], []
    for seed in range(6):
        a, _ = model.sample(9, labels_per_item=3, random_state=seed)
        posterior, evidence = exact(a, np.ones(2), pseudo_labels(a, 1.0, 3.0))
        fit = ibcc(a, tol=1e-12)
        assert fit.history[-1] <= evidence
        gaps.append(evidence - fit.history[-1])
        ours.append(np.abs(fit.posterior - posterior).mean())
        plain.append(np.abs(dawid_skene_em(a).posterior - posterior).mean())
    assert np.mean(gaps) < 1.5
    assert np.mean(ours) < min(0.08, 0.85 * np.mean(plain))


def test_the_posterior_is_exact_where_items_hardly_tell_of_each_other() -> None:
    """With much known of the annotators, the truths are nearly independent: the factors leave nothing out."""
    a, _ = random_model(4, 2, seed=3, skill=0.6).sample(9, labels_per_item=3, random_state=1)
    off = []
    for strength in (1.0, 10.0, 100.0):
        beta = pseudo_labels(a, strength, 2 * strength)
        posterior, evidence = exact(a, np.ones(2), beta)
        fit = ibcc(a, smoothing=strength, diagonal=2 * strength, tol=1e-13)
        # the class proportions, of which nothing is known beforehand, leave a few hundredths
        off.append((np.abs(fit.posterior - posterior).max(), evidence - fit.history[-1]))
    assert off[0][0] > 2 * off[2][0]
    assert off[0][1] > 2 * off[2][1]
    assert off[2][0] < 0.06


def test_with_gold_everywhere_variational_bayes_is_exact() -> None:
    """Nothing is left to factorise: the bound is the evidence."""
    a, truth = random_model(3, 2, seed=0).sample(7, random_state=1)
    a = a.with_gold(truth)
    counts = np.zeros((3, 2, 2))
    for n, m, i in triples(a):
        counts[m, i, truth[n]] += 1
    beta = pseudo_labels(a, 1.0, 3.0)
    evidence = _polya(np.ones(2), np.bincount(truth, minlength=2))
    evidence += sum(_polya(beta[:, k], counts[m, :, k]) for m in range(3) for k in range(2))
    fit = ibcc(a, max_iter=5, tol=0)
    assert fit.history[-1] == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_array_equal(fit.posterior[np.arange(7), truth], 1.0)
    mu = beta + counts
    np.testing.assert_allclose(fit.model.confusions, mu / mu.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("options", [{}, {"smoothing": 0.0, "diagonal": 0.0}, {"prior": "uniform", "shrinkage": 1.0}])
def test_the_bound_never_falls(options: dict[str, float], accelerate: bool) -> None:
    a, _ = random_model(30, 3, seed=4, skill=0.4).sample(2000, labels_per_item=5, random_state=0)
    history = ibcc(a, max_iter=60, tol=0, accelerate=accelerate, **options).history  # type: ignore[arg-type]
    assert len(history) == 60
    assert np.diff(history).min() >= -1e-10 * abs(history[-1])
    assert history[-1] > history[0] + 10


def test_leaps_reach_the_same_bound_in_fewer_passes() -> None:
    a, _ = random_model(30, 3, seed=4, skill=0.4).sample(2000, labels_per_item=5, random_state=0)
    plain, fast = (ibcc(a, tol=1e-11, accelerate=accelerate, max_iter=5000) for accelerate in (False, True))
    assert fast.converged
    assert fast.iterations < 0.6 * plain.iterations
    assert fast.history[-1] == pytest.approx(plain.history[-1], rel=1e-8)
    np.testing.assert_allclose(fast.posterior, plain.posterior, atol=0.01)


def test_the_divergence_is_that_of_dirichlet_distributions() -> None:
    """Against an average over draws."""
    rng = np.random.default_rng(0)
    prior, counts = np.array([0.5, 1.0, 4.0]), np.array([3.0, 0.2, 1.0])
    expected, divergence = Dirichlet(prior).expected_log(counts)
    drawn = np.log(rng.dirichlet(prior + counts, 400_000))
    np.testing.assert_allclose(expected, drawn.mean(axis=0), atol=0.02)
    density = [gammaln(p.sum()) - gammaln(p).sum() + drawn @ (p - 1) for p in (prior + counts, prior)]
    assert divergence == pytest.approx((density[0] - density[1]).mean(), abs=0.02)


def test_the_sweep_takes_tables_that_sum_to_less_than_one() -> None:
    """Both sweeps, compiled and plain, against one label at a time; no cell falls under the sweep's floor."""
    a, _ = random_model(40, 3, seed=2).sample(9000, labels_per_item=4, random_state=0)
    rng = np.random.default_rng(0)
    few, _ = Dirichlet(np.full((3, 3), 0.1), axis=-2).expected_log(rng.gamma(0.5, 1e3, (40, 3, 3)))
    tables, prior = np.exp(few), np.array([0.3, 0.2, 0.1])
    assert tables.sum(axis=1).max() < 1
    assert tables.min() > FLOOR
    for part in (a, a.select_items(slice(0, 200))):
        posterior, counts, log_likelihood = brute_force(part, prior, tables)
        swept = sweep_of(part)(prior, tables)
        np.testing.assert_allclose(swept.counts, counts, atol=1e-8)
        assert swept.log_likelihood == pytest.approx(log_likelihood, rel=1e-12)
        np.testing.assert_allclose(sweep_of(part).posterior(prior, tables)[0], posterior, atol=1e-12)


def test_a_cell_of_a_tenth_stays_above_the_floor_for_ten_million_labels() -> None:
    a, _ = random_model(3, 2, seed=0).sample(5, random_state=0)
    beta = pseudo_labels(a, 0.0, 0.0)
    counts = np.array([[1e7, 0.0], [0.0, 1e7]])[None]
    assert np.exp(Dirichlet(beta, axis=-2).expected_log(counts)[0]).min() > FLOOR


# ---- what it is for -----------------------------------------------------------------------------------------


def test_parameters_are_recovered_as_data_grows() -> None:
    model = random_model(20, 3, seed=7, skill=0.7)
    errors = []
    for n in (500, 50_000):
        a, _ = model.sample(n, labels_per_item=8, random_state=0)
        errors.append(np.abs(ibcc(a).model.confusions - model.confusions).mean())
    assert errors[1] < 0.01
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.parametrize("K", [2, 4])
def test_the_long_tail_is_where_it_beats_maximum_likelihood(K: int) -> None:
    """Two thousand annotators with five labels each."""
    sim = cs.simulate(2000, 2000, K, labels_per_item=5, accuracy=(0.6, 0.95), seed=0)
    plain, ours = dawid_skene_em(sim.annotations), ibcc(sim.annotations)
    assert error_percent(ours.choice.best, sim.truth) < 0.75 * error_percent(plain.choice.best, sim.truth)
    assert calibration_error(ours, sim.truth) < 0.6 * calibration_error(plain, sim.truth)


def test_few_labels_are_believed_less_than_many() -> None:
    """Two annotators who were never wrong, one with 300 labels and one with 3."""
    matrix = np.full((300, 6), -1)
    matrix[:, :5] = (np.arange(300) % 2)[:, None]
    matrix[:3, 5] = matrix[:3, 0]
    model = ibcc(cs.Annotations.from_matrix(matrix)).model
    assert model.confusions[0, 0, 0] > 0.97
    # two labels of class 0 beside four pseudo-labels that say the same and one that does not
    assert model.confusions[5, 0, 0] == pytest.approx(6 / 7, abs=1e-3)


#: Errors in percent of the accuracies in ``code/test_ibcc.ipynb`` of github.com/yuan-li/truth-inference-at-scale.
PUBLISHED = {
    "bluebird": 11.1111,
    "dog52": 16.109,
    "rte": 7.25,
    "trec": 29.4505,
    "adult2": 25.5255,
    "sentence_polarity": 8.5017,
    "zencrowd_us": 17.3039,
    "product": 6.1696,
    "fact_eval": 12.3264,
}


@pytest.mark.usefixtures("data_folder")
@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name: str) -> None:
    a, truth = real_crowd(name)
    # the published runs stop at a change of 1e-3; repeated answers in zencrowd_us were treated differently
    assert error_percent(ibcc(a).choice.best, truth) == pytest.approx(PUBLISHED[name], abs=0.11)


# ---- nothing but what was said counts -----------------------------------------------------------------------


def test_items_without_labels_are_at_the_prior_and_change_nothing() -> None:
    a, _ = random_model(8, 3, seed=5).sample(120, labels_per_item=3, random_state=0)
    empty = np.arange(a.n_items) % 4 == 0
    lengths = np.where(empty, 0, a.labels_per_item)
    kept = ~empty[a.item_of_label()]
    thin = Annotations(
        np.concatenate([[0], np.cumsum(lengths)]),
        a.annotator[kept],
        a.label[kept],
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=a.class_ids,
    )
    with_them, without = ibcc(thin), ibcc(thin.select_items(~empty))
    np.testing.assert_array_equal(with_them.model.confusions, without.model.confusions)
    np.testing.assert_array_equal(with_them.posterior[~empty], without.posterior)
    np.testing.assert_allclose(with_them.posterior[empty], np.tile(with_them.model.prior, (empty.sum(), 1)))
    # unless their truth is known: that tells of the prior
    gold = np.where(empty, 0, -1)
    told = ibcc(thin.with_gold(gold))
    np.testing.assert_array_equal(told.posterior[empty, 0], 1.0)
    assert told.model.prior[0] > without.model.prior[0] + 0.1


def test_gold_turns_a_crowd_of_adversaries_over() -> None:
    good, bad = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.2, 0.8], [0.8, 0.2]])
    model = cs.DawidSkene(np.full(2, 0.5), np.stack([good] * 3 + [bad] * 6), [0, 1], list(range(9)))  # type: ignore[arg-type]
    a, truth = model.sample(500, random_state=0)
    assert error_percent(ibcc(a).choice.best, truth) > 80
    gold = np.where(np.arange(500) < 300, truth, -1)
    fit = ibcc(a.with_gold(gold))
    assert error_percent(fit.choice.best[300:], truth[300:]) < 12


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 3), int),
        np.array([[0], [1], [1]]),
        np.array([[0, 1, 1]]),
        np.array([[0, 1], [-1, -1], [1, 1]]),
        np.array([[0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 1], [-1, -1, 1, 1]]),
    ],
    ids=["one class", "one annotator", "one item", "an empty item", "two crowds"],
)
def test_odd_crowds_give_probabilities(matrix: Ints) -> None:
    a = cs.Annotations.from_matrix(matrix)
    for options in ({}, {"prior": "uniform"}, {"smoothing": 0.0, "diagonal": 0.0, "shrinkage": 0.1}):
        fit = ibcc(a, **options)
        np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
        assert np.isfinite(fit.history).all()
        assert np.isfinite(fit.log_likelihood)


def test_an_annotator_without_labels_is_as_the_prior_has_them() -> None:
    a = cs.Annotations.from_matrix(np.array([[0, 1, -1], [1, 1, -1], [0, 0, -1]]))
    np.testing.assert_allclose(ibcc(a).model.confusions[2], [[0.8, 0.2], [0.2, 0.8]])


def test_repeated_answers_count_as_often_as_they_occur() -> None:
    import pandas as pd

    frame = pd.DataFrame({"item": [0, 0, 0, 1, 1], "annotator": list("aabab"), "label": [0, 0, 1, 1, 1]})
    fit = ibcc(Annotations.from_frame(frame, duplicates="keep"))
    assert fit.model.confusions[0].sum() == pytest.approx(2)
    assert fit.posterior[0, 0] > 0.5


def test_a_callback_is_told_and_can_stop() -> None:
    a, _ = random_model(10, 2, seed=0, skill=0.3).sample(300, labels_per_item=4, random_state=0)
    told: list[Progress] = []

    def tell(state: Progress) -> bool:
        told.append(state)
        return state.iteration >= 3

    fit = ibcc(a, tol=0, callback=tell)
    assert [state.iteration for state in told] == [1, 2, 3]
    assert [state.objective for state in told] == fit.history
    assert not fit.converged


def test_not_converged_is_said() -> None:
    a, _ = random_model(10, 2, seed=0, skill=0.3).sample(300, labels_per_item=4, random_state=0)
    short = ibcc(a, max_iter=2)
    assert not short.converged
    assert short.cautions[0][1] is ConvergenceWarning
    assert "2 passes" in short.cautions[0][0]
    assert ibcc(a).converged
    assert ibcc(a).cautions == ()
    assert np.isfinite(ibcc(a, max_iter=0).posterior).all()
