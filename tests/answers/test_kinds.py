"""What answers are taken for: open only where classes make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.answers.conftest import open_crowd
from tests.conftest import random_model

import consilience as cs
from consilience.answers.kinds import examine_answers
from consilience.exceptions import DataWarning, ParameterError


def test_free_text_is_open_and_letters_are_nominal() -> None:
    text = open_crowd(100, 8, 5, seed=0).annotations
    letters = open_crowd(100, 8, 5, shared_names=True, seed=0).annotations
    assert text.n_classes > 200 > 20 > letters.n_classes
    taken = examine_answers(text)
    assert taken.kind == "open"
    assert f"there are {text.n_classes} different answers, each to 1.0 items on average" in taken.reason
    assert examine_answers(letters).kind == "nominal"


def test_a_column_of_times_is_not_free_text() -> None:
    """Where no two labels of an item ever agree, the column may be the wrong one: a warning would hide that."""
    times = cs.Annotations.from_matrix(np.array([f"12:{n:03}" for n in range(400)]).reshape(80, 5))
    assert examine_answers(times).kind == "nominal"


@pytest.mark.parametrize("n_items", [500, 5000])
def test_many_classes_that_items_share_stay_nominal(n_items: int) -> None:
    a, _ = random_model(6, 60, seed=0, skill=0.8).sample(n_items, labels_per_item=4, random_state=0)
    assert examine_answers(a).kind == "nominal"


@pytest.mark.parametrize("name", ["dog52", "music", "ws_semeval", "trec", "reuters_amt"])
def test_public_sets_of_classes_stay_nominal(name: str, data_folder: Path) -> None:
    files = list((data_folder / name).glob("labels.csv*"))
    if not files:
        pytest.skip(f"{name} is not there")
    frame = pd.read_csv(files[0])
    columns = dict(zip(("item", "annotator", "label"), frame.columns, strict=False))
    assert examine_answers(cs.Annotations.from_frame(frame, **columns)).kind == "nominal"


def lettered(accuracy: list[float], names: str, seed: int = 0) -> cs.Annotations:
    """Ten annotators of 600 items, right with a probability that depends on the class; other answers at random."""
    rng, K = np.random.default_rng(seed), len(accuracy)
    truth = rng.integers(0, K, 600)
    right = rng.random((600, 10)) < np.asarray(accuracy)[truth, None]
    labels = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, K, (600, 10))) % K)
    return cs.Annotations.from_matrix(np.array(list(names))[labels])


def test_letters_are_options_where_none_differs_from_another() -> None:
    taken = examine_answers(lettered([0.6] * 5, "ABCDE"))
    assert taken.kind == "open"
    assert "no letter from A to E differs from another" in taken.reason
    assert examine_answers(lettered([0.6] * 5, "VWXYZ")).kind == "nominal"
    assert examine_answers(lettered([0.9, 0.8, 0.6, 0.4, 0.3], "ABCDE")).kind == "nominal"
    assert examine_answers(lettered([0.6] * 3, "ABC")).kind == "nominal"


def test_letters_that_are_confused_in_pairs_are_classes() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 600)
    labels = np.where(rng.random((600, 10)) < 0.6, truth[:, None], truth[:, None] ^ 1)  # A with B, C with D
    assert examine_answers(cs.Annotations.from_matrix(np.array(list("ABCD"))[labels])).kind == "nominal"


@pytest.mark.usefixtures("data_folder")
def test_letters_of_multiple_choice_questions() -> None:
    crowd = cs.datasets.load("llm_mmlu_pro")
    assert examine_answers(crowd.annotations).kind == "open"


def test_a_run_records_what_it_took_answers_for() -> None:
    crowd = open_crowd(60, 8, 5, seed=0).annotations
    with pytest.warns(DataWarning, match=r"options are taken to differ from item to item \(answers='open'\)"):
        run = cs.aggregate(crowd)
    assert isinstance(run, cs.OpenRun)
    assert run.run["answers"] == "open"
    assert run.run["chosen"] == "open-answers"
    assert any("say answers='nominal'" in sentence for sentence in run.warnings)
    asked = cs.aggregate(crowd, answers="open")
    assert asked.warnings == []
    np.testing.assert_array_equal(asked.choice.best, run.choice.best)
    by_method = cs.aggregate(crowd, "open-answers")
    assert (by_method.run["chosen_by"], by_method.run["answers"]) == ("user", "open")
    for method in ("auto", "ds-em"):
        letters = cs.simulate(50, 6, 2, seed=0).annotations
        assert cs.aggregate(letters, method).run["answers"] == "nominal"
        assert cs.aggregate(letters, method).summary()["answers"] == "nominal"


def test_what_is_refused() -> None:
    crowd = open_crowd(30, 5, 3, seed=0).annotations
    with pytest.raises(
        ParameterError, match="answers must be one of auto, nominal, ordinal, multi, open, numeric, not 'ranked'"
    ):
        cs.aggregate(crowd, answers="ranked")
    with pytest.raises(ParameterError, match="answers='open' is for the method 'auto' or 'open-answers', not 'ds-em'"):
        cs.aggregate(crowd, "ds-em", answers="open")
    with pytest.raises(ParameterError, match="with open answers, silence can only be 'random'"):
        cs.aggregate(crowd, answers="open", silence="informative")
    assert cs.aggregate(crowd, answers="open", silence="random").run["answers"] == "open"
    with pytest.raises(ParameterError, match="open-answers, for open answers, has no parameter 'smoothing'"):
        cs.aggregate(crowd, answers="open", smoothing=0.1)
    with pytest.raises(ParameterError, match="tokens in order and items on a graph have nominal answers, not 'open'"):
        cs.aggregate(crowd, answers="open", graph=[(0, 1)])


@pytest.mark.parametrize(
    ("kind", "value", "taken", "said"),
    [
        ("rating", [1, 2, 3, 4, 5], "ordinal", "ratings"),
        ("number", [10, 20, 35, 40], "numeric", "numbers"),
        ("choices", ["1", "2", "3", "4"], "nominal", ""),
    ],
)
def test_a_file_that_states_the_kind(tmp_path: Path, kind: str, value: list[object], taken: str, said: str) -> None:
    """Label Studio's controls say what their answers are, however few there are."""

    def made(n: int, who: int) -> dict[str, object]:
        given = value[(n + who // 3) % len(value)]
        content = {kind: [given] if kind == "choices" else given}
        return {"completed_by": who, "result": [{"from_name": "q", "to_name": "t", "type": kind, "value": content}]}

    tasks = [{"id": n, "data": {"t": "x"}, "annotations": [made(n, who) for who in range(4)]} for n in range(12)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    found = examine_answers(cs.read(path))
    assert found.kind == taken
    assert said in found.reason


@pytest.mark.parametrize(("values", "taken"), [([1, 2, 3], "ordinal"), (["1", "2", "3"], "nominal")])
def test_whole_numbers_in_argilla_are_ratings(tmp_path: Path, values: list[object], taken: str) -> None:
    records = [
        {"id": n, "q.responses": [values[n % 3], values[(n + n // 3) % 3]], "q.responses.users": ["u", "v"]}
        for n in range(9)
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    assert examine_answers(cs.read(path)).kind == taken
