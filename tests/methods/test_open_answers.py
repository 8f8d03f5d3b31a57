"""Open answers: the model against its definition, recovery of parameters, and what must not matter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.answers.conftest import open_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.open_answers import fit_open
from consilience.models.ease import Ease
from consilience.models.open_answers import OpenModel, OpenPass
from consilience.runs.open_run import choose_answers

ROWS = [
    ("one", "m0", "x"), ("one", "m1", "x"), ("one", "m2", "y"), ("one", "m3", "y"), ("one", "m4", "z"),
    ("two", "m0", "y"), ("two", "m1", "y"),
    ("three", "m2", "w"),
    ("four", "m0", "z"), ("four", "m1", "x"), ("four", "m3", "w"),
]  # fmt: skip


def tiny(gold: Any = None) -> Annotations:
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["item", "annotator", "label"])
    a = Annotations.from_frame(frame)
    return a.recode(a.annotator_ids, Ids(["w", "x", "y", "z", "unused"])).with_gold(gold)


def brute_force(
    a: Annotations, ability: Floats, alpha: float, spread: float, options: int | None
) -> tuple[list[dict[int, float]], float]:
    """Weigh the hypotheses about every item one label after the other: the urn as it is defined.

    With known options, every hypothesis is about labelled options; there are O! / (O - C)! ways to name C answers.
    """
    ease = Ease(spread, np.zeros(1, np.int64))
    found, total = [], 0.0
    for n in range(a.n_items):
        here = range(int(a.indptr[n]), int(a.indptr[n + 1]))
        given = sorted({int(a.label[i]) for i in here})
        weights = {}
        for truth in [*given, -1]:
            weight = 0.0
            for x, share in zip(ease.nodes, ease.shares, strict=True):
                p = float(share)
                before: list[int] = []
                for i in here:
                    right = 1.0 / (1.0 + np.exp(-ability[a.annotator[i]] - spread * x))
                    k = int(a.label[i])
                    if k == truth:
                        p *= right
                        continue
                    if options is None:
                        p *= (1.0 - right) * (before.count(k) or alpha) / (alpha + len(before))
                    else:
                        theta = alpha / (options - 1)
                        p *= (1.0 - right) * (theta + before.count(k)) / (alpha + len(before))
                    before.append(k)
                weight += p
            if options is not None:
                names = np.prod([float(options - c) for c in range(len(given))])
                prior = 1.0 / options if truth >= 0 else (options - len(given)) / options
                weight *= float(names) * prior
            weights[truth] = weight
        if a.gold is not None and a.gold[n] >= 0:
            known = int(a.gold[n])
            weights = {known: weights[known]}
        whole = sum(weights.values())
        total += np.log(whole)
        found.append({truth: weight / whole for truth, weight in weights.items()})
    return found, total


@pytest.mark.parametrize("options", [None, 4, 9])
@pytest.mark.parametrize("spread", [0.0, 0.7])
@pytest.mark.parametrize("gold", [None, {"one": "y", "four": "x"}])
def test_one_pass_is_the_definition(options: int | None, spread: float, gold: Any) -> None:
    a = tiny(gold)
    ability, alpha = np.array([0.9, -0.4, 0.3, 1.5, 0.0]), 1.7
    run_pass = OpenPass(a, spread, options)
    q, none, sums = run_pass(ability, alpha)
    expected, log_likelihood = brute_force(a, ability, alpha, spread, options)
    c = run_pass.candidates
    for n, weights in enumerate(expected):
        for at in range(int(c.first[n]), int(c.first[n + 1])):
            assert q[at] == pytest.approx(weights.get(int(c.answer[at]), 0.0), abs=1e-12)
        assert none[n] == pytest.approx(weights.get(-1, 0.0), abs=1e-12)
    assert sums.log_likelihood == pytest.approx(log_likelihood, abs=1e-10)
    right = np.zeros(5)
    for i, n in enumerate(a.item_of_label().tolist()):
        right[a.annotator[i]] += expected[n].get(int(a.label[i]), 0.0)
    np.testing.assert_allclose(sums.right, right, atol=1e-12)
    np.testing.assert_allclose(sums.at_node.sum(axis=1), a.labels_per_annotator, atol=1e-12)


def test_many_options_are_free_text() -> None:
    """With 10^7 options, names of answers hardly ever coincide by themselves: the limit is the urn without options."""
    a, ability = tiny(), np.array([0.9, -0.4, 0.3, 1.5, 0.0])
    free, many = (OpenPass(a, 0.7, options)(ability, 2.0) for options in (None, 10**7))
    np.testing.assert_allclose(many[0], free[0], atol=1e-5)
    assert many[2].log_likelihood == pytest.approx(free[2].log_likelihood, abs=1e-4)


def test_the_objective_rises_and_its_maximum_is_flat() -> None:
    crowd = open_crowd(200, 12, 5, seed=3)
    fit = fit_open(crowd.annotations, tol=1e-12)
    assert fit.converged
    assert all(after >= before - 1e-9 for before, after in pairwise(fit.history))

    def objective(ability: Floats, crowd_mean: float, alpha: float) -> float:
        value = OpenPass(crowd.annotations, 0.7, None)(ability, alpha)[2].log_likelihood
        prior = -0.5 * np.sum((ability - crowd_mean) ** 2) - 0.5 * (crowd_mean - 0.6) ** 2
        return float(value + prior + 10 * (2 / 3 * np.log(alpha) - np.log1p(alpha)))

    m = fit.model
    best = objective(m.ability, m.crowd, m.concentration)
    assert best == pytest.approx(fit.history[-1], abs=1e-6)
    for step in (-0.02, 0.02):
        assert objective(m.ability, m.crowd + step, m.concentration) < best
        assert objective(m.ability, m.crowd, m.concentration * (1 + 5 * step)) < best
        for one in range(12):
            assert objective(m.ability + step * (np.arange(12) == one), m.crowd, m.concentration) < best


@pytest.mark.parametrize(("concentration", "low", "high"), [(2.0, 1.6, 2.5), (20.0, 15.0, 27.0)])
def test_parameters_are_recovered(concentration: float, low: float, high: float) -> None:
    crowd = open_crowd(1500, 20, 8, concentration=concentration, seed=1)
    fit = fit_open(crowd.annotations)
    assert low < fit.model.concentration < high
    np.testing.assert_allclose(fit.model.ability, crowd.ability, atol=0.35)
    np.testing.assert_allclose(fit.model.accuracy, crowd.accuracy, atol=0.04)
    np.testing.assert_allclose(fit.right / crowd.annotations.labels_per_annotator, crowd.accuracy, atol=0.03)


@pytest.mark.parametrize("concentration", [1.5, 4.0, 50.0])
@pytest.mark.parametrize("labels", [5, 8])
def test_popular_wrong_answers_mislead_less_than_votes(concentration: float, labels: int) -> None:
    ours, votes = [], []
    for seed in range(3):
        crowd = open_crowd(400, 20, labels, concentration=concentration, mean=0.0, seed=seed)
        ours.append(crowd.error(choose_answers(fit_open(crowd.annotations).posterior).best))
        votes.append(crowd.error(vote_posterior(crowd.annotations).argmax(axis=1)))
    assert np.mean(ours) < 0.95 * np.mean(votes)


def test_equal_annotators_are_a_vote() -> None:
    """Three labels each from many annotators show nothing of any of them: the votes decide."""
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((300, 60)) < 0.05, rng.integers(0, 6, (300, 60)), -1)
    a = Annotations.from_matrix(matrix)
    best = choose_answers(fit_open(a).posterior).best
    votes = vote_posterior(a)
    clear = (votes.max(axis=1) - np.sort(votes, axis=1)[:, -2] > 0.4) & (a.labels_per_item > 0)
    assert clear.sum() > 30
    np.testing.assert_array_equal(best[clear], votes.argmax(axis=1)[clear])


def test_ties_are_ties() -> None:
    a = Annotations.from_matrix([[1, 2], [3, 3], [4, 4], [5, 6]])
    fit = fit_open(a)
    choice = choose_answers(fit.posterior)
    assert choice.margin[[0, 3]].tolist() == [0.0, 0.0]
    p = fit.posterior.probability
    assert p[0] == pytest.approx(p[1])
    assert p.max() == pytest.approx(fit.posterior.probability[fit.posterior.candidates.item == 1][0])


def test_agreement_counts_for_more_than_a_split() -> None:
    matrix = [[1, 1, 2], [3, 3, 3], [4, 4, 5], [6, 7, 6], [8, 8, 8], [9, 9, 9]]
    confidence = [fit_open(Annotations.from_matrix(matrix)).posterior.probability.max()]
    fit = fit_open(Annotations.from_matrix(matrix))
    top = np.zeros(6)
    np.maximum.at(top, fit.posterior.candidates.item, fit.posterior.probability)
    assert top[[0, 2, 3]].max() < top[[1, 4, 5]].min() <= confidence[0]
    assert top[[0, 2, 3]].max() < 0.9


def renamed_within_items(a: Annotations, seed: int) -> Annotations:
    """Give the answers of every item new names, in another order, that no other item has."""
    rng = np.random.default_rng(seed)
    frame = a.to_frame("pandas")
    new: dict[tuple[Any, Any], int] = {}
    for item, rows in frame.groupby("item"):
        said = rows["label"].unique()
        names = rng.permutation(said.size) + 1000 * int(rng.integers(1, 10**6))
        new |= {(item, old): int(name) for old, name in zip(said, names, strict=True)}
    labels = [new[key] for key in zip(frame["item"], frame["label"], strict=True)]
    return Annotations.from_frame(frame.assign(label=labels))


@pytest.mark.parametrize("shared_names", [False, True])
def test_names_of_answers_and_order_of_rows_do_not_matter(shared_names: bool) -> None:
    crowd = open_crowd(120, 9, 5, shared_names=shared_names, seed=2).annotations
    crowd = Annotations.from_frame(crowd.to_frame("pandas"))
    before = fit_open(crowd)
    renamed = renamed_within_items(crowd, seed=4)
    shuffled = Annotations.from_frame(crowd.to_frame("pandas").sample(frac=1.0, random_state=7))
    for other in (renamed, shuffled):
        after = fit_open(other)
        by_name = dict(zip(other.annotators.tolist(), after.model.ability, strict=True))
        np.testing.assert_allclose([by_name[m] for m in crowd.annotators], before.model.ability, atol=1e-6)
        assert after.model.concentration == pytest.approx(before.model.concentration, rel=1e-4)
        # sorted probabilities of the answers of each item
        for n, item in enumerate(crowd.items.tolist()):
            c, d = before.posterior.candidates, after.posterior.candidates
            m = other.items.tolist().index(item)
            ours = np.sort(before.posterior.probability[c.first[n] : c.first[n + 1]])
            theirs = np.sort(after.posterior.probability[d.first[m] : d.first[m + 1]])
            np.testing.assert_allclose(theirs, ours, atol=1e-6)


def test_known_answers_are_held_and_teach() -> None:
    """Most annotators copy one wrong answer: only known answers show who is right."""
    rng = np.random.default_rng(0)
    N = 200
    truth = rng.integers(0, 1000, N) * 2
    good = np.where(rng.random((N, 3)) < 0.9, truth[:, None], rng.integers(0, 1000, (N, 3)) * 2)
    shared = truth[:, None] + 1  # odd numbers are wrong
    bad = np.where(rng.random((N, 5)) < 0.8, shared, truth[:, None])
    a = Annotations.from_matrix(np.hstack([good, bad]))
    gold = {n: int(truth[n]) for n in range(40)}
    blind, taught = fit_open(a), fit_open(a.with_gold(gold))
    rest = np.arange(40, N)
    errors = [np.mean(a.classes[choose_answers(f.posterior).best][rest] != truth[rest]) for f in (blind, taught)]
    assert errors[1] < 0.15 < 0.5 < errors[0]
    right = np.mean(np.hstack([good, bad]) == truth[:, None], axis=0)
    assert np.abs(taught.model.accuracy - right).max() < 0.1 < np.abs(blind.model.accuracy - right).max()
    held = choose_answers(taught.posterior)
    assert (a.classes[held.best[:40]] == truth[:40]).all()
    assert (held.margin[:40] == 1.0).all()


def test_an_answer_that_nobody_gave_can_be_known() -> None:
    a = tiny({"one": "unused"})
    fit = fit_open(a)
    assert a.classes[choose_answers(fit.posterior).best[0]] == "unused"
    free = fit_open(tiny())
    assert (fit.model.accuracy < free.model.accuracy).all()


def test_too_many_answers_for_the_options_are_refused() -> None:
    with pytest.raises(DataError, match=r"^item 'one' has 3 different answers, but options=2$"):
        fit_open(tiny(), options=2)
    with pytest.raises(ParameterError, match="options must be a whole number ≥ 2, or None, not 1"):
        cs.aggregate(tiny(), answers="open", options=1)


def test_known_options_set_the_chance_level() -> None:
    crowd = open_crowd(100, 8, 4, seed=0).annotations
    assert fit_open(crowd, options=20).model.chance == 1 / 20
    free = fit_open(crowd).model
    assert free.chance <= 1 / free.most_answers


def test_the_model_predicts_new_items_with_new_answers(tmp_path: Any) -> None:
    crowd = open_crowd(300, 10, 6, seed=5)
    model = fit_open(crowd.annotations).model
    best, worst = (f"m{m}" for m in (model.accuracy.argmax(), model.accuracy.argmin()))
    import pandas as pd

    new = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": [best, worst, "nobody", best], "label": list("nope")})
    a = Annotations.from_frame(new)
    found = model.posterior(a)
    assert a.classes[choose_answers(found).best].tolist() == ["n", "e"]
    model.save(tmp_path / "model.npz")
    again = OpenModel.load(tmp_path / "model.npz")
    assert again == model
    np.testing.assert_array_equal(again.posterior(a).probability, found.probability)


def test_estimator_with_few_and_many_answers_predicts_alike() -> None:
    """Beyond 64 answers there are no confusion matrices; labels and probabilities are the same."""
    crowd = open_crowd(150, 8, 5, shared_names=True, seed=6).annotations
    frame = crowd.to_frame("pandas")
    unique = frame.assign(label=frame["item"].astype(str) + frame["label"])
    few, many = cs.OpenAnswers().fit(frame), cs.OpenAnswers().fit(unique)
    assert few.confusions_.shape == (8, crowd.n_classes, crowd.n_classes)
    assert not hasattr(many, "confusions_")
    assert many.model_ == many.open_model_
    np.testing.assert_allclose(many.open_model_.accuracy, few.open_model_.accuracy, atol=1e-6)
    clear = fit_open(crowd).posterior
    sure = choose_answers(clear).margin > 1e-6
    expected = few.labels_.index.astype(str) + few.labels_
    assert (many.labels_[sure] == expected[sure]).all()
    assert (many.predict(unique)[sure] == expected[sure]).all()
    np.testing.assert_allclose(many.probas_.sum(axis=1), 1.0)
    matrix = 10 * np.arange(40)[:, None] + (np.arange(8) >= np.arange(40)[:, None] % 8)
    assert cs.OpenAnswers().fit(matrix).predict([[9000, 9000, 9000, 8, 9, 10, 9000, 12]]).tolist() == [9000]
