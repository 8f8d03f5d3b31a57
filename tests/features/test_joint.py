"""EM of annotators and classifiers: known parameters, monotone objective, closed forms of held-out labels."""

from typing import Any

import numpy as np
import pytest

from consilience import Annotations, simulate
from consilience.features.held_out import fold_likelihoods, held_out_gain, labels_alone
from consilience.features.joint import fit_joint, likelihood_of
from consilience.features.source import Source, fit_source
from consilience.fitting.fit import vote_posterior
from consilience.models.dawid_skene import DawidSkene


def with_classifier(n: Any = 2000, seed: Any = 0, labels: Any = 2, sharpness: Any = 2.0) -> Any:
    """Return a crowd and the calibrated probabilities of a classifier."""
    crowd = simulate(n, 10, 3, labels_per_item=labels, seed=seed)
    rng = np.random.default_rng(seed)
    truth = np.asarray(crowd.truth)
    # x | truth is normal around its corner, so the probabilities are those of Bayes' rule
    x = rng.normal(size=(n, 3)) + sharpness * np.eye(3)[truth]
    p = np.exp(sharpness * (x - x.max(axis=1, keepdims=True)))
    return crowd, p / p.sum(axis=1, keepdims=True), truth


def test_objective_never_falls_and_annotators_are_recovered() -> None:
    crowd, p, truth = with_classifier(8000)
    found = fit_joint(crowd.annotations, lambda q: p[None], vote_posterior(crowd.annotations), max_iter=60)
    assert np.all(np.diff(found.history) > -1e-6 * abs(found.history[0]))
    assert found.converged
    true = crowd.model.confusions
    assert np.abs(found.model.confusions - true).mean() < 0.03
    assert (found.posterior.argmax(axis=1) != truth).mean() < (p.argmax(axis=1) != truth).mean()


def test_posterior_is_bayes_rule() -> None:
    crowd, p, _ = with_classifier(300)
    a = crowd.annotations
    found = fit_joint(a, lambda q: p[None], vote_posterior(a))
    n = 7
    weights = found.opinion[n].copy()
    for at in range(a.indptr[n], a.indptr[n + 1]):
        weights *= found.model.confusions[a.annotator[at], a.label[at]]
    assert found.posterior[n] == pytest.approx(weights / weights.sum(), abs=1e-9)


def test_known_truths_are_held() -> None:
    crowd, p, truth = with_classifier(300)
    gold = np.where(np.arange(300) < 5, (truth + 1) % 3, -1)
    a = crowd.annotations.with_gold(gold)
    found = fit_joint(a, lambda q: p[None], vote_posterior(a))
    assert found.posterior[:5].argmax(axis=1).tolist() == gold[:5].tolist()


def test_held_out_labels_are_predicted_as_by_brute_force() -> None:
    crowd, p, _ = with_classifier(60, labels=3)
    a, folds = crowd.annotations, np.arange(60) % 3
    joint = fit_joint(a, lambda q: p[None], vote_posterior(a))
    alone = labels_alone(a, vote_posterior(a), 10)
    gain = held_out_gain(a, folds, joint, alone)

    def brute(q: Any, opinion: Any) -> Any:
        total = right = 0
        for items, model, _ in fold_likelihoods(a, q, folds):
            for n in items:
                labels = range(a.indptr[n], a.indptr[n + 1])
                for at in labels:
                    w = opinion[n].copy()
                    for other in labels:
                        if other != at:
                            w *= model.confusions[a.annotator[other], a.label[other]]
                    says = model.confusions[a.annotator[at]] @ (w / w.sum())
                    total += np.log(says[a.label[at]])
                    right += says.argmax() == a.label[at]
        return total / a.n_labels, right / a.n_labels

    shares = np.tile(alone.mean(axis=0), (60, 1))
    opinion = np.empty((60, 3))
    for fold in range(3):  # weights and confusion of the classifier by the other folds
        rest = folds != fold
        likelihood = likelihood_of(a.select_items(np.flatnonzero(rest)), joint.model, None)[0]
        source = fit_source(p[None, rest], likelihood, Source.at_its_word(1, 3), rounds=5)
        opinion[~rest] = source(p[None, ~rest])
    (one, hits), (two, hits_without) = brute(joint.posterior, opinion), brute(alone, shares)
    assert gain.nats == pytest.approx(one - two, abs=1e-9)
    assert gain.hits == pytest.approx(hits)
    assert gain.hits_without == pytest.approx(hits_without)


def test_a_fold_does_not_see_its_own_labels() -> None:
    crowd, _, _ = with_classifier(90, labels=3)
    a, folds = crowd.annotations, np.arange(90) % 3
    q = vote_posterior(a)
    changed = Annotations.from_matrix(_matrix(a, folds == 0))
    for (_, model, _), (_, other, _), fold in zip(
        fold_likelihoods(a, q, folds), fold_likelihoods(changed, q, folds), range(3), strict=True
    ):
        same = np.allclose(model.confusions, other.confusions)
        assert same == (fold == 0)  # only the model for fold 0 has not seen the changed labels


def _matrix(a: Any, rows: Any) -> Any:
    """Return the labels as a matrix, with those of some rows moved to the next class."""
    matrix = np.full((a.n_items, a.n_annotators), -1)
    matrix[a.item_of_label(), a.annotator] = a.label
    return np.where((matrix >= 0) & rows[:, None], (matrix + 1) % 3, matrix)


def test_gain_is_clear_for_a_good_classifier_only() -> None:
    crowd, p, _ = with_classifier(1500, seed=3)
    a, folds = crowd.annotations, np.arange(1500) % 3
    alone = labels_alone(a, vote_posterior(a), 20)
    noise = np.random.default_rng(0).dirichlet(np.ones(3), 1500)
    good, useless = (fit_joint(a, lambda q, m=m: m[None], vote_posterior(a)) for m in (p, noise))  # type: ignore[misc]
    assert held_out_gain(a, folds, good, alone).clear
    assert not held_out_gain(a, folds, useless, alone).clear


def test_a_classifier_that_adds_nothing_to_many_labels_still_counts() -> None:
    crowd, p, _ = with_classifier(600, labels=10, sharpness=0.5)
    a = crowd.annotations
    joint, alone = fit_joint(a, lambda q: p[None], vote_posterior(a)), labels_alone(a, vote_posterior(a), 20)
    gain = held_out_gain(a, np.arange(600) % 3, joint, alone)
    assert -2 * gain.error < gain.nats < 0  # by chance: ten labels have said everything
    assert gain.clear


def test_likelihood_and_its_scale() -> None:
    crowd, _, _ = with_classifier(50, labels=3)
    a = crowd.annotations
    model = DawidSkene(np.full(3, 1 / 3), crowd.model.confusions, a.class_ids, a.annotator_ids)
    likelihood, scale = likelihood_of(a, model, None)
    plain = np.ones((50, 3))
    for at, n in enumerate(a.item_of_label()):
        plain[n] *= model.confusions[a.annotator[at], a.label[at]]
    assert np.allclose(likelihood, plain / plain.sum(axis=1, keepdims=True))
    assert scale == pytest.approx(np.log(plain.sum(axis=1)).sum())
