"""Answers on a scale: parameters that are recovered, a bound that rises, invariance, brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.datasets import simulate_scale
from consilience.exceptions import MethodError, ParameterError
from consilience.methods.base.registry import fit
from consilience.methods.ordinal import PlacesModel, _Climb
from consilience.runs.ordinal_run import severity_and_spread


def mean_error(posterior: Any, truth: Any) -> float:
    return float(np.abs(posterior.argmax(axis=1) - truth).mean())


def test_parameters_are_recovered() -> None:
    crowd = simulate_scale(6000, 15, 5, labels_per_item=7, seed=3, prior=[0.1, 0.3, 0.3, 0.2, 0.1])
    found = fit("ordinal", crowd.annotations)
    assert found.converged
    assert found.details["places"] == 1
    assert np.abs(found.model.prior - crowd.model.prior).max() < 0.04
    assert np.sqrt(np.mean((found.model.confusions - crowd.model.confusions) ** 2)) < 0.03
    values = np.arange(5.0)
    severity, spread = severity_and_spread(found.model, values)
    true_severity, true_spread = severity_and_spread(crowd.model, values)
    assert np.abs(severity - true_severity).max() < 0.12
    assert np.abs(spread - true_spread).max() < 0.12


def test_order_helps_where_labels_are_few() -> None:
    """Annotators with a dozen labels: severity and sharpness can be learned, 25 cells of a confusion cannot."""
    errors = []
    for seed in range(5):
        crowd = simulate_scale(500, 200, 5, labels_per_item=5, severity=1.0, seed=seed)
        posteriors = [fit(name, crowd.annotations).posterior for name in ("ordinal", "hierarchical", "majority")]
        errors.append([mean_error(p, crowd.truth) for p in posteriors])
    ordinal, nominal, votes = np.mean(errors, axis=0)
    assert ordinal < 0.97 * nominal
    assert ordinal < 0.9 * votes


def test_labels_decide_how_many_places_a_level_has() -> None:
    """Items at any place of the scale: annotators agree about which are near the next level."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-0.5, 3.5, 1500)
    scores = -4.0 * (np.arange(4)[:, None, None] - z[:, None]) ** 2 + rng.gumbel(size=(4, 1500, 20))
    annotations = Annotations.from_matrix(scores.argmax(axis=0))
    found = fit("ordinal", annotations)
    assert found.details["places"] == 3
    one = fit("ordinal", annotations, places=1)
    assert found.details["lower_bound"] > one.details["lower_bound"] + 100
    assert mean_error(found.posterior, np.rint(z)) < mean_error(one.posterior, np.rint(z))


@pytest.mark.parametrize("places", [1, 3])
def test_the_bound_rises_at_every_step(places: int) -> None:
    crowd = simulate_scale(300, 20, 4, seed=1)
    climb = _Climb(crowd.annotations, np.arange(4), places, learned=True, weights=None, accelerate=False)
    climb.run(max_iter=60, tol=0.0, callback=lambda _: False)
    assert min(np.diff(climb._ascent.history)) > -1e-8


