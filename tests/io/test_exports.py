"""Exports of annotation tools: the right item, annotator, label and gold, and a note on what does not count."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.conftest import put
from tests.io.export_files import EXAMPLES, LABEL_STUDIO, TOKENS
from tests.io.export_making import Example

import consilience as cs
from consilience.exceptions import ColumnError, ConsilienceWarning, DataError, DataWarning, FormatError, ParameterError


def quiet(path: Path, **options: Any) -> cs.Annotations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.read(path, **options)


def rows_of(annotations: cs.Annotations) -> list[tuple[Any, Any, Any]]:
    table = annotations.to_frame("pyarrow")
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def gold_of(annotations: cs.Annotations) -> dict[Any, Any]:
    codes = [-1] * annotations.n_items if annotations.gold is None else annotations.gold.tolist()
    pairs = zip(annotations.items.tolist(), codes, strict=True)
    return {item: annotations.classes[code] for item, code in pairs if code >= 0}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_export_is_recognised_and_read(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    path = example.put(tmp_path)
    found = cs.recognise(path)
    assert found.name == example.name
    assert found.reason
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConsilienceWarning)
        annotations = cs.read(path, question=example.question)
    assert sorted(rows_of(annotations), key=repr) == sorted(example.rows, key=repr)
    assert gold_of(annotations) == example.gold
    assert annotations.items.tolist() == (example.items or list(dict.fromkeys(item for item, _, _ in example.rows)))
    notes = annotations.origin.notes
    assert len(notes) == len(example.notes)
    for note, beginning in zip(notes, example.notes, strict=True):
        assert note.startswith(beginning)
    assert [str(w.message) for w in caught if issubclass(w.category, DataWarning)] == [
        f"{path.name}: {n}" for n in notes
    ]
    assert annotations.origin.read_as.startswith(found.title)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_format_can_be_named_whatever_the_file_is_called(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    path = example.put(tmp_path)
    there = path.rename(tmp_path / "exported")
    annotations = quiet(there, format=example.name, question=example.question)
    assert annotations == quiet(there.rename(path), question=example.question)


@pytest.mark.parametrize("name", TOKENS)
def test_labels_of_tokens_are_recognised_and_read_as_such(tmp_path: Path, name: str) -> None:
    path = TOKENS[name].put(tmp_path)
    assert cs.recognise(path).name == name
    tokens: Any = cs.read(path)
    assert isinstance(tokens, cs.SequenceAnnotations)
    assert tokens.tokens == cs.read_sequences(path).tokens
    assert tokens.tokens.origin.read_as == str(cs.recognise(path))
    with pytest.raises(ParameterError, match="item='x' names a column of a table"):
        cs.read(path, item="x")


# ---- the examples of the tools themselves ---------------------------------------------------------------------------

SHARED: dict[str, dict[str, Any]] = {
    "crowdkit_long.csv": {"name": "csv", "rows": [(1, "w1", "cat"), (1, "w2", "dog"), (2, "w1", "dog")]},
    "cleanlab_wide.csv": {"name": "wide", "rows": [(1, "w1", 0), (1, "w2", 1), (2, "w1", 1), (2, "w3", 1)]},
    "snorkel_L.txt": {"name": "snorkel", "rows": [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 2, 1)], "items": [0, 1, 2]},
    "label_studio.json": {"name": "label-studio", "rows": [(1, 10, "animal"), (1, 11, "plant")]},
    "ls_min/result.json": {"name": "label-studio", "rows": [(1, "ann@x.org", "plant"), (1, "10", "animal")]},
    "ls_csv/result.csv": {"name": "label-studio", "rows": [(1, "ann@x.org", "plant"), (1, "10", "animal")]},
    "mturk_batch_results.csv": {"name": "mturk", "rows": [("3H1", "AWORKER1", "cat")]},
    "toloka_assignments.tsv": {
        "name": "toloka",
        "rows": [("t1", "w1", "cat"), ("t2", "w1", "dog")],
        "gold": {"t2": "dog"},
    },
    "appen_full.csv": {
        "name": "appen",
        "rows": [(681448150, 3131, "neutral"), (681448153, 4242, "negative")],
        "gold": {681448153: "positive"},
    },
    "prodigy.jsonl": {"name": "prodigy", "rows": [(11, "ds-alice", "animal")], "items": [11, 12]},
    "argilla_flat.jsonl": {"name": "argilla", "rows": [("r1", "0f..a", "animal")]},
    "doccano_zip": {"name": "doccano", "rows": [(1, "alice", "positive"), (1, "bob", "negative")]},
    "ground_truth_manifest.jsonl": {
        "name": "ground-truth",
        "rows": [("s3://b/1.jpg", "private.us-east-1.16", "cat"), ("s3://b/1.jpg", "private.us-east-1.ef", "dog")],
    },
    "lewidi.json": {"name": "lewidi", "rows": [(1, "Ann0", "0"), (1, "Ann10", "1")]},
    "peerannot_answers.json": {"name": "peerannot", "rows": [(0, "w1", 2), (0, "w2", 2), (1, "w1", 0)]},
    "mtbench_judgments.jsonl": {
        "name": "mt-bench",
        "question": "winner",
        "rows": [("81/m1 vs m2/turn 1", "gpt-4", "tie"), ("82/m1 vs m2/turn 1", "claude-v1", "model_2")],
    },
    "conll_amt.txt": {"name": "conll"},
    "brat": {"name": "brat"},
}


@pytest.fixture
def formats_folder() -> Path:
    """The folder of examples, next to that of the data sets, or a skip."""
    folder = Path(os.environ.get("CONSILIENCE_DATA", "")).parent / "formats"
    if not os.environ.get("CONSILIENCE_DATA") or not folder.is_dir():
        pytest.skip("there is no folder formats next to the one that CONSILIENCE_DATA names")
    return folder


@pytest.mark.parametrize("name", SHARED)
def test_the_examples_of_the_tools(formats_folder: Path, name: str) -> None:
    expected, path = SHARED[name], formats_folder / name
    assert cs.recognise(path).name == expected["name"]
    annotations: Any = quiet(path, question=expected.get("question"))
    if "rows" not in expected:
        assert isinstance(annotations, cs.SequenceAnnotations)
        return
    assert sorted(rows_of(annotations), key=repr) == sorted(expected["rows"], key=repr)
    assert gold_of(annotations) == expected.get("gold", {})
    if "items" in expected:
        assert annotations.items.tolist() == expected["items"]


def test_no_example_is_forgotten(formats_folder: Path) -> None:
    files = {path.relative_to(formats_folder).as_posix() for path in formats_folder.rglob("*") if path.is_file()}
    covered = {name for name in files if any(name == known or name.startswith(known + "/") for known in SHARED)}
    assert files == covered


# ---- several questions ----------------------------------------------------------------------------------------------


def test_several_questions_are_listed_and_one_can_be_chosen(tmp_path: Path) -> None:
    path = EXAMPLES["mt-bench-pairs"].put(tmp_path)
    with pytest.raises(ColumnError, match=r"several questions: 'score', 'winner'\. Say which .*--question"):
        cs.read(path)
    with pytest.raises(ColumnError, match=r"no question 'colour'\. Its questions are 'score', 'winner'"):
        cs.read(path, question="colour")


def test_questions_of_mechanical_turk_have_short_names(tmp_path: Path) -> None:
    header = "HITId,WorkerId,AssignmentStatus,Answer.topic.label,Answer.sure.label\n"
    path = put(tmp_path, "two.csv", header + "H1,W1,Approved,cat,yes\nH1,W2,Approved,dog,no\n")
    with pytest.raises(ColumnError, match=r"'topic\.label', 'sure\.label'"):
        cs.read(path)
    for name in ("Answer.topic.label", "topic.label", "topic"):
        assert quiet(path, question=name).classes.tolist() == ["cat", "dog"]


def test_questions_of_label_studio(tmp_path: Path) -> None:
    def control(name: str, kind: str, **value: Any) -> dict[str, Any]:
        return {"from_name": name, "to_name": "text", "type": kind, "value": value}

    made = [
        control("topic", "choices", choices=["a"]),
        control("stars", "rating", rating=4),
        control("where", "labels", start=0, end=3, labels=["X"]),
        control("topic", "choices", start=0, end=3, choices=["of a region"]),
        control("path", "taxonomy", taxonomy=[["animal", "cat"]]),
    ]
    task = {"id": 1, "data": {"text": "t"}, "annotations": [{"completed_by": 1, "result": made}]}
    path = put(tmp_path, "export.json", json.dumps([task]))
    with pytest.raises(ColumnError, match="several questions: 'topic', 'stars', 'path'"):
        cs.read(path)
    assert rows_of(quiet(path, question="stars")) == [(1, 1, 4)]
    assert rows_of(quiet(path, question="topic")) == [(1, 1, "a")]
    assert rows_of(quiet(path, question="path")) == [(1, 1, "animal/cat")]
    task["annotations"] = [{"completed_by": 1, "result": [made[2]]}]
    with pytest.raises(DataError, match=r"its results are of type 'labels', but only 'choices', .*read_sequences"):
        cs.read(put(tmp_path, "export.json", json.dumps([task])))


_PEOPLE = [
    {"id": 7, "email": "ann@example.org", "first_name": "Ann", "last_name": "Lee"},
    {"id": 8, "email": "bob@example.org", "first_name": "Ann", "last_name": "Lee"},
    {"id": 9, "email": "cy@example.org", "first_name": "Cy", "last_name": ""},
]


def _seven_controls(**controls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tasks in which everybody gives the same answer to each control, of a type and with a value."""
    result = [
        {"from_name": name, "to_name": "image", "type": kind, "value": value}
        for name, (kind, value) in controls.items()
    ]
    made = [{"id": person["id"], "completed_by": person, "result": result} for person in _PEOPLE]
    return [{"id": n, "data": {"image": f"{n}.jpg"}, "annotations": made} for n in range(3)]


