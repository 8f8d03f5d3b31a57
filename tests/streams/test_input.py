"""What an update may bring: new names, repeated answers, known truths, nothing and nonsense."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly
from tests.streams.streams import SUMS, cut, streamed

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import (
    ColumnError,
    ConsilienceWarning,
    DataError,
    DataWarning,
    IdError,
    MethodError,
    ParameterError,
)


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    return cs.simulate(300, 12, 3, spammers=0.2, seed=1)


# ---- what is new ----------------------------------------------------------------------------------------


def named(a: Annotations, classes: list[str], items: int = 0) -> pd.DataFrame:
    rows = a.to_frame("pandas")
    return rows.assign(label=[classes[k] for k in rows["label"]], item=rows["item"] + items)


@pytest.mark.parametrize("method", ["ds-em", "one-coin", "majority", "rob-symnmf", "rob-symnmf+em"])
@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_classes_that_come_later_are_learned_in_their_order(method: str, options: dict[str, Any]) -> None:
    first = cs.simulate(300, 10, 2, accuracy=(0.7, 0.95), seed=1)
    later = cs.simulate(300, 10, 3, accuracy=(0.7, 0.95), seed=2)
    names = ["bird", "cat", "ant"]  # the new one comes first in order
    parts = [named(first.annotations, names[:2]), named(later.annotations, names, 300)]
    stream = streamed(parts, method, **options)
    assert list(stream.model.classes) == ["ant", "bird", "cat"]
    assert stream.consensus.counts.shape == (10, 3, 3)
    found = [stream.model.classes[int(k)] for k in stream.consensus.choice.best]
    truth = [names[k] for k in (*first.truth, *later.truth)]
    wrong = np.array(found) != np.array(truth)
    alone = quietly(parts[1], method)
    judged = np.array([alone.model.classes[int(k)] for k in alone.choice.best]) != np.array(truth[300:])
    assert wrong[:300].mean() <= 0.12
    assert wrong[300:].mean() <= judged.mean() + 0.03
    assert "ant" not in found[:300]


@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_an_old_item_can_become_of_a_new_class(options: dict[str, Any]) -> None:
    made = cs.simulate(500, 12, 2, labels_per_item=3, accuracy=(0.7, 0.9), seed=4)
    fresh = [(n, f"a{m}", "a") for n in range(40) for m in range(12) if m % 2]
    later = pd.DataFrame(fresh, columns=["item", "annotator", "label"])
    stream = streamed([named(made.annotations, ["b", "c"]), later], **options)
    assert stream.labels["label"].tolist()[:40] == ["a"] * 40
    assert "a" not in stream.labels["label"].tolist()[40:]


def test_new_annotators_begin_as_the_crowd_and_are_told_apart(crowd: cs.datasets.Simulation) -> None:
    stream = streamed([crowd.annotations], window=0)
    rows = pd.DataFrame({"item": np.arange(250), "annotator": "new", "label": crowd.truth[:250]})
    stream.update(rows.assign(label=(rows["label"] + (rows["item"] % 10 == 0)) % 3))
    accuracy = stream.annotators.set_index("annotator")["accuracy"]["new"]
    assert abs(accuracy - 0.9) < 0.05
    lone = streamed([crowd.annotations], **SUMS)
    lone.update(pd.DataFrame({"item": [1], "annotator": ["one"], "label": [0]}))
    crowds = lone.consensus.counts[:-1].sum(axis=0)
    assert np.abs(lone.model.confusions[-1] - crowds / crowds.sum(axis=0)).max() < 0.25


@pytest.mark.parametrize("options", [SUMS, {"window": 0}, {}], ids=str)
def test_ids_of_other_types_meet(options: dict[str, Any]) -> None:
    stream = cs.Stream("majority", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        stream.update(pd.DataFrame({"task": [7, 8], "worker": [1, 2], "label": [0, 1]}))
        stream.update(pd.DataFrame({"task": [7.0, 9.0], "worker": [3, 3], "label": [0.0, 1.0]}))
        assert stream.consensus.n_labels.tolist() == [2, 1, 1]
        assert list(stream.model.classes) == [0, 1]
        stream.update(pd.DataFrame({"task": ["x", "7"], "worker": ["1", "w"], "label": ["1", "?"]}))
        found = stream.consensus
    assert list(found.item_ids) == ["7", "8", "9", "x"]
    assert list(found.model.annotators) == ["1", "2", "3", "w"]
    assert list(found.model.classes) == ["0", "1", "?"]
    assert found.n_labels.tolist() == [3, 1, 1, 1]


def test_many_names_are_found_again_as_a_dictionary_finds_them() -> None:
    from consilience.streams.names import Rows, Vocabulary

    rng, names, known = np.random.default_rng(0), Vocabulary(), dict[str, int]()
    for _ in range(30):
        some = [f"item {k}" for k in np.unique(rng.integers(0, 60_000, rng.integers(1, 4000)))]
        met = names.look_up(Ids(some))
        assert len(names) == len(known)  # nothing is added before it is accepted
        names = met.accept()
        assert met.codes.tolist() == [known.setdefault(name, len(known)) for name in some]
    assert list(names.ids) == list(known)
    rows, moved, at = Rows(x=np.zeros(0)), 0, -1
    for size in range(1, 5000):
        rows.grow(size, x=size)
        moved += rows["x"].ctypes.data != at
        at = rows["x"].ctypes.data
    assert moved < 20
    assert np.array_equal(rows["x"], np.arange(1, 5000))


# ---- repeated answers, gold, nothing and nonsense -------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"window": 0}], ids=str)
def test_of_repeated_answers_the_last_counts_while_the_first_is_remembered(
    crowd: cs.datasets.Simulation, options: dict[str, Any]
) -> None:
    rows = crowd.annotations.to_frame("pandas")
    again = rows.iloc[:50].assign(label=(rows["label"].iloc[:50] + 1) % 3)
    stream = cs.Stream(**options).update(rows)
    with pytest.warns(DataWarning, match="50 labels repeat an answer .* the last was kept"):
        found = stream.update(again).consensus
    batch = quietly(pd.concat([rows, again]), "ds-em")
    place = found.item_ids.codes_of(batch.item_ids.to_arrow())
    assert np.mean(found.choice.best[place] == batch.choice.best) >= (0.95 if options else 1.0)
    assert stream.n_labels == len(rows)
    # answers that one update repeats on purpose stay
    kept = cs.datasets.load("dawid_skene").annotations
    assert cs.Stream().update(kept).consensus.run["labels"] == 315


def test_repeats_of_settled_answers_are_counted_and_said(crowd: cs.datasets.Simulation) -> None:
    first, second = cut(crowd.annotations, 2, "labels")
    stream = cs.Stream(**SUMS).update(first)
    stream.update(second)  # new labels of the same items: no warning
    with pytest.warns(DataWarning, match=r"of \d+ labels repeat an answer .* known in sums only") as said:
        stream.update(first)
    count = int(str(said[0].message).removeprefix("about ").split()[0])
    assert abs(count - len(first)) <= 0.05 * len(first)
    assert stream.n_labels == 2 * len(first) + len(second)


@pytest.mark.parametrize("options", [SUMS, {"window": 0}, {}], ids=str)
def test_known_truths_are_held(crowd: cs.datasets.Simulation, options: dict[str, Any]) -> None:
    rows = crowd.annotations.to_frame("pandas")
    early, late = rows[rows["item"] < 150], rows[rows["item"] >= 150]
    wrong = {3: int((crowd.truth[3] + 1) % 3)}
    stream = cs.Stream(**options).update(early, gold=wrong)
    binary = late[late["label"] < 2]
    stream.update(binary, gold={200: 2})  # a class that this update does not name, but the stream knows
    more = pd.DataFrame({"item": [4, 5], "annotator": ["other", "other"], "label": [0, 0]})
    stream.update(more, gold={4: 1})
    for item, label in ((3, wrong[3]), (200, 2), (4, 1)):
        assert stream.consensus.posterior[list(stream.consensus.item_ids).index(item), label] == 1.0
    assert stream.consensus.run["gold_items"] == 3
    with pytest.raises(IdError, match="'fish', which no annotator used"):
        stream.update(late, gold={200: "fish"})


def test_no_rows_change_nothing(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    rows = crowd.annotations.to_frame("pandas")
    stream = cs.Stream("ds-em", window=0).update(rows)
    before = stream.consensus
    (tmp_path / "none.csv").write_text("task,worker,label\n")
    for nothing in (rows.iloc[:0], tmp_path / "none.csv", crowd.annotations.select_items([])):
        assert stream.update(nothing) is stream
        assert stream.consensus is before
        assert stream.updates == 1
    with pytest.raises(DataError, match="no labels yet"):
        _ = cs.Stream().consensus


def test_what_cannot_be_read_leaves_the_stream_as_it_was(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    rows = crowd.annotations.to_frame("pandas")
    stream = cs.Stream("ds-em", forget=0.1).update(rows)
    before = stream.consensus
    bad = rows.rename(columns={"annotator": "who"})
    with pytest.raises(ColumnError, match="the frame has no annotator column"):
        stream.update(bad)
    with pytest.raises(ColumnError, match="the frame has no annotator column"):
        stream.update(bad.iloc[:0])
    bad.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(ColumnError, match=r"bad\.csv has no annotator column"):
        stream.update(tmp_path / "bad.csv")
    with pytest.raises(IdError, match="mixes types"):
        stream.update(rows.astype(object).assign(item=lambda r: [7, *map(str, r["item"][1:])]))
    with pytest.raises(ParameterError, match="no option 'colour'"):
        stream.update(rows, colour="red")
    assert stream.consensus is before
    assert stream.update(bad.assign(item=bad["item"] + 1000), annotator="who").updates == 2


def test_columns_of_other_names_are_found_again(crowd: cs.datasets.Simulation) -> None:
    rows = crowd.annotations.to_frame("pandas").rename(columns={"item": "page", "annotator": "who"})
    stream = cs.Stream().update(rows.iloc[:900], item="page", annotator="who")
    stream.update(rows.iloc[900:])
    assert stream.labels.columns[0] == "page"
    with pytest.raises(ColumnError, match="no column 'page'"):
        stream.update(rows.rename(columns={"page": "leaf"}))


def test_an_update_that_is_broken_off_loses_no_label(crowd: cs.datasets.Simulation) -> None:
    first, second = cut(crowd.annotations, 2)
    stream = cs.Stream("ds-em", **SUMS).update(first)

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream.update(second, callback=stop)
    assert stream.n_labels == len(crowd.annotations)
    assert stream.n_held == len(second)
    whole = streamed([first, second], **SUMS).consensus
    np.testing.assert_allclose(stream.consensus.posterior, whole.posterior, atol=1e-12)


def test_what_a_stream_cannot_do_is_refused() -> None:
    with pytest.raises(MethodError, match=r"glad needs all labels at once .* ds-em, one-coin, majority, rob-symnmf"):
        cs.Stream("glad")
    with pytest.raises(ParameterError, match="there is no method 'ds_em'"):
        cs.Stream("ds_em")
    with pytest.raises(ParameterError, match="ds-em has no parameter 'start'"):
        cs.Stream("ds-em", start=None)
    with pytest.raises(ParameterError, match="smoothing must be"):
        cs.Stream("ds-em", smoothing=-1)
    for forget in (1, 1.5, -0.1, True, "half", float("nan")):
        with pytest.raises(ParameterError, match="forget must be a number from 0"):
            cs.Stream(forget=forget)  # type: ignore[arg-type]
    for number in (-1, 0.5, True):
        for name in ("window", "remember"):
            bad: dict[str, Any] = {name: number}
            with pytest.raises(ParameterError, match=f"{name} must be a whole number"):
                cs.Stream(**bad)
    with pytest.raises(ParameterError, match="forget and window exclude each other"):
        cs.Stream(forget=0.1, window=100)
