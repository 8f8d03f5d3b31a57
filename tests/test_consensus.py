"""Consensus: its tables, its ties, its files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import consilience as cs
from consilience.consensus import TIE, choose
from consilience.exceptions import ConsilienceError, ConsilienceWarning, DataError, DataWarning, FormatError, IdError

FRAME_TYPES: dict[str, type] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
METHODS = ("majority", "ds-em", "one-coin", "ds-em+em")

LABEL_COLUMNS = ["label", "confidence", "runner_up", "margin", "n_labels"]
ANNOTATOR_COLUMNS = ["n_labels", "accuracy", "information", "bias", "flags", "low", "high"]


def rows_of(n_items: int = 30, n_annotators: int = 5) -> dict[str, list[Any]]:
    """A crowd that is right four times in five; the truth of item n is n mod 3."""
    picks = [(n, m) for n in range(n_items) for m in range(n_annotators)]
    return {
        "task": [f"i{n}" for n, _ in picks],
        "worker": [10 * m for _, m in picks],
        "label": ["abc"[(n + (n // 3 + m) % 5 // 4) % 3] for n, m in picks],
    }


def make(kind: str, columns: dict[str, list[Any]]) -> Any:
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)


def columns_of(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pa.Table):
        return {str(name): values for name, values in frame.to_pydict().items()}
    return {str(name): frame[name].to_list() for name in frame.columns}


def quietly(data: Any, method: str = "auto", **options: Any) -> cs.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.aggregate(data, method, **options)


# ---- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAME_TYPES)
@pytest.mark.parametrize("method", METHODS)
def test_tables_have_the_documented_columns_and_the_kind_of_the_input(kind: str, method: str) -> None:
    consensus = cs.aggregate(make(kind, rows_of()), method)
    assert isinstance(consensus.labels, FRAME_TYPES[kind])
    assert isinstance(consensus.annotators, FRAME_TYPES[kind])
    labels, people = columns_of(consensus.labels), columns_of(consensus.annotators)
    assert list(labels) == ["task", *LABEL_COLUMNS]
    assert list(people) == ["worker", *ANNOTATOR_COLUMNS]
    assert labels["task"] == [f"i{n}" for n in range(30)]
    assert labels["label"] == ["abc"[n % 3] for n in range(30)]
    assert labels["n_labels"] == [5] * 30
    assert people["worker"] == [0, 10, 20, 30, 40]
    assert people["n_labels"] == [30] * 5
    for n in range(30):
        ordered = np.sort(consensus.posterior[n])[::-1]
        assert labels["confidence"][n] == pytest.approx(ordered[0])
        assert labels["margin"][n] == pytest.approx(ordered[0] - ordered[1], abs=2 * TIE)
        assert labels["runner_up"][n] != labels["label"][n]


@pytest.mark.parametrize("kind", FRAME_TYPES)
def test_tables_keep_the_users_own_names(kind: str) -> None:
    columns = dict(zip(("question", "judge", "response"), rows_of().values(), strict=True))
    consensus = cs.aggregate(make(kind, columns))
    assert next(iter(columns_of(consensus.labels))) == "question"
    assert next(iter(columns_of(consensus.annotators))) == "judge"
    named = dict(zip(("picture", "who", "said"), rows_of().values(), strict=True))
    annotations = cs.Annotations.from_frame(make(kind, named), item="picture", annotator="who", label="said")
    consensus = cs.aggregate(annotations)
    assert next(iter(columns_of(consensus.labels))) == "picture"
    assert next(iter(columns_of(consensus.annotators))) == "who"


@pytest.mark.parametrize(("item", "annotator"), [("label", "flags"), ("margin", "n_labels"), ("confidence", "low")])
def test_names_that_are_ours_do_not_collide(item: str, annotator: str, tmp_path: Path) -> None:
    columns = dict(zip((item, annotator, "said"), rows_of().values(), strict=True))
    annotations = cs.Annotations.from_frame(pd.DataFrame(columns), item=item, annotator=annotator, label="said")
    consensus = cs.aggregate(annotations)
    assert list(consensus.labels.columns) == ["item", *LABEL_COLUMNS]
    assert list(consensus.annotators.columns) == ["annotator", *ANNOTATOR_COLUMNS]
    consensus.save(tmp_path / "run")
    assert list(cs.load(tmp_path / "run").labels.columns) == ["item", *LABEL_COLUMNS]


@pytest.mark.parametrize("kind", FRAME_TYPES)
def test_labels_keep_their_type_beside_unlabelled_items(kind: str) -> None:
    """A label 2**53 + 1 that comes back as a float is another label."""
    one, two = 2**53 + 1, 7
    columns: dict[str, list[Any]] = {
        "task": ["p", "p", "p", "q", "q", "q", "r"],
        "worker": ["a", "b", "c", "a", "b", "c", "a"],
        "label": [one, one, one, two, two, two, None],
    }
    frame = pd.DataFrame({**columns, "label": pd.array(columns["label"], "Int64")}) if kind == "pandas" else None
    consensus = quietly(make(kind, columns) if frame is None else frame, "majority")
    labels = columns_of(consensus.labels)["label"]
    assert labels[:2] == [one, two]
    assert all(isinstance(label, int | np.integer) for label in labels[:2])
    assert pd.isna(labels[2])


def test_a_gold_item_that_nobody_labelled_has_its_gold() -> None:
    columns = rows_of()
    frame = pd.DataFrame(columns)
    frame.loc[len(frame)] = ["extra", 0, None]
    consensus = quietly(frame, "ds-em", gold={"extra": "b"})
    last = consensus.labels.iloc[-1]
    assert (last["task"], last["label"], last["confidence"], last["n_labels"]) == ("extra", "b", 1.0, 0)


# ---- ties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_tie_is_visible(method: str) -> None:
    """Two annotators who always differ: nothing in the data prefers one class."""
    columns = {"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["x", "y", "y", "x"]}
    consensus = quietly(pd.DataFrame(columns), method)
    assert consensus.labels["margin"].tolist() == [0.0, 0.0]
    assert consensus.labels["confidence"].tolist() == pytest.approx([0.5, 0.5])
    assert consensus.labels["label"].tolist() == ["x", "x"], "the first in the order of the classes"
    assert consensus.labels["runner_up"].tolist() == ["y", "y"]
    other = quietly(cs.Annotations.from_frame(pd.DataFrame(columns), classes=["y", "x"]), method)
    assert other.labels["label"].tolist() == ["y", "y"]


def test_a_tie_of_votes_has_margin_zero_and_follows_the_better_annotator() -> None:
    columns = rows_of()
    # on a new item, annotator 0 (never wrong from here on) and annotator 40 disagree
    frame = pd.DataFrame(columns)
    truth = {f"i{n}": "abc"[n % 3] for n in range(30)}
    frame.loc[frame["worker"] == 0, "label"] = frame.loc[frame["worker"] == 0, "task"].map(truth)
    for good, bad in (("a", "b"), ("b", "a")):
        extra = pd.DataFrame({"task": ["tied", "tied"], "worker": [0, 40], "label": [good, bad]})
        consensus = cs.aggregate(pd.concat([frame, extra]), "majority")
        last = consensus.labels.iloc[-1]
        assert (last["task"], last["margin"], last["confidence"]) == ("tied", 0.0, 0.5)
        assert (last["label"], last["runner_up"]) == (good, bad)


def naive_choice(posterior: list[float], prior: list[float], hint: list[float] | None) -> tuple[int, set[int], float]:
    """The rule as it is documented, for one item: the class, whoever may be runner-up, and the margin."""
    top = max(posterior)
    left = [k for k, p in enumerate(posterior) if p >= top - TIE]
    for opinion in (hint, prior):
        if opinion is not None:
            most = max(opinion[k] for k in left)
            left = [k for k in left if opinion[k] >= most - TIE]
    best = left[0]
    others = [k for k in range(len(posterior)) if k != best]
    if not others:
        return best, {best}, posterior[best]
    second = max(posterior[k] for k in others)
    margin = posterior[best] - second
    runners = {k for k in others if posterior[k] >= second - TIE}
    return best, runners, 0.0 if margin <= TIE else margin


@settings(max_examples=150, deadline=None, database=None)
@given(data=st.data())
def test_choose_against_the_rule_as_it_is_written(data: st.DataObject) -> None:
    K, N = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))

    def distributions(n: int) -> Any:
        weights = st.lists(st.integers(0, 3), min_size=K, max_size=K).filter(any)
        drawn = data.draw(st.lists(weights, min_size=n, max_size=n))
        return np.array([np.array(w) / sum(w) for w in drawn])

    posterior, prior = distributions(N), distributions(1)[0]
    # Far below the tie: as rounding would leave it.
    posterior = posterior + data.draw(st.sampled_from([0.0, 1e-13])) * np.arange(K)
    hint = distributions(N) if data.draw(st.booleans()) else None
    best, second, margin = choose(posterior, prior, hint)
    for n in range(N):
        wanted, runners, gap = naive_choice(
            posterior[n].tolist(), prior.tolist(), None if hint is None else hint[n].tolist()
        )
        assert best[n] == wanted
        assert second[n] in runners
        assert margin[n] == pytest.approx(gap, abs=1e-12)
        assert (margin[n] == 0) == (gap == 0)


def test_choose_does_not_change_its_arguments() -> None:
    posterior, prior, hint = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0.4, 0.6]), np.array([[0.9, 0.1], [1, 0]])
    before = [values.copy() for values in (posterior, prior, hint)]
    assert choose(posterior, prior, hint).best.tolist() == [0, 1]
    assert choose(posterior, prior).best.tolist() == [1, 1]
    assert all(np.array_equal(a, b) for a, b in zip(before, (posterior, prior, hint), strict=True))


# ---- files --------------------------------------------------------------------------------------------------


def assert_equal(one: cs.Consensus, other: cs.Consensus) -> None:
    assert one.model == other.model
    assert one.posterior.tobytes() == other.posterior.tobytes()
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.n_labels, other.n_labels)
    assert all(np.array_equal(a, b) for a, b in zip(one.choice, other.choice, strict=True))
    assert list(one.item_ids) == list(other.item_ids)
    assert dict(one.run) == dict(other.run)
    assert one.summary() == other.summary()
    for name in ("labels", "annotators"):
        a, b = columns_of(getattr(one, name)), columns_of(getattr(other, name))
        assert list(a) == list(b)
        for column in a:
            assert [type(v) for v in a[column]] == [type(v) for v in b[column]]
            assert str(a[column]) == str(b[column])


VALUES: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "str": (["p", "q"], ["a", "b", "c"], ["x", "y"]),
    "int": ([7, 8], [1, 2, 3], [0, 1]),
    "digits": (["7", "007"], ["1", "01", "2"], ["0", "00"]),
    "mixed": ([2**60 + 1, 5], ["a", "b", "c"], [True, False]),
    "float": ([0.5, 1.5], [1, 2, 3], [0.1, 0.2]),
    "unicode": (["日本", "é\n\t,\"'"], ["😀", "b;c", "[x]"], ["ß", "ø"]),
    "date": (
        [pd.Timestamp("2024-01-01").date(), pd.Timestamp("2024-01-02").date()],
        ["a", "b", "c"],
        [pd.Timestamp("2023-01-01").date(), pd.Timestamp("2023-01-02").date()],
    ),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("method", ["majority", "ds-em"])
def test_round_trip_through_a_folder(tmp_path: Path, values: str, method: str) -> None:
    items, annotators, classes = VALUES[values]
    rows = [
        (item, who, classes[(n + (m == 2)) % 2]) for n, item in enumerate(items) for m, who in enumerate(annotators)
    ]
    consensus = quietly(pd.DataFrame(rows, columns=["task", "worker", "label"]), method)
    consensus.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert_equal(consensus, again)
    for ids, wanted in (
        (again.item_ids, items),
        (again.model.annotators, annotators),
        (again.model.classes, sorted(classes)),
    ):
        assert list(ids) == wanted
        assert [type(v) for v in ids] == [type(v) for v in wanted]
    again.save(tmp_path / "again")
    assert_equal(cs.load(tmp_path / "again"), consensus)


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"seed": np.int64(3), "max_iter": np.int64(50), "tol": np.float64(1e-6)}
    consensus = cs.aggregate(pd.DataFrame(rows_of()), "ds-em", smoothing=np.float32(0.5), **numbers)
    consensus.save(tmp_path / "run")
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary["seed"] == 3
    assert_equal(cs.load(tmp_path / "run"), consensus)


def test_no_file_needs_pickle(tmp_path: Path) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    archives = list((tmp_path / "run").rglob("*.np[yz]"))
    assert (tmp_path / "run/model.npz") in archives
    for archive in archives:
        with np.load(archive, allow_pickle=False) as file:
            for name in file.files:
                assert file[name].dtype != object
    assert not list((tmp_path / "run").rglob("*.pkl"))


def test_saving_over_an_earlier_run_and_over_something_else(tmp_path: Path) -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    consensus.save(tmp_path / "run")
    majority = cs.aggregate(pd.DataFrame(rows_of()), "majority")
    majority.save(str(tmp_path / "run"))
    assert_equal(cs.load(tmp_path / "run"), majority)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("ten years of work")
    with pytest.raises(FileExistsError, match="home"):
        consensus.save(tmp_path / "home")
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="absent"):
        cs.load(tmp_path / "absent")
    with pytest.raises(FormatError, match=tmp_path.name):
        cs.load(tmp_path)
    for text in ("", "{", "[]", "null", '{"mine": 1}', '{"format": "other", "version": 1}'):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(FormatError, match="not the folder of a run"):
            cs.load(tmp_path)


@pytest.mark.parametrize("version", [2, 99, "1", None, "absent"])
def test_other_versions_are_refused(tmp_path: Path, version: Any) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    place = tmp_path / "run/summary.json"
    summary = json.loads(place.read_text("utf-8"))
    assert summary["version"] == 1
    summary["version"] = version
    if version == "absent":
        del summary["version"]
    place.write_text(json.dumps(summary), "utf-8")
    with pytest.raises(FormatError, match=r"version|not the folder of a run"):
        cs.load(tmp_path / "run")


@pytest.mark.parametrize("damage", ["absent", "empty", "cut", "words"])
@pytest.mark.parametrize("file", ["model.npz", "posterior.parquet", "evidence.npz"])
def test_a_damaged_run_is_refused(tmp_path: Path, file: str, damage: str) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    place = tmp_path / "run" / file
    content = place.read_bytes()
    place.write_bytes({"absent": b"", "empty": b"", "cut": content[: len(content) // 2], "words": b"words"}[damage])
    if damage == "absent":
        place.unlink()
    with pytest.raises(FormatError, match="run"):
        cs.load(tmp_path / "run")


# ---- error rate ---------------------------------------------------------------------------------------------


def test_error_rate_by_hand() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    truth = {f"i{n}": "abc"[n % 3] for n in range(30)}
    assert consensus.error_rate(truth) == 0
    wrong = {**truth, "i0": "b", "i1": "c", "i2": "b"}
    forms = (
        wrong,
        pd.Series(wrong),
        pd.DataFrame({"task": list(wrong), "label": list(wrong.values())}),
        pl.DataFrame({"item": list(wrong), "truth": list(wrong.values())}),
        list(wrong.values()),
    )
    for form in forms:
        assert consensus.error_rate(form) == pytest.approx(10.0)
    assert consensus.error_rate({"i0": "b", "i1": "b", "i2": None, "i3": "a"}) == pytest.approx(100 / 3)


def test_a_truth_that_nobody_said_is_an_error_of_the_crowd() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    with pytest.warns(DataWarning, match="'z', which no annotator used"):
        assert consensus.error_rate({"i0": "z", "i1": "b"}) == pytest.approx(50.0)


def test_error_rate_without_anything_to_compare() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    with pytest.raises(IdError, match="none of the 1 items"):
        consensus.error_rate({"elsewhere": "a"})
    with pytest.raises(DataError, match="no item has both"):
        consensus.error_rate({"i0": None})
    with pytest.raises(DataError, match="two different labels"):
        consensus.error_rate(pd.DataFrame({"task": ["i0", "i0"], "label": ["a", "b"]}))


def test_unlabelled_items_do_not_count_as_errors() -> None:
    frame = pd.DataFrame(rows_of())
    frame.loc[len(frame)] = ["extra", 0, None]
    consensus = quietly(frame)
    assert consensus.error_rate({"i0": "a", "extra": "c"}) == 0
    assert consensus.error_rate({"i0": "b", "extra": "c"}) == 100


# ---- annotators ---------------------------------------------------------------------------------------------

#: counts[i][k]: how often somebody said i of truth k.  Truth: 40 of class 0, 20 of class 1.
COUNTS: dict[str, list[list[int]]] = {
    "perfect": [[40, 0], [0, 20]],
    "good": [[36, 5], [4, 15]],
    "one-sided": [[40, 20], [0, 0]],
    "random": [[20, 10], [20, 10]],
    "opposite": [[1, 19], [39, 1]],
    "newcomer": [[4, 1], [1, 1]],
}


def known_crowd() -> tuple[pd.DataFrame, dict[str, str]]:
    truth = {f"t{n}": "no" if n < 40 else "yes" for n in range(60)}
    rows = []
    for who, counts in COUNTS.items():
        for k, first in ((0, 0), (1, 40)):
            said = ["no"] * counts[0][k] + ["yes"] * counts[1][k]
            rows += [(f"t{first + n}", who, label) for n, label in enumerate(said)]
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), truth


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """With all truths known, the annotators' numbers can be counted by hand."""
    frame, truth = known_crowd()
    return cs.aggregate(frame, "ds-em", gold=truth).annotators.set_index("worker")