_BOX = {"x": 1.0, "y": 2.0, "width": 3.0, "height": 4.0, "rectanglelabels": ["cat"]}
_SEVERAL = _seven_controls(
    mood=("choices", {"choices": ["good"]}),
    stars=("rating", {"rating": 3}),
    box=("rectanglelabels", _BOX),
    why=("textarea", {"text": ["because"]}),
)


def test_controls_that_are_not_supported_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, "export.json", json.dumps(_SEVERAL))
    with pytest.raises(ColumnError, match=r"'mood', 'stars'\. .* Not supported: 'box' \(rectanglelabels\), 'why'"):
        cs.read(path)
    with pytest.raises(
        ColumnError, match=r"'box' are of type 'rectanglelabels', which is not supported.*'mood', 'stars'"
    ):
        cs.read(path, question="box")
    assert quiet(path, question="mood").n_labels == 9


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_columns_of_regions_are_named_in_flat_exports(tmp_path: Path, kind: str) -> None:
    rows = [
        {"image": f"{n}.jpg", "id": n, "mood": mood, "box": [_BOX], "annotator": who, "annotation_id": 10 * n + who}
        for n in range(3)
        for who, mood in enumerate(["good", "bad", "good"])
    ]
    rows = [{**row, "lead_time": 1.5} for row in rows]
    text = json.dumps(rows)
    if kind == "csv":
        header = ",".join(rows[0])
        cells = [[json.dumps(v) if isinstance(v, list) else str(v) for v in row.values()] for row in rows]
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
        text = "\n".join([header, *quoted]) + "\n"
    path = put(tmp_path, f"export.{kind}", text)
    assert cs.read(path).origin.label == "mood"
    with pytest.raises(ColumnError, match="'box' are of type 'region', which is not supported"):
        cs.read(path, question="box")


