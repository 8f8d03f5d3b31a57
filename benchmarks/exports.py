"""Reading exports of 10^5 tasks with three answers each, next to merely parsing the same JSON."""

from __future__ import annotations

import json
import random
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import consilience as cs
from benchmarks.figures import Figure, best_of

_TASKS, _ANSWERS = 100_000, 3
_CLASSES = ("animal", "plant", "stone")


def _said(chance: random.Random) -> Iterator[tuple[int, int, str]]:
    for task in range(_TASKS):
        for who in chance.sample(range(40), _ANSWERS):
            yield task, who, chance.choice(_CLASSES)


def write(folder: Path) -> dict[str, Path]:
    """Write the same crowd in the format of each tool."""
    rows = list(_said(random.Random(0)))
    tasks: list[dict[str, Any]] = []
    for task, who, label in rows:
        if not tasks or tasks[-1]["id"] != task:
            tasks.append({"id": task, "project": 8, "data": {"text": f"text of item {task}"}, "annotations": []})
        value = {"choices": [label]}
        result = [{"id": "a", "from_name": "topic", "to_name": "text", "type": "choices", "value": value}]
        made = {"id": who, "completed_by": {"id": who, "email": "a@example.org"}, "was_cancelled": False}
        tasks[-1]["annotations"].append(
            {**made, "lead_time": 4.2, "created_at": "2026-01-02T10:00:00Z", "result": result}
        )
    files = {"Label Studio, JSON": folder / "export.json", "Prodigy": folder / "prodigy.jsonl"}
    files["Label Studio, JSON"].write_text(json.dumps(tasks))
    with files["Prodigy"].open("w") as file:
        for task, who, label in rows:
            told = {"text": f"text of item {task}", "accept": [label], "answer": "accept", "_input_hash": task}
            file.write(json.dumps({**told, "_annotator_id": f"ds-{who}"}) + "\n")
    files["Mechanical Turk"] = folder / "batch.csv"
    head = "HITId,WorkerId,AssignmentStatus,Answer.topic.label\n"
    files["Mechanical Turk"].write_text(head + "".join(f"H{t},W{w},Approved,{label}\n" for t, w, label in rows))
    return files


def run() -> list[Figure]:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder))
        figures = [
            Figure(f"reading 1e5 tasks, {name}: seconds", best_of(3, lambda path=path: cs.read(path)), unit="s")  # type: ignore[misc]
            for name, path in files.items()
        ]
        export = files["Label Studio, JSON"]
        parsed = best_of(3, lambda: json.loads(export.read_bytes()))
        consensus = cs.aggregate(cs.read(export), "majority")
        target = Path(folder) / "predictions.json"
        written = best_of(3, lambda: cs.write(consensus, target, source=export))
    return [
        *figures,
        Figure("json.loads of the Label Studio export: seconds", parsed, unit="s"),
        Figure("writing 1e5 predictions of Label Studio: seconds", written, unit="s"),
    ]
