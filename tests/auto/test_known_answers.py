"""Known answers: the logistic regression, no item predicts itself, and what they are worth."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.auto import constants, known_answers
from consilience.auto.auto import auto
from consilience.auto.known_answers import learn_from_known
from consilience.auto.pool import Pool, normalised
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import FOLDS, LEAST_KNOWN
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.fit import Fit, vote_posterior
from consilience.kernels._arrays import Floats, Ints

#: Of the shares of votes and model.
PRIOR: Any = {"centre": (1.0, 1.0), "least": (constants.LEAST_SHARE, constants.LEAST_SHARE), "precision": 1.5}


def with_known(a: Annotations, truth: Ints, n: int, seed: int) -> Annotations:
    chosen = np.random.default_rng(seed).choice(np.flatnonzero(truth >= 0), n, replace=False)
    return a.with_gold({a.items[n]: a.classes[truth[n]] for n in chosen}) if n else a


def quiet(a: Annotations) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return auto(a)


def error(fit: Fit, a: Annotations, truth: Ints) -> float:
    """Percentage of wrong labels on the items whose answer was not given."""
    return error_percent(fit.choice.best, truth if a.gold is None else np.where(a.gold < 0, truth, -1))


def wrong_together(N: int, seed: int) -> tuple[Annotations, Ints]:
    """Six annotators share mistakes on four items in ten, and make others; three err alone, one time in ten."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, N)
    misled = np.where(rng.random(N) < 0.4, 1 - truth, truth)
    many = np.where(rng.random((N, 6)) < 0.2, 1 - misled[:, None], misled[:, None])
    few = np.where(rng.random((N, 3)) < 0.1, 1 - truth[:, None], truth[:, None])
    return Annotations.from_matrix(np.hstack([many, few])), truth


# ---- the regression --------------------------------------------------------------------------------------------------


def some_lessons(n: int, K: int, seed: int) -> tuple[Floats, Annotations, Ints]:
    """Features of ``n`` items, labels of four annotators, one in five missing, and truths that depend on both."""
    rng = np.random.default_rng(seed)
    features, matrix = rng.normal(0.0, 1.0, (2, n, K)), rng.integers(0, K, (n, 4))
    matrix = np.where(rng.random((n, 4)) < 0.2, -1, matrix)
    logarithms = np.tensordot([0.6, 1.4], features, 1) + np.linspace(0.0, 0.8, K)
    for m, weight in enumerate((1.0, -0.5, 0.3, 0.0)):
        logarithms += weight * (matrix[:, m, None] == np.arange(K))
    truth = (rng.random((n, 1)) > normalised(logarithms, 0.0).cumsum(axis=1)).sum(axis=1)
    return features, Annotations.from_matrix(matrix, classes=range(K)), truth