def test_annotators_are_shown_by_email_or_name(tmp_path: Path) -> None:
    path = put(tmp_path, "export.json", json.dumps(_SEVERAL))
    by_email = quiet(path, question="mood", annotator="email")
    assert by_email.annotators.tolist() == [person["email"] for person in _PEOPLE]
    assert by_email.origin.annotator == "email"
    assert quiet(path, question="mood", annotator="id") == quiet(path, question="mood")
    with (
        pytest.warns(DataWarning, match="1 annotators share their 'name' with another"),
        pytest.warns(DataWarning, match="3 labels repeat an answer"),
    ):
        assert cs.read(path, question="mood", annotator="name").annotators.tolist() == ["Ann Lee", "Cy"]
    with pytest.raises(ColumnError, match="has no 'username' of annotators, only 7"):
        cs.read(path, question="mood", annotator="username")
    with pytest.raises(ParameterError, match="can be shown by 'id', 'email', 'name', 'username', not 'nick'"):
        cs.read(path, question="mood", annotator="nick")


def test_a_question_where_there_can_be_none(tmp_path: Path) -> None:
    for name in ("csv-table", "wide", "lewidi", "peerannot", "doccano-folder", "snorkel-npy"):
        with pytest.raises(ParameterError, match=r"question='x' is for exports with several questions"):
            cs.read(EXAMPLES[name].put(tmp_path), question="x")