@pytest.mark.parametrize("who", COUNTS)
def test_accuracy_and_its_interval(people: pd.DataFrame, who: str) -> None:
    counts = np.array(COUNTS[who])
    total, right = counts.sum(), np.trace(counts)
    row = people.loc[who]
    assert row["n_labels"] == total
    assert row["accuracy"] == pytest.approx(right / total)
    assert row["low"] <= row["accuracy"] <= row["high"]
    # Jeffreys' interval; whoever was never wrong may be right always
    low, high = stats.beta.ppf([0.025, 0.975], right + 0.5, total - right + 0.5)
    assert row["low"] == pytest.approx(low)
    assert row["high"] == pytest.approx(1.0 if right == total else high, rel=1e-9)


@pytest.mark.parametrize("who", COUNTS)
def test_information_is_the_mutual_information(people: pd.DataFrame, who: str) -> None:
    conditional = np.array(COUNTS[who]) / np.array(COUNTS[who]).sum(axis=0)
    joint = conditional * np.array([2 / 3, 1 / 3])
    said, true = joint.sum(axis=1), joint.sum(axis=0)
    bits = sum(
        joint[i, k] * np.log2(joint[i, k] / (said[i] * true[k])) for i in range(2) for k in range(2) if joint[i, k] > 0
    )
    assert people.loc[who, "information"] == pytest.approx(bits, abs=1e-9)