def test_coefficients_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes, no doubt and no prior: logistic regression of the class on differences of features and labels."""
    from sklearn.linear_model import LogisticRegression

    features, said, truth = some_lessons(600, 2, seed=0)
    for name in ("SHARE_PRECISION", "OFFSET_PRECISION"):
        monkeypatch.setattr(constants, name, 1e-9)
    flat = {**PRIOR, "precision": 1e-9}
    shares, offsets, weights = known_answers.regression(features, truth, 0.0, said=said, **flat)
    differences = (features[:, :, 1] - features[:, :, 0]).T
    signs = np.zeros((said.n_items, said.n_annotators))
    signs[said.item_of_label(), said.annotator] = 2.0 * said.label - 1.0
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(np.hstack([differences, signs]), truth)
    assert weights is not None
    np.testing.assert_allclose(np.concatenate([shares, weights]), theirs.coef_[0], atol=2e-3)
    assert offsets[1] - offsets[0] == pytest.approx(theirs.intercept_[0], abs=2e-3)


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("doubt", [0.1, 0.0])
def test_coefficients_have_the_least_penalised_loss(K: int, doubt: float) -> None:
    """The loss label by label; no point around has a smaller one."""
    features, said, truth = some_lessons(80, K, seed=K)
    regression = known_answers.regression(features, truth, doubt, said=said, **PRIOR)
    assert regression.weights is not None
    found = np.concatenate([regression.shares, regression.offsets, regression.weights])
    centre = np.concatenate([[1.0, 1.0], np.zeros(K + 4)])

    def loss(x: Floats) -> float:
        shares, offsets, weights = x[:2], x[2 : 2 + K], x[2 + K :]
        total = 0.5 * constants.SHARE_PRECISION * ((shares - 1.0) ** 2).sum()
        total += 0.5 * constants.OFFSET_PRECISION * (offsets**2).sum()
        total += 0.5 * PRIOR["precision"] * np.sqrt(said.n_labels / 80) * (weights**2).sum()
        for n, k in enumerate(truth):
            scores = shares @ features[:, n] + offsets
            for label in range(said.indptr[n], said.indptr[n + 1]):
                scores[said.label[label]] += weights[said.annotator[label]]
            odds = np.exp(scores)
            total -= np.log((1 - doubt) * odds[k] / odds.sum() + doubt / K)
        return float(total)

    around = found + np.random.default_rng(0).normal(0.0, 0.05, (200, found.size))
    around[:, :2] = np.maximum(around[:, :2], constants.LEAST_SHARE)
    assert loss(found) <= min(loss(x) for x in around) + 1e-6
    assert loss(found) < loss(centre)
    # without doubt, the loss at the optimum is that of the probabilities it returns
    if doubt == 0.0:
        p = regression.probabilities(features, said, 0.0)
        assert -np.log(p[np.arange(80), truth]).sum() < loss(centre)


def test_useless_votes_and_models_are_not_turned_around() -> None:
    """Shares are not negative, where the opposite of both would predict the known answers."""
    features, said, truth = some_lessons(300, 2, seed=1)
    shares, _, _ = known_answers.regression(-features, truth, 0.055, said=said, **PRIOR)
    np.testing.assert_allclose(shares, constants.LEAST_SHARE, atol=1e-6)


def test_annotators_who_err_together_share_a_weight() -> None:
    """Ten copies of one annotator count together about as much as the annotator alone, not ten times as much."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    single = np.where(rng.random(400) < 0.8, truth, 1 - truth)[:, None]
    flat = np.zeros((2, 400, 2))
    sums = []
    for matrix in (single, np.repeat(single, 10, axis=1)):
        found = known_answers.regression(flat, truth, 0.0, said=Annotations.from_matrix(matrix), **PRIOR)
        assert found.weights is not None
        sums.append(float(found.weights.sum()))
    alone, copied = sums
    assert alone < copied < 1.2 * alone


def test_offsets_correct_a_class_that_labels_name_too_often() -> None:
    """Functions for one class fire at random on half the items; the class is rare."""
    rng = np.random.default_rng(0)
    truth = (rng.random(2000) < 0.15).astype(np.int64)
    said = np.where(truth[:, None] == 1, rng.random((2000, 3)) < 0.6, rng.random((2000, 3)) < 0.4).astype(np.int64)
    a = Annotations.from_matrix(said)
    known = with_known(a, truth, 60, 0)
    blind, taught = quiet(a), quiet(known)
    assert isinstance(taught.predictor, Pool)
    assert taught.predictor.offsets is not None
    assert taught.predictor.offsets[0] > taught.predictor.offsets[1]
    assert error(taught, known, truth) < error(blind, known, truth) - 5.0


# ---- no item predicts itself -----------------------------------------------------------------------------------------