def test_answers_are_distinguished_from_the_data_of_the_task(tmp_path: Path) -> None:
    """In flat exports, what differs between the annotators of an item is the answer."""
    header = "id,annotator,annotation_id,lead_time,image,hint,verdict\n"
    rows = [
        f"{n},a{m},{n}{m},1,http://x/{n}.jpg,hint,{'yes' if (n + m) % 3 else 'no'}\n" for n in range(5) for m in (1, 2)
    ]
    assert quiet(put(tmp_path, "result.csv", header + "".join(rows))).origin.label == "verdict"
    same = [f"{n},a{m},{n}{m},1,http://x/{n}.jpg,{n % 2},{n % 3}\n" for n in range(6) for m in (1, 2)]
    with pytest.raises(ColumnError, match="several questions: 'hint', 'verdict'"):
        cs.read(put(tmp_path, "result.csv", header + "".join(same)))
    appen = "_unit_id,_worker_id,_ip,text,mood\n1,7,x,t1,good\n1,8,x,t1,bad\n2,7,x,t2,bad\n"
    assert quiet(put(tmp_path, "full.csv", appen)).origin.label == "mood"


# ---- ids and personal columns ---------------------------------------------------------------------------------------


def test_an_email_is_taken_only_where_there_is_no_other_id(tmp_path: Path) -> None:
    annotations = quiet(EXAMPLES["label-studio-json"].put(tmp_path))
    assert "example.org" not in str(annotations.to_frame("pyarrow").to_pylist())
    task = json.loads(json.dumps(LABEL_STUDIO[:1]))
    task[0]["annotations"][1]["completed_by"] = {"email": "ann@example.org"}
    annotations = quiet(put(tmp_path, "emails.json", json.dumps(task)))
    assert annotations.annotators.tolist() == ["10", "ann@example.org"]


@pytest.mark.parametrize("name", ["mturk", "appen", "toloka", "label-studio-json", "prodigy", "ground-truth"])
def test_nothing_else_of_an_export_gets_into_the_annotations(tmp_path: Path, name: str) -> None:
    annotations = quiet(EXAMPLES[name].put(tmp_path))
    assert len(annotations.to_frame("pyarrow").column_names) == 3
    texts = annotations.origin.texts  # what the items show, and nothing of the annotators
    shown = [] if texts is None else texts.texts.to_pylist()
    told = str([*annotations.items, *annotations.annotators, *annotations.classes, annotations.origin, *shown])
    assert not any(secret in told for secret in ("1.2.3.", "example.org", "http"))


