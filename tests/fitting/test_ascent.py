"""The ascent loop on a model of one parameter whose maximum is the root of a quadratic (Rao's linkage data)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from consilience.engine.checkpoint import Checkpoint, Keeper
from consilience.engine.progress import Progress
from consilience.fitting.ascent import Ascent, EMModel, Pass, extrapolate
from consilience.kernels.em import FLOOR

#: Rao's counts, of probabilities (½ + θ/4, (1 - θ)/4, (1 - θ)/4, θ/4): the two in the middle are added.
RAO = (125.0, 38.0, 34.0)
#: θ is small and y/2 = m: an EM step leaves 0.93 of the way, it creeps.
SLOW = (2000.0, 1000.0, 1.0)
START = 0.1

Leap = Callable[[float, float, float], float | None]


class Linkage(EMModel[float, float]):
    """The first cell is ½ (says nothing) and θ/4 together: t = y θ / (2 + θ) of its y counts are of the second part.

    log L(θ) = y log(2 + θ) + m log(1 - θ) + f log θ,        θ ← (t + f) / (t + f + m)

    A Beta prior adds ``extra`` counts to f and m.
    """

    def __init__(self, counts: tuple[float, float, float] = RAO, extra: float = 0.0, leap: Leap | None = None) -> None:
        self.y, self.m, self.f = counts
        self.extra, self._leap = extra, leap
        self.passed: list[float] = []  #: where the data were passed over

    def log_likelihood(self, at: float) -> float:
        return float(self.y * np.log(2 + at) + self.m * np.log(1 - at) + self.f * np.log(at))

    def e_step(self, at: float) -> tuple[float, float]:
        self.passed.append(at)
        return self.y * at / (2 + at), self.log_likelihood(at)

    def penalty(self, at: float) -> float:
        return float(self.extra * (np.log(1 - at) + np.log(at)))

    def m_step(self, sums: float) -> float:
        up, down = sums + self.f + self.extra, self.m + self.extra
        return up / (up + down)

    def after(self, at: float) -> float:
        """One EM step."""
        return self.m_step(self.y * at / (2 + at))

    def leap(self, one: Pass[float, float], two: Pass[float, float]) -> float | None:
        if self._leap is not None:
            return self._leap(one.at, two.at, two.after)
        first, second, third = ([np.array([x, 1 - x])] for x in (one.at, two.at, two.after))
        far = extrapolate(first, second, third, [self.y + self.m + self.f], FLOOR)
        return None if far is None else float(far[0][0] / far[0].sum())

    @property
    def maximum(self) -> float:
        """The root of (y + m + f) θ² + (2 m + f - y) θ - 2 f, m and f with the prior's counts, between 0 and 1."""
        m, f = self.m + self.extra, self.f + self.extra
        roots = np.roots([self.y + m + f, 2 * m + f - self.y, -2 * f])
        return float(roots[(roots > 0) & (roots < 1)][0])


def ascend(
    model: Linkage,
    start: float,
    *,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    callback: Callable[[Progress], object] | None = None,
) -> Ascent[float, float]:
    return Ascent(model, start, accelerate=accelerate).run(max_iter=max_iter, tol=tol, callback=callback)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("extra", [0.0, 7.0])
@pytest.mark.parametrize("counts", [RAO, SLOW])
def test_the_maximum_is_found(counts: tuple[float, float, float], extra: float, accelerate: bool) -> None:
    model = Linkage(counts, extra)
    ended = ascend(model, START, max_iter=10_000, tol=1e-15, accelerate=accelerate)
    assert ended.converged
    assert ended.at == pytest.approx(model.maximum, abs=1e-5)
    assert ended.latest == pytest.approx(model.maximum, abs=1e-5)
    # without the penalty the one, with it the other
    assert ended.log_likelihood == model.log_likelihood(ended.at)
    assert max(ended.history) == model.log_likelihood(ended.at) + model.penalty(ended.at)
    assert (np.diff(ended.history) >= -1e-14 * abs(ended.history[-1])).all()
    assert len(ended.history) == len(model.passed)


def test_leaps_save_passes() -> None:
    plain, leaps = (ascend(Linkage(SLOW), START, max_iter=10_000, tol=1e-12, accelerate=a) for a in (False, True))
    assert len(leaps.history) < 0.5 * len(plain.history)
    assert leaps.history[-1] >= plain.history[-1]


def test_the_root_is_that_of_the_textbook() -> None:
    """Rao 1973: 197 θ² - 15 θ - 68 = 0."""
    assert Linkage().maximum == pytest.approx(0.6268214980)


def test_a_rejected_leap_costs_a_pass_and_em_continues_from_before_it() -> None:
    model = Linkage(leap=lambda *_: 0.001)
    ended = ascend(model, START, max_iter=9, tol=0.0)
    one = model.after(START)
    two = model.after(one)
    three = model.after(two)
    assert model.passed[:6] == [START, one, 0.001, two, 0.001, three]
    assert len(ended.history) == 9
    # the passes at 0.001 are in the history as the best so far, and all others as they are
    values = [model.log_likelihood(at) for at in model.passed]
    expected = [max(values[: i + 1]) if at == 0.001 else values[i] for i, at in enumerate(model.passed)]
    assert ended.history == expected
    assert (np.diff(ended.history) >= 0).all()
    assert ended.history[2] == ended.history[1] < ended.history[3]
    assert ended.at != 0.001


