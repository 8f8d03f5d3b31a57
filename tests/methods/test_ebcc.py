"""Subtypes of classes: the equations one label at a time, the exact evidence, annotators who err together."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, psi
from tests.conftest import error_percent, random_model, real_crowd
from tests.methods.conftest import correlated

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import ConvergenceWarning, FewLabelsWarning
from consilience.fitting.em import Progress
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.subtypes import SubtypeSweep
from consilience.methods import ebcc as module
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.ebcc import ebcc, fit_subtypes
from consilience.methods.ibcc import ibcc


def triples(a: Annotations) -> list[tuple[int, int, int]]:
    """The labels, one (item, annotator, label) each."""
    return [(int(n), int(m), int(i)) for n, m, i in zip(a.item_of_label(), a.annotator, a.label, strict=True)]


def slow_sweep(a: Annotations, weights: Floats, tables: Floats, L: int) -> tuple[Floats, Floats, float]:
    """q(truth, subtype) of every item (N, K, L), the counts, and the log-likelihood, in logarithms."""
    joint = np.tile(np.log(weights), (a.n_items, 1))
    for n, m, i in triples(a):
        joint[n] += np.log(tables[m, i])
    if a.gold is not None:
        for item, k in enumerate(a.gold):
            if k >= 0:
                joint[item, np.arange(weights.size) // L != k] = -np.inf
    log_total = logsumexp(joint, axis=1, keepdims=True)
    q, counts = np.exp(joint - log_total), np.zeros_like(tables)
    for n, m, i in triples(a):
        counts[m, i] += q[n]
    return q.reshape(a.n_items, -1, L), counts, float(log_total.sum())


# ---- the equations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_the_sweep_is_the_sum_over_items_from_the_definition(known: bool) -> None:
    """Items of up to sixty labels, subtypes whose weight is next to nothing, gold."""
    rng = np.random.default_rng(0)
    K, L, M = 3, 4, 60
    a, truth = random_model(M, K, seed=1).sample(30, label_probability=rng.random(M).tolist(), random_state=2)
    if known:
        a = a.with_gold(np.where(np.arange(30) % 2 == 0, (truth + 1) % K, -1))
    tables = rng.dirichlet(np.full(K, 0.3), (M, K * L)).transpose(0, 2, 1) * 0.9 + 1e-9
    weights = rng.random(K * L) * 10.0 ** -rng.integers(0, 60, K * L)
    q, counts, log_likelihood = slow_sweep(a, weights, tables, L)
    sweep = SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, M, K, L)
    swept = sweep(weights, np.ascontiguousarray(tables))
    np.testing.assert_allclose(swept.counts, counts, atol=1e-10)
    np.testing.assert_allclose(swept.class_counts, q.sum(axis=0).ravel(), atol=1e-10)
    assert swept.log_likelihood == pytest.approx(log_likelihood, rel=1e-12)
    np.testing.assert_allclose(sweep.posterior(weights, np.ascontiguousarray(tables)), q.sum(axis=2), atol=1e-10)


def test_gold_against_all_labels_is_held_however_improbable() -> None:
    """Two hundred annotators who are nearly never wrong contradict the gold: 1e-2400 is not zero."""
    a = Annotations.from_matrix(np.repeat([[1], [0]], 200, axis=1), gold=[0, 0])
    tables = np.repeat(np.array([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]])[None], 200, axis=0)
    sweep = SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, 200, 2, 1)
    swept = sweep(np.array([0.5, 0.5]), tables)
    assert swept.log_likelihood == pytest.approx(200 * np.log(1e-12) + 2 * np.log(0.5), rel=1e-9)
    np.testing.assert_array_equal(sweep.posterior(np.array([0.5, 0.5]), tables), [[1.0, 0.0]] * 2)


def test_blocks_of_items_add_up() -> None:
    a, _ = random_model(5, 2, seed=0).sample(60_000, random_state=0)
    rng = np.random.default_rng(0)
    weights, tables = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(2), (5, 4)).transpose(0, 2, 1).copy()
    whole, *parts = (
        SubtypeSweep(p.indptr, p.annotator, p.label, None, 5, 2, 2)(weights, tables)
        for p in (a, a.select_items(slice(0, 20_000)), a.select_items(slice(20_000, None)))
    )
    np.testing.assert_allclose(whole.counts, parts[0].counts + parts[1].counts, rtol=1e-9)
    assert whole.log_likelihood == pytest.approx(sum(p.log_likelihood for p in parts), rel=1e-12)


def test_steps_and_bound_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Li et al. (2019), one label at a time, from the same start."""
    K, L, M, rounds = 3, 4, 6, 5
    a, _ = random_model(M, K, seed=1).sample(40, labels_per_item=4, random_state=0)
    started = []
    original = module._starts

    def noted(*arguments: object) -> object:
        for start in original(*arguments):  # type: ignore[arg-type]
            started.append(start)
            yield start

    monkeypatch.setattr(module, "_starts", noted)
    fit = ebcc(
        a,
        subtypes=L,
        starts=1,
        smoothing=0.8,
        diagonal=2.0,
        concentration=0.4,
        max_iter=rounds,
        tol=0,
        accelerate=False,
    )
    alpha, beta = vote_posterior(a).sum(axis=0), 0.8 + 2.0 * np.eye(K)
    counts, items = started[0].counts.reshape(M, K, K, L), started[0].class_counts.reshape(K, L)
    for _ in range(rounds):
        nu, eta, mu = alpha + items.sum(axis=1), 0.4 / L + items, beta[None, :, :, None] + counts
        log_tau, log_pi = psi(nu) - psi(nu.sum()), psi(eta) - psi(eta.sum(axis=1, keepdims=True))
        log_v = psi(mu) - psi(mu.sum(axis=1, keepdims=True))
        weights = np.exp(log_tau[:, None] + log_pi).ravel()
        q, flat, log_likelihood = slow_sweep(a, weights, np.exp(log_v).reshape(M, K, K * L), L)
        before, counts, items = counts, flat.reshape(M, K, K, L), q.sum(axis=0)
    np.testing.assert_allclose(fit.posterior, q.sum(axis=2), atol=1e-7)

    def density(parameters: Floats, expected_log: Floats) -> float:
        return float(gammaln(parameters.sum()) - gammaln(parameters).sum() + ((parameters - 1) * expected_log).sum())

    bound = log_likelihood + density(alpha, log_tau) - density(nu, log_tau)
    for k in range(K):
        bound += density(np.full(L, 0.4 / L), log_pi[k]) - density(eta[k], log_pi[k])
        for m, c in product(range(M), range(L)):
            bound += density(beta[:, k], log_v[m, :, k, c]) - density(mu[m, :, k, c], log_v[m, :, k, c])
    assert fit.history[-1] == pytest.approx(bound, abs=1e-6)
    pooled = beta + before.sum(axis=-1)
    np.testing.assert_allclose(fit.model.confusions, pooled / pooled.sum(axis=1, keepdims=True), atol=1e-7)


