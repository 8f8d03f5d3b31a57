"""The crowds that break aggregators: they are what they say, and they do break the plain model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from consilience.data.annotations import Annotations
from consilience.datasets.hard_cases import clones, long_tail
from consilience.datasets.simulation import Simulation
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Ints
from consilience.methods.base.registry import fit


def matrix(crowd: Simulation) -> Ints:
    """What everybody said of every item, of a crowd in which all label everything: (N, M)."""
    a = crowd.annotations
    said = np.full((a.n_items, a.n_annotators), -1)
    said[a.item_of_label(), a.annotator] = a.label
    assert (said >= 0).all()
    return said


def judged(annotations: Annotations, truth: Ints, method: str) -> tuple[float, float]:
    """Accuracy and mean confidence."""
    found = fit(method, annotations)
    return float(np.mean(found.choice.best == truth)), float(found.posterior.max(axis=1).mean())


def within(share: float, expected: float, n: int) -> bool:
    return bool(abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n))


# ---- the long tail --------------------------------------------------------------------------------------


def test_the_tail_has_five_labels_for_everybody_and_of_everything() -> None:
    a = long_tail().annotations
    assert (a.n_items, a.n_annotators, a.n_classes, a.n_labels) == (2000, 2000, 4, 10_000)
    assert set(a.labels_per_annotator.tolist()) == set(a.labels_per_item.tolist()) == {5}
    assert np.unique(a.item_of_label() * 2000 + a.annotator).size == 10_000


def test_the_tail_follows_its_model() -> None:
    crowd = long_tail(3)
    a = crowd.annotations
    k = np.arange(4)
    right = crowd.model.confusions[:, k, k]
    assert np.all(right == right[:, :1])
    assert 0.5 <= right.min() < 0.51
    assert 0.89 < right.max() <= 0.9
    truth = crowd.truth[a.item_of_label()]
    hit = a.label == truth
    assert within(hit.mean(), 0.7, a.n_labels)
    # the better half is right more often, as much as the model says
    better = right[a.annotator, 0] > 0.7
    assert within(hit[better].mean(), 0.8, int(better.sum()))
    # mistakes fall on the three wrong classes alike
    shift = np.bincount((a.label - truth)[~hit] % 4, minlength=4)[1:]
    assert all(within(n / shift.sum(), 1 / 3, int(shift.sum())) for n in shift)


def test_the_tail_breaks_plain_em() -> None:
    crowds = [long_tail(seed) for seed in range(5)]
    votes = np.mean([judged(crowd.annotations, crowd.truth, "majority") for crowd in crowds], axis=0)
    em = np.mean([judged(crowd.annotations, crowd.truth, "ds-em") for crowd in crowds], axis=0)
    assert votes[0] == pytest.approx(0.915, abs=0.01)
    assert em[0] == pytest.approx(0.78, abs=0.02)
    assert em[1] > 0.97


# ---- clones ---------------------------------------------------------------------------------------------


def test_copies_are_copies() -> None:
    crowd = clones(2)
    said = matrix(crowd)
    assert crowd.roles == ("judge",) * 5 + ("copy",) * 6
    assert np.all(said[:, 5:] == said[:, 5:6])
    assert within(np.mean(said[:, 5] == crowd.truth), 0.6, 2000)
    for m, accuracy in enumerate((0.7, 0.725, 0.75, 0.775, 0.8)):
        assert within(np.mean(said[:, m] == crowd.truth), accuracy, 2000)


@pytest.mark.parametrize("flip", [0.05, 0.1])
def test_near_copies_differ_from_the_weak_one_in_their_own_places(flip: float) -> None:
    exact, near = matrix(clones(1)), matrix(clones(1, flip))
    assert np.array_equal(exact[:, :5], near[:, :5])
    differs = exact[:, 5:] != near[:, 5:]
    assert all(within(share, flip, 2000) for share in differs.mean(axis=0))
    both = [np.mean(differs[:, i] & differs[:, j]) for i in range(6) for j in range(i)]
    assert within(float(np.mean(both)), flip**2, 15 * 2000)


@pytest.mark.parametrize("flip", [0.0, 0.1, 1.0])
def test_the_model_is_right_about_every_clone_alone(flip: float) -> None:
    crowd = clones(4, flip)
    said = matrix(crowd)
    for m, confusion in enumerate(crowd.model.confusions):
        for k in range(3):
            among = said[crowd.truth == k, m]
            share = np.bincount(among, minlength=3) / among.size
            assert np.all(np.abs(share - confusion[:, k]) < 5 * np.sqrt(0.25 / among.size))
    assert np.allclose(crowd.model.confusions.sum(axis=1), 1)
    assert crowd.model.confusions[-1, 0, 0] == pytest.approx(0.6 * (1 - flip) + 0.4 * flip / 2)


@pytest.mark.parametrize("flip", [0.0, 0.05, 0.1])
def test_clones_break_plain_em(flip: float) -> None:
    crowd = clones(0, flip)
    accuracy, confidence = judged(crowd.annotations, crowd.truth, "ds-em")
    assert accuracy == pytest.approx(0.6, abs=0.02)
    assert confidence > 0.99
    alone, _ = judged(crowd.annotations.select_annotators(slice(0, 5)), crowd.truth, "ds-em")
    assert alone == pytest.approx(0.93, abs=0.015)


@pytest.mark.parametrize("flip", [-0.1, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(flip: float) -> None:
    with pytest.raises(ParameterError, match="flip"):
        clones(flip=flip)


@pytest.mark.parametrize("draw", [long_tail, clones])
def test_the_seed_decides(draw: Callable[[int], Simulation]) -> None:
    one, same, other = draw(1), draw(1), draw(2)
    assert one.annotations == same.annotations
    assert np.array_equal(one.truth, same.truth)
    assert one.annotations != other.annotations
