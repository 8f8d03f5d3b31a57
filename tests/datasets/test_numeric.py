"""Simulated numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.datasets import simulate_numeric
from consilience.exceptions import ParameterError


def test_answers_follow_the_parameters() -> None:
    crowd = simulate_numeric(4000, 6, labels_per_item=6, noise=(3.0, 9.0), freedom=8.0, careless=0.0, seed=2)
    a = crowd.annotations
    y, who, x = a.classes[a.label], a.annotator, crowd.truth[a.item_of_label()]
    for m in range(6):
        own = who == m
        slope, level = np.polyfit(x[own] - 50.0, y[own], 1)
        assert slope == pytest.approx(crowd.scale[m], abs=0.03)
        assert level - 50.0 == pytest.approx(crowd.bias[m], abs=0.5)
        residual = y[own] - level - slope * (x[own] - 50.0)
        assert residual.std() == pytest.approx(crowd.noise[m], rel=0.08)


def test_slips_careless_annotators_and_seeds() -> None:
    crowd = simulate_numeric(3000, 20, slips=0.05, careless=0.3, seed=5)
    assert crowd.slip.mean() == pytest.approx(0.05, abs=0.01)
    a = crowd.annotations
    y, x = a.classes[a.label][~crowd.slip], crowd.truth[a.item_of_label()][~crowd.slip]
    idle = (crowd.scale == 0)[a.annotator[~crowd.slip]]
    assert 0 < idle.mean() < 1
    assert abs(np.corrcoef(x[idle], y[idle])[0, 1]) < 0.1 < 0.6 < np.corrcoef(x[~idle], y[~idle])[0, 1]
    again = simulate_numeric(3000, 20, slips=0.05, careless=0.3, seed=5)
    assert again.annotations == a


def test_what_is_refused() -> None:
    wrongs: tuple[dict[str, Any], ...] = ({"labels_per_item": 31}, {"freedom": 2.0}, {"slips": 1.5}, {"n_items": 0})
    for wrong in wrongs:
        with pytest.raises(ParameterError, match="must"):
            simulate_numeric(**wrong)