def test_a_perfect_annotator_tells_all_and_a_spammer_nothing(people: pd.DataFrame) -> None:
    entropy = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert people.loc["perfect", "information"] == pytest.approx(entropy)
    assert people.loc["one-sided", "information"] == pytest.approx(0, abs=1e-9)
    assert people.loc["random", "information"] == pytest.approx(0, abs=1e-9)


def test_flags(people: pd.DataFrame) -> None:
    flags = {who: set(filter(None, str(people.loc[who, "flags"]).split("; "))) for who in COUNTS}
    assert flags == {
        "perfect": set(),
        "good": set(),
        "one-sided": {"spammer"},
        "random": {"spammer"},
        "opposite": {"adversary"},
        "newcomer": {"few labels"},
    }


def test_bias_names_the_most_frequent_mistake(people: pd.DataFrame) -> None:
    assert people.loc["perfect", "bias"] == ""
    assert people.loc["one-sided", "bias"] == "says no for yes (100 %)"
    assert people.loc["good", "bias"] == "says no for yes (25 %)"
    assert people.loc["opposite", "bias"] == "says yes for no (98 %)"


def test_spammers_and_adversaries_are_found_without_gold() -> None:
    crowd = cs.simulate(1500, 30, 3, labels_per_item=12, spammers=0.2, adversaries=0.1, experts=0.3, seed=8)
    table = cs.aggregate(crowd.annotations).annotators
    for role, flags in zip(crowd.roles, table["flags"], strict=True):
        wanted = {"spammer": "spammer", "adversary": "adversary"}.get(role, "")
        assert flags == wanted, role


