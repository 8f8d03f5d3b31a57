"""Known answers that are left out show how wrong a run is, whatever its method and the kind of its data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.datasets import simulate_sequences
from consilience.diagnose.left_out import left_out, parts_of_known

METHODS = ("majority", "ds-em", "one-coin", "rob-symnmf+em", "open-answers")


@pytest.fixture(scope="module")
def crowd() -> Any:
    return cs.simulate(600, 20, 3, labels_per_item=5, spammers=0.3, seed=4)


def known(crowd: Any, n: int, turned: int = 0) -> dict[Any, Any]:
    """Return truths of n items drawn at random, turned by some classes."""
    a = crowd.annotations
    items = np.random.default_rng(0).choice(a.n_items, n, replace=False)
    return {a.items[i]: a.classes[(crowd.truth[i] + turned) % a.n_classes] for i in items}


def quiet(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cs.aggregate(*args, **options)


@pytest.mark.parametrize("method", METHODS)
def test_the_estimated_error_of_any_method_rests_on_known_answers(crowd: Any, method: str) -> None:
    found = quiet(crowd.annotations, method, gold=known(crowd, 100))
    report, estimate = found.run["known_answers"], found.estimated_error
    assert report["items"] == 100
    assert estimate.basis == "known answers"
    truth = crowd.truth.copy()
    truth[np.asarray(found.annotations.gold) >= 0] = -1
    error = np.mean(found.choice.best[truth >= 0] != truth[truth >= 0])
    assert estimate.low <= error <= estimate.high
    assert estimate.high - estimate.low < 0.2  # 0.4 and more from labels alone


@pytest.mark.parametrize("options", [{"method": "majority"}, {"answers": "open"}, {"graph": [(0, 1)]}])
def test_a_run_that_known_answers_contradict_says_so_first(crowd: Any, options: Any) -> None:
    with pytest.warns(cs.exceptions.DataWarning, match="known answers, the consensus of the labels alone is"):
        found = cs.aggregate(crowd.annotations, gold=known(crowd, 60, turned=1), **options)
    assert found.run["warnings"][0].startswith("on your 60 known answers")
    assert found.estimated_error.basis == "known answers"
    if "graph" not in options:  # EM on a graph learns from known answers what the classes mean
        assert found.estimated_error.low > 0.4
        assert found.verdict == "not"


def test_few_known_answers_are_not_compared(crowd: Any) -> None:
    found = quiet(crowd.annotations, "ds-em", gold=known(crowd, 4))
    assert "known_answers" not in found.run
    assert found.estimated_error.basis == "labels"


def test_known_tokens_show_the_error_of_sequences() -> None:
    crowd = simulate_sequences(150, 12, 4, 3, stickiness=0.7, seed=1)
    tokens = crowd.annotations.tokens
    sequence = np.repeat(np.arange(150), np.diff(crowd.annotations.indptr))
    gold = np.where(sequence % 5 == 0, crowd.truth, -1)
    data = crowd.annotations.with_gold(np.array([tokens.classes[k] if k >= 0 else None for k in gold], object))
    found = quiet(data, "ds-em+hmm+em")
    wrong = np.mean(found.choice.best[gold < 0] != crowd.truth[gold < 0])
    assert found.estimated_error.basis == "known answers"
    assert found.run["known_answers"]["items"] == (gold >= 0).sum()
    assert found.estimated_error.low <= wrong <= found.estimated_error.high


def test_no_known_answer_helps_to_label_itself() -> None:
    """A method that repeats its known answers, and is sure of them, is as wrong as one that knows none."""
    rng = np.random.default_rng(0)
    a = Annotations.from_matrix(rng.integers(0, 2, (200, 4)))
    truth = rng.integers(0, 2, 200)
    a = a.with_gold({n: int(truth[n]) for n in range(100)})

    def repeats(some: Annotations) -> tuple[Any, Any]:
        gold = np.full(200, -1) if some.gold is None else some.gold
        return np.where(gold >= 0, gold, 0), np.ones(200)

    found, cautions = left_out(a, repeats)
    assert found["error"] == found["error_with"] == pytest.approx(np.mean(truth[:100] != 0))
    assert found["expected"] == 0.0
    assert len(cautions) == 1


def test_a_method_that_refuses_to_run_without_known_answers_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample lacks the third annotator, without whom spectral-ds does not run."""
    crowd = cs.simulate(900, 2, 2, labels_per_item=2, seed=0)
    rows = crowd.annotations.to_frame("pandas")
    more = rows.iloc[2:22:4].assign(annotator="a third")  # items 1, 3, 5 …
    a = Annotations.from_frame(type(rows)(np.concatenate([rows, more]), columns=rows.columns))
    monkeypatch.setattr("consilience.auto.constants.SAMPLE", 600)
    gold = {a.items[n]: a.classes[0] for n in range(0, 120, 4)}
    found = quiet(a, "spectral-ds", gold=gold)
    assert "known_answers" not in found.run
    assert "not compared with your known answers: without them, spectral-ds needs" in found.run["warnings"][0]
    assert found.estimated_error.basis == "labels"


def test_a_callback_ends_the_fits_without_known_answers_too(crowd: Any) -> None:
    seen: list[tuple[int, str]] = []

    def end(progress: Any) -> bool:
        seen.append((progress.iteration, progress.step))
        return True

    found = quiet(crowd.annotations, "ds-em", gold=known(crowd, 50), callback=end)
    assert found.run["known_answers"]["items"] == 50
    # one pass of each fit: of all labels, without known answers, and without each fifth of them
    assert seen == [(1, "")] + [(1, "comparing with known answers")] * 6


def test_streamed_labels_are_compared_as_in_memory(crowd: Any) -> None:
    gold = known(crowd, 100)
    here, streamed = (quiet(crowd.annotations, "ds-em", gold=gold, engine=engine) for engine in ("local", "stream"))
    assert streamed.run["known_answers"] == pytest.approx(here.run["known_answers"])
    assert streamed.estimated_error.basis == "known answers"
    assert streamed.estimated_error.value == pytest.approx(here.estimated_error.value, abs=0.05)


def test_parts_have_the_same_classes_and_hold_every_item_once() -> None:
    rng = np.random.default_rng(0)
    a = Annotations.from_matrix(rng.integers(0, 3, (97, 5)))
    truth = rng.integers(0, 3, 97)
    parts = parts_of_known(a.with_gold(truth), np.arange(97))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(97))
    counts = np.array([np.bincount(truth[part], minlength=3) for part in parts])
    assert np.ptp(counts, axis=0).max() <= 1
