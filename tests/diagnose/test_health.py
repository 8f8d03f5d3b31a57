"""Copies, changes and the number of independent annotators: found where they are, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly, random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.datasets.hard_cases import clones
from consilience.diagnose.changes import find_changes
from consilience.diagnose.constants import CHANGE_LEVEL
from consilience.diagnose.dependence import dependence, model_without
from consilience.diagnose.health import effective_annotators
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene


def matrix_of(annotations: Annotations) -> Ints:
    matrix = np.full((annotations.n_items, annotations.n_annotators), -1)
    matrix[annotations.item_of_label(), annotations.annotator] = annotations.label
    return matrix


def with_copies(seed: int, n_copies: int, flip: float = 0.0, per_item: float = 6.0) -> Annotations:
    """Ten annotators, and copies of the first of them who change some of the answers."""
    rng = np.random.default_rng(seed)
    crowd = cs.simulate(600, 10, 3, label_probability=min(1.0, per_item / 10), accuracy=(0.55, 0.9), seed=seed)
    matrix = matrix_of(crowd.annotations)
    first = matrix[:, [0]]
    changed = (rng.random((600, n_copies)) < flip) & (first >= 0)
    copies = np.where(changed, rng.integers(0, 3, (600, n_copies)), first)
    names = [f"a{m}" for m in range(10)] + [f"copy{j}" for j in range(n_copies)]
    return Annotations.from_matrix(np.hstack([matrix, copies]), annotators=names)


def effective(annotations: Annotations, method: str = "auto") -> tuple[float, Any, bool]:
    number, groups, by_gold = effective_annotators(annotations, quietly(annotations, method).model)
    assert number is not None
    return number, groups, by_gold


# ---- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "ds-em"])
@pytest.mark.parametrize(("n_copies", "flip", "per_item"), [(1, 0.0, 6), (1, 0.05, 6), (2, 0.0, 6), (3, 0.0, 10)])
def test_copies_are_found_and_count_as_one(method: str, n_copies: int, flip: float, per_item: float) -> None:
    for seed in (1, 2, 3):
        number, groups, _ = effective(with_copies(seed, n_copies, flip, per_item), method)
        assert groups == ((0, *range(10, 10 + n_copies)),)
        assert number == pytest.approx(10.0, abs=0.6)


def test_annotators_outside_the_sample_cost_nothing_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second item is in the sample; a thousand others labelled one item outside it each."""
    crowd = with_copies(1, 2)
    before = effective(crowd)
    inside, K = matrix_of(crowd), crowd.n_annotators
    rows = [(2 * n, f"z{m}", inside[n, m]) for n, m in np.argwhere(inside >= 0)]
    rows += [(2 * (j % 600) + 1, f"b{j}", j % 3) for j in range(1000)]
    # names sort before those of the crowd, so that codes differ from those in the sample
    large = Annotations.from_frame(pd.DataFrame(sorted(rows), columns=["item", "annotator", "label"]))
    fitted: list[int] = []

    def fit(annotations: Annotations, groups: Any) -> DawidSkene:
        fitted.append(annotations.n_annotators)
        return model_without(annotations, groups)

    monkeypatch.setattr("consilience.diagnose.health.model_without", fit)
    monkeypatch.setattr("consilience.diagnose.health.HEALTH_LABELS", -(-large.n_labels // 2))
    number, groups, _ = effective_annotators(large, quietly(large, "majority").model)
    assert set(fitted) == {K}
    names = [[str(large.annotators[m]) for m in members] for members in groups]
    assert [sorted(each) for each in names] == [[f"z{m}" for m in sorted(members, key=str)] for members in before[1]]
    assert number == pytest.approx(before[0] + 1000, rel=0.02)  # nothing is known of the others


def test_six_copies_that_took_the_model_over_count_as_one() -> None:
    crowd = clones(0)
    copies = tuple(m for m, role in enumerate(crowd.roles) if role == "copy")
    for method in ("auto", "ds-em"):
        number, groups, _ = effective(crowd.annotations, method)
        assert groups == (copies,)
        assert number == pytest.approx(6.0, abs=0.2)


def test_the_flag_names_the_other() -> None:
    people = quietly(with_copies(1, 1)).annotators.set_index("annotator")["flags"]
    assert people["a0"] == "copies copy0"
    assert people["copy0"] == "copies a0"
    assert not people.drop(["a0", "copy0"]).str.contains("copies").any()
    many = quietly(clones(0).annotations).annotators["flags"]
    assert many.str.contains(r"copies [^;]+, [^;]+, [^;]+ and 2 more").sum() == 6


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["bluebird", "dog52", "rte", "labelme", "music", "sentence_polarity"])
def test_people_who_find_the_same_items_hard_are_no_copies(name: str) -> None:
    assert effective(real_crowd(name)[0])[1] == ()


# ---- how many they are worth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("M", "K", "per_item"), [(8, 2, 8), (20, 3, 5), (50, 4, 5), (30, 2, 3)])
def test_independent_annotators_count_as_many_as_they_are(M: int, K: int, per_item: int) -> None:
    for seed in range(4):
        crowd = cs.simulate(600, M, K, labels_per_item=per_item, seed=seed).annotations
        number, groups, by_gold = effective(crowd)
        assert (groups, by_gold) == ((), False)
        assert 0.9 * M <= number <= M


def shared_errors(share: float, M: int = 8, N: int = 3000) -> tuple[Annotations, Ints]:
    """Judges who take over what one of them would say, each with this probability: their errors correlate by share²."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, N)
    common = np.where(rng.random(N) < 0.75, truth, 1 - truth)
    own = np.where(rng.random((N, M)) < 0.75, truth[:, None], 1 - truth[:, None])
    said = np.where(rng.random((N, M)) < share, common[:, None], own)
    return Annotations.from_matrix(said), truth


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_errors_that_go_together_count_by_kishs_design_effect_when_known_answers_show_them(share: float) -> None:
    annotations, truth = shared_errors(share)
    kish = 8 / (1 + 7 * share**2)
    known = annotations.with_gold(np.where(np.arange(truth.size) < 1500, truth, -1))
    number, _, by_gold = effective(known)
    assert by_gold
    assert number == pytest.approx(kish, rel=0.15)
    # what all get wrong together looks right: without gold the number is the most that it can be
    assert kish < effective(annotations)[0] <= 8


def test_correlation_is_that_of_the_definition() -> None:
    model = random_model(4, 3, seed=3)
    annotations, _ = model.sample(40, labels_per_item=3, random_state=1)
    found = dependence(annotations, model)
    sums: dict[tuple[int, int], Floats] = {}
    for n in range(annotations.n_items):
        labels = [(int(annotations.annotator[i]), int(annotations.label[i])) for i in range(3 * n, 3 * n + 3)]
        for x, (m, said) in enumerate(labels):
            for j, other in labels[x + 1 :]:
                q = model.prior.copy()
                for who, what in labels:
                    if who not in (m, j):
                        q = q * model.confusions[who, what]
                q = q / q.sum()
                A, B = model.confusions[m], model.confusions[j]
                agree = sum(q[k] * (A[i, k] * B[i, k]) for k in range(3) for i in range(3))
                spread = [sum(q[k] * (1 - (C[:, k] ** 2).sum()) for k in range(3)) for C in (A, B)]
                row = np.array([1, (said == other) - agree, np.sqrt(spread[0] * spread[1])])
                key = (min(m, j), max(m, j))
                sums[key] = sums.get(key, np.zeros(3)) + row
    assert [tuple(pair) for pair in found.who.tolist()] == sorted(sums)
    wanted = np.array([sums[key] for key in sorted(sums)])
    np.testing.assert_allclose(np.stack([found.common, found.excess, found.scale], axis=1), wanted, atol=1e-9)
    np.testing.assert_allclose(found.correlation, np.clip(wanted[:, 1] / wanted[:, 2], -1, 1), atol=1e-9)


def test_repeated_answers_are_no_second_annotator() -> None:
    crowd = cs.datasets.load("dawid_skene").annotations  # annotator 1 answered three times
    assert effective(crowd, "ds-em")[0] == pytest.approx(5.0, abs=0.3)


@pytest.mark.parametrize("labels", [[[0, 1], [1, 1]], [[0, -1, -1], [-1, 1, -1], [-1, -1, 1]], [[0, 0, 0], [0, 0, 0]]])
def test_too_few_labels_for_an_estimate(labels: list[list[int]]) -> None:
    annotations = Annotations.from_matrix(np.array(labels))
    M, K = annotations.n_annotators, annotations.n_classes
    model = DawidSkene(
        np.full(K, 1 / K), np.tile(np.eye(K), (M, 1, 1)), annotations.class_ids, annotations.annotator_ids
    )
    assert effective_annotators(annotations, model) == (float(M), (), False)


def test_with_many_classes_the_number_is_none() -> None:
    annotations = cs.simulate(400, 6, 70, seed=1).annotations
    assert effective_annotators(annotations, quietly(annotations, "majority").model) == (None, (), False)


# ---- changes over time ---------------------------------------------------------------------------------------------


def timed(seed: int, *, changing: int | None = None, hard: bool = False, M: int = 10, N: int = 400) -> pd.DataFrame:
    """A crowd in the order of time; one of them may guess from the middle of their labels on."""
    rng = np.random.default_rng(seed)
    crowd = cs.simulate(N, M, 3, labels_per_item=5, accuracy=(0.6, 0.9), seed=seed).annotations
    frame = crowd.to_frame("pandas").astype({"label": int})
    frame["timestamp"] = rng.permutation(len(frame)) if not hard else frame["item"] + rng.random(len(frame))
    guessed = np.zeros(len(frame), bool)
    if hard:
        guessed |= (frame["item"] > N / 2).to_numpy() & (rng.random(len(frame)) < 0.4)
    if changing is not None:
        mine = frame["annotator"] == f"a{changing}"
        guessed |= (mine & (frame["timestamp"] > frame.loc[mine, "timestamp"].median())).to_numpy()
    frame["label"] = np.where(guessed, rng.integers(0, 3, len(frame)), frame["label"])
    return frame


def changers(frame: pd.DataFrame) -> list[int]:
    annotations = Annotations.from_frame(frame)
    run = cs.aggregate(annotations, "ds-em")
    return [change.annotator for change in find_changes(annotations, run.model, run.posterior)]


def test_steady_annotators_are_rarely_taken_for_changing_ones() -> None:
    crowds = 100
    for hard in (False, True):
        alarms = sum(bool(changers(timed(seed, hard=hard, N=200))) for seed in range(crowds))
        # at CHANGE_LEVEL, more than 12 of 100 have a chance of 1 in 1000
        assert alarms <= 12, (hard, CHANGE_LEVEL)


def test_who_guesses_from_half_time_on_is_found_and_nobody_else() -> None:
    for seed in range(8):
        frame = timed(seed, changing=3)
        names = Annotations.from_frame(frame).annotators
        assert [names[m] for m in changers(frame)] == ["a3"]


def test_a_change_has_its_time_and_both_accuracies() -> None:
    frame = timed(1, changing=3)
    run = cs.aggregate(frame)
    (change,) = run.health.changes
    assert run.model.annotators[change.annotator] == "a3"
    mine = frame.loc[frame["annotator"] == "a3", "timestamp"]
    assert 0.35 < np.mean(mine < float(change.when)) < 0.65
    assert change.before > change.after + 0.15
    assert change.chance < CHANGE_LEVEL / 10
    flags = run.annotators.set_index("annotator")["flags"]
    assert flags["a3"] == "changes over time"
    assert (flags.drop("a3") == "").all()


def test_without_times_or_with_one_time_nothing_is_found() -> None:
    frame = timed(1, changing=3)
    assert changers(frame.drop(columns="timestamp")) == []
    assert changers(frame.assign(timestamp=7)) == []
    unknown = frame.assign(timestamp=frame["timestamp"].where(frame["annotator"] != "a3"))
    assert changers(unknown) == []


# ---- in the run ----------------------------------------------------------------------------------------------------


def test_what_was_found_is_saved_with_the_run(tmp_path: Path) -> None:
    frame = timed(1, changing=3)
    copy = frame[frame["annotator"] == "a0"].assign(annotator="copy")
    run = quietly(pd.concat([frame, copy]))
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert again.health == run.health
    assert again.summary() == run.summary()
    assert run.summary()["effective_annotators"] == run.effective_annotators == again.effective_annotators
    assert again.annotators["flags"].tolist() == run.annotators["flags"].tolist()
    assert {"changes over time", "copies copy", "copies a0"} <= set(again.annotators["flags"])


def test_a_diagnosis_counts_them_too() -> None:
    annotations = with_copies(1, 2)
    found = cs.diagnose(annotations, bootstrap=0)
    assert found.effective_annotators == pytest.approx(10.0, abs=0.6)
    assert found.to_dict()["effective_annotators"] == found.effective_annotators