def test_an_annotator_without_labels_has_no_accuracy() -> None:
    frame = pd.DataFrame(rows_of())
    frame.loc[len(frame)] = ["i0", 99, None]
    table = quietly(frame).annotators
    last = table.iloc[-1]
    assert (last["worker"], last["n_labels"]) == (99, 0)
    assert pd.isna(last["accuracy"])
    assert "few labels" in last["flags"]


# ---- the run ------------------------------------------------------------------------------------------------


def test_the_summary_tells_what_was_done() -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()), "ds-em", seed=4, smoothing=0.25)
    summary = consensus.summary()
    assert (summary["N"], summary["M"], summary["K"], summary["labels"]) == (30, 5, 3, 150)
    assert (summary["method"], summary["seed"], summary["converged"]) == ("ds-em", 4, True)
    assert summary["iterations"] == len(summary["history"])
    assert summary["log_likelihood"] == pytest.approx(
        consensus.model.log_likelihood(cs.Annotations.from_frame(pd.DataFrame(rows_of())))
    )
    assert json.loads(json.dumps(summary)) == summary
    assert consensus.warnings == []


def test_aggregate_takes_frames_matrices_files_and_annotations(tmp_path: Path) -> None:
    frame = pd.DataFrame(rows_of())
    frame.to_csv(tmp_path / "labels.csv", index=False)
    wide = frame.pivot_table(index="task", columns="worker", values="label", aggfunc="first", sort=False)
    codes = wide.replace({"a": 0, "b": 1, "c": 2}).to_numpy(int)
    expected = cs.aggregate(cs.Annotations.from_frame(frame)).posterior
    for data in (frame, pl.DataFrame(rows_of()), tmp_path / "labels.csv", str(tmp_path / "labels.csv"), codes, wide):
        np.testing.assert_allclose(cs.aggregate(data).posterior, expected, atol=1e-12)


def test_wrong_arguments_are_refused() -> None:
    frame = pd.DataFrame(rows_of())
    wrong: tuple[dict[str, Any], ...] = (
        {"method": "nonsense"},
        {"engine": "moon"},
        {"method": "majority", "smoothing": 1.0},
        {"tol": -1},
        {"max_iter": 2.5},
        {"max_iter": True},
        {"prior": "mine"},
        {"accelerate": "yes"},
        {"nonsense": 1},
    )
    for bad in wrong:
        with pytest.raises(ConsilienceError):
            cs.aggregate(frame, **bad)
