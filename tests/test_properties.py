"""What holds for every table: probabilities are probabilities, names and order do not matter, EM only climbs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.conftest import quietly

import consilience as cs
from consilience.exceptions import ConsilienceWarning

METHODS = ("majority", "ds-em", "one-coin", "ds-em+em")

Row = tuple[int, int, int | None]
# The same examples in every run.  In one table of a thousand or so, EM creeps along a nearly flat likelihood and
# stops at posteriors that differ by more than 1e-6: that is its stopping rule, no reason for a test to fail at times.
many = settings(max_examples=60, deadline=None, database=None, derandomize=True)


@st.composite
def tables(draw: st.DrawFn, missing: bool = False, repeats: bool = True) -> list[Row]:
    """Rows (item, annotator, label) of small codes, at least one of them with a label."""
    N, M, K = (draw(st.integers(1, 6)) for _ in range(3))
    label: st.SearchStrategy[int | None] = st.integers(0, K - 1)
    if missing:
        label = st.one_of(label, st.none())
    row = st.tuples(st.integers(0, N - 1), st.integers(0, M - 1), label)
    key = None if repeats else (lambda r: r[:2])
    rows = draw(st.lists(row, min_size=1, max_size=40, unique_by=key))
    assume(any(said is not None for _, _, said in rows))
    return rows


def frame(rows: Sequence[Row], names: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """Rows as a frame of words: item 3 is "i3" unless names say otherwise."""
    given_names = names or {}
    columns: dict[str, list[str | None]] = {}
    for at, (column, letter) in enumerate((("task", "i"), ("worker", "w"), ("label", "c"))):
        of = given_names.get(column)
        columns[column] = [
            None if (code := row[at]) is None else of[code] if of is not None else f"{letter}{code}" for row in rows
        ]
    return pd.DataFrame(columns, dtype=object)


def annotations_of(data: Any, **options: Any) -> cs.Annotations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.Annotations.from_frame(data, **options)


def by_name(consensus: cs.Consensus) -> pd.DataFrame:
    """The posterior as a frame: items by classes, both in order of their names."""
    table = pd.DataFrame(consensus.posterior, index=list(consensus.item_ids), columns=list(consensus.model.classes))
    return table.sort_index(axis=0).sort_index(axis=1)


# ---- probabilities ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "rob-symnmf", "rob-symnmf+em", "des-symnmf", "symnmf"])
@many
@given(rows=tables(missing=True), duplicates=st.sampled_from(["last", "first", "keep"]))
def test_any_table_gives_probabilities(method: str, rows: list[Row], duplicates: Any) -> None:
    annotations = annotations_of(frame(rows), duplicates=duplicates)
    consensus = quietly(annotations, method)
    posterior = consensus.posterior
    assert posterior.shape == (annotations.n_items, annotations.n_classes)
    assert np.isfinite(posterior).all()
    assert ((posterior >= 0) & (posterior <= 1)).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-9)
    assert np.isfinite(consensus.run["log_likelihood"])
    model = consensus.model
    assert ((model.confusions >= 0) & (model.confusions <= 1)).all()
    np.testing.assert_allclose(model.confusions.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(model.prior.sum(), 1, atol=1e-9)

    labels = consensus.labels
    classes = set(annotations.classes)
    said = {item: {label for i, _, label in rows if i == item and label is not None} for item, _, _ in rows}
    for name, label, confidence, margin in zip(
        labels["task"], labels["label"], labels["confidence"], labels["margin"], strict=True
    ):
        if said[int(name[1:])]:
            assert label in classes
            assert confidence >= 1 / len(classes) - 1e-9
        else:
            assert pd.isna(label)
            assert (confidence, margin) == (0, 0)
        assert 0 <= margin <= 1
    people = consensus.annotators
    assert ((people["low"] >= 0) & (people["high"] <= 1) & (people["low"] <= people["high"])).all()
    judged = people[people["n_labels"] > 0]
    assert ((judged["low"] <= judged["accuracy"]) & (judged["accuracy"] <= judged["high"])).all()
    assert people.loc[people["n_labels"] == 0, "accuracy"].isna().all()
    assert people["information"].between(0, np.log2(max(len(classes), 2)) + 1e-9).all()


@pytest.mark.parametrize("method", METHODS)
@many
@given(rows=tables(), gold=st.dictionaries(st.integers(0, 5), st.integers(0, 5), min_size=1), smoothing=st.booleans())
def test_gold_is_certain_in_any_table(method: str, rows: list[Row], gold: dict[int, int], smoothing: bool) -> None:
    annotations = annotations_of(frame(rows))
    known = {
        f"i{i}": f"c{k}" for i, k in gold.items() if f"i{i}" in annotations.items and f"c{k}" in annotations.classes
    }
    assume(known)
    options = {"smoothing": 0.5} if smoothing and method != "majority" else {}
    table = by_name(quietly(annotations, method, gold=known, **options))
    for item, label in known.items():
        assert table.loc[item, label] == 1
    assert np.isfinite(table.to_numpy()).all()


# ---- names and order ----------------------------------------------------------------------------------------

TIGHT: dict[str, dict[str, Any]] = {
    "majority": {},
    "ds-em": {"tol": 1e-12, "max_iter": 300},
    "one-coin": {"tol": 1e-12, "max_iter": 300},
    "ds-em+em": {"tol": 1e-12, "max_iter": 300},
}


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    assert list(one.index) == list(other.index)
    assert list(one.columns) == list(other.columns)
    np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@many
@given(rows=tables(repeats=False), data=st.data())
def test_row_order_does_not_matter(method: str, rows: list[Row], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    assert_same(
        by_name(quietly(frame(rows), method, **TIGHT[method])),
        by_name(quietly(frame(shuffled), method, **TIGHT[method])),
    )


@pytest.mark.parametrize("method", METHODS)
@many
@given(rows=tables(), data=st.data())
def test_names_of_items_and_annotators_do_not_matter(method: str, rows: list[Row], data: st.DataObject) -> None:
    names = {
        "task": data.draw(st.permutations([f"i{n}" for n in range(6)])),
        "worker": data.draw(st.permutations([f"w{n}" for n in range(6)])),
    }
    plain, renamed = (quietly(frame(rows, n), method, **TIGHT[method]) for n in (None, names))
    # The rows stay where they are, so nothing at all may change but the names.
    assert plain.posterior.tobytes() == renamed.posterior.tobytes()
    assert plain.run["log_likelihood"] == renamed.run["log_likelihood"]
    assert list(renamed.item_ids) == [names["task"][int(name[1:])] for name in plain.item_ids]


@pytest.mark.parametrize("method", METHODS)
@many
@given(rows=tables(), data=st.data())
def test_names_of_classes_only_permute(method: str, rows: list[Row], data: st.DataObject) -> None:
    names = data.draw(st.permutations([f"c{k}" for k in range(6)]))
    plain = by_name(quietly(frame(rows), method, **TIGHT[method]))
    renamed = by_name(quietly(frame(rows, {"label": names}), method, **TIGHT[method]))
    plain.columns = pd.Index([names[int(name[1:])] for name in plain.columns])
    assert_same(plain.sort_index(axis=1), renamed)


#: Two annotators who are each other's mirror image: trusting the one or the other is equally likely, for ever.
MIRRORS: list[list[Row]] = [
    [(1, 1, 0), (3, 0, 1), (1, 0, 1), (2, 0, 3), (2, 1, 3), (0, 1, 0), (3, 1, 0), (0, 0, 1)],
    [(1, 0, 5), (0, 1, 4), (0, 0, 5), (2, 1, 3), (2, 0, 4), (1, 1, 0), (3, 0, 1), (3, 1, 3)],
]
MIRROR_NAMES = (["c3", "c2", "c0", "c4", "c1", "c5"], ["c3", "c1", "c0", "c4", "c5", "c2"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", range(len(MIRRORS)))
def test_rounding_does_not_decide_between_mirror_images(method: str, case: int) -> None:
    """EM starts on a saddle here; rounding, and with it the names of the classes, must not push it down one side."""
    rows, names = MIRRORS[case], MIRROR_NAMES[case]
    plain = by_name(quietly(frame(rows), method))
    renamed = by_name(quietly(frame(rows, {"label": names}), method))
    plain.columns = pd.Index([names[int(name[1:])] for name in plain.columns])
    assert_same(plain.sort_index(axis=1), renamed)


# ---- EM -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ds-em", "one-coin", "ds-em+em"])
@many
@given(rows=tables(), smoothing=st.sampled_from([0.0, 0.1, 1.0]), accelerate=st.booleans())
def test_the_history_never_falls(method: str, rows: list[Row], smoothing: float, accelerate: bool) -> None:
    told: list[float] = []
    consensus = quietly(
        frame(rows),
        method,
        tol=1e-10,
        smoothing=smoothing,
        **({"shrinkage": 0.0} if method.endswith("+em") else {}),
        accelerate=accelerate,
        callback=lambda state: told.append(state.objective),
    )
    history = np.array(consensus.run["history"])
    assert history.size == consensus.run["iterations"] > 0
    assert told[-history.size :] == history.tolist()
    scale = np.maximum(np.abs(history[:-1]), 1)
    assert (np.diff(history) >= -1e-9 * scale).all()
    if smoothing == 0:
        assert consensus.run["log_likelihood"] == pytest.approx(history[-1], rel=1e-9, abs=1e-9)
        exact = consensus.model.log_likelihood(annotations_of(frame(rows)))
        assert exact == pytest.approx(history[-1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("method", ["ds-em", "one-coin"])
@many
@given(rows=tables())
def test_every_step_of_plain_em_climbs(method: str, rows: list[Row]) -> None:
    """The history could hide a fall; the likelihood of the model after t steps, computed anew, cannot."""
    annotations = annotations_of(frame(rows))
    climbed = [
        quietly(annotations, method, max_iter=t, tol=0, accelerate=False).model.log_likelihood(annotations)
        for t in range(8)
    ]
    scale = np.maximum(np.abs(climbed[:-1]), 1)
    assert (np.diff(climbed) >= -1e-9 * scale).all()


@many
@given(rows=tables())
def test_one_step_of_em_is_the_step_of_the_paper(rows: list[Row]) -> None:
    """Dawid & Skene 1979, eqs 2.3-2.5, with loops: an M-step from vote shares and an E-step."""
    annotations = annotations_of(frame(rows))
    assume(annotations.used_classes.all())  # what is said of a class that a later answer took back is another matter
    N, M, K = annotations.n_items, annotations.n_annotators, annotations.n_classes
    item = annotations.item_of_label()
    votes = np.zeros((N, K))
    for n, i in zip(item, annotations.label, strict=True):
        votes[n, i] += 1
    T = votes / votes.sum(axis=1, keepdims=True)
    prior = T.mean(axis=0)
    pi = np.zeros((M, K, K))
    for n, m, i in zip(item, annotations.annotator, annotations.label, strict=True):
        pi[m, i] += T[n]
    for m in range(M):
        for k in range(K):
            total = pi[m, :, k].sum()
            pi[m, :, k] = pi[m, :, k] / total if total > 0 else 1 / K
    joint = np.tile(prior, (N, 1))
    for n, m, i in zip(item, annotations.annotator, annotations.label, strict=True):
        joint[n] *= pi[m, i]
    expected = joint / joint.sum(axis=1, keepdims=True)
    consensus = quietly(annotations, "ds-em", max_iter=0)
    np.testing.assert_allclose(consensus.model.confusions, pi, atol=1e-12)
    np.testing.assert_allclose(consensus.model.prior, prior, atol=1e-12)
    np.testing.assert_allclose(consensus.posterior, expected, atol=1e-9)
    assert consensus.run["log_likelihood"] == pytest.approx(float(np.log(joint.sum(axis=1)).sum()), abs=1e-8)


# ---- a crowd of some size: the compiled path ----------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> pd.DataFrame:
    made = cs.simulate(
        8000, 60, 4, labels_per_item=5, experts=0.1, spammers=0.2, adversaries=0.05, prior=[0.4, 0.3, 0.2, 0.1], seed=3
    )
    table = made.annotations.to_frame("pandas")
    table.columns = pd.Index(["task", "worker", "label"])
    return table.assign(task="item " + table["task"].astype(str), label="class " + table["label"].astype(str))


@pytest.mark.parametrize("method", METHODS)
def test_shuffling_and_renaming_a_crowd_changes_no_label(crowd: pd.DataFrame, method: str) -> None:
    assert len(crowd) == 40_000
    plain = quietly(crowd, method)
    expected = dict(zip(plain.labels["task"], plain.labels["label"], strict=True))
    backwards = {f"class {k}": f"class {3 - k}" for k in range(4)}
    for seed in range(2):
        shuffled = crowd.sample(frac=1, random_state=seed)
        again = quietly(shuffled, method)
        assert dict(zip(again.labels["task"], again.labels["label"], strict=True)) == expected
        np.testing.assert_allclose(by_name(again).to_numpy(), by_name(plain).to_numpy(), atol=1e-6)
        renamed = shuffled.assign(
            task=shuffled["task"].str[::-1],
            worker="x" + shuffled["worker"],
            label=shuffled["label"].map(backwards),
        )
        other = quietly(renamed, method)
        found = zip(other.labels["task"], other.labels["label"], strict=True)
        assert {name[::-1]: backwards[label] for name, label in found} == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [300, 40_000])
def test_the_kind_of_frame_does_not_change_a_byte(crowd: pd.DataFrame, tmp_path: Path, method: str, size: int) -> None:
    rows = crowd.head(size)
    columns = {name: rows[name].tolist() for name in rows.columns}
    written = []
    for name, data in (("pandas", rows), ("polars", pl.DataFrame(columns)), ("pyarrow", pa.table(columns))):
        consensus = quietly(data, method)
        consensus.save(tmp_path / name)
        files = [(tmp_path / name / file).read_bytes() for file in ("labels.csv", "annotators.csv")]
        written.append((consensus.posterior.tobytes(), consensus.model.confusions.tobytes(), *files))
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads_does_not_change_a_byte(
    crowd: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # four copies of the crowd are enough labels for several blocks
    large = pd.concat([crowd.assign(task=crowd["task"] + f" copy {c}") for c in range(4)])
    annotations = cs.Annotations.from_frame(large)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("CONSILIENCE_THREADS", threads)
        consensus = quietly(annotations, method, **({} if method == "majority" else {"max_iter": 15}))
        found.append((consensus.posterior.tobytes(), consensus.run["log_likelihood"]))
    assert found[0] == found[1]
