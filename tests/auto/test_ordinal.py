"""The default on a scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilience.auto import known_answers
from consilience.auto.auto import auto
from consilience.auto.ordinal import ordinal_auto
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.datasets import simulate_scale
from consilience.diagnose.left_out import known_items
from consilience.methods.ordinal import ordinal


def test_it_is_the_nominal_pool_with_another_model() -> None:
    a = simulate_scale(300, 20, 4, seed=1).annotations
    found, nominal = ordinal_auto(a), auto(a, silence="random")
    assert isinstance(found.predictor, Pool)
    assert isinstance(nominal.predictor, Pool)
    fit = ordinal(a, weights=nominal.predictor.counted, tol=1e-6)
    expected = replace(nominal.predictor, model=lambda _: fit.posterior, rest=fit.model.prior)(a)[0]
    np.testing.assert_allclose(found.posterior, expected, atol=1e-10)
    assert found.details["chosen"] == "ordinal+votes"
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0)


def test_new_items_are_judged_alike() -> None:
    a = simulate_scale(300, 20, 4, seed=2).annotations
    found = ordinal_auto(a)
    assert found.predictor is not None
    np.testing.assert_allclose(found.predictor(a.select_items(np.arange(50)))[0], found.posterior[:50], atol=1e-9)


def test_copies_share_one_vote() -> None:
    """Six copies of a weak annotator do not outvote six good ones."""
    crowd = simulate_scale(500, 7, 4, labels_per_item=7, sharpness=(1.0, 1.5), seed=3)
    a = crowd.annotations
    matrix = np.zeros((500, 7), int)
    matrix[a.item_of_label(), a.annotator] = a.label
    with_copies = Annotations.from_matrix(np.column_stack([matrix[:, :6], *[matrix[:, 6]] * 6]))
    found = ordinal_auto(with_copies)
    assert found.details["copies"]
    plain = ordinal_auto(a)
    wrong = [float((each.posterior.argmax(axis=1) != crowd.truth).mean()) for each in (found, plain)]
    assert wrong[0] < wrong[1] + 0.03


def test_known_answers_are_compared_with_the_ordinal_model(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate_scale(300, 20, 4, seed=4)
    known = {crowd.annotations.items[n]: crowd.annotations.classes[crowd.truth[n]] for n in range(0, 300, 10)}
    seen: list[Any] = []
    original = known_answers.learned_from

    def noted(lessons: known_answers.Lessons, pool: Pool) -> Any:
        seen.append((lessons, pool))
        return original(lessons, pool)

    monkeypatch.setattr(known_answers, "learned_from", noted)
    a = crowd.annotations.with_gold(known)
    found = ordinal_auto(a)
    ((lessons, pool),) = seen
    one = lessons.parts[0]
    items = known_items(a)[one]
    blind = a.forgetting(items)
    fit = ordinal(blind, tol=1e-6)
    np.testing.assert_allclose(lessons.posterior[one], fit.posterior[items], atol=1e-6)
    assert pool.rest is not None
    assert isinstance(found.predictor, Pool)
    assert found.predictor.weights is None
    assert found.details["known_answers"]["items"] == 30


@pytest.mark.parametrize("M", [1, 2])
def test_without_a_model_the_order_changes_nothing(M: int) -> None:
    a = Annotations.from_matrix(np.random.default_rng(0).integers(0, 3, (40, M)))
    np.testing.assert_array_equal(ordinal_auto(a).posterior, auto(a, silence="random").posterior)