def test_the_posterior_by_brute_force() -> None:
    crowd = simulate_scale(40, 4, 3, labels_per_item=3, seed=2)
    found = fit("ordinal", crowd.annotations, places=3)
    model = found.predictor
    assert isinstance(model, PlacesModel)
    shares, answers = model.places
    a = crowd.annotations
    for n in range(a.n_items):
        labels = range(a.indptr[n], a.indptr[n + 1])
        p = np.zeros(3)
        for j in range(9):
            p[j // 3] += shares[j] * np.prod([answers[a.annotator[x], a.label[x], j] for x in labels])
        np.testing.assert_allclose(found.posterior[n], p / p.sum(), atol=1e-10)


@pytest.mark.parametrize("places", [None, 3])
def test_reversing_the_scale_changes_nothing_else(places: int | None) -> None:
    crowd = simulate_scale(400, 20, 4, seed=5, severity=1.0, prior=[0.5, 0.3, 0.15, 0.05])
    there = fit("ordinal", crowd.annotations, places=places)
    back = fit("ordinal", crowd.annotations, places=places, order=[3, 2, 1, 0])
    np.testing.assert_allclose(back.posterior, there.posterior, atol=1e-6)
    np.testing.assert_allclose(back.model.confusions, there.model.confusions, atol=1e-6)


@pytest.mark.parametrize("with_gold", [False, True])
def test_rows_and_names_change_nothing(with_gold: bool) -> None:
    rng = np.random.default_rng(1)
    crowd = simulate_scale(250, 15, 4, seed=6)
    frame = crowd.annotations.to_frame("pandas")
    frame.columns = ["task", "worker", "label"]
    truths = {n: int(crowd.truth[n]) for n in range(0, 250, 10)}
    plain = Annotations.from_frame(frame, gold=truths if with_gold else None)
    expected = fit("ordinal", plain).posterior
    words = {0: "strongly disagree", 1: "disagree", 2: "agree", 3: "strongly agree"}
    shuffled = frame.sample(frac=1, random_state=0)
    people = dict(zip(frame["worker"].unique(), rng.permutation(frame["worker"].unique()), strict=True))
    renamed = shuffled.assign(worker=shuffled["worker"].map(people), label=shuffled["label"].map(words))
    other = Annotations.from_frame(renamed, gold={n: words[k] for n, k in truths.items()} if with_gold else None)
    found = fit("ordinal", other).posterior
    levels = other.class_ids.codes_of(list(words.values()))
    at = other.item_ids.codes_of(plain.item_ids.to_arrow())
    np.testing.assert_allclose(found[at][:, levels], expected, atol=1e-6)


def test_gold_is_kept_and_teaches() -> None:
    crowd = simulate_scale(600, 12, 4, seed=8, sharpness=(0.2, 1.0))
    known = np.full(600, -1)
    known[:200] = crowd.truth[:200]
    a = crowd.annotations
    with_gold = Annotations(
        a.indptr,
        a.annotator,
        a.label,
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=a.class_ids,
        gold=known.astype(np.int32),
    )
    found, blind = fit("ordinal", with_gold), fit("ordinal", a)
    np.testing.assert_array_equal(found.posterior[:200].argmax(axis=1), crowd.truth[:200])
    np.testing.assert_allclose(found.posterior[:200].max(axis=1), 1.0)
    off = [np.sqrt(np.mean((x.model.confusions - crowd.model.confusions) ** 2)) for x in (found, blind)]
    assert off[0] < 0.9 * off[1]
    assert mean_error(found.posterior[200:], crowd.truth[200:]) < mean_error(blind.posterior[200:], crowd.truth[200:])


def test_annotators_of_weight_zero_do_not_count() -> None:
    crowd = simulate_scale(1000, 10, 4, labels_per_item=10, sharpness=(1.0, 2.0), seed=9)
    weights = np.array([1.0] * 6 + [0.0] * 4)
    some = fit("ordinal", crowd.annotations.select_annotators(np.arange(6)), places=1)
    found = fit("ordinal", crowd.annotations, places=1, weights=weights)
    # the prior of severity and sharpness sees four annotators more, about whom nothing is known
    assert np.abs(found.posterior - some.posterior).mean() < 0.005
    everybody = fit("ordinal", crowd.annotations, places=1)
    assert np.abs(everybody.posterior - some.posterior).mean() > 0.03


def test_new_items_and_new_annotators() -> None:
    crowd = simulate_scale(500, 10, 4, seed=10)
    estimator = cs.OrdinalDawidSkene(places=3).fit(crowd.annotations)
    np.testing.assert_allclose(estimator.predict_proba(crowd.annotations), estimator.probas_, atol=1e-12)
    strange = Annotations.from_matrix([[2, 3, 3]], annotators=Ids(["a0", "nobody", "a1"]))
    p = estimator.predict_proba(strange)
    assert p.shape == (1, 4)
    assert p.sum() == pytest.approx(1.0)
    assert p.argmax() in (2, 3)


@pytest.mark.parametrize(("N", "M", "K"), list(itertools.product((1, 3), (1, 2), (1, 2, 3))))
def test_tiny_crowds(N: int, M: int, K: int) -> None:
    matrix = np.arange(N * M).reshape(N, M) % K
    found = fit("ordinal", Annotations.from_matrix(matrix))
    assert np.isfinite(found.posterior).all()
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0)


def test_perfect_agreement() -> None:
    matrix = np.repeat(np.arange(5), 20)[:, None].repeat(6, axis=1)
    found = fit("ordinal", Annotations.from_matrix(matrix))
    np.testing.assert_array_equal(found.posterior.argmax(axis=1), matrix[:, 0])
    assert np.isfinite(found.details["lower_bound"])


def test_what_is_refused() -> None:
    words = Annotations.from_matrix(np.array([["G", "P", "X"], ["P", "X", "G"]]))
    with pytest.raises(MethodError, match=r"order=\[…\]"):
        fit("ordinal", words)
    with pytest.raises(ParameterError, match="places must be a whole number ≥ 1, or None, not 0"):
        fit("ordinal", words, places=0)
    with pytest.raises(ParameterError, match="weights must hold a number ≥ 0 for each of the 3 annotators"):
        fit("ordinal", words, order=["G", "P", "X"], weights=[1.0])


def test_a_callback_ends_the_fit() -> None:
    seen = []

    def stop(progress: Any) -> bool:
        seen.append(progress)
        return len(seen) >= 3

    found = fit("ordinal", simulate_scale(200, 10, 4, seed=0).annotations, callback=stop)
    assert len(seen) == 3
    assert np.isfinite(found.posterior).all()
