"""CRIA-V: figures on real crowds, the vote of completed labels, and crowds in parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from tests.conftest import ODD_MATRICES, error_percent, real_crowd

import consilience as cs
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.em import Progress
from consilience.fitting.fit import Fit, vote_posterior
from consilience.methods.base.refinement import refine
from consilience.methods.cria_v import cria_v, mean_vote, parts_of
from consilience.methods.majority import majority_vote
from consilience.methods.pg_tac import completed_labels, pg_tac

#: Errors of Ibrahim & Fu (2022), Tables 4 and 5, in percent.
PUBLISHED = {"bluebird": 24.07, "dog52": 17.10, "rte": 9.37, "trec": 34.59}


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_figures_on_real_data(name: str) -> None:
    annotations, truth = real_crowd(name)
    fit = cria_v(annotations)
    assert fit.converged
    # one item more may be wrong
    assert error_percent(fit.choice.best, truth) <= PUBLISHED[name] + 100.0 / np.count_nonzero(truth >= 0)


@pytest.mark.usefixtures("data_folder")
def test_em_from_it_is_as_good_as_em_on_real_data() -> None:
    for name, limit in {"bluebird": 10.19, "dog52": 15.87, "rte": 7.26, "trec": 29.6}.items():
        annotations, truth = real_crowd(name)
        assert error_percent(refine(annotations, cria_v(annotations)).choice.best, truth) <= limit + 0.005, name


def two_halves() -> tuple[cs.Annotations, np.ndarray]:
    """Ten annotators on the first items, eight others on the rest."""
    first = cs.simulate(300, 10, 3, label_probability=0.6, experts=0.3, seed=1)
    second = cs.simulate(200, 8, 3, label_probability=0.6, experts=0.3, seed=2)
    one, two = (sim.annotations.to_frame("pandas") for sim in (first, second))
    two = two.assign(item=two["item"] + 300, annotator="b" + two["annotator"])
    made = cs.Annotations.from_frame(pd.concat([one, two], ignore_index=True))
    truth = np.concatenate([first.truth, second.truth])
    return made, truth[np.asarray(made.items)]


def test_the_score_is_the_mean_of_the_completed_labels_of_the_own_part() -> None:
    a, _ = two_halves()
    found = completed_labels(a, vote_posterior(a), 0.05, 5, 0.0, None)
    X = np.einsum("nr,mkr->nmk", found.items, found.annotators)
    of_item, of_annotator = parts_of(a)
    expected = np.empty((a.n_items, 3))
    for n in range(a.n_items):
        expected[n] = X[n, of_annotator == of_item[n]].mean(axis=0)
    np.testing.assert_allclose(mean_vote(a, found), expected, atol=1e-12)


def test_parts_are_those_that_share_nothing() -> None:
    a, _ = two_halves()
    of_item, of_annotator = parts_of(a)
    assert len({*of_item.tolist(), *of_annotator.tolist()}) == 2
    np.testing.assert_array_equal(of_item[a.item_of_label()], of_annotator[a.annotator])
    first = np.asarray(a.items) < 300
    assert set(of_item[first]).isdisjoint(of_item[~first])


def test_both_parts_are_labelled_well() -> None:
    a, truth = two_halves()
    wrong = cria_v(a).choice.best != truth
    first = np.asarray(a.items) < 300
    assert wrong[first].mean() < 0.05
    assert wrong[~first].mean() < 0.05


def test_it_learns_whom_to_believe() -> None:
    sim = cs.simulate(2000, 25, 3, label_probability=0.4, experts=0.3, adversaries=0.2, seed=4)
    votes = np.mean(majority_vote(sim.annotations).choice.best != sim.truth)
    ours = np.mean(cria_v(sim.annotations).choice.best != sim.truth)
    assert ours < 0.6 * votes


def test_the_objective_never_rises() -> None:
    fit = cria_v(cs.simulate(400, 12, 3, seed=0).annotations, tol=0, max_iter=30)
    assert len(fit.history) == 30
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(fit.history))


def test_repeated_labels_count_as_often_as_they_are_given() -> None:
    frame = cs.simulate(200, 8, 3, label_probability=0.5, seed=3).annotations.to_frame("pandas")
    twice = cs.Annotations.from_frame(pd.concat([frame, frame]), duplicates="keep")
    once = cs.Annotations.from_frame(frame)
    # twice the labels and twice the penalty: the same factors
    found = [completed_labels(a, vote_posterior(a), 0.05, 8, 0.0, None) for a in (once, twice)]
    X = [np.einsum("nr,mkr->nmk", f.items, f.annotators) for f in found]
    np.testing.assert_allclose(X[1], X[0], atol=1e-9)
    np.testing.assert_allclose(found[1].history, np.multiply(2, found[0].history), rtol=1e-9)


@pytest.mark.parametrize("matrix", ODD_MATRICES)
def test_any_data_gives_probabilities(matrix: list[list[int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        fit = cria_v(cs.Annotations.from_matrix(np.array(matrix)))
    assert np.isfinite(fit.posterior).all()
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
    assert np.isfinite(fit.model.confusions).all()


def test_gold_items_stay_at_their_gold() -> None:
    sim = cs.simulate(300, 8, 3, seed=5)
    gold = {n: int(sim.truth[n]) for n in range(0, 300, 10)}
    annotations = sim.annotations.with_gold(gold)
    known = annotations.gold
    assert known is not None
    np.testing.assert_array_equal(cria_v(annotations).posterior[known >= 0, known[known >= 0]], 1.0)


def test_not_converged_is_said_and_a_callback_can_stop() -> None:
    a = cs.simulate(300, 10, 3, seed=2).annotations
    fit = cria_v(a, max_iter=1, tol=1e-9)
    assert not fit.converged
    assert any("did not converge" in sentence for sentence, _ in fit.cautions)
    told: list[int] = []

    def tell(progress: Progress) -> bool:
        told.append(progress.iteration)
        return progress.iteration == 3

    assert cria_v(a, tol=0, callback=tell).iterations == 3
    assert told == [1, 2, 3]


@pytest.mark.parametrize("method", [pg_tac, cria_v])
def test_small_tables_do_not_depend_on_order_or_names(method: Callable[[cs.Annotations], Fit]) -> None:
    """Small tables are full of symmetries: rounding must not decide among classes that tie."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        N, M, K = rng.integers(1, 7, 3)
        n = int(rng.integers(1, 40))
        codes = np.stack([rng.integers(0, N, n), rng.integers(0, M, n), rng.integers(0, K, n)], axis=1)
        _, first = np.unique(codes[:, :2], axis=0, return_index=True)
        codes = codes[np.sort(first)]
        new = rng.permutation(6)
        mixed = codes[rng.permutation(len(codes))]
        plain = cs.Annotations.from_frame(pd.DataFrame(codes, columns=["item", "annotator", "label"]))
        other = cs.Annotations.from_frame(
            pd.DataFrame({"item": mixed[:, 0], "annotator": 9 - mixed[:, 1], "label": new[mixed[:, 2]]})
        )
        one = pd.DataFrame(method(plain).posterior, index=plain.items, columns=new[plain.classes])
        two = pd.DataFrame(method(other).posterior, index=other.items, columns=other.classes)
        np.testing.assert_allclose(two.loc[one.index, one.columns], one, atol=1e-7)
