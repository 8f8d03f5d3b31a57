"""Silence as a label, and items that nobody labelled: what the data, a run and its files make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.conftest import quietly

import consilience as cs
import consilience.api
import consilience.data.silence
from consilience import Annotations
from consilience.data.silence import filled
from consilience.exceptions import DataWarning, IdError, ParameterError


def spotters(N: int = 300, M: int = 9, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Annotators who see every item and say "spam" or nothing, and the truth of every item."""
    rng = np.random.default_rng(seed)
    truth = rng.random(N) < 0.3
    hit, miss = rng.uniform(0.55, 0.9, M), rng.uniform(0.02, 0.15, M)
    item, who = np.nonzero(rng.random((N, M)) < np.where(truth[:, None], hit, miss))
    return pd.DataFrame({"item": item, "annotator": who, "label": "spam"}), np.where(truth, "spam", "ham")


def test_filled_lists_every_silence_once() -> None:
    said = np.array([["a", None, "b"], [None, None, None], ["b", "o", None]], object)
    a = Annotations.from_matrix(said).with_gold(["a", None, None])
    whole = filled(a, "o")
    expected = np.where(said == None, "o", said)  # noqa: E711 - by element
    np.testing.assert_array_equal(whole.classes[whole.label].reshape(3, 3), expected)
    np.testing.assert_array_equal(whole.annotator.reshape(3, 3), np.tile(np.arange(3), (3, 1)))
    assert whole.gold is not None
    assert list(whole.classes[whole.gold[:1]]) == ["a"]


def test_filled_keeps_answers_that_were_given_twice() -> None:
    frame = pd.DataFrame({"item": [0, 0, 1], "annotator": ["x", "x", "y"], "label": ["a", "b", "a"]})
    whole = filled(Annotations.from_frame(frame, duplicates="keep"), "b")
    assert sorted(zip(whole.item_of_label(), whole.annotator, whole.label, strict=True)) == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
    ]


@pytest.mark.parametrize("method", ["auto", "ds-em", "majority", "rob-symnmf+em", "propensity"])
def test_a_label_for_silence_answers_where_nobody_speaks(method: str) -> None:
    frame, truth = spotters()
    found = quietly(frame, method, silence="ham", items=range(300))
    labels = dict(zip(found.labels["item"], found.labels["label"], strict=True))
    wrong = np.mean([labels[n] != truth[n] for n in range(300)])
    assert wrong < 0.06
    assert found.run["silence"] == "ham"
    assert found.run["given_labels"] == len(frame)
    assert found.error_rate(dict(enumerate(truth))) == pytest.approx(100 * wrong)
    assert "spammer" not in " ".join(found.annotators["flags"])


def test_much_silence_is_counted_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, _ = spotters(seed=1)
    listed = quietly(frame, "propensity", silence="ham", items=range(300))
    for module in (consilience.api, consilience.data.silence):
        monkeypatch.setattr(module, "MOST_FILLED", 100)
    found = quietly(frame, silence="ham", items=range(300))
    assert found.run["chosen"] == "propensity"
    assert "too many to list" in found.run["why"]
    np.testing.assert_array_equal(found.posterior, listed.posterior)
    assert found.run["labels"] == len(frame)
    with pytest.raises(ParameterError, match=r"makes 2700 labels of 300 items and 9 annotators.*'auto'"):
        cs.aggregate(frame, "ds-em", silence="ham", items=range(300))


def test_a_label_is_found_by_its_text_and_numbers_stay_numbers() -> None:
    frame = pd.DataFrame({"item": [0, 1, 1], "annotator": ["x", "y", "x"], "label": [1, 2, 1]})
    for silence in ("0", 0):
        found = quietly(frame, "majority", silence=silence)
        assert list(found.model.classes) == [0, 1, 2]
        assert found.labels["label"].dtype == np.int64
    assert list(quietly(frame, "majority", silence="2").model.classes) == [1, 2]


