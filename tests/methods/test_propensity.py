"""Silence as an answer: the definition, recovery of known propensities, and public sets of labelling functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.data.ids import Ids
from consilience.data.silence import filled
from consilience.exceptions import ParameterError
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.propensity import Speaking, SpeakingModel, propensity


def functions(N: int, M: int, K: int, seed: int) -> tuple[cs.Annotations, Ints, Speaking]:
    """Labelling functions that each name one class or keep silent, unlabelled items included, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(K, N, p=(prior := rng.dirichlet(np.full(K, 8.0))))
    said = np.zeros((M, K, K))
    for m in range(M):
        own = m % K
        said[m, own] = rng.uniform(0.02, 0.15, K)
        said[m, own, own] = rng.uniform(0.4, 0.7)
    speaks = rng.random((N, M)) < said.sum(axis=1)[:, truth].T
    return cs.Annotations.from_matrix(np.where(speaks, np.arange(M) % K, -1)), truth, Speaking(prior, said)


def by_definition(a: cs.Annotations, at: Speaking) -> tuple[Floats, float]:
    """Posterior and log-likelihood with a factor for every annotator of every item."""
    logs = np.tile(np.log(at.prior), (a.n_items, 1))
    for n in range(a.n_items):
        of_item = slice(a.indptr[n], a.indptr[n + 1])
        spoken = dict(zip(a.annotator[of_item].tolist(), a.label[of_item].tolist(), strict=True))
        for m in range(a.n_annotators):
            logs[n] += np.log(at.said[m, spoken[m]] if m in spoken else 1.0 - at.said[m].sum(axis=0))
        if a.gold is not None and a.gold[n] >= 0:
            logs[n, np.arange(at.prior.size) != a.gold[n]] = -np.inf
    top = logs.max(axis=1, keepdims=True)
    total = np.exp(logs - top).sum(axis=1, keepdims=True)
    return np.exp(logs - top) / total, float((top + np.log(total)).sum())


@pytest.mark.parametrize("gold", [False, True])
def test_posterior_and_likelihood_are_the_definition(gold: bool) -> None:
    a, truth, _ = functions(60, 5, 3, seed=1)
    a = a.with_gold(np.where(np.arange(60) % 4 == 0, truth, -1)) if gold else a
    fit = propensity(a, max_iter=6, tol=0)
    assert isinstance(fit.predictor, SpeakingModel)
    posterior, log_likelihood = by_definition(a, fit.predictor.parameters)
    np.testing.assert_allclose(fit.posterior, posterior, atol=1e-11)
    assert fit.log_likelihood == pytest.approx(log_likelihood, rel=1e-11)


def test_the_objective_never_falls() -> None:
    a, _, _ = functions(400, 8, 3, seed=2)
    assert np.diff(propensity(a, max_iter=80, tol=0).history).min() >= -1e-9
    assert propensity(a).converged


def test_propensities_are_recovered_where_answers_say_nothing() -> None:
    """Each function always says the same: a model of answers alone cannot learn from it."""
    a, truth, at = functions(20_000, 9, 3, seed=3)
    fit = propensity(a)
    assert isinstance(fit.predictor, SpeakingModel)
    np.testing.assert_allclose(fit.predictor.parameters.propensity, at.propensity, atol=0.03)
    np.testing.assert_allclose(fit.model.prior, at.prior, atol=0.02)
    oracle = by_definition(a.select_items(slice(0, 2000)), at)[0].argmax(axis=1)
    ours = error_percent(fit.choice.best[:2000], truth[:2000])
    assert ours <= error_percent(oracle, truth[:2000]) + 0.5
    assert ours < error_percent(vote_posterior(a).argmax(axis=1)[:2000], truth[:2000]) - 0.5


def test_silence_about_an_item_says_which_class_it_is_not() -> None:
    a, truth, _ = functions(5000, 9, 3, seed=4)
    nothing = np.flatnonzero(a.labels_per_item == 0)
    assert nothing.size > 50
    fit = propensity(a)
    found = fit.posterior[nothing]
    assert np.ptp(found, axis=0).max() < 1e-12  # the same for all of them
    shares = np.bincount(truth[nothing], minlength=3) / nothing.size
    np.testing.assert_allclose(found[0], shares, atol=0.06)
    assert np.abs(found[0] - fit.model.prior).max() > 0.02


