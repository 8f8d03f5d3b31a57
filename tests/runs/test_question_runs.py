"""Folders of runs with several questions: names that any file system takes, and damage that is noticed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consilience as cs
from consilience.exceptions import FormatError
from consilience.runs.question_runs import QuestionRuns, folder_names


@settings(derandomize=True, deadline=None)
@given(st.lists(st.text(max_size=200), unique=True, max_size=20))
def test_every_question_has_a_plain_name_of_its_own(questions: list[str]) -> None:
    names = folder_names(questions)
    assert list(names) == questions
    assert len({name.lower() for name in names.values()}) == len(questions)
    for name in names.values():
        assert name.isascii()
        assert name.replace("-", "").replace("_", "").isalnum()
        assert len(name) < 80


def test_names_tell_what_is_inside() -> None:
    wanted = {"topic": "topic", "../../etc": "etc", "Topic": "Topic-2", "日本": "question", "a/b c": "a_b_c"}
    assert folder_names(list(wanted)) == wanted


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        run = cs.aggregate(cs.simulate(30, 4, 2, seed=0).annotations, "majority")
    QuestionRuns({"a": run, "b": run}, "x.json", {"c": "textarea"}, {"d": "no labels"}).save(tmp_path / "runs")
    return tmp_path / "runs"


def test_what_was_saved_is_loaded(saved: Path) -> None:
    runs = QuestionRuns.load(saved)
    assert (list(runs), len(runs), runs.source) == (["a", "b"], 2, "x.json")
    assert (dict(runs.unsupported), dict(runs.failed)) == ({"c": "textarea"}, {"d": "no labels"})
    assert runs["a"].run["N"] == 30


def test_a_folder_outside_is_not_read(saved: Path) -> None:
    content = json.loads((saved / "summary.json").read_text("utf-8"))
    content["questions"][0]["folder"] = "../elsewhere"
    (saved / "summary.json").write_text(json.dumps(content), "utf-8")
    (saved / "checksums.json").unlink()
    with pytest.raises(FormatError, match="other folders"):
        QuestionRuns.load(saved)


@pytest.mark.parametrize(
    "broken", ['{"format": "consilience.QuestionRuns", "version": 1}', "[]", "{", '{"version": 2}']
)
def test_damage_is_a_sentence(saved: Path, broken: str) -> None:
    (saved / "summary.json").write_text(broken, "utf-8")
    with pytest.raises(FormatError):
        QuestionRuns.load(saved)


def test_a_changed_figure_is_noticed(saved: Path) -> None:
    content = json.loads((saved / "summary.json").read_text("utf-8"))
    content["questions"][0]["N"] = 31
    (saved / "summary.json").write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    with pytest.raises(FormatError, match=r"summary\.json is not as it was written"):
        QuestionRuns.load(saved)


def test_damage_inside_is_noticed(saved: Path) -> None:
    (saved / "b" / "labels.csv").write_text("item,label\n")
    with pytest.raises(FormatError, match=r"labels\.csv is not as it was written"):
        QuestionRuns.load(saved)