def test_a_misspelt_meaning_is_no_label() -> None:
    with pytest.raises(ParameterError, match="did you mean 'random'"):
        cs.aggregate(spotters()[0], silence="ramdom")


def test_labels_on_disk_have_no_label_for_silence(tmp_path: Path) -> None:
    spotters()[0].to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(ParameterError, match="need labels in memory"):
        cs.aggregate(tmp_path / "labels.csv", engine="stream", silence="ham")


# ---- items that nobody labelled -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["list", "pandas", "polars", "series", "numpy"])
def test_items_are_added_once_in_every_form(form: str) -> None:
    frame = pd.DataFrame({"task": ["q", "p"], "worker": ["x", "y"], "label": ["a", "b"]})
    more = ["p", "r", "q", "s", "r"]
    items: Any = {
        "list": more,
        "pandas": pd.DataFrame({"task": more, "text": ""}),
        "polars": pl.DataFrame({"task": more}),
        "series": pd.Series(more),
        "numpy": np.array(more),
    }[form]
    a = Annotations.from_frame(frame, items=items, gold={"s": "a"})
    assert list(a.items) == ["q", "p", "r", "s"]
    np.testing.assert_array_equal(a.labels_per_item, [1, 1, 0, 0])
    np.testing.assert_array_equal(a.gold, [-1, -1, -1, 0])
    with pytest.raises(IdError, match="row 2"):
        Annotations.from_frame(frame, items=["p", None])


def test_random_silence_leaves_them_without_a_label_and_informative_silence_does_not(tmp_path: Path) -> None:
    frame, truth = spotters(seed=2)
    frame.loc[frame["annotator"] == 0, "label"] = "ham"  # two classes
    some = frame[frame["item"] < 200]
    by_chance = quietly(some, silence="random", items=range(300))
    assert by_chance.label_columns["label"].null_count == 300 - some["item"].nunique()
    chosen = quietly(some, silence="informative", items=range(300))
    assert chosen.label_columns["label"].null_count == 0
    assert not any("no label" in sentence for sentence in chosen.warnings)
    # the same run from a matrix, and from its own folder
    matrix = np.full((300, 9), None, object)
    matrix[some["item"], some["annotator"]] = some["label"]
    of_matrix = quietly(matrix, silence="informative")
    order = np.argsort(chosen.item_ids.to_numpy())
    np.testing.assert_allclose(of_matrix.posterior, chosen.posterior[order], atol=1e-9)
    chosen.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert again.labels.equals(chosen.labels)
    assert again.error_rate(dict(enumerate(truth))) == chosen.error_rate(dict(enumerate(truth)))
    assert again.items_per_class().sum() == 300


def test_a_row_without_annotator_and_label_declares_an_item(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,worker,label\na,x,1\nb,y,2\nc,,\na,y,1\n")
    with pytest.warns(DataWarning, match="1 of 4 rows have no label"):
        a = cs.read(tmp_path / "labels.csv")
    assert list(a.items) == ["a", "b", "c"]
    assert list(a.annotators) == ["x", "y"]
    np.testing.assert_array_equal(a.labels_per_item, [2, 1, 0])
    (tmp_path / "labels.csv").write_text("item,worker,label\na,x,1\nb,,2\n")
    with pytest.raises(IdError, match="no annotator in row 2"):
        cs.read(tmp_path / "labels.csv")


def test_all_of_a_snorkel_matrix_is_judged() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 800)
    spoken = rng.random((800, 8)) < np.where(truth[:, None] == np.arange(8) % 2, 0.4, 0.05)
    found = quietly(np.where(spoken, np.arange(8) % 2, -1))
    assert (~spoken.any(axis=1)).sum() > 10
    assert found.run["silence"] == "informative"
    assert found.label_columns["label"].null_count == 0
    assert set(found.annotator_columns["flags"].to_pylist()) == {""}