def test_order_and_names_do_not_matter() -> None:
    a, _, _ = functions(300, 6, 3, seed=5)
    b = a.select_items(order := np.random.default_rng(0).permutation(a.n_items))
    np.testing.assert_allclose(propensity(b).posterior, propensity(a).posterior[order], atol=1e-9)
    frame = a.to_frame("pandas").assign(label=lambda f: f["label"].map({0: 2, 1: 0, 2: 1}))
    renamed, plain = (propensity(cs.Annotations.from_frame(f)) for f in (frame, a.to_frame("pandas")))
    np.testing.assert_allclose(renamed.posterior[:, [2, 0, 1]], plain.posterior, atol=1e-9)


def test_new_items_are_judged_by_silence_too() -> None:
    a, _, _ = functions(2000, 6, 3, seed=6)
    matrix = np.full((a.n_items, 6), -1)
    matrix[a.item_of_label(), a.annotator] = a.label
    model = cs.PropensityDawidSkene().fit(matrix)
    np.testing.assert_allclose(model.predict_proba(matrix), model.probas_, atol=1e-12)
    # a stranger counts as the average annotator: here one whose answer does not depend on the truth
    new = cs.Annotations(
        np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int32),
        items=Ids(["x"]), annotators=Ids(["stranger"]), classes=Ids.range(3),
    )  # fmt: skip
    nothing = propensity(a).posterior[a.labels_per_item == 0][0]
    np.testing.assert_allclose(model.predict_proba(new)[0], nothing, atol=1e-9)


@pytest.mark.parametrize("n_annotators", [5, 120])
def test_silence_as_a_label_is_dawid_and_skene_with_every_silence_listed(n_annotators: int) -> None:
    rng = np.random.default_rng(n_annotators)
    truth = rng.integers(0, 3, 80)
    # explicit labels of class 0, which is silence, too; half of all is silence
    said = np.where(rng.random((80, n_annotators)) < 0.7, truth[:, None], rng.integers(0, 3, (80, n_annotators)))
    said[(said == 0) & (rng.random(said.shape) < 0.8)] = -1
    a = cs.Annotations.from_matrix(said).with_gold(np.where(np.arange(80) % 5 == 0, truth, -1))
    fit = propensity(a, silent_label=0, max_iter=5, tol=0)
    dense = filled(a, 0)
    posterior, log_likelihood = fit.model.posterior_and_likelihood(dense)
    np.testing.assert_allclose(fit.posterior, posterior, atol=1e-10)
    assert fit.log_likelihood == pytest.approx(log_likelihood, rel=1e-10)
    assert np.diff(propensity(a, silent_label=0, max_iter=60, tol=0).history).min() >= -1e-9
    assert fit.hint is not None
    np.testing.assert_allclose(fit.hint, vote_posterior(dense), atol=1e-12)
    assert (fit.posterior.argmax(axis=1) == truth).mean() > 0.75


def test_silent_label_must_be_a_class() -> None:
    a, _, _ = functions(60, 5, 3, seed=1)
    with pytest.raises(ParameterError, match="must be one of the classes"):
        propensity(a, silent_label="x")


def test_parameters_are_checked() -> None:
    a, _, _ = functions(50, 4, 2, seed=7)
    wrong: list[dict[str, Any]] = [{"evidence": -1.0}, {"accuracy": 1.0}, {"accuracy": 0}]
    for options in wrong:
        with pytest.raises(ParameterError, match=next(iter(options))):
            cs.aggregate(a, "propensity", **options)


@pytest.mark.parametrize(
    ("name", "votes", "most"),
    [("ws_rna", 21.3, 15.0), ("ws_semeval", 21.1, 16.5), ("ws_yoruba", 41.4, 38.5)],
)
@pytest.mark.usefixtures("data_folder")
def test_averaged_with_votes_it_is_better_than_votes_on_three_of_six_sets(name: str, votes: float, most: float) -> None:
    a, truth = real_crowd(name)
    shares = vote_posterior(a)
    known = truth >= 0
    ties = (shares == shares.max(axis=1, keepdims=True)) / (shares == shares.max(axis=1, keepdims=True)).sum(axis=1)[
        :, None
    ]
    assert 100 * (1 - ties[known, truth[known]].mean()) == pytest.approx(votes, abs=0.1)
    assert error_percent((propensity(a).posterior + shares).argmax(axis=1), truth) <= most
