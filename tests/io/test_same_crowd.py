"""One crowd, written as every tool would: all exports say the same as the plain table."""

from __future__ import annotations

import csv
import io
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.exceptions import ConsilienceWarning

#: item, annotator, label, and whether it counts
Answer = tuple[str, str, str, bool]


def crowd(seed: int) -> list[Answer]:
    """Forty items, seven annotators, who answer most of them; every sixth answer was rejected."""
    chance = random.Random(seed)
    items = [f"item {n}" for n in range(40)]
    people = [f"w{m}" for m in range(7)]
    classes = ["cat", "dog", 'a "quoted", one', "späte Antwort"]
    every = [(item, who) for item in items for who in people if chance.random() < 0.7]
    chance.shuffle(every)
    return [(item, who, chance.choice(classes), chance.random() > 1 / 6) for item, who in every]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(header: list[str], rows: list[list[Any]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([header, *rows])
    return text.getvalue()


def by_item(answers: list[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer[0], []).append(answer)
    return found


def label_studio(answers: list[Answer]) -> str:
    def made(answer: Answer) -> dict[str, Any]:
        _, who, label, ok = answer
        result = {"from_name": "kind", "to_name": "t", "type": "choices", "value": {"choices": [label]}}
        return {"completed_by": {"id": who, "email": "x@example.org"}, "was_cancelled": not ok, "result": [result]}

    return json.dumps(
        [
            {"id": item, "data": {"t": item}, "annotations": [*map(made, said)]}
            for item, said in by_item(answers).items()
        ]
    )


def mturk(answers: list[Answer]) -> str:
    header = ["HITId", "WorkerId", "AssignmentStatus", "Answer.kind.label"]
    return table(header, [[item, who, "Approved" if ok else "Rejected", label] for item, who, label, ok in answers])


def toloka(answers: list[Answer]) -> str:
    header = ["OUTPUT:kind", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status"]
    rows = [[label, item, who, "APPROVED" if ok else "SKIPPED"] for item, who, label, ok in answers]
    return table(header, rows, "\t")


def prodigy(answers: list[Answer]) -> str:
    return lines(
        [
            {"_input_hash": item, "_annotator_id": who, "accept": [label], "answer": "accept" if ok else "ignore"}
            for item, who, label, ok in answers
        ]
    )


def argilla(answers: list[Answer]) -> str:
    return lines(
        [
            {
                "id": item,
                "kind.responses": [label for _, _, label, _ in said],
                "kind.responses.users": [who for _, who, _, _ in said],
                "kind.responses.status": ["submitted" if ok else "discarded" for _, _, _, ok in said],
            }
            for item, said in by_item(answers).items()
        ]
    )


def ground_truth(answers: list[Answer]) -> str:
    def worker(answer: Answer) -> dict[str, Any]:
        return {"workerId": answer[1], "annotationData": {"content": json.dumps({"kind": {"label": answer[2]}})}}

    return lines(
        [
            {"source": item, "job": {"annotationsFromAllWorkers": [*map(worker, said)]}, "job-metadata": {}}
            for item, said in by_item([answer for answer in answers if answer[3]]).items()
        ]
    )


def peerannot(answers: list[Answer]) -> str:
    kept = by_item([answer for answer in answers if answer[3]])
    return json.dumps({item: {who: label for _, who, label, _ in said} for item, said in kept.items()})


def lewidi(answers: list[Answer]) -> str:
    kept = by_item([answer for answer in answers if answer[3]])
    return json.dumps(
        {
            item: {
                "annotators": ",".join(who for _, who, _, _ in said),
                "annotations": {w: label for _, w, label, _ in said},
            }
            for item, said in kept.items()
        }
    )


def appen(answers: list[Answer]) -> str:
    rows = [[item, who, "1.2.3.4", label, ""] for item, who, label, ok in answers if ok]
    return table(["_unit_id", "_worker_id", "_ip", "kind", "kind_gold"], rows)


def wide(answers: list[Answer]) -> str:
    people = sorted({who for _, who, _, _ in answers})
    kept = {(item, who): label for item, who, label, ok in answers if ok}
    items = dict.fromkeys(item for item, _, _, _ in answers)
    return table(["item", *people], [[item, *(kept.get((item, who), "") for who in people)] for item in items])


def label_studio_csv(answers: list[Answer]) -> str:
    header = ["annotation_id", "annotator", "id", "kind", "lead_time", "text"]
    rows = [[n, who, item, label, 1.0, f"text of {item}"] for n, (item, who, label, ok) in enumerate(answers) if ok]
    return table(header, rows)


WRITERS: dict[str, tuple[str, Callable[[list[Answer]], str]]] = {
    "label-studio": ("export.json", label_studio),
    "label-studio-csv": ("result.csv", label_studio_csv),
    "mturk": ("batch.csv", mturk),
    "toloka": ("pool.tsv", toloka),
    "prodigy": ("annotations.jsonl", prodigy),
    "argilla": ("records.jsonl", argilla),
    "ground-truth": ("output.manifest", ground_truth),
    "peerannot": ("answers.json", peerannot),
    "lewidi": ("train.json", lewidi),
    "appen": ("full.csv", appen),
    "wide": ("wide.csv", wide),
}


def read(path: Path) -> cs.Annotations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.read(path)


def said_in(annotations: cs.Annotations) -> list[tuple[Any, ...]]:
    frame = annotations.to_frame("pyarrow")
    return sorted(zip(*(column.to_pylist() for column in frame.columns), strict=True))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_format_says_the_same(tmp_path: Path, name: str, seed: int) -> None:
    answers = crowd(seed)
    file, writer = WRITERS[name]
    (tmp_path / file).write_text(writer(answers), "utf-8")
    kept = [[item, who, label] for item, who, label, ok in answers if ok]
    (tmp_path / "plain.csv").write_text(table(["item", "annotator", "label"], kept), "utf-8")
    annotations, plain = read(tmp_path / file), read(tmp_path / "plain.csv")
    assert said_in(annotations) == said_in(plain)
    assert annotations.classes.tolist() == plain.classes.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        ours, theirs = (cs.aggregate(a, "majority").labels.set_index(a.origin.item) for a in (annotations, plain))
    ours = ours.loc[theirs.index]
    np.testing.assert_array_equal(ours["confidence"], theirs["confidence"])
    decided = theirs["margin"] > 0
    assert ours["label"][decided].tolist() == theirs["label"][decided].tolist()


# ---- real crowds ----------------------------------------------------------------------------------------------------

REAL = ("bluebird", "rte", "dog52", "labelme", "music", "zencrowd_us")


@pytest.mark.parametrize("name", REAL)
def test_real_crowds_written_wide(data_folder: Path, tmp_path: Path, name: str) -> None:
    plain = read(data_folder / name / "labels.csv")
    item, annotator, label = plain.origin.item, plain.origin.annotator, plain.origin.label
    frame = plain.to_frame("pandas").pivot(index=item, columns=annotator, values=label)
    frame.to_csv(tmp_path / "wide.csv")
    annotations = read(tmp_path / "wide.csv")
    assert cs.recognise(tmp_path / "wide.csv").name == "wide"

    def text(a: cs.Annotations) -> list[tuple[str, ...]]:
        return sorted(tuple(str(value).removesuffix(".0") for value in row) for row in said_in(a))

    assert text(annotations) == text(plain)
    frame.to_csv(tmp_path / "votes.csv", index=False)
    assert cs.recognise(tmp_path / "votes.csv").name == "wide"
    assert read(tmp_path / "votes.csv").n_labels == plain.n_labels


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("header", [["picture", "who", "said"], ["task", "who", "said"], ["a", "b", "c"]])
def test_real_crowds_with_other_names_are_not_taken_for_wide_ones(
    data_folder: Path, tmp_path: Path, name: str, header: list[str]
) -> None:
    frame = read(data_folder / name / "labels.csv").to_frame("pandas")
    frame.set_axis(header, axis=1).to_csv(tmp_path / "long.csv", index=False)
    assert cs.recognise(tmp_path / "long.csv").name == "csv"
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled.set_axis(header, axis=1).to_csv(tmp_path / "long.csv", index=False)
    assert cs.recognise(tmp_path / "long.csv").name == "csv"
