"""EM that narrows down to open items: it ends where plain EM ends, sooner, and can be taken up anywhere."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import real_crowd

import consilience as cs
from consilience.engine.checkpoint import Checkpoint
from consilience.engine.passes import InMemory, passes_of
from consilience.fitting import narrowing
from consilience.fitting.em import ConfusionStep, Progress, run_em
from consilience.fitting.fit import vote_start

#: Crowds whose items are mostly settled after a few passes.
SETTLED = {
    "binary": cs.simulate(2000, 20, 2, labels_per_item=10, accuracy=(0.7, 0.9), seed=1).annotations,
    "four classes": cs.simulate(3000, 25, 4, labels_per_item=8, accuracy=(0.55, 0.8), seed=2).annotations,
    "compiled": cs.simulate(5000, 40, 3, labels_per_item=10, accuracy=(0.55, 0.8), seed=3).annotations,
}
#: One whose first look comes too early: two fifths are open at the sixth pass, not at the third.
LATE = cs.simulate(1500, 20, 3, labels_per_item=10, spammers=0.4, adversaries=0.2, seed=2).annotations
#: One where most are not.
OPEN = cs.simulate(3000, 20, 3, labels_per_item=3, accuracy=(0.4, 0.6), seed=4).annotations


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that is told of every look, by the number of passes before it."""
    made: list[int] = []
    passes = 0
    original_look, original_sweep, original_open = InMemory.look, InMemory.sweep, InMemory.sweep_open

    def counted(original: Any, is_look: bool = False) -> Any:
        def run(self: InMemory, *at: Any, **options: Any) -> Any:
            nonlocal passes
            if is_look:
                made.append(passes)
            passes += 1
            return original(self, *at, **options)

        return run

    monkeypatch.setattr(InMemory, "look", counted(original_look, is_look=True))
    monkeypatch.setattr(InMemory, "sweep", counted(original_sweep))
    monkeypatch.setattr(InMemory, "sweep_open", counted(original_open))
    return made


def fit(a: Any, step: ConfusionStep | None = None, **options: Any) -> tuple[Any, list[float]]:
    """What EM finds, and the share of labels that each pass was over."""
    step, told = step or ConfusionStep(), []
    tell = options.pop("callback", lambda _: None)

    def callback(state: Progress) -> Any:
        told.append(state.labels / a.n_labels)
        return tell(state)

    return run_em(a, vote_start(a, step), step, callback=callback, **options), told


@pytest.mark.parametrize("pseudo", [0.0, 0.5])
@pytest.mark.parametrize("name", SETTLED)
def test_it_ends_where_plain_em_ends_after_fewer_labels(name: str, pseudo: float) -> None:
    a, step = SETTLED[name], ConfusionStep(pseudo)
    plain, _ = fit(a, step, tol=1e-11, max_iter=5000, accelerate=False)
    fast, over = fit(a, step, tol=1e-11, max_iter=5000)
    assert fast.converged
    assert min(over) < 0.4
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-8)
    np.testing.assert_allclose(fast.parameters.prior, plain.parameters.prior, atol=1e-3)
    assert np.abs(fast.parameters.confusions - plain.parameters.confusions).mean() < 1e-3
    assert (np.diff(fast.history) >= -1e-13 * abs(fast.history[-1])).all()
    assert sum(over) < 0.75 * len(plain.history)


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["rte", "trec", "simulated"])
def test_half_the_labels_that_plain_em_passes_over(name: str) -> None:
    """To the likelihood of converged EM, relative 1e-6; ``benchmarks acceleration`` does it for 10^6 labels."""
    a = (
        cs.simulate(20_000, 200, 4, labels_per_item=5, seed=0).annotations
        if name == "simulated"
        else real_crowd(name)[0]
    )
    plain, _ = fit(a, tol=1e-10, max_iter=3000, accelerate=False)
    goal = plain.history[-1] - 1e-6 * abs(plain.history[-1])
    passes = next(i for i, value in enumerate(plain.history, 1) if value >= goal)
    fast, over = fit(a, tol=1e-12, max_iter=3000, callback=lambda state: state.objective >= goal)
    assert fast.log_likelihood >= goal
    assert sum(over) <= 0.5 * passes