@pytest.mark.parametrize("labels", [0, 40_000])
def test_one_subtype_is_ibcc(labels: int) -> None:
    a, _ = random_model(20, 3, seed=3).sample(max(300, labels // 4), labels_per_item=4, random_state=0)
    a = a.with_gold(np.where(np.arange(a.n_items) % 50 == 0, 1, -1))
    options = {"smoothing": 0.6, "diagonal": 1.5, "max_iter": 25, "tol": 0.0}
    one, other = ebcc(a, subtypes=1, empirical=False, **options), ibcc(a, **options)  # type: ignore[arg-type]
    np.testing.assert_allclose(one.history, other.history, rtol=1e-10)
    np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-6)
    np.testing.assert_allclose(one.model.confusions, other.model.confusions, atol=1e-6)


def test_the_bound_is_below_the_evidence() -> None:
    """All truths and subtypes of five items tried, the parameters integrated out."""
    a, _ = random_model(3, 2, seed=1, skill=0.7).sample(5, random_state=0)
    K, L, M = 2, 2, 3
    beta = 1.0 + 3.0 * np.eye(K)

    def polya(parameters: Floats, counts: Floats) -> float:
        total = gammaln(parameters.sum()) - gammaln(parameters.sum() + counts.sum())
        return float(total + (gammaln(parameters + counts) - gammaln(parameters)).sum())

    logs = []
    for cells in product(range(K * L), repeat=5):
        items, counts = np.zeros((K, L)), np.zeros((M, K, K * L))
        for c in cells:
            items[c // L, c % L] += 1
        for n, m, i in triples(a):
            counts[m, i, cells[n]] += 1
        log_p = polya(np.ones(K), items.sum(axis=1)) + sum(polya(np.full(L, 0.5), row) for row in items)
        logs.append(log_p + sum(polya(beta[:, c // L], counts[m, :, c]) for m in range(M) for c in range(K * L)))
    evidence = float(logsumexp(logs))
    fit = ebcc(a, subtypes=L, concentration=1.0, empirical=False, tol=1e-10)
    # a factor sees one order of the subtypes of a class; there are two in each, log 4 together
    assert evidence - np.log(4) - 1.5 < fit.history[-1] < evidence


@pytest.mark.parametrize("accelerate", [False, True])
def test_the_bound_never_falls(accelerate: bool) -> None:
    a, _ = correlated(3, n_items=400)
    history = ebcc(a, starts=3, max_iter=120, tol=0, accelerate=accelerate).history
    assert len(history) == 120
    assert np.diff(history).min() >= -1e-10 * abs(history[-1])
    assert history[-1] > history[0] + 50


# ---- what it is for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_annotators_who_err_together_are_seen_through(seed: int) -> None:
    a, truth = correlated(seed)
    plain, ours = (error_percent(method(a).choice.best, truth) for method in (dawid_skene_em, ebcc))
    assert ours < 0.7 * plain


def test_subtypes_that_nobody_asks_for_stay_empty() -> None:
    """On a crowd of independent annotators the fit is that of one subtype."""
    model = random_model(12, 3, seed=2, skill=0.8)
    a, truth = model.sample(1500, random_state=0)
    many, one = ebcc(a), ebcc(a, subtypes=1)
    assert np.abs(many.model.confusions - model.confusions).mean() < 0.02
    assert np.abs(many.posterior - one.posterior).mean() < 0.005
    assert error_percent(many.choice.best, truth) <= error_percent(one.choice.best, truth) + 0.2


#: What ``ebcc`` sets, except for α.
FIXED: dict[str, Any] = {"smoothing": 1.0, "diagonal": 3.0, "concentration": 0.2, "max_iter": 200, "tol": 1e-6}


def test_there_is_no_third_start_once_two_have_ended_below_what_is_needed() -> None:
    a, _ = correlated(0, n_items=300)

    def found(needed: float, starts: int = 4) -> tuple[float, int]:
        told: list[Progress] = []
        fit = fit_subtypes(a, 2, starts=starts, pseudo_items=None, needed=needed, callback=told.append, **FIXED)
        return fit.bound, sum(state.iteration == 1 for state in told)

    of_two, of_four = found(-np.inf, starts=2)[0], found(-np.inf)[0]
    assert of_four > of_two  # the third or fourth start is better, or there would be nothing to see here
    assert found(of_two) == (of_four, 4)
    assert found(of_two + 1e-6) == (of_two, 2)
    assert found(np.inf, starts=1) == (found(-np.inf, starts=1)[0], 1)


def test_class_proportions_have_so_many_pseudo_items() -> None:
    """α has the shares of the votes, as many items as asked for, and no more than there are."""
    a, _ = random_model(10, 3, seed=5).sample(400, labels_per_item=4, random_state=0)
    votes = vote_posterior(a).sum(axis=0)

    def alpha(pseudo_items: float | None) -> Floats:
        fit = fit_subtypes(a, 2, starts=1, pseudo_items=pseudo_items, **FIXED)
        assert isinstance(fit.beliefs, module.SubtypeBeliefs)
        return fit.beliefs.proportions.pseudo

    np.testing.assert_allclose(alpha(30.0), 30.0 * votes / 400)
    np.testing.assert_allclose(alpha(1000.0), votes)
    np.testing.assert_allclose(alpha(np.inf), votes)
    np.testing.assert_array_equal(alpha(None), 1.0)
    # with more pseudo-items, the class proportions are nearer to the votes
    far = [
        np.abs(fit_subtypes(a, 1, starts=1, pseudo_items=n, **FIXED).means.prior - votes / 400).max()
        for n in (0.0, 30.0, 400.0)
    ]
    assert far[0] > far[1] > far[2]


def test_labels_that_count_three_times_are_three_labels() -> None:
    """An annotator of weight 3 and three annotators who say the same have the same posterior, their priors aside."""
    a, _ = random_model(6, 2, seed=3, skill=0.8).sample(3000, random_state=0)
    matrix = a.label.reshape(3000, 6)
    thrice = Annotations.from_matrix(np.hstack([matrix, matrix[:, :1], matrix[:, :1]]))
    weights = np.array([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    one = fit_subtypes(a, 1, starts=1, pseudo_items=None, weights=weights, **FIXED).fit(a)
    other = fit_subtypes(thrice, 1, starts=1, pseudo_items=None, **FIXED).fit(thrice)
    np.testing.assert_allclose(one.posterior, other.posterior, atol=0.01)


def test_a_fit_can_go_on_from_the_tables_of_another() -> None:
    a, _ = correlated(1, n_items=300)
    short = fit_subtypes(a, 3, starts=1, pseudo_items=None, **{**FIXED, "max_iter": 5})
    long = fit_subtypes(a, 3, starts=1, pseudo_items=None, **{**FIXED, "tol": 1e-10})
    on = fit_subtypes(a, 3, starts=1, pseudo_items=None, start=short.tables, **{**FIXED, "tol": 1e-10})
    assert on.history[0] >= short.bound
    assert on.bound == pytest.approx(long.bound, rel=1e-4)


def test_more_starts_never_lower_the_bound() -> None:
    a, _ = correlated(5, n_items=300)
    few, many = (ebcc(a, starts=n, random_state=1) for n in (1, 8))
    assert many.details["lower_bound"] > few.details["lower_bound"] + 0.01


#: Errors in percent of the accuracies in ``code/test_ebcc.ipynb`` of github.com/yuan-li/truth-inference-at-scale, which
#: are the best by bound of forty starts.
PUBLISHED = {"dog52": 15.985, "rte": 6.875, "zencrowd_us": 8.7745, "product": 6.5063}


@pytest.mark.usefixtures("data_folder")
@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name: str) -> None:
    a, truth = real_crowd(name)
    assert error_percent(ebcc(a).choice.best, truth) == pytest.approx(PUBLISHED[name], abs=0.26)


# ---- nothing but what was said counts -----------------------------------------------------------------------


def test_the_seed_decides() -> None:
    a, _ = correlated(2, n_items=150)
    one, two, other = (ebcc(a, starts=2, max_iter=15, tol=0, random_state=s) for s in (1, 1, 2))
    assert one.posterior.tobytes() == two.posterior.tobytes()
    assert one.model == two.model
    assert one.history != other.history


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 3), int),
        np.array([[0], [1], [1]]),
        np.array([[0, 1, 1]]),
        np.array([[0, 1, -1], [-1, -1, -1], [1, 1, -1]]),
        np.array([[0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 1], [-1, -1, 1, 1]]),
    ],
    ids=["one class", "one annotator", "one item", "an empty item, an idle annotator", "two crowds"],
)
def test_odd_crowds_give_probabilities(matrix: Ints) -> None:
    a = cs.Annotations.from_matrix(matrix)
    for options in ({}, {"subtypes": 1}, {"subtypes": 30, "concentration": 1e-6, "smoothing": 0.0, "diagonal": 0.0}):
        fit = ebcc(a, starts=2, **options)
        np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
        assert np.isfinite(fit.history).all()
        assert np.isfinite(fit.model.confusions).all()


def test_gold_and_items_without_labels() -> None:
    matrix = correlated(4, n_items=100)[0].to_frame("pandas").pivot(index="item", columns="annotator", values="label")
    values = matrix.to_numpy().copy()
    values[:5] = -1
    a = cs.Annotations.from_matrix(values, gold=np.where(np.arange(100) % 10 == 0, 2, -1))
    fit = ebcc(a, starts=2)
    np.testing.assert_allclose(fit.posterior[::10, 2], 1.0)
    np.testing.assert_allclose(fit.posterior[1:5], np.tile(fit.model.prior, (4, 1)))


def test_a_callback_is_told_and_can_stop_everything() -> None:
    a, _ = correlated(0, n_items=100)
    told: list[Progress] = []

    def tell(state: Progress) -> bool:
        told.append(state)
        return len(told) >= 5

    fit = ebcc(a, starts=4, tol=0, max_iter=3, callback=tell)
    assert [state.iteration for state in told] == [1, 2, 3, 1, 2]
    assert not fit.converged


def test_not_converged_is_said() -> None:
    short = ebcc(correlated(0, n_items=100)[0], starts=1, max_iter=2)
    assert not short.converged
    assert short.cautions[0][1] is ConvergenceWarning
    assert ebcc(correlated(0, n_items=100)[0], starts=1).converged


def test_many_rare_classes_get_fewer_subtypes_instead_of_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 classes that were named once each, by 50 annotators: ten subtypes would have 45 million cells."""
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((400, 50)) < 0.1, rng.integers(0, 2, (400, 50)), -1)
    matrix.flat[rng.choice(matrix.size, 298, replace=False)] = np.arange(2, 300)
    fit = ebcc(Annotations.from_matrix(matrix), max_iter=3)
    assert "300 classes and 50 annotators are many" in fit.cautions[-1][0]
    assert "none were fitted" in fit.cautions[-1][0]

    a, _ = correlated(0, n_items=100)
    three = ebcc(a, subtypes=3, starts=2)
    monkeypatch.setattr(module, "SUBTYPE_CELLS", 4 * a.n_annotators * a.n_classes**2 - 1)
    fit = ebcc(a, starts=2)
    np.testing.assert_array_equal(fit.posterior, three.posterior)
    assert fit.cautions[-1][1] is FewLabelsWarning
    assert "at most 3 were fitted" in fit.cautions[-1][0]
    assert not three.cautions
