"""Small exports of every tool, written after what their makers document, and what is in them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from tests.io.export_making import Example, as_array, as_json, as_lines, as_parquet, as_table, as_zip
from tests.io.log_files import LOGS

_NOW = "2026-01-02T10:00:00Z"


def _choice(control: str, *choices: str) -> dict[str, Any]:
    value = {"choices": list(choices)}
    return {"id": "x", "from_name": control, "to_name": "text", "type": "choices", "value": value}


def _task(n: int, *made: dict[str, Any]) -> dict[str, Any]:
    return {"id": n, "project": 7, "data": {"text": f"text {n}"}, "annotations": list(made), "predictions": []}


def _by(who: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 1, "completed_by": who, "result": list(results), "was_cancelled": False, "created_at": _NOW, **more}


LABEL_STUDIO = [
    _task(
        1,
        _by(10, _choice("topic", "animal"), ground_truth=False),
        _by({"id": 11, "email": "ann@example.org", "first_name": "Ann"}, _choice("topic", "plant")),
        _by(12, was_cancelled=True),
    ),
    _task(2, _by(11, _choice("topic", "stone"), ground_truth=True), _by(10, _choice("topic", "plant", "animal"))),
    _task(3),
]

_MIN = [
    {
        "text": "text 1",
        "id": 1,
        "topic": "plant",
        "annotator": "ann@example.org",
        "annotation_id": 5,
        "created_at": _NOW,
    },
    {"text": "text 1", "id": 1, "topic": "animal", "annotator": 10, "annotation_id": 6, "created_at": _NOW},
    {
        "text": "text 2",
        "id": 2,
        "topic": {"choices": ["b", "a"]},
        "annotator": 10,
        "annotation_id": 7,
        "lead_time": 2.0,
    },
]

_MTURK = ("HITId", "SubmitTime", "AssignmentId", "WorkerId", "AssignmentStatus", "Input.url")
_TOLOKA = ("INPUT:image", "OUTPUT:result", "GOLDEN:result", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id")
_APPEN = ("_unit_id", "_created_at", "_golden", "_tainted", "_trust", "_worker_id", "_ip", "mood", "mood_gold", "text")


def _prodigy(n: int, who: str, answer: str, **more: Any) -> dict[str, Any]:
    return {"text": f"t{n}", "answer": answer, "_input_hash": n, "_timestamp": 1767600000, "_annotator_id": who, **more}


def _pair(question: int, first: str, second: str, g1: str, g2: str, judge: str) -> dict[str, Any]:
    models = {"model_1": first, "model_2": second, "g1_winner": g1, "g2_winner": g2}
    return {"question_id": question, **models, "judge": [judge, "pair-v2"], "turn": 1, "tstamp": 1.7e9}


def _score(question: int, score: float, judge: str) -> dict[str, Any]:
    return {"question_id": question, "model": "m1", "score": score, "judge": [judge, "single-v1"], "turn": 1}


_JUDGMENTS = as_lines(
    _score(81, 8, "gpt-4"),
    _score(81, -1, "claude-v1"),
    _pair(81, "m1", "m2", "model_1", "model_1", "gpt-4"),
    _pair(81, "m2", "m1", "model_2", "model_2", "claude-v1"),
    _pair(82, "m1", "m2", "model_1", "tie", "gpt-4"),
    _pair(82, "m1", "m2", "error", "model_2", "claude-v1"),
    _pair(83, "m1", "m2", "error", "error", "gpt-4"),
)


def _worker(name: str, **answer: Any) -> dict[str, Any]:
    return {"workerId": name, "annotationData": {"content": json.dumps(answer)}}


_MANIFEST = as_lines(
    {
        "source-ref": "s3://b/1.jpg",
        "job": {
            "annotationsFromAllWorkers": [
                _worker("w1", response={"label": "cat"}),
                _worker("w2", response={"label": "dog"}),
            ]
        },
        "job-metadata": {"type": "groundtruth/custom", "human-annotated": "yes"},
    },
    {
        "source-ref": "s3://b/2.jpg",
        "job": {"annotationsFromAllWorkers": [_worker("w1", response={"label": "dog"})]},
        "job-metadata": {"type": "groundtruth/custom"},
    },
)

_FLAT = {
    "id": "r1",
    "text": "t",
    "topic.responses": ["animal", "plant", "stone"],
    "topic.responses.users": ["u1", "u2", "u3"],
    "topic.responses.status": ["submitted", "discarded", "draft"],
    "topic.suggestion": "stone",
}
_NESTED = {
    "id": "r2",
    "fields": {"text": "t"},
    "metadata": {},
    "suggestions": {},
    "responses": {"topic": [{"value": "animal", "user_id": "u1"}, {"value": ["b", "a"], "user_id": "u2"}]},
}

_LEWIDI = {
    "1": {"annotators": "Ann0,Ann1", "annotations": {"Ann0": "0", "Ann1": "1"}, "soft_label": {"0.0": 0.5, "1.0": 0.5}},
    "2": {"annotators": "Ann0,Ann2", "annotations": {"Ann0": "1", "Ann2": "1"}, "soft_label": {"1.0": 1.0}},
}
_LEWIDI_2 = {
    "7": {"annotators": "Ann0,Ann1", "annotations": "0,1", "hard_label": "1", "soft_label": {"0": 0.5, "1": 0.5}},
}

EXAMPLES: dict[str, Example] = {
    **LOGS,
    "label-studio-json": Example(
        "export.json",
        as_json(LABEL_STUDIO),
        "label-studio",
        [(1, 10, "animal"), (1, 11, "plant"), (2, 10, "animal|plant")],
        gold={2: "stone"},
        notes=("1 of 5 annotations were left out: cancelled", "1 of 5 annotations were left out: ground truth"),
        items=[1, 2, 3],
    ),
    "label-studio-min": Example(
        "result.json",
        as_json(_MIN),
        "label-studio",
        [(1, "ann@example.org", "plant"), (1, "10", "animal"), (2, "10", "a|b")],
    ),
    "label-studio-csv": Example(
        "result.csv",
        as_table(
            ("annotation_id", "annotator", "created_at", "id", "lead_time", "text", "topic", "updated_at"),
            (5, "ann@example.org", _NOW, 1, 2.9, "text 1", "plant", "x"),
            (6, 10, "x", 1, 2.9, "text 1", "animal", "x"),
            (7, 10, "x", 2, 2.9, "text 2", '"{""choices"": [""b"", ""a""]}"', "x"),
        ),
        "label-studio",
        [(1, "ann@example.org", "plant"), (1, "10", "animal"), (2, "10", "a|b")],
    ),
    "mturk": Example(
        "Batch_1_batch_results.csv",
        as_table(
            (*_MTURK, "Answer.category.label", "Approve", "Reject"),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A1", "W1", "Approved", "u1", "cat", "", ""),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A2", "W2", "Rejected", "u1", "dog", "", ""),
            ("H2", "Mon Jan 05 11:00:00 PST 2026", "A3", "W1", "Submitted", "u2", "dog", "", ""),
            ("H2", "Mon Jan 05 11:00:00 PST 2026", "A4", "W3", "Submitted", "u2", "cat", "", "too fast"),
        ),
        "mturk",
        [("H1", "W1", "cat"), ("H2", "W1", "dog")],
        notes=("2 of 4 assignments were left out: rejected",),
    ),
    "mturk-options": Example(
        "options.csv",
        as_table(
            (*_MTURK, "Answer.mood.good", "Answer.mood.bad"),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A1", "W1", "Approved", "u1", "true", "false"),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A2", "W2", "Approved", "u1", "false", "true"),
            ("H2", "Mon Jan 05 11:00:00 PST 2026", "A3", "W1", "Approved", "u2", "true", "true"),
        ),
        "mturk",
        [("H1", "W1", "good"), ("H1", "W2", "bad"), ("H2", "W1", "bad|good")],
    ),
    "mturk-packed": Example(
        "packed.csv",
        as_table(
            (*_MTURK, "Answer.taskAnswers"),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A1", "W1", "Approved", "u1", '"[{""cat"":{""label"":""x""}}]"'),
            ("H1", "Mon Jan 05 10:00:00 PST 2026", "A2", "W2", "Approved", "u1", '"[{""cat"":{""label"":""y""}}]"'),
        ),
        "mturk",
        [("H1", "W1", "x"), ("H1", "W2", "y")],
    ),
    "toloka": Example(
        "assignments.tsv",
        as_table(
            (*_TOLOKA, "ASSIGNMENT:status"),
            ("u1", "cat", "", "t1", "w1", "APPROVED"),
            ("u2", "dog", "dog", "t2", "w1", "APPROVED"),
            ("", "", "", "", "", ""),
            ("u1", "dog", "", "t1", "w2", "REJECTED"),
            ("u2", "cat", "dog", "t2", "w3", "SUBMITTED"),
            delimiter="\t",
        ),
        "toloka",
        [("t1", "w1", "cat"), ("t2", "w1", "dog"), ("t2", "w3", "cat")],
        gold={"t2": "dog"},
        notes=("1 of 4 answers were left out: rejected",),
    ),
    "appen": Example(
        "full.csv",
        as_table(
            _APPEN,
            (100, "2/24/2015 11:35:55", "false", "false", 0.9, 31, "1.2.3.4", "neutral", "", "hi"),
            (100, "2/24/2015 11:35:55", "false", "false", 0.9, 32, "1.2.3.5", "negative", "", "hi"),
            (200, "2/24/2015 11:36:55", "true", "true", 0.4, 32, "1.2.3.5", "negative", "positive", "late"),
            (
                300,
                "2/24/2015 11:37:55",
                "true",
                "false",
                0.9,
                31,
                "1.2.3.4",
                '"neutral\nnegative"',
                '"neutral\nnegative"',
                "both",
            ),
        ),
        "appen",
        [(100, 31, "neutral"), (100, 32, "negative"), (200, 32, "negative"), (300, 31, "neutral|negative")],
        gold={200: "positive"},
        notes=("1 of 4 judgments are of untrusted contributors",),
    ),
    "prodigy": Example(
        "choices.jsonl",
        as_lines(
            _prodigy(11, "ds-alice", "accept", options=[{"id": "animal"}, {"id": "plant"}], accept=["animal"]),
            _prodigy(11, "ds-bob", "reject", label="ANIMAL"),
            _prodigy(11, "ds-cy", "accept", label="plant"),
            _prodigy(12, "ds-bob", "ignore", options=[{"id": "animal"}], accept=[]),
        ),
        "prodigy",
        [(11, "ds-alice", "animal"), (11, "ds-cy", "plant")],
        notes=("1 of 4 answers were left out: ignored", "1 of 4 answers were left out: rejected"),
        items=[11, 12],
    ),
    "prodigy-binary": Example(
        "binary.jsonl",
        as_lines(
            _prodigy(11, "ds-alice", "accept", label="INSULT"),
            _prodigy(11, "ds-bob", "reject", label="INSULT"),
            _prodigy(12, "ds-bob", "ignore", label="INSULT"),
        ),
        "prodigy",
        [(11, "ds-alice", "accept"), (11, "ds-bob", "reject")],
        notes=("1 of 3 answers were left out: ignored",),
        items=[11, 12],
    ),
    "argilla": Example(
        "records.jsonl",
        as_lines(_FLAT, {**_FLAT, "id": "r2", "topic.responses.status": ["submitted", "submitted", "discarded"]}),
        "argilla",
        [("r1", "u1", "animal"), ("r2", "u1", "animal"), ("r2", "u2", "plant")],
        notes=("3 of 6 responses were left out: discarded or draft",),
    ),
    "argilla-nested": Example(
        "records.json", as_json([_NESTED]), "argilla", [("r2", "u1", "animal"), ("r2", "u2", "a|b")]
    ),
    "doccano-folder": Example(
        "project",
        {
            "alice.jsonl": as_lines({"id": 1, "text": "x", "label": ["pos"]}, {"id": 2, "text": "y", "label": ["neg"]}),
            "bob.jsonl": as_lines({"id": 1, "text": "x", "label": ["neg"]}),
        },
        "doccano",
        [(1, "alice", "pos"), (2, "alice", "neg"), (1, "bob", "neg")],
    ),
    "doccano-zip": Example(
        "project.zip",
        as_zip(
            alice__csv=as_table(("id", "data", "label"), (1, "x", "pos"), (2, "y", "neg#pos")),
            bob__csv=as_table(("id", "data", "label"), (1, "x", "neg")),
        ),
        "doccano",
        [(1, "alice", "pos"), (2, "alice", "neg#pos"), (1, "bob", "neg")],
    ),
    "doccano-users": Example(
        "old.jsonl",
        as_lines({"id": 1, "text": "x", "annotations": [{"label": 2, "user": 1}, {"label": 3, "user": 4}], "meta": {}}),
        "doccano",
        [(1, 1, 2), (1, 4, 3)],
    ),
    "ground-truth": Example(
        "output.manifest",
        _MANIFEST,
        "ground-truth",
        [("s3://b/1.jpg", "w1", "cat"), ("s3://b/1.jpg", "w2", "dog"), ("s3://b/2.jpg", "w1", "dog")],
    ),
    "lewidi": Example(
        "MP_train.json",
        as_json(_LEWIDI),
        "lewidi",
        [(1, "Ann0", "0"), (1, "Ann1", "1"), (2, "Ann0", "1"), (2, "Ann2", "1")],
    ),
    "lewidi-2": Example("Brexit_train.json", as_json(_LEWIDI_2), "lewidi", [(7, "Ann0", "0"), (7, "Ann1", "1")]),
    "peerannot": Example(
        "answers.json",
        as_json({"0": {"w1": 2, "w2": 2}, "1": {"w1": 0}, "2": {}}),
        "peerannot",
        [(0, "w1", 2), (0, "w2", 2), (1, "w1", 0)],
        items=[0, 1, 2],
    ),
    "mt-bench-pairs": Example(
        "pairs.jsonl",
        _JUDGMENTS,
        "mt-bench",
        [
            ("81/m1 vs m2/turn 1", "gpt-4", "model_1"),
            ("81/m1 vs m2/turn 1", "claude-v1", "model_1"),
            ("82/m1 vs m2/turn 1", "gpt-4", "tie"),
            ("82/m1 vs m2/turn 1", "claude-v1", "model_2"),
        ],
        question="winner",
        notes=("1 of 5 judgments were left out: no verdict", "1 of 5 judgments have a verdict in one game only"),
        items=["81/m1 vs m2/turn 1", "82/m1 vs m2/turn 1", "83/m1 vs m2/turn 1"],
    ),
    "mt-bench-scores": Example(
        "scores.jsonl",
        _JUDGMENTS,
        "mt-bench",
        [("81/m1/turn 1", "gpt-4", 8)],
        question="score",
        notes=("1 of 2 judgments were left out: score -1",),
    ),
    "mt-bench-table": Example(
        "human.parquet",
        as_parquet(
            question_id=[81, 81, 82],
            model_a=["x", "y", "x"],
            model_b=["y", "x", "y"],
            winner=["model_a", "model_b", "tie"],
            judge=["author_1", "expert_2", "author_1"],
            turn=[1, 1, 2],
        ),
        "mt-bench",
        [
            ("81/x vs y/turn 1", "author_1", "model_a"),
            ("81/x vs y/turn 1", "expert_2", "model_a"),
            ("82/x vs y/turn 2", "author_1", "tie"),
        ],
    ),
    "snorkel-text": Example(
        "L_train.txt",
        b"0 1 -1\n1 -1 1\n-1 -1 -1\n",
        "snorkel",
        [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 2, 1)],
        items=[0, 1, 2],
    ),
    "snorkel-csv": Example("L.csv", b"0,1,-1\n1,-1,1\n", "snorkel", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 2, 1)]),
    "snorkel-npy": Example(
        "L.npy", as_array([[0, 1, -1], [1, -1, 1]]), "snorkel", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 2, 1)]
    ),
    "snorkel-npz": Example(
        "L.npz",
        as_array(None, L_train=np.array([[0, -1], [1, 1]]), L_dev=np.array([[2, 2]])),
        "snorkel",
        [(0, 0, 0), (1, 0, 1), (1, 1, 1)],
        question="L_train",
    ),
    "wide": Example(
        "wide.csv",
        b"item,ann,bob,cy,gold\nq1,cat,dog,,cat\nq2,dog,,dog,\nq3,,,,bird\n",
        "wide",
        [("q1", "ann", "cat"), ("q1", "bob", "dog"), ("q2", "ann", "dog"), ("q2", "cy", "dog")],
        gold={"q1": "cat", "q3": "bird"},
        items=["q1", "q2", "q3"],
    ),
    "wide-cleanlab": Example(
        "votes.csv",
        b",w1,w2,w3\n1,0,1,\n2,1,,1\n",
        "wide",
        [(1, "w1", 0), (1, "w2", 1), (2, "w1", 1), (2, "w3", 1)],
    ),
    "wide-other-name": Example(  # photo 0 and 1 are no votes
        "photos.csv",
        b"photo,ann,bob,cy\n0,0,1,\n1,1,1,1\n2,,0,0\n3,0,0,0\n4,1,,1\n",
        "wide",
        [
            *((0, "ann", 0), (0, "bob", 1), (1, "ann", 1), (1, "bob", 1), (1, "cy", 1), (2, "bob", 0), (2, "cy", 0)),
            *((3, "ann", 0), (3, "bob", 0), (3, "cy", 0), (4, "ann", 1), (4, "cy", 1)),
        ],
    ),
    "wide-without-items": Example(
        "votes.tsv",
        b"a1\ta2\ta3\n0\t1\t\n1\t1\t1\n0\t0\t0\n",
        "wide",
        [
            *((0, "a1", 0), (0, "a2", 1), (1, "a1", 1), (1, "a2", 1), (1, "a3", 1)),
            *((2, "a1", 0), (2, "a2", 0), (2, "a3", 0)),
        ],
    ),
    "wide-parquet": Example(
        "votes.parquet",
        as_parquet(id=["a", "b", "c"], w1=[0.0, 1.0, float("nan")], w2=[1.0, None, 0.0], w3=[1, 1, None]),
        "wide",
        [("a", "w1", 0), ("a", "w2", 1), ("a", "w3", 1), ("b", "w1", 1), ("b", "w3", 1), ("c", "w2", 0)],
    ),
    "json-table": Example(
        "labels.json",
        as_json([{"task": 1, "worker": "a", "label": "x"}, {"task": 1, "worker": "b", "label": "y"}]),
        "json",
        [(1, "a", "x"), (1, "b", "y")],
    ),
    "csv-table": Example(
        "labels.csv", b"task,worker,label\n1,a,x\n1,b,y\n2,a,y\n", "csv", [(1, "a", "x"), (1, "b", "y"), (2, "a", "y")]
    ),
    "parquet-table": Example(
        "labels.parquet",
        as_parquet(task=[1, 1], worker=["a", "b"], label=["x", "y"]),
        "parquet",
        [(1, "a", "x"), (1, "b", "y")],
    ),
    "jsonl-table": Example(
        "labels.jsonl",
        as_lines({"task": 1, "worker": "a", "label": "x"}, {"task": 1, "worker": "b", "label": "y"}),
        "jsonl",
        [(1, "a", "x"), (1, "b", "y")],
    ),
}

#: Labels of tokens: read_sequences has tests of its own.
TOKENS: dict[str, Example] = {
    "conll": Example("crowd.txt", b"EU B-ORG O ?\nrejects O O ?\n\nPeter ? B-PER B-PER\n", "conll", []),
    "brat": Example(
        "brat",
        {
            "alice/d1.txt": b"EU rejects German call",
            "alice/d1.ann": b"T1\tORG 0 2\tEU\nT2\tMISC 11 17\tGerman\n",
            "bob/d1.txt": b"EU rejects German call",
            "bob/d1.ann": b"T1\tLOC 0 2\tEU\n",
        },
        "brat",
        [],
    ),
}