def test_where_most_items_are_open_all_are_passed_over() -> None:
    plain, _ = fit(OPEN, tol=1e-11, max_iter=5000, accelerate=False)
    fast, over = fit(OPEN, tol=1e-11, max_iter=5000)
    assert set(over) == {1.0}
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-6)
    assert len(over) < 0.5 * len(plain.history)


def test_settled_items_that_do_not_settle_are_passed_over_again(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Narrowed down too early, settled items hold everything up, for they move once a round: it must not stay there."""
    monkeypatch.setattr("consilience.fitting.open_items._SHARE", 1.0)
    monkeypatch.setattr("consilience.kernels.em_numpy.SETTLED", 0.5)
    plain, _ = fit(OPEN, tol=1e-11, max_iter=5000, accelerate=False)
    fast, over = fit(OPEN, tol=1e-11, max_iter=5000)
    assert min(over) < 0.9
    assert fast.converged
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-6)
    assert len(looks) > 2  # it came back to all items, and looked again
    assert sum(over) < 0.2 * len(plain.history)


def test_a_round_that_gains_as_much_as_the_one_before_is_the_last(looks: list[int]) -> None:
    """Rounds, read off the passes: between looks, gains fall to a quarter at least, but for the last round."""
    told: list[Progress] = []
    fit(SETTLED["four classes"], tol=1e-11, callback=told.append)
    n = max(state.labels for state in told)
    whole = [i for i, state in enumerate(told) if state.labels == n]
    # a pass over all items that is followed by one over open items ends one round and begins the next
    begins = [i for i in whole if i + 1 < len(told) and told[i + 1].labels < n]
    assert len(begins) > 2
    gains = np.diff([told[i].objective for i in begins])
    looked = [any(begin < look <= end for look in looks) for begin, end in pairwise(begins)]
    for one, other, back in zip(gains, gains[1:], looked[1:], strict=False):
        assert back or other <= 0.25 * one


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("name", ["binary", "compiled"])
def test_converged_is_what_one_more_em_step_confirms(name: str, tol: float) -> None:
    a, step = SETTLED[name], ConfusionStep()
    found, over = fit(a, tol=tol)
    assert found.converged
    assert over[-2:] == [1.0, 1.0]
    assert 0 <= found.history[-1] - found.history[-2] <= tol * abs(found.history[-1])
    passes = InMemory(a)
    here = passes.sweep(*found.parameters)
    assert here.log_likelihood == found.log_likelihood == found.history[-1]
    after = passes.sweep(*step(here))
    assert after.log_likelihood - here.log_likelihood <= 1.5 * tol * abs(here.log_likelihood)


@pytest.mark.parametrize("max_iter", range(1, 16))
def test_when_passes_run_out_the_likelihood_is_that_of_the_model(max_iter: int) -> None:
    a = SETTLED["binary"]
    found, over = fit(a, tol=0.0, max_iter=max_iter)
    assert not found.converged
    assert len(found.history) == len(over) == max_iter
    assert found.log_likelihood == InMemory(a).sweep(*found.parameters).log_likelihood
    assert found.log_likelihood >= found.history[-1] - 1e-9


def test_a_look_is_put_off_where_little_is_left_to_do(looks: list[int]) -> None:
    a = SETTLED["four classes"]
    _, over = fit(a, tol=1e-5)
    assert len(over) > 3
    assert not looks
    fit(a, tol=1e-9)
    assert looks


def test_looks_become_rarer(looks: list[int]) -> None:
    _, over = fit(OPEN, tol=0.0, max_iter=100)
    assert looks[0] == 2
    # a look whose step led down is done again after the EM step
    apart = [(one, other) for one, other in pairwise(looks) if other != one + 1]
    assert len(apart) > 3
    assert all(other + 1 == 2 * (one + 1) for one, other in apart)
    assert looks[-1] < len(over) <= 2 * (looks[-1] + 1)


def test_gold_items_are_settled() -> None:
    crowd = cs.simulate(2000, 20, 3, labels_per_item=8, accuracy=(0.6, 0.8), seed=6)
    a = crowd.annotations.with_gold(np.where(np.arange(2000) % 2 == 0, crowd.truth, -1))
    plain, _ = fit(a, tol=1e-11, max_iter=5000, accelerate=False)
    fast, over = fit(a, tol=1e-11)
    assert min(over) < 0.4
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("name", SETTLED)
def test_renamed_and_in_another_order_it_is_the_same(name: str) -> None:
    a = SETTLED[name]
    frame = a.to_frame("pandas").sample(frac=1.0, random_state=0)
    frame["annotator"] = "z" + frame["annotator"].astype(str)
    frame["label"] = a.n_classes - frame["label"]  # the classes in reverse order
    other = cs.Annotations.from_frame(frame)
    (ours, over), (theirs, over_theirs) = fit(a, tol=1e-9), fit(other, tol=1e-9)
    assert min(over) < 0.4
    np.testing.assert_allclose(over, over_theirs)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(theirs.parameters.prior[::-1], ours.parameters.prior, atol=1e-7)
    order = [list(other.annotators).index(f"z{name}") for name in a.annotators]
    np.testing.assert_allclose(
        theirs.parameters.confusions[order][:, ::-1, ::-1], ours.parameters.confusions, atol=1e-6
    )


@pytest.mark.parametrize("name", ["binary", "compiled", "late", "too early"])
def test_a_run_can_be_taken_up_at_any_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in steps over all items, at a look, and among open items; every state that is written is tried."""
    monkeypatch.setattr("consilience.engine.checkpoint._PATIENCE", 0.0)
    if name == "too early":  # so that it goes back to all items after the second round
        monkeypatch.setattr("consilience.fitting.open_items._SHARE", 1.0)
        monkeypatch.setattr("consilience.kernels.em_numpy.SETTLED", 0.5)
    a, step = {**SETTLED, "late": LATE, "too early": OPEN}[name], ConfusionStep()
    options: dict[str, Any] = {"tol": 0.0, "max_iter": 30} if name == "too early" else {"tol": 1e-9}
    whole, over = fit(a, **options)
    assert min(over) < 0.4

    for killed in range(2, len(whole.history)):
        passes = passes_of(a)
        passes.checkpoint = Checkpoint(tmp_path / f"kept{killed}", {"method": "ds-em"})

        def kill(state: Progress, at: int = killed) -> None:
            if state.iteration == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_em(passes, vote_start(a, step), step, **options, callback=kill)
        # the same labels in a new process
        passes = InMemory(a)
        passes.checkpoint = Checkpoint(tmp_path / f"kept{killed}", {"method": "ds-em"})
        again = run_em(passes, vote_start(a, step), step, **options)
        assert again.history == whole.history
        for one, other in zip(again.parameters, whole.parameters, strict=True):
            assert one.tobytes() == other.tobytes()
        assert again.converged == whole.converged


def test_how_it_goes_by_hand(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the third pass, one pass over open items where the look was, then at most eight steps."""
    monkeypatch.setattr(narrowing, "_LITTLE", -1.0)
    _, over = fit(SETTLED["four classes"], tol=0.0, max_iter=14)
    share = over[3]
    assert share < 0.4
    assert looks == [2]
    # three over all, one that tells apart, eight steps (a step that led down costs two passes), one over all …
    assert over[:3] == [1.0] * 3
    assert over[3:12] == [share] * 9
    assert 1.0 in over[12:]
