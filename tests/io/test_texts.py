"""What items show is read from every export that has it, and belongs to the right item."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.io.export_files import EXAMPLES

import consilience as cs
from consilience.data.ids import Ids
from consilience.data.texts import Texts, first_texts, is_link
from consilience.io.texts import text_in, text_name

#: Items and their texts in the example files.
TEXTS: dict[str, dict[Any, str]] = {
    "label-studio-json": {1: "text 1", 2: "text 2", 3: "text 3"},
    "label-studio-min": {1: "text 1", 2: "text 2"},
    "label-studio-csv": {1: "text 1", 2: "text 2"},
    "mturk": {"H1": "u1", "H2": "u2"},
    "mturk-options": {"H1": "u1", "H2": "u2"},
    "mturk-packed": {"H1": "u1"},
    "toloka": {"t1": "u1", "t2": "u2"},
    "appen": {100: "hi", 200: "late", 300: "both"},
    "prodigy": {11: "t11", 12: "t12"},
    "prodigy-binary": {11: "t11", 12: "t12"},
    "argilla": {"r1": "t", "r2": "t"},
    "argilla-nested": {"r2": "t"},
    "doccano-folder": {1: "x", 2: "y"},
    "doccano-zip": {1: "x", 2: "y"},
    "doccano-users": {1: "x"},
    "alpaca-eval": {asked: asked for asked in ("Why?", "How?", "When?")},
    "deepeval": {"case 0": "…", "case 1": "…"},
    "inspect-answers": {"s1": "question 1", "s2": "question 2", "s3": "question 3"},
    "inspect-eval": {"s1": "question 1", "s2": "question 2"},
    "inspect-stopped": {"s1": "question 1"},
    "inspect-graders": {"s1": "question 1"},
    "lm-eval-texts": {"0": "q0", "1": "q1", "2": "q2"},
    "promptfoo-lines": {"text 0": "text 0", "text 1": "text 1"},
    "inspect-scores": {"s1": "question 1", "s2": "question 2"},
    "lm-eval-choices": {"0": "q0", "1": "q1"},
    "lm-eval-filters": {"0": "q0", "1": "q1"},
    "promptfoo-answers": {"text 0": "text 0", "text 1": "text 1"},
    "promptfoo-scores": {"text 0/openai:a": "text 0", "text 1/openai:a": "text 1", "text 0/openai:b": "text 0"},
}


def read(path: Path, **options: Any) -> cs.Annotations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        return cs.read(path, **options)


def read_example(name: str, folder: Path) -> cs.Annotations:
    example = EXAMPLES[name]
    return read(example.put(folder), **({"question": example.question} if example.question else {}))


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_exports(name: str, tmp_path: Path) -> None:
    made = read_example(name, tmp_path)
    texts = made.origin.texts
    assert texts is not None
    found = dict(zip(made.items.tolist(), texts.of(made.item_ids.to_arrow()).to_pylist(), strict=True))
    assert found == TEXTS[name]


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(TEXTS)))
def test_other_exports_have_none(name: str, tmp_path: Path) -> None:
    made = read_example(name, tmp_path)
    assert getattr(made, "tokens", made).origin.texts is None


def test_questions_are_remembered(tmp_path: Path) -> None:
    asked = {"label-studio-json": "topic", "mturk": "category.label", "toloka": "result", "appen": "mood"}
    for name, question in asked.items():
        assert read(EXAMPLES[name].put(tmp_path)).origin.question == question
    (tmp_path / "plain.csv").write_text("task,worker,label\n1,a,x\n1,b,x\n2,a,y\n")
    assert read(tmp_path / "plain.csv").origin.question == ""


def test_two_posts_stand_one_after_the_other(tmp_path: Path) -> None:
    entry = {"annotators": "a,b", "annotations": {"a": "0", "b": "1"}, "text": {"post": "hello", "reply": "world"}}
    (tmp_path / "x.json").write_text(json.dumps({"1": {**entry, "soft_label": {}}}))
    assert read(tmp_path / "x.json").origin.texts.of([1]).to_pylist() == ["hello / world"]  # type: ignore[union-attr]


def test_the_first_text_of_an_item_is_its_own() -> None:
    item = np.array([2, 0, 2, -1, 1], np.int32)
    texts = first_texts(item, pa.array([None, "zero", "two", "nobody's", None]), Ids(["a", "b", "c"]))
    assert texts is not None
    assert texts.of(["c", "b", "a", "d"]).to_pylist() == ["two", None, "zero", None]
    assert first_texts(item, pa.array([None] * 5, pa.string()), Ids(["a", "b", "c"])) is None


def test_long_texts_are_cut_and_addresses_are_not() -> None:
    link = "https://example.org/" + "x" * 900
    texts = first_texts(np.arange(2), pa.array(["é" * 10_000, link]), Ids(["a", "b"]))
    assert isinstance(texts, Texts)
    assert [len(text) for text in texts.texts.to_pylist()] == [300, 920]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://example.org/1.jpg", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https://a b", False),
        ("see https://example.org", False),
        ("HTTPS://example.org", False),
        ("https://" + "x" * 3000, False),
    ],
)
def test_only_whole_web_addresses_are_links(text: str, is_one: bool) -> None:
    assert is_link(text) is is_one


def test_the_telling_field_is_chosen() -> None:
    assert text_name(["id", "title", "Text"]) == "Text"
    assert text_name(["id", "speaker"]) is None
    assert text_name(["HITId", "Input.speaker", "Input.image_url"], "Input.") == "Input.image_url"
    assert text_name(["HITId", "Input.speaker"], "Input.") == "Input.speaker"
    assert text_in({"speaker": "Ann", "n": 3}) is None
    assert text_in({"n": 3, "speaker": "Ann"}, described=True) == "Ann"
    assert text_in([1]) is None


def test_half_a_character_is_no_reason_to_stop(tmp_path: Path) -> None:
    task = {"id": 1, "data": {"text": "\ud800 half"}, "annotations": []}
    said = {"from_name": "q", "to_name": "t", "type": "choices", "value": {"choices": ["x"]}}
    task["annotations"] = [{"completed_by": n, "result": [said]} for n in range(3)]
    (tmp_path / "x.json").write_text(json.dumps([task]))
    texts = read(tmp_path / "x.json").origin.texts
    assert texts is not None
    assert texts.of([1]).to_pylist() == ["? half"]
