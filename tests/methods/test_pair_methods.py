"""What holds for both methods that factor pair blocks without imputation: odd crowds, repeats, separate groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import error_percent, sound

import consilience as cs
from consilience.methods.cnmf import cnmf
from consilience.methods.multispa import multispa

pytestmark = pytest.mark.parametrize("method", [cnmf, multispa])


@pytest.mark.parametrize("shrinkage", [0.0, 0.25])
def test_small_and_odd_crowds_have_probabilities(method: Any, shrinkage: float) -> None:
    two = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 0]])
    never_met = np.array([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]])
    for matrix in (two, two[:, :1], two[:1], np.array([[0]]), np.zeros((4, 3), int), never_met):
        assert sound(method(cs.Annotations.from_matrix(matrix), shrinkage=shrinkage))
    silent = cs.Annotations.from_matrix(np.array([[0, 1, -1], [1, 1, -1], [-1, -1, -1]]))
    done = method(silent, shrinkage=shrinkage)
    assert sound(done)
    np.testing.assert_allclose(done.posterior[2], done.model.prior)


def test_repeated_answers_are_taken(method: Any) -> None:
    import pandas as pd

    frame = cs.simulate(200, 6, 3, seed=0).annotations.to_frame("pandas")
    twice = pd.concat([frame, frame.iloc[:300]])
    assert sound(method(cs.Annotations.from_frame(twice, duplicates="keep")))


def test_groups_that_never_meet_name_their_classes_alike(method: Any) -> None:
    first, second = (cs.simulate(600, 10, 3, label_probability=0.6, seed=s) for s in (1, 2))
    matrix = np.full((1200, 20), -1)
    for start, sim in ((0, first), (1, second)):
        a = sim.annotations
        matrix[600 * start + a.item_of_label(), 10 * start + a.annotator.astype(int)] = a.label
    done = method(cs.Annotations.from_matrix(matrix))
    assert any("2 groups" in sentence for sentence, _ in done.cautions)
    assert error_percent(done.choice.best[:600], first.truth) < 10
    assert error_percent(done.choice.best[600:], second.truth) < 10