def test_the_item_of_an_export_can_be_another_column(tmp_path: Path) -> None:
    assert quiet(EXAMPLES["mturk"].put(tmp_path), item="Input.url").items.tolist() == ["u1", "u2"]
    assert quiet(EXAMPLES["toloka"].put(tmp_path), item="INPUT:image").items.tolist() == ["u1", "u2"]
    assert quiet(EXAMPLES["label-studio-json"].put(tmp_path), item="text").items.tolist() == [
        "text 1",
        "text 2",
        "text 3",
    ]
    assert quiet(EXAMPLES["wide"].put(tmp_path), item="item").items.tolist() == ["q1", "q2", "q3"]
    with pytest.raises(ColumnError, match="no column 'nonsense'"):
        cs.read(EXAMPLES["mturk"].put(tmp_path), item="nonsense")
    older = "INPUT:a\tINPUT:b\tOUTPUT:x\tASSIGNMENT:worker_id\n1\t2\tcat\tw1\n1\t3\tdog\tw1\n"
    assert quiet(put(tmp_path, "older.tsv", older)).items.tolist() == ["1 | 2", "1 | 3"]


def test_naming_annotator_and_label_reads_any_table_as_a_long_one(tmp_path: Path) -> None:
    path = EXAMPLES["mturk"].put(tmp_path)
    options = {"item": "HITId", "annotator": "WorkerId", "label": "Answer.category.label"}
    assert quiet(path, **options).n_labels == 4, "rejected ones too: that is what was asked for"
    with pytest.raises(ParameterError, match="label='x' names a column of a table, but the format is 'mturk'"):
        cs.read(path, format="mturk", label="x")


# ---- truths in the file ---------------------------------------------------------------------------------------------


def test_truths_that_contradict_each_other_are_none(tmp_path: Path) -> None:
    text = EXAMPLES["toloka"].content
    assert isinstance(text, bytes)
    path = put(tmp_path, "assignments.tsv", text.replace(b"u2\tcat\tdog\tt2", b"u2\tcat\tcat\tt2"))
    annotations = quiet(path)
    assert annotations.gold is None
    assert "1 items have several different truths in the file, and so none" in annotations.origin.notes


def test_gold_that_is_given_takes_the_place_of_that_in_the_file(tmp_path: Path) -> None:
    assert gold_of(quiet(EXAMPLES["toloka"].put(tmp_path), gold={"t1": "dog"})) == {"t1": "dog"}


