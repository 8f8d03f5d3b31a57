"""Figures of a population: closed forms, coverage on simulated panels, and what no estimate may do."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np
import pytest
from scipy import stats

import consilience as cs
from consilience.exceptions import ConsilienceWarning, DataError, DataWarning, ParameterError
from consilience.inference.error_rates import rogan_gladen
from consilience.inference.predictors import panel_predictors
from consilience.inference.regression_estimate import Bounds, fit_predictors, mean_estimate, parts_of_variance
from consilience.kernels._arrays import Ints


@cache
def panel(N: int = 1500, seed: int = 0) -> tuple[cs.Consensus, Ints]:
    """Five judges who favour "good": the share that they see is far too high."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(N) < 0.4).astype(np.int64)
    hard = rng.random(N) < 0.3  # fools all of them
    says_good = np.where(truth == 1, 0.9, np.where(hard, 0.85, 0.15))
    said = (rng.random((N, 5)) < says_good[:, None]).astype(np.int64)
    names = np.array(["bad", "good"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.aggregate(cs.Annotations.from_matrix(names[said])), truth


def known(truth: Ints, items: Any) -> dict[int, str]:
    return {int(item): ("bad", "good")[truth[item]] for item in items}


def drawn(truth: Ints, n: int, seed: int) -> dict[int, str]:
    return known(truth, np.random.default_rng(seed).choice(truth.size, n, replace=False))


# ---- the estimate ----------------------------------------------------------------------------------------------------


def test_one_predictor_gives_the_regression_estimate_of_textbooks() -> None:
    """θ = ȳ + b (x̄ over all - x̄ over the sample), b = cov(x, y) / var(x)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    sample = np.arange(0, 400, 8)
    y = 0.3 * x[sample] + rng.normal(size=sample.size)
    found = mean_estimate(fit_predictors(y, sample, x[:, None]), sample, np.arange(400), 0.95)
    slope = stats.linregress(x[sample], y)
    expected = y.mean() + slope.slope * (x.mean() - x[sample].mean())
    assert found is not None
    assert found.value == pytest.approx(expected)
    residual = y - slope.intercept - slope.slope * x[sample]
    # HC2 of MacKinnon and White, of which s² / n with n - 2 degrees of freedom is the case of equal leverage
    deviation = x[sample] - x[sample].mean()
    leverage = 1 / sample.size + deviation**2 / (deviation**2).sum()
    variance = (residual**2 / (1 - leverage)).mean() / sample.size + (slope.slope * x).var(ddof=1) / 400
    assert found.error == pytest.approx(np.sqrt(variance), rel=1e-3)
    assert found.error == pytest.approx(np.sqrt(residual.var(ddof=2) / sample.size + slope.slope**2 / 400), rel=0.03)


def test_predictors_that_know_nothing_leave_the_sample_mean() -> None:
    rng = np.random.default_rng(1)
    y, sample = rng.random(100), np.arange(100)
    x = np.zeros((1000, 1))
    found = mean_estimate(fit_predictors(y, sample, x), sample, np.arange(1000), 0.9)
    alone = mean_estimate(fit_predictors(y, sample, x[:, :0]), sample, np.arange(1000), 0.9)
    interval = stats.t.interval(0.9, 99, y.mean(), y.std(ddof=1) / 10)
    for one in (found, alone):
        assert one is not None
        assert (one.low, one.high) == pytest.approx(interval)


@pytest.mark.parametrize("n", [50, 150])
def test_intervals_cover_where_the_panel_is_biased(n: int) -> None:
    consensus, truth = panel()
    share, covered, wide, humans = truth.mean(), [], [], []
    for seed in range(200):
        found = cs.estimate(consensus, gold=drawn(truth, n, seed), of="good")
        assert found.humans is not None
        covered.append(found.low <= share <= found.high)
        wide.append(found.half_width)
        humans.append(0.5 * (found.humans.high - found.humans.low))
    # 95 % intervals; three standard errors of 200 draws are 4.6 points
    assert np.mean(covered) >= 0.904
    assert np.mean(wide) < 0.9 * np.mean(humans)
    assert float((consensus.posterior[:, 1]).mean()) > share + 0.08


@pytest.mark.parametrize(("rare", "predictors"), [(2, 0), (4, 1), (14, 1), (15, 2)])
def test_predictors_take_known_answers_of_the_rarer_kind(rare: int, predictors: int) -> None:
    consensus, truth = panel()
    items = [*np.flatnonzero(truth == 1)[:rare], *np.flatnonzero(truth == 0)[: 40 - rare]]
    found = cs.estimate(consensus, gold=known(truth, items), of="good")
    assert found.humans is not None
    if predictors == 0:
        assert (found.value, found.low, found.high) == pytest.approx(found.humans[:3])
        return
    a = consensus.annotations
    assert a is not None
    gold = np.full(truth.size, -1, np.int32)
    gold[items] = truth[items]
    columns = panel_predictors(a, consensus.posterior, np.array([0.0, 1.0]), gold)[:, :predictors]
    sample = np.sort(items)
    fitted = fit_predictors(truth[sample].astype(float), sample, columns)
    assert found.value == pytest.approx(float(fitted.predicted.mean()))


def test_rare_classes_are_covered_with_few_known_answers() -> None:
    """8 % of the answers are good; twenty known answers have one or two of these."""
    rng = np.random.default_rng(0)
    truth = (rng.random(3000) < 0.08).astype(np.int64)
    right = rng.random((3000, 2)) < 0.85
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(cs.Annotations.from_matrix(np.array(["bad", "good"])[said]))
    covered = []
    for seed in range(150):
        found = cs.estimate(consensus, gold=drawn(truth, 20, seed), of="good")
        covered.append(found.low <= truth.mean() <= found.high)
    assert np.mean(covered) >= 0.93


def test_no_known_answer_predicts_itself() -> None:
    """If answers have nothing to do with labels, two predictors explain hardly more of them than chance would."""
    rng = np.random.default_rng(2)
    values = np.array([0.0, 1.0])
    explained = []
    for _ in range(200):
        said, truth = rng.integers(0, 2, (200, 3)), rng.integers(0, 2, 200).astype(np.int32)
        a = cs.Annotations.from_matrix(said)
        known = np.where(np.arange(200) < 60, truth, -1).astype(np.int32)
        X = panel_predictors(a, np.full((200, 2), 0.5), values, known)
        fitted = fit_predictors(truth[:60].astype(float), np.arange(60), X)
        explained.append(1 - (fitted.residual**2).mean() / truth[:60].var())
    # R² of p predictors is p / (n - 1) on average, 3.4 %; records without the item's own answer explain 10.5 %
    assert np.mean(explained) < 0.065


def test_two_predictors_that_agree_do_not_tell_known_answers() -> None:
    """With records without the item's own answer, 83 % of these intervals cover."""
    share, rng = 0.1, np.random.default_rng(1)
    truth = (np.arange(2000) < 2000 * share).astype(np.int64)
    right = rng.random((2000, 3)) < 0.95
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    consensus = cs.aggregate(cs.Annotations.from_matrix(np.array(["bad", "good"])[said]), "majority")
    found = [cs.estimate(consensus, gold=drawn(truth, 100, seed), of="good") for seed in range(150)]
    assert np.mean([one.low <= share <= one.high for one in found]) >= 0.93


def test_a_consensus_that_has_seen_the_answers_is_fitted_again_without_them() -> None:
    consensus, truth = panel(400)
    answers = drawn(truth, 80, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        taught = cs.aggregate(consensus.annotations, gold=answers)
        plain, again = cs.estimate(consensus, gold=answers, of="good"), cs.estimate(taught, of="good")
    assert (again.value, again.low, again.high) == pytest.approx((plain.value, plain.low, plain.high))


# ---- samples ---------------------------------------------------------------------------------------------------------


def test_strata_correct_for_answers_that_were_not_drawn_alike() -> None:
    """Known answers are mostly of items that the panel calls good."""
    consensus, truth = panel()
    good = consensus.choice.best == 1
    rng, off, covered = np.random.default_rng(0), [], []
    strata = {item: bool(good[item]) for item in range(truth.size)}
    for _ in range(60):
        items = np.concatenate(
            [rng.choice(np.flatnonzero(of), n, replace=False) for of, n in ((good, 90), (~good, 30))]
        )
        found = cs.estimate(consensus, gold=known(truth, items), of="good", strata=strata)
        assert found.value is not None
        off.append(found.value - truth.mean())
        covered.append(found.low <= truth.mean() <= found.high)
        assert found.humans is not None
        assert abs(found.humans.value - truth.mean()) < 0.2
    assert abs(np.mean(off)) < 0.01
    assert np.mean(covered) > 0.85


def test_strata_have_the_variance_and_the_freedom_of_textbooks() -> None:
    """Without predictors: Σ W² s² / n (Cochran 1977, chapter 5) and the variance of the strata's shares, with
    Satterthwaite's degrees of freedom.
    """
    rng = np.random.default_rng(0)
    stratum = np.repeat([0, 1], [300, 700])
    sample = np.r_[0:20, 300:308]
    y = rng.normal(stratum[sample], np.where(stratum[sample], 3.0, 1.0))
    fitted = fit_predictors(y, sample, np.empty((1000, 0)), stratum)
    found = mean_estimate(fitted, sample, np.arange(1000), 0.95, strata=stratum)
    one, other = y[:20], y[20:]
    parts = np.array([0.3**2 * one.var(ddof=1) / 20, 0.7**2 * other.var(ddof=1) / 8])
    freedom = parts.sum() ** 2 / (parts**2 / [19, 7]).sum()
    assert found is not None
    assert found.value == pytest.approx(0.3 * one.mean() + 0.7 * other.mean())
    # the items are a sample themselves, of a population in which strata have these shares
    between = 0.3 * 0.7 * (one.mean() - other.mean()) ** 2 / 999
    assert found.error**2 == pytest.approx(parts.sum() + between)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, freedom) * found.error)


def test_proposed_items_are_a_random_sample() -> None:
    consensus, truth = panel()
    plan = cs.estimate(consensus, of="good")
    assert plan.value is None
    drawn_often = np.zeros(truth.size)
    for seed in range(300):
        items = nw.from_native(plan.which(150, seed), eager_only=True)["item"].to_list()
        assert len(set(items)) == 150
        drawn_often[items] += 1
    good = consensus.choice.best == 1
    assert drawn_often[good].mean() == pytest.approx(30, rel=0.03)
    assert drawn_often[~good].mean() == pytest.approx(30, rel=0.03)


def test_clusters_count_once() -> None:
    """Every item four times, as answers to one prompt: a cluster knows no more than one item."""
    consensus, truth = panel(400)
    assert consensus.annotations is not None
    labels = np.full((400, 5), "", dtype=object)
    a = consensus.annotations
    labels[a.item_of_label(), a.annotator] = np.array(a.classes)[a.label]
    four = cs.Annotations.from_matrix(np.repeat(labels, 4, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        repeated = cs.aggregate(four, "majority")
        once = cs.aggregate(a, "majority")
    items = np.random.default_rng(0).choice(400, 60, replace=False)
    answers = {4 * int(i) + r: ("bad", "good")[truth[i]] for i in items for r in range(4)}
    clusters = {item: item // 4 for item in range(1600)}
    fair = cs.estimate(repeated, gold=answers, of="good", clusters=clusters)
    naive = cs.estimate(repeated, gold=answers, of="good")
    single = cs.estimate(once, gold=known(truth, items), of="good")
    assert fair.half_width == pytest.approx(single.half_width, rel=0.1)
    assert naive.half_width < 0.6 * fair.half_width


def test_plans_know_that_answers_to_one_prompt_go_together() -> None:
    """n answers drawn from 50 prompts of 20: no number of them says more than 50 prompts do."""
    rng = np.random.default_rng(0)
    prompt = np.repeat(np.arange(50), 20)
    x = np.zeros((1000, 1))

    def answers() -> tuple[Ints, Any]:
        return prompt, rng.normal(size=50)[prompt] + 2.0 * rng.normal(size=1000)

    variances: dict[int, list[float]] = {50: [], 200: [], 800: []}
    planned = []
    for _ in range(400):
        clusters, y = answers()
        for n, means in variances.items():
            means.append(float(y[rng.choice(1000, n, replace=False)].mean()))
        sample = rng.choice(1000, 200, replace=False)
        planned.append(parts_of_variance(fit_predictors(y[sample], sample, x), sample, clusters=clusters))
    fixed, each = np.mean(planned, axis=0)
    # 1/50 + 4/n (1 - n/1000) of samples without replacement from one population of items
    assert fixed == pytest.approx(1 / 50, rel=0.15)
    assert each == pytest.approx(4 + 1 - 1 / 50, rel=0.05)
    for n, means in variances.items():
        assert np.var(means) == pytest.approx(fixed + each / n - 4 / 1000, rel=0.25)


def test_planned_numbers_reach_the_width() -> None:
    consensus, truth = panel()
    plan = cs.estimate(consensus, gold=drawn(truth, 100, 0), of="good")
    n = plan.needed(0.05)
    reached = [cs.estimate(consensus, gold=drawn(truth, n, seed), of="good").half_width for seed in range(1, 9)]
    assert np.mean(reached) == pytest.approx(0.05, rel=0.1)
    assert plan.needed(0.1) < n
    with pytest.raises(DataError, match=r"with answers to all 1500 items it would be 0\.0"):
        plan.needed(0.001)


# ---- what is estimated -----------------------------------------------------------------------------------------------


def test_groups_have_their_own_figures() -> None:
    consensus, truth = panel()
    group = np.arange(truth.size) % 3
    by = {item: f"g{group[item]}" for item in range(truth.size)}
    inside = []
    for seed in range(20):
        found = cs.estimate(consensus, gold=drawn(truth, 200, seed), of="good", by=by)
        rows = nw.from_native(found.groups, eager_only=True).rows(named=True)
        assert [row["group"] for row in rows] == ["g0", "g1", "g2"]
        assert sum(row["known"] for row in rows) == 200
        assert sum(row["items"] for row in rows) == truth.size
        inside += [row["low"] <= truth[group == g].mean() <= row["high"] for g, row in enumerate(rows)]
    assert np.mean(inside) >= 0.85


@pytest.mark.parametrize("rejects", [0.5, 0.95])
def test_groups_in_which_nearly_all_answers_are_good_are_covered(rejects: float) -> None:
    """Fifteen known answers a group; the panel says that one good answer in five is bad."""
    shares, each, rng = np.array([0.5, 0.97, 0.99, 1.0]), 200, np.random.default_rng(0)
    truth = np.concatenate([np.arange(each) < share * each for share in shares]).astype(np.int64)
    says_good = np.where(truth == 1, 0.8, 1 - rejects)
    said = (rng.random((truth.size, 3)) < says_good[:, None]).astype(np.int64)
    consensus = cs.aggregate(cs.Annotations.from_matrix(np.array(["bad", "good"])[said]), "majority")
    by = {item: item // each for item in range(truth.size)}
    covered, wide, alone = [], [], []
    for seed in range(50):
        items = [g * each + np.random.default_rng([seed, g]).choice(each, 15, replace=False) for g in range(4)]
        found = cs.estimate(consensus, gold=known(truth, np.concatenate(items)), of="good", by=by)
        low, high = (np.array(nw.from_native(found.groups, eager_only=True)[end].to_list()) for end in ("low", "high"))
        covered.append((low <= shares) & (shares <= high))
        wide.append(high - low)
        right = truth[np.array(items)].sum(axis=1)
        exact = [stats.binomtest(int(k), 15).proportion_ci(0.95) for k in right]
        alone.append([one.high - one.low for one in exact])
    # three standard errors of 50 draws are nine points
    assert np.mean(covered, axis=0).min() >= 0.86
    assert np.mean(covered) >= 0.94
    assert np.all(np.mean(wide, axis=0) <= 1.05 * np.mean(alone, axis=0))


def test_the_panel_counts_in_a_group_with_known_answers_of_both_kinds() -> None:
    consensus, truth = panel()
    by = {item: item % 2 for item in range(truth.size)}
    good, bad = (np.flatnonzero(truth == kind) for kind in (1, 0))
    one, other = (
        np.concatenate([good[good % 2 == group][:rare], bad[bad % 2 == group][: 20 - rare]])
        for group, rare in ((0, 2), (1, 3))
    )
    found = cs.estimate(consensus, gold=known(truth, np.concatenate([one, other])), of="good", by=by)
    first, second = nw.from_native(found.groups, eager_only=True).rows(named=True)
    assert first["value"] == pytest.approx(0.1)
    low, high = stats.binomtest(2, 20).proportion_ci(0.95)
    assert (first["low"], first["high"]) == pytest.approx((low, high), abs=0.015)
    assert abs(second["value"] - 0.15) > 0.001


def test_a_difference_of_two_systems_on_the_same_items() -> None:
    """System B is good more often; both are judged by the same panel."""
    (one, truth), (other, better) = panel(800, 3), panel(800, 4)
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(30):
        items = rng.choice(800, 120, replace=False)
        found = cs.estimate(one, gold=known(truth, items), of="good", versus=other, versus_gold=known(better, items))
        covered.append(found.low <= truth.mean() - better.mean() <= found.high)
    assert np.mean(covered) >= 0.85
    same = cs.estimate(one, gold=known(truth, items), of="good", versus=one, versus_gold=known(truth, items))
    # no known answer differs, but one might in each direction
    step = stats.t.ppf(0.975, 117) * np.sqrt(2) / 120
    assert (same.value, same.low, same.high) == pytest.approx((0.0, -step, step), rel=0.01)


@pytest.mark.parametrize(
    ("n", "gains", "losses"), [(15, 0.0, 0.02), (60, 0.01, 0.03), (100, 0.0, 0.02), (100, 0.02, 0.1)]
)
def test_rare_differences_are_covered_though_samples_show_few(n: int, gains: float, losses: float) -> None:
    """Exact coverage; with the variance of the sample, or that of one answer if it is larger, it is as low as 87 %."""
    bounds, covered = Bounds(-1.0, 1.0, difference=True), 0.0
    for won in range(int(stats.binom.ppf(0.9995, n, gains)) + 1):
        for lost in range(int(stats.binom.ppf(0.9995, n, losses)) + 1):
            y = np.repeat([1.0, -1.0, 0.0], [won, lost, n - won - lost])
            fitted = fit_predictors(y, np.arange(n), np.empty((9 * n, 0)))
            found = mean_estimate(fitted, np.arange(n), np.arange(9 * n), 0.95, bounds=bounds)
            assert found is not None
            if found.low <= gains - losses <= found.high:
                chance = stats.multinomial.pmf([won, lost, n - won - lost], n, [gains, losses, 1 - gains - losses])
                covered += float(chance)
    assert covered >= 0.945


def test_answers_of_one_class_have_the_interval_of_a_binomial() -> None:
    """0 of 40: Clopper and Pearson's interval ends at 1 - 0.025^(1/40) = 0.088."""
    consensus, _ = panel(400)
    found = cs.estimate(consensus, gold=dict.fromkeys(range(40), "bad"), of="good")
    assert found.value == 0.0
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 40))


@pytest.mark.parametrize("n", [10, 15, 30, 60, 200])
def test_known_answers_alone_cover_every_share(n: int) -> None:
    """Exact coverage of shares of 0.1 to 50 %; with Wilson's interval throughout, it is 85 to 92 % near 1 / (10 n)."""
    ends = []
    for hits in range(n + 1):
        fitted = fit_predictors((np.arange(n) < hits).astype(float), np.arange(n), np.empty((9 * n, 0)))
        found = mean_estimate(fitted, np.arange(n), np.arange(9 * n), 0.95, bounds=Bounds(0.0, 1.0))
        assert found is not None
        ends.append((found.low, found.high))
    low, high = np.array(ends).T
    shares = np.linspace(0.001, 0.5, 500)[:, None]
    covered = (stats.binom.pmf(np.arange(n + 1), n, shares) * ((low <= shares) & (shares <= high))).sum(axis=1)
    assert covered.min() >= 0.93
    assert covered.mean() >= 0.95
    # no wider than Clopper and Pearson's, but for s² with n - 1
    exact = stats.beta.ppf(0.975, np.arange(3) + 1, n - np.arange(3))
    assert np.all(high[:3] <= 1.06 * exact)


def test_means_and_win_rates_are_values_of_classes() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 600)
    said = np.where(rng.random((600, 4)) < 0.75, truth[:, None], rng.integers(0, 3, (600, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        grades = cs.aggregate(cs.Annotations.from_matrix(said), answers="nominal")
        words = cs.aggregate(cs.Annotations.from_matrix(np.array(["B", "tie", "A"])[said]))
    items = rng.choice(600, 100, replace=False)
    mean = cs.estimate(grades, gold={int(i): int(truth[i]) for i in items})
    wins = cs.estimate(
        words, gold={int(i): ("B", "tie", "A")[truth[i]] for i in items}, of={"A": 1, "tie": 0.5, "B": 0}
    )
    assert mean.value == pytest.approx(truth.mean(), abs=0.15)
    assert wins.value is not None
    assert mean.value is not None
    assert 2 * wins.value == pytest.approx(mean.value, abs=0.02)
    both = cs.estimate(words, gold={int(i): ("B", "tie", "A")[truth[i]] for i in items}, of=["A", "tie"])
    one = cs.estimate(words, gold={int(i): ("B", "tie", "A")[truth[i]] for i in items}, of="B")
    assert both.value == pytest.approx(1 - one.value)  # type: ignore[operator]


def test_answers_of_a_class_that_no_judge_names_count() -> None:
    consensus, truth = panel(400)
    answers = dict.fromkeys(range(40), "unusable") | known(truth, range(40, 200))
    with pytest.warns(DataWarning, match="'unusable', which no annotator used"):
        found = cs.estimate(consensus, gold=answers, of="unusable")
    assert found.value == pytest.approx(0.2, abs=0.1)


# ---- without known answers -------------------------------------------------------------------------------------------


def test_labels_alone_give_a_range_and_no_value() -> None:
    consensus, truth = panel()
    found = cs.estimate(consensus, of="good")
    assert found.value is None
    assert found.basis == "labels"
    assert found.low <= truth.mean() <= found.high
    assert f"if at most {consensus.estimated_error.high:.0%} of the consensus is wrong" in str(found)


def test_error_rates_correct_the_share() -> None:
    """Rogan and Gladen's formula, and its variance against simulation."""
    assert rogan_gladen(0.3, 10**9, 0.9, 0.8, 0.95).value == pytest.approx((0.3 + 0.8 - 1) / 0.7)
    rng, inside = np.random.default_rng(0), []
    for _ in range(400):
        se, sp = rng.binomial(60, 0.9), rng.binomial(80, 0.8)
        share = rng.binomial(500, 0.35 * 0.9 + 0.65 * 0.2) / 500
        found = rogan_gladen(share, 500, (se, 60), (sp, 80), 0.95)
        inside.append(found.low <= 0.35 <= found.high)
    assert 0.915 <= np.mean(inside) <= 0.985
    consensus, _ = panel()
    assert cs.estimate(consensus, of="good", sensitivity=0.95, specificity=0.75).basis == "error rates"
    with pytest.raises(ParameterError, match="no better than guesses"):
        cs.estimate(consensus, of="good", sensitivity=0.5, specificity=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "superb"}, r"of='superb' is not one of the classes. The classes are 'bad', 'good'"),
        ({"of": "goood"}, r"of='goood' is not one of the classes; did you mean 'good'\?"),
        ({"of": "good", "sensitivity": 0.9, "specificity": (12, 10)}, r"specificity must be .*, not \(12, 10\)"),
        ({"of": "good", "sensitivity": "high", "specificity": (3, 0)}, "sensitivity must be a share from 0 to 1"),
        ({}, "say what to estimate: of=… names a class"),
        ({"of": {"good": 1}}, "of has no value for the class 'bad'"),
        ({"of": "good", "level": 95}, "level must be a number from 0.5 up to 1, such as 0.95, not 95"),
    ],
)
def test_wrong_options_get_one_sentence(options: dict[str, Any], message: str) -> None:
    consensus, truth = panel(400)
    with pytest.raises(ParameterError, match=message):
        cs.estimate(consensus, gold=drawn(truth, 50, 0), **options)


def test_too_few_answers_are_refused() -> None:
    consensus, truth = panel(400)
    with pytest.raises(DataError, match="9 known answers are too few for an interval: at least 10 are needed"):
        cs.estimate(consensus, gold=drawn(truth, 9, 0), of="good")
    with pytest.raises(DataError, match="groups need known answers"):
        cs.estimate(consensus, of="good", by=dict.fromkeys(range(400), 1))
