"""A figure without a target is neither met nor missed, and cells of published tables are counted."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.ensembles import in_hindsight, with_reason
from benchmarks.figures import Figure, print_all, two_errors, with_settings

import consilience as cs


def test_only_figures_with_a_target_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    print_all(
        [
            Figure("seconds", 2.0, 1.0),
            Figure("error", 2.0, 2.0),
            Figure("speed", 3.0, 2.0, up=True),
            Figure("memory", 9.0),
        ]
    )
    lines = capsys.readouterr().out.splitlines()[-5:]
    assert [line[:4].strip() for line in lines[:4]] == ["MISS", "ok", "ok", ""]
    assert [line.split()[0] for line in lines[3:]] == ["memory", "2"]
    assert lines[-1] == "2 of 3 targets met"


def test_cells_match_within_the_slack_or_have_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    print_all(
        [
            Figure("two errors above", 10.25, 10.0, cell=True, slack=0.25),
            Figure("a slack of half the figure", 14.0, 10.0, cell=True, slack=5.0),
            Figure("other settings", 12.0, 10.0, cell=True, reason="penalty=8 gives 10"),
            Figure("below, up", 9.0, 10.0, up=True, cell=True, slack=0.1),
            Figure("not published", 3.0, 2.0),
        ]
    )
    *_, targets, cells, above, explained, below = capsys.readouterr().out.splitlines()
    assert targets == "1 of 5 targets met"
    assert cells.startswith("4 cells of published tables: 1 match or beat")
    assert cells.endswith("1 differ for the reason given, 2 are missed; without these 50.0%")
    assert explained.endswith("penalty=8 gives 10")
    assert "a slack of half the figure" in above
    assert "below, up" in below


def test_the_slack_of_a_mean_counts_both_samples() -> None:
    assert two_errors([1.0, 3.0], 2) == pytest.approx(2 * 2**0.5)
    assert two_errors([1.0]) == 0.0


def test_other_settings_are_a_reason_only_if_they_match() -> None:
    missed = Figure("error", 12.0, 10.0, cell=True, slack=0.1)
    assert with_settings(missed, {"penalty": 8.0}, 10.05).reason == "penalty=8 gives 10.05"
    assert with_settings(missed, {"penalty": 8.0}, 10.2).reason == ""
    assert with_settings(Figure("error", 9.0, 10.0, cell=True), {"penalty": 8.0}, 8.0).reason == ""


def test_confusions_of_the_truth_are_a_reason_for_what_they_miss_too() -> None:
    missed = Figure("error", 12.0, 10.0, cell=True, slack=0.5)
    assert with_reason(missed, 11.6).reason == "with confusions counted from the truth, these labels give 11.60"
    assert with_reason(missed, 11.4).reason == ""  # more than the slack above even those
    assert with_reason(missed, 9.0).reason == ""


def test_in_hindsight_the_most_probable_class_given_the_counts_is_chosen() -> None:
    drawn = cs.simulate(60, 4, 3, label_probability=0.6, seed=1)
    a, truth = drawn.annotations, drawn.truth
    item = np.repeat(np.arange(a.n_items), a.labels_per_item)
    wrong = 0
    for n in range(a.n_items):
        p = np.array([(truth == k).mean() for k in range(3)])
        for m, label in zip(a.annotator[item == n], a.label[item == n], strict=True):
            own = a.annotator == m
            for k in range(3):
                of_class = own & (truth[item] == k)
                p[k] *= max((a.label[of_class] == label).mean(), 1e-9)
        wrong += p.argmax() != truth[n]
    assert in_hindsight(a, truth, every_item=True).error == pytest.approx(100 * wrong / a.n_items)