def test_a_leap_that_is_kept_is_the_first_step_of_the_next() -> None:
    model = Linkage()
    leapt = Linkage(leap=lambda *_: model.maximum)
    ended = ascend(leapt, START, max_iter=20, tol=1e-12)
    assert leapt.passed == [START, model.after(START), model.maximum, model.after(model.maximum)]
    assert ended.converged
    assert ended.at == pytest.approx(model.maximum)


def test_no_leap_is_a_plain_step() -> None:
    model, plain = Linkage(leap=lambda *_: None), Linkage()
    ascend(model, START, max_iter=8, tol=0.0)
    ascend(plain, START, max_iter=8, tol=0.0, accelerate=False)
    assert model.passed == plain.passed
    assert plain.passed[1:] == [plain.after(at) for at in plain.passed[:-1]]


def test_the_callback_is_told_every_pass_and_stops() -> None:
    told: list[Progress] = []

    def stop_at_five(progress: Progress) -> bool:
        told.append(progress)
        return progress.iteration == 5

    model = Linkage(leap=lambda *_: 0.001)
    ended = ascend(model, START, max_iter=50, tol=1e-12, callback=stop_at_five)
    assert [p.iteration for p in told] == [1, 2, 3, 4, 5]
    assert {p.max_iter for p in told} == {50}
    assert [p.objective for p in told] == ended.history
    # the first pass and the leap are no EM steps; the others tell the change from the step before
    values = [model.log_likelihood(at) for at in model.passed]
    before = {1: values[0], 3: values[1]}
    for i, progress in enumerate(told):
        if i in before:
            assert progress.change == abs(values[i] - before[i]) / abs(values[i])
        else:
            assert np.isnan(progress.change)
    assert not ended.converged
    assert ended.latest == model.after(model.passed[-1])


def test_only_true_stops() -> None:
    ended = ascend(Linkage(), START, max_iter=6, tol=0.0, callback=lambda p: p.iteration)
    assert len(ended.history) == 6
    first = ascend(Linkage(), START, max_iter=6, tol=0.0, callback=lambda _: True)
    assert (first.at, first.latest, len(first.history)) == (START, Linkage().after(START), 1)


@pytest.mark.parametrize("max_iter", range(7))
def test_passes_run_out_anywhere_in_a_leap(max_iter: int) -> None:
    model = Linkage(leap=lambda *_: 0.001)
    ended = ascend(model, START, max_iter=max_iter, tol=1e-12)
    assert len(ended.history) == len(model.passed) == max_iter
    assert not ended.converged
    if max_iter == 0:
        assert (ended.at, ended.latest) == (START, START)
        assert np.isnan(ended.log_likelihood)
        return
    assert ended.at == max(model.passed, key=model.log_likelihood)
    assert ended.log_likelihood == model.log_likelihood(ended.at)
    assert ended.latest == model.after(model.passed[-1])


def test_the_best_is_kept_where_the_latest_is_worse() -> None:
    """An M-step that goes too far is no EM any more: its fall is told, and the best parameters seen are given."""

    class TooFar(Linkage):
        def m_step(self, sums: float) -> float:
            return 0.95 if len(self.passed) >= 3 else super().m_step(sums)

    model = TooFar()
    ended = ascend(model, START, max_iter=5, tol=0.0, accelerate=False)
    assert ended.history == [model.log_likelihood(at) for at in model.passed]
    assert ended.history[3] < ended.history[2]
    assert ended.at == model.passed[2]
    assert ended.latest == 0.95
    assert ended.log_likelihood == ended.history[2]


def test_a_tolerance_of_zero_runs_all() -> None:
    still = Linkage().maximum
    for _ in range(100):  # where rounding moves it no more
        still = Linkage().after(still)
    told: list[float] = []
    ended = ascend(Linkage(), still, max_iter=9, tol=0.0, callback=lambda p: told.append(p.change))
    assert len(ended.history) == 9
    assert 0.0 in told
    assert not ended.converged


def test_only_an_em_step_converges() -> None:
    """A leap that changes nothing meets no tolerance, the step after it may."""
    told: list[Progress] = []
    model = Linkage(leap=lambda one, two, three: two)
    ended = ascend(model, START, max_iter=100, tol=1e-6, callback=told.append)
    assert ended.converged
    changes = [p.change for p in told]
    leaps = range(2, len(told), 2)
    assert all(ended.history[i] == ended.history[i - 1] and np.isnan(changes[i]) for i in leaps)
    assert changes[-1] <= 1e-6
    assert all(not change <= 1e-6 for change in changes[:-1])
    assert len(ascend(Linkage(), START, max_iter=100, tol=1e9).history) == 2  # the first EM step, not the start


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.99])
def test_a_leap_along_a_geometric_sequence_ends_at_its_limit(rate: float) -> None:
    limit, away = np.array([0.3, 0.7]), np.array([0.2, -0.2])
    one, two, three = ([limit + away * rate**k] for k in range(3))
    far = extrapolate(one, two, three, [1.0], FLOOR)
    assert far is not None
    np.testing.assert_allclose(far[0], limit, atol=1e-12)