def of_one_label_each(N: int, seed: int) -> tuple[Annotations, Ints]:
    """Three labels an item, each by somebody who says nothing else, three in four right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, N)
    said = np.where(rng.random((N, 3)) < 0.75, truth[:, None], 1 - truth[:, None])
    matrix = np.full((N, 3 * N), -1)
    np.put_along_axis(matrix, np.arange(3 * N).reshape(N, 3), said, axis=1)
    return Annotations.from_matrix(matrix, gold=truth), truth


def test_weights_leave_out_the_item_that_is_predicted() -> None:
    """Who says nothing else has no weight; with the item itself, the weight would always point to the truth."""
    a, truth = of_one_label_each(60, seed=0)
    plain = Pool(vote_posterior, a.annotator_ids)
    _, judged, _ = learn_from_known(a, plain, lambda _: plain)
    errors = np.mean(judged.argmax(axis=1) != truth)
    assert errors == np.mean(vote_posterior(a.with_gold(None)).argmax(axis=1) != truth)
    assert errors > 0.05


def test_the_model_that_predicts_a_known_item_has_not_seen_its_answer() -> None:
    """A model that remembers the answers it was fitted with, and knows nothing else."""
    a, truth = wrong_together(100, 0)
    a = with_known(a, truth, 50, 0)
    asked: list[int] = []

    def memory(some: Annotations) -> Pool:
        answers = np.full(some.n_items, -1) if some.gold is None else some.gold
        gold = dict(zip(some.items.tolist(), answers.tolist(), strict=True))
        asked.append(int((answers >= 0).sum()))

        def posterior(items: Annotations) -> Floats:
            known = np.array([gold[item] for item in items.items.tolist()])
            return np.where(known[:, None] < 0, 0.5, np.eye(2)[known] * 0.98 + 0.01)

        return Pool(posterior, some.annotator_ids)

    learned, _, _ = learn_from_known(a, memory(a), memory)
    # a fifth of the answers is hidden from each model, and what it says of them is nothing: its share does not move
    assert asked == [50] + [40] * FOLDS + [0]
    assert learned.shares[1] == pytest.approx(1.0, abs=1e-4)


def test_parts_do_not_depend_on_the_order_of_rows() -> None:
    a, truth = wrong_together(200, 3)
    known = with_known(a, truth, 60, 0)
    order = np.random.default_rng(0).permutation(200)
    one, other = quiet(known), quiet(known.select_items(order))
    np.testing.assert_allclose(other.posterior, one.posterior[order], atol=1e-6)


# ---- what they are worth -------------------------------------------------------------------------------------------


def test_errors_fall_from_none_to_thirty_to_a_hundred() -> None:
    errors: dict[int, list[float]] = {0: [], 30: [], 100: []}
    for seed in range(4):
        a, truth = wrong_together(600, seed)
        for n, found in errors.items():
            known = with_known(a, truth, n, seed)
            found.append(error(quiet(known), known, truth))
    none, thirty, hundred = (float(np.mean(found)) for found in errors.values())
    assert none > 30
    assert thirty < 12
    assert hundred < min(thirty - 1.0, 5.0)


@pytest.mark.parametrize("n", [10, 30, 100])
def test_answers_do_not_hurt_where_the_model_is_right(n: int) -> None:
    worse, changed = [], []
    for seed in range(8):
        crowd = cs.simulate(500, 20, 3, labels_per_item=5, spammers=0.2, seed=seed)
        truth = np.asarray(crowd.truth)
        a = with_known(crowd.annotations, truth, n, seed)
        fit, blind = quiet(a), quiet(crowd.annotations)
        assert not any("known answers" in sentence for sentence, _ in fit.cautions)
        worse.append(error(fit, a, truth) - error(blind, a, truth))
        assert a.gold is not None
        changed.append(np.mean((fit.choice.best != blind.choice.best)[a.gold < 0]))
    assert max(worse) <= 3.0
    assert np.mean(worse) <= (0.0 if n == 100 else 0.3)
    assert np.mean(changed) < 0.05


def test_known_items_are_at_their_answer_and_new_items_are_judged_alike() -> None:
    a, truth = wrong_together(300, 5)
    known = with_known(a, truth, 40, 1)
    assert known.gold is not None
    fit = quiet(known)
    at = known.gold >= 0
    np.testing.assert_array_equal(fit.posterior[at], np.arange(2) == known.gold[at, None])
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
    assert isinstance(fit.predictor, Pool)
    np.testing.assert_allclose(fit.predictor(known)[0], fit.posterior, atol=1e-9)
    # the six who share mistakes count less than the three who do not
    assert fit.predictor.weights is not None
    assert fit.predictor.weights[:6].max() < fit.predictor.weights[6:].min()


def test_what_is_reported_of_the_labels_alone_is_a_run_without_known_answers() -> None:
    """Models that have seen the other known answers would be right here."""
    a, truth = wrong_together(600, 0)
    known = with_known(a, truth, 100, 0)
    fit, alone = quiet(known), quiet(a)
    report = fit.details["known_answers"]
    assert known.gold is not None
    at = known.gold >= 0
    assert report["items"] == 100
    assert report["error"] == pytest.approx(np.mean(alone.posterior[at].argmax(axis=1) != truth[at]))
    assert report["expected"] == pytest.approx(1.0 - alone.posterior[at].max(axis=1).mean())
    assert report["error"] > 0.3
    assert report["error_with"] < 0.1


def test_a_contradiction_is_the_first_caution() -> None:
    crowd = cs.simulate(400, 15, 3, labels_per_item=5, adversaries=0.6, seed=1)
    fit = quiet(with_known(crowd.annotations, np.asarray(crowd.truth), 50, 0))
    report = fit.details["known_answers"]
    assert report["error"] > 0.9 > 0.3 > report["expected"]
    said = f"on your 50 known answers, the consensus of the labels alone is {report['error']:.0%} wrong; it expected "
    assert fit.cautions[0][0].startswith(f"{said}{report['expected']:.0%}")


def test_four_answers_are_too_few_to_say_anything() -> None:
    a, truth = wrong_together(300, 6)
    few, enough = (quiet(with_known(a, truth, n, 0)).details for n in (LEAST_KNOWN - 1, 5))
    assert "known_answers" not in few
    assert enough["known_answers"]["items"] == 5


def test_large_crowds_are_refitted_on_a_sample_with_all_known_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    original = known_answers.learn_from_known

    def noted(part: Annotations, *others: Any) -> Any:
        seen.append(part)
        return original(part, *others)

    monkeypatch.setattr("consilience.auto.auto.learn_from_known", noted)
    monkeypatch.setattr(constants, "SAMPLE", 3000)
    errors = []
    for seed in range(4):
        a, truth = wrong_together(1200, seed)
        known = with_known(a, truth, 60, seed)
        errors.append((error(quiet(known), known, truth), error(quiet(a), a, truth)))
    assert len(seen) == 4
    for part in seen:
        assert part.n_items < 500
        assert part.gold is not None
        assert (part.gold >= 0).sum() == 60
    taught, alone = np.mean(errors, axis=0)
    assert taught < 10 < 30 < alone


# Regression bounds: the measured means of these draws, and one point.
@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(("name", "most"), [("llmbar", 13.5), ("duck", 5.0), ("zencrowd_all", 12.6)])
def test_thirty_answers_on_public_sets(name: str, most: float) -> None:
    a, truth = real_crowd(name)
    errors = []
    for seed in range(5):
        known = with_known(a, truth, 30, seed)
        errors.append(error(quiet(known), known, truth))
    assert np.mean(errors) <= most


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(("name", "n"), [("trec", 100), ("leaves", 76)])
def test_answers_to_the_most_doubtful_items_do_not_turn_labels_over(name: str, n: int) -> None:
    """On such items the labels of trec are wrong half the time, those of leaves three times in four."""
    a, truth = real_crowd(name)
    alone = quiet(a)
    doubtful = np.flatnonzero(truth >= 0)
    doubtful = doubtful[np.argsort(alone.posterior[doubtful].max(axis=1), kind="stable")[:n]]
    known = a.with_gold({a.items[n]: a.classes[truth[n]] for n in doubtful})
    assert known.gold is not None
    others = np.where(known.gold < 0, truth, -1)
    assert error(quiet(known), known, truth) < error_percent(alone.choice.best, others) + 1.0
