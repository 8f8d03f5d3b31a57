"""The model of ``auto``: subtypes where annotators err together and nowhere else, from a sample or from all labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import error_percent, random_model
from tests.methods.conftest import correlated

from consilience.auto import constants, model
from consilience.auto.model import SubtypeModel, fit_model, look_for_subtypes, sample_of
from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Ints
from consilience.methods.ebcc import Subtypes, fit_subtypes

OPTIONS: dict[str, Any] = {"max_iter": 500, "tol": 1e-6, "callback": None}


def fitted(a: Annotations, sample: Annotations | None = None, **options: Any) -> tuple[Subtypes, float]:
    """Look for subtypes in the sample, or in all labels, and fit; return the fit and the gain."""
    sample = a if sample is None else sample
    looked = look_for_subtypes(sample, **OPTIONS, **options)
    return fit_model(a, sample, looked, **OPTIONS, **options), looked.gain


def fooled_together(N: int, seed: int) -> tuple[Annotations, Ints]:
    """On a third of the items of class 0, three of nine annotators are fooled together."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, N)
    fooled = (rng.random(N) < 0.33) & (truth == 0)
    right = np.full((N, 9), 0.75)
    right[np.ix_(fooled, range(3))] = 0.08
    return Annotations.from_matrix(np.where(rng.random((N, 9)) < right, truth[:, None], 1 - truth[:, None])), truth


def test_independent_annotators_get_one_confusion_each() -> None:
    truth = random_model(12, 3, seed=1, skill=0.7)
    a, _ = truth.sample(3000, labels_per_item=8, random_state=0)
    found, gain = fitted(a)
    assert gain < 0
    assert found.subtypes == 1
    model = SubtypeModel.of(found, a)
    assert np.abs(model.named.confusions - truth.confusions).mean() < 0.02
    np.testing.assert_allclose(model.named.prior, truth.prior, atol=0.03)


def without_subtypes(a: Annotations) -> Subtypes:
    return fit_subtypes(
        a,
        1,
        smoothing=constants.SMOOTHING,
        diagonal=constants.DIAGONAL,
        concentration=constants.SUBTYPE_ITEMS,
        pseudo_items=constants.CLASS_ITEMS,
        starts=1,
        **OPTIONS,
    )


@pytest.mark.parametrize("seed", range(2))
def test_annotators_who_err_together_get_subtypes(seed: int) -> None:
    a, truth = correlated(seed)
    (found, gain), one = fitted(a), without_subtypes(a)
    assert found.subtypes > 1
    # the gain is what the lower bound has beyond the margin, per label
    assert gain == pytest.approx((found.bound - one.bound - constants.MARGIN) / a.n_labels)
    errors = [error_percent(SubtypeModel.of(each, a)(a).argmax(axis=1), truth) for each in (found, one)]
    assert errors[0] < 0.7 * errors[1]


def test_subtypes_need_a_clear_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = fooled_together(3000, 0)
    gain = fitted(a)[1]
    monkeypatch.setattr(constants, "MARGIN", constants.MARGIN + gain * a.n_labels + 1.0)
    found, less = fitted(a)
    assert less * a.n_labels == pytest.approx(-1.0, abs=0.1)
    assert found.subtypes == 1


def test_subtypes_found_in_a_sample_are_those_of_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    a, truth = fooled_together(6000, 3)
    monkeypatch.setattr(constants, "SAMPLE", a.n_labels // 3)
    sample = sample_of(a)
    assert sample.n_items == 2000
    small, gain = fitted(a, sample)
    large, _ = fitted(a)
    assert gain > 0
    assert 1 < small.subtypes < constants.SUBTYPES  # empty ones are left behind
    assert small.bound == pytest.approx(large.bound, abs=30)
    one, other = (SubtypeModel.of(each, a)(a) for each in (small, large))
    assert np.mean(one.argmax(axis=1) == other.argmax(axis=1)) > 0.985
    assert error_percent(one.argmax(axis=1), truth) < error_percent(other.argmax(axis=1), truth) + 0.5


def test_a_sample_has_every_kind_of_item_and_small_data_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = fooled_together(1000, 0)
    assert sample_of(a) is a
    monkeypatch.setattr(constants, "SAMPLE", 900)
    np.testing.assert_array_equal(sample_of(a).items, np.arange(0, 1000, 10))


def test_there_are_no_subtypes_where_tables_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = fooled_together(3000, 0)
    monkeypatch.setattr(model, "SUBTYPE_CELLS", 9 * 2 * 2 * constants.SUBTYPES - 1)
    found, gain = fitted(a)
    assert found.subtypes == 1
    assert gain == 0.0


def test_copies_that_share_one_vote_are_one_annotator_to_the_model() -> None:
    """The prior of a confusion is the same for a third of a copy, so priors are small next to the labels here."""
    a, _ = random_model(6, 2, seed=4, skill=0.8).sample(4000, random_state=0)
    matrix = a.label.reshape(4000, 6)
    copied = Annotations.from_matrix(np.hstack([matrix, matrix[:, 5:], matrix[:, 5:]]))
    alone, _ = fitted(a)
    weights = np.array([1.0] * 5 + [1 / 3] * 3)
    shared, _ = fitted(copied, weights=weights)
    one, many = SubtypeModel.of(alone, a), SubtypeModel.of(shared, copied)
    np.testing.assert_allclose(many.named.confusions[:6], one.named.confusions, atol=0.005)
    np.testing.assert_allclose(many(copied), one(a), atol=0.01)


def test_the_posterior_of_any_items_is_that_of_the_sum_over_subtypes() -> None:
    a, _ = fooled_together(2000, 5)
    found, _ = fitted(a)
    model = SubtypeModel.of(found, a)
    weights, tables = found.tables
    L = found.subtypes
    some = a.select_items(np.arange(10))
    for n in range(10):
        joint = weights.copy()
        for m, x in enumerate(some.label[9 * n : 9 * n + 9]):
            joint *= tables[m, x]
        by_class = joint.reshape(2, L).sum(axis=1)
        np.testing.assert_allclose(model(some)[n], by_class / by_class.sum(), rtol=1e-9)


def test_an_unknown_annotator_is_like_the_average() -> None:
    a, _ = fooled_together(1000, 6)
    model = SubtypeModel.of(fitted(a)[0], a)
    new = Annotations.from_matrix([[0], [1]], annotators=["new"])
    weights, tables = model.tables
    joint = weights * tables.mean(axis=0)  # (label, class and subtype)
    expected = joint.reshape(2, 2, -1).sum(axis=2)
    np.testing.assert_allclose(model(new), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