def test_no_leap_where_steps_stand_still_or_turn_back() -> None:
    here = [np.array([0.4, 0.6])]
    assert extrapolate(here, here, here, [1.0], FLOOR) is None
    # v = -2 r: a would be -½, a step shorter than EM's own
    assert extrapolate([np.array([0.4])], [np.array([0.5])], [np.array([0.4])], [1.0], FLOOR) is None


def test_labels_behind_the_parameters_set_the_step_and_probabilities_stay_positive() -> None:
    """Two arrays of different rates: the one with all the labels decides."""
    slow, fast = ([np.array([0.5 + 0.2 * rate**k]) for k in range(3)] for rate in (0.9, 0.2))
    one, two, three = (list(pair) for pair in zip(slow, fast, strict=True))
    for weights, at in (([1.0, 0.0], 0), ([0.0, 1.0], 1)):
        far = extrapolate(one, two, three, weights, FLOOR)
        assert far is not None
        np.testing.assert_allclose(far[at], 0.5, atol=1e-12)
        assert abs(float(far[1 - at][0]) - 0.5) > 0.01
    beyond = extrapolate([np.array([0.2])], [np.array([0.11])], [np.array([0.029])], [1.0], FLOOR)  # to -0.7
    assert beyond is not None
    assert beyond[0][0] == FLOOR


@pytest.mark.parametrize("stops", [[1, 2, 3, 4, 5, 6, 12], [3, 12], [7, 8, 12]])
def test_a_run_continues_where_the_last_one_stopped(stops: list[int]) -> None:
    """However often it is interrupted, the passes are those of one run."""
    whole, parts = Linkage(SLOW), Linkage(SLOW)
    expected = ascend(whole, START, max_iter=12, tol=0.0)
    ascent = Ascent(parts, START)
    for most in stops:
        ascent.run(max_iter=most, tol=0.0)
        assert len(ascent.history) == most
    assert parts.passed == whole.passed
    assert ascent.history == expected.history


def test_a_finer_tolerance_continues_a_converged_run() -> None:
    model = Linkage(SLOW)
    ascent = Ascent(model, START).run(max_iter=1000, tol=1e-6)
    assert ascent.converged
    rough = len(ascent.history)
    assert ascent.run(max_iter=1000, tol=1e-6).history == ascent.history[:rough]
    assert ascent.run(max_iter=1000, tol=1e-14).converged
    assert len(ascent.history) > rough
    assert ascent.at == pytest.approx(model.maximum, abs=1e-4)


class Point(NamedTuple):
    """Parameters as a checkpoint keeps them: a tuple of arrays."""

    theta: Any


class KeptLinkage(EMModel[Point, float]):
    """The same model with parameters that can be saved; :class:`Killed` is raised at one of its passes."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.inner, self.dies_at = Linkage(SLOW), dies_at

    def e_step(self, at: Point) -> tuple[float, float]:
        if self.dies_at is not None and len(self.inner.passed) == self.dies_at:
            raise Killed
        return self.inner.e_step(float(at.theta))

    def m_step(self, sums: float) -> Point:
        return Point(np.array(self.inner.m_step(sums)))

    def penalty(self, at: Point) -> float:
        return self.inner.penalty(float(at.theta))

    def leap(self, one: Pass[Point, float], two: Pass[Point, float]) -> Point | None:
        points = (float(p.theta) for p in (one.at, two.at, two.after))
        first, second, third = ([np.array([x, 1 - x])] for x in points)
        far = extrapolate(first, second, third, [1.0], FLOOR)
        return None if far is None else Point(np.array(far[0][0] / far[0].sum()))


class Killed(Exception):  # noqa: N818 - it ends a run, it is no error
    """The run ends here, as if its process had been killed."""


@pytest.mark.parametrize("dies_at", range(1, 15))
def test_a_killed_run_continues_to_the_same_result(dies_at: int, tmp_path: Path) -> None:
    def ascent(model: KeptLinkage) -> Ascent[Point, float]:
        keeper = Keeper(Checkpoint(tmp_path / "checkpoint", {"method": "linkage"}), "em")
        return Ascent(model, Point(np.array(START)), keeper=keeper)

    expected = Ascent(KeptLinkage(), Point(np.array(START))).run(max_iter=15, tol=0.0)
    with pytest.raises(Killed):
        ascent(KeptLinkage(dies_at)).run(max_iter=15, tol=0.0)
    model = KeptLinkage()
    found = ascent(model).run(max_iter=15, tol=0.0)
    assert found.history == expected.history
    assert (found.at, found.objective, found.latest) == (expected.at, expected.objective, expected.latest)
    assert found.log_likelihood == expected.log_likelihood
    assert len(model.inner.passed) < 15 or dies_at == 1  # it did not start over
