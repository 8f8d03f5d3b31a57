"""Simulated crowds on a scale."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.datasets import simulate_scale
from consilience.exceptions import ParameterError


def test_labels_follow_the_model() -> None:
    crowd = simulate_scale(20_000, 4, 3, labels_per_item=4, severity=1.0, seed=1, prior=[0.5, 0.3, 0.2])
    a = crowd.annotations
    truth = crowd.truth[a.item_of_label()]
    for m in range(4):
        counts = np.zeros((3, 3))
        mine = a.annotator == m
        np.add.at(counts, (a.label[mine], truth[mine]), 1.0)
        np.testing.assert_allclose(counts / counts.sum(axis=0), crowd.model.confusions[m], atol=0.03)
    np.testing.assert_allclose(np.bincount(crowd.truth) / 20_000, [0.5, 0.3, 0.2], atol=0.02)


def test_confusions_fall_with_the_distance_and_spammers_have_none() -> None:
    crowd = simulate_scale(10, 40, 5, severity=0.0, spammers=0.5, seed=2)
    for role, confusion in zip(crowd.roles, crowd.model.confusions, strict=True):
        if role == "spammer":
            np.testing.assert_allclose(confusion, 0.2)
        else:
            assert (np.diff(confusion[:, 0]) < 0).all()
            assert confusion[:, 2].argmax() == 2
    assert 10 < crowd.roles.count("spammer") < 30


def test_a_seed_gives_the_same_crowd() -> None:
    one, other = (simulate_scale(50, 6, 4, seed=3) for _ in range(2))
    assert one.annotations == other.annotations
    np.testing.assert_array_equal(one.truth, other.truth)


def test_what_is_refused() -> None:
    with pytest.raises(ParameterError, match="n_levels must be a whole number ≥ 2, not 1"):
        simulate_scale(10, 5, 1)
    with pytest.raises(ParameterError, match="severity must be a number ≥ 0, not -1"):
        simulate_scale(10, 5, 3, severity=-1)