def test_gold_of_a_file_is_held_fixed(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        labels = cs.aggregate(cs.read(EXAMPLES["wide"].put(tmp_path)), "ds-em").labels
    assert labels["label"].tolist()[::2] == ["cat", "bird"]
    assert labels["confidence"].tolist()[::2] == [1.0, 1.0]


# ---- what can be taken for something else ---------------------------------------------------------------------------

LONG = {
    "unknown-names.csv": "picture,who,said\np1,ann,cat\np1,bob,dog\np2,ann,dog\n",
    "item-known.csv": "task,who,said\n1,ann,cat\n1,bob,dog\n2,ann,dog\n",
    "item-known-once.csv": "task,who,said\n1,ann,cat\n2,bob,dog\n3,cy,dog\n",
    "all-numbers.csv": "a,b,c\n1,1,0\n1,2,1\n2,1,1\n2,2,0\n3,1,1\n",
    "repeated-items.csv": "id,x,y,z\n1,a,b,a\n1,b,b,a\n2,a,a,a\n",
    "texts.csv": "id,text,reply,author\n1,good day,hello,ann\n2,how are you,fine,bob\n",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_table_is_not_taken_for_a_wide_one(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, LONG[name])
    assert cs.recognise(path).name == "csv"
    with pytest.raises(ColumnError, match=rf"{name} has no [\w ,]+ column"):
        cs.read(path)


def test_numbers_without_a_header_are_a_matrix_only_with_minus_one(tmp_path: Path) -> None:
    path = put(tmp_path, "numbers.csv", "1,1,0\n1,2,1\n2,1,1\n")
    with pytest.raises(ColumnError, match="no item, annotator or label column"):
        cs.read(path)
    assert quiet(path, format="snorkel").n_labels == 9


def test_a_wide_table_can_use_minus_one(tmp_path: Path) -> None:
    annotations = quiet(put(tmp_path, "wide.csv", "id,w1,w2,w3\na,0,1,-1\nb,1,-1,1\nc,0,0,-1\n"))
    assert annotations.n_labels == 6
    assert annotations.origin.notes == ("3 of 9 cells are -1 and were taken as missing",)


def test_a_wide_table_is_the_same_as_its_long_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    matrix = rng.integers(-1, 4, (60, 7))
    text = "item," + ",".join(f"a{m}" for m in range(7)) + "\n"
    text += "".join(f"i{n}," + ",".join("" if v < 0 else f"c{v}" for v in row) + "\n" for n, row in enumerate(matrix))
    long = "item,annotator,label\n" + "".join(
        f"i{n},a{m},c{matrix[n, m]}\n" for n in range(60) for m in range(7) if matrix[n, m] >= 0
    )
    wide, narrow = quiet(put(tmp_path, "wide.csv", text)), quiet(put(tmp_path, "long.csv", long))
    assert sorted(rows_of(wide)) == sorted(rows_of(narrow))
    assert wide.n_items == 60


UNKNOWN = {
    "notes.json": '{"a": [1, 2], "b": "c"}',
    "words.json": '["a", "b"]',
    "people.json": '[{"name": "Ann", "age": 7}]',
    "labels.dat": "task,worker,label\n1,a,x\n",
    "other.zip": EXAMPLES["doccano-zip"].content.replace(b"alice.csv", b"alice.exe"),  # type: ignore[union-attr]
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_gets_the_list_of_what_was_looked_for(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, UNKNOWN[name])
    with pytest.raises(FormatError, match="format not recognised") as caught:
        cs.read(path)
    for tool in ("Label Studio", "Mechanical Turk", "Toloka", "Appen", "Prodigy", "Argilla", "doccano", "Ground Truth"):
        assert tool in str(caught.value)
    for tool in ("LeWiDi", "peerannot", "MT-Bench", "Snorkel", "wide", "CoNLL", "brat", "format='csv'"):
        assert tool in str(caught.value)


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    path = EXAMPLES["csv-table"].put(tmp_path)
    with pytest.raises(FormatError, match=r"labels\.csv cannot be read as Label Studio: expected JSON records or"):
        cs.read(path, format="label-studio")
    with pytest.raises(ColumnError, match="no column 'HITId'"):
        cs.read(path, format="mturk")
    with pytest.raises(ParameterError, match=r"there is no format 'xls'\. The formats are csv, .*label-studio.*brat"):
        cs.recognise(path, "xls")
    with pytest.raises(ParameterError, match=r"there is no format 'labelstudio'; did you mean 'label-studio'\?$"):
        cs.recognise(path, "labelstudio")


def test_only_the_consolidated_label_of_ground_truth(tmp_path: Path) -> None:
    line = {"source-ref": "s3://b/1", "sport": 0, "sport-metadata": {"class-name": "football", "confidence": 0.9}}
    with pytest.raises(DataError, match="only the label that Ground Truth computed from them"):
        cs.read(put(tmp_path, "output.manifest", json.dumps(line) + "\n"))


def test_two_jobs_in_one_manifest(tmp_path: Path) -> None:
    def job(**answer: Any) -> dict[str, Any]:
        content = json.dumps(answer)
        return {"annotationsFromAllWorkers": [{"workerId": "w1", "annotationData": {"content": content}}]}

    line = {
        "source": "a text",
        "one": job(mood={"good": True, "bad": False}),
        "two": job(topic="x"),
        "one-metadata": {},
    }
    path = put(tmp_path, "output.manifest", json.dumps(line) + "\n")
    with pytest.raises(ColumnError, match="'one/mood', 'two/topic'"):
        cs.read(path)
    assert rows_of(quiet(path, question="one")) == [("a text", "w1", "good")]
    assert rows_of(quiet(path, question="topic")) == [("a text", "w1", "x")]


def test_a_judge_with_several_prompts_for_the_same_is_several(tmp_path: Path) -> None:
    lines = [
        {"question_id": 1, "model_a": "x", "model_b": "y", "winner": "model_a", "judge": ["gpt-4", prompt], "turn": 1}
        for prompt in ("pair-v1", "pair-v2")
    ]
    path = put(tmp_path, "judgments.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert quiet(path).annotators.tolist() == ["gpt-4/pair-v1", "gpt-4/pair-v2"]
    lines[1]["question_id"] = 2
    path = put(tmp_path, "judgments.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert quiet(path).annotators.tolist() == ["gpt-4"]


@pytest.mark.parametrize("name", ["label-studio-json", "prodigy", "mturk", "argilla", "peerannot"])
def test_gzipped_exports(tmp_path: Path, name: str) -> None:
    import gzip

    example: Example = EXAMPLES[name]
    assert isinstance(example.content, bytes)
    path = put(tmp_path, example.file + ".gz", gzip.compress(example.content))
    assert quiet(path) == quiet(example.put(tmp_path))


def test_spans_are_pointed_to_where_they_are_read(tmp_path: Path) -> None:
    spans = '{"id": 1, "text": "EU", "label": [[0, 2, "ORG"]]}\n'
    with pytest.raises(DataError, match="spans of text or relations, which are not labels of whole items"):
        cs.read(put(tmp_path, "admin.jsonl", spans))
    marked = '{"text": "EU", "spans": [{"start": 0, "end": 2, "label": "ORG"}], "answer": "accept", "_input_hash": 1}\n'
    with pytest.raises(DataError, match="spans of text, which are not labels of whole items"):
        cs.read(put(tmp_path, "ner.jsonl", marked))


def test_questions_of_prodigy(tmp_path: Path) -> None:
    """Whether each of several labels applies: a question for each."""

    def told(label: str, answer: str, who: str) -> str:
        return json.dumps({"_input_hash": 5, "label": label, "answer": answer, "_session_id": who}) + "\n"

    text = told("A", "accept", "x") + told("B", "reject", "x") + told("A", "reject", "y")
    path = put(tmp_path, "teach.jsonl", text)
    with pytest.raises(ColumnError, match="several questions: 'A', 'B'"):
        cs.read(path)
    assert rows_of(quiet(path, question="A")) == [(5, "x", "accept"), (5, "y", "reject")]
    assert rows_of(quiet(path, question="B")) == [(5, "x", "reject")]


@pytest.mark.parametrize("name", TOKENS)
def test_aggregate_takes_the_path_of_labels_of_tokens(tmp_path: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        assert isinstance(cs.aggregate(TOKENS[name].put(tmp_path)), cs.SequenceRun)


def test_what_was_recognised_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "consilience")
    quiet(EXAMPLES["toloka"].put(tmp_path))
    assert "assignments.tsv: Toloka assignments (its header has 'ASSIGNMENT:worker_id' and 'OUTPUT:…')" in caplog.text


def test_a_wide_table_of_thousands_of_annotators(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 3, (6, 8_000))
    text = "item," + ",".join(f"annotator{m}" for m in range(8_000)) + "\n"
    text += "".join(f"i{n}," + ",".join(["", "cat", "dog"][v] for v in row) + "\n" for n, row in enumerate(matrix))
    path = put(tmp_path, "wide.csv", text)
    assert cs.recognise(path).name == "wide"
    annotations = cs.read(path)
    assert (annotations.n_items, annotations.n_annotators) == (6, 8_000)
    assert annotations.n_labels == int((matrix > 0).sum())
