"""Label Studio pre-annotations: tasks with the consensus as a prediction, ready to be imported.

::

    [{"id": 1, "data": {"text": "…"},
      "predictions": [{"model_version": "consilience 0.1.0 ds-em", "score": 0.97,
                       "result": [{"id": "c0", "from_name": "topic", "to_name": "text", "type": "choices",
                                   "value": {"choices": ["animal"]}}]}]}]

The score is the confidence of the label, so that Label Studio can show the least certain tasks first; of a number, how
much narrower its interval is than the widest.  An item without a label has no prediction.
"""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from consilience.exceptions import DataError, DataWarning, FormatError, ParameterError, warn
from consilience.files import atomic_file
from consilience.io import label_studio
from consilience.io.export import SEVERAL, choose, column_of
from consilience.io.source import Source
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.sequence_run import SequenceRun

__all__ = ["labels_of", "matched", "version_of", "write_predictions"]


def write_predictions(
    consensus: Consensus,
    path: Path,
    *,
    source: str | os.PathLike[str] | None,
    question: str | None,
    from_name: str | None,
    to_name: str | None,
    kind: str | None,
    model_version: str | None,
) -> None:
    """Write tasks with predictions; the parameters are those of :func:`consilience.write`."""
    known: dict[Any, Any] = {}
    if source is not None:
        tasks, control, known = _of_source(Path(source), question)
        rows = matched(consensus, tasks, [task["id"] for task in tasks], f"tasks of {Path(source).name}")
    else:
        if from_name is None or to_name is None:
            raise ParameterError(
                "to write predictions, name the export that the labels came from with source=… (--source …), or the "
                "control and what it labels with from_name=… and to_name=… (--from-name …, --to-name …)"
            )
        control = label_studio.Control(from_name, to_name, "number" if isinstance(consensus, NumericRun) else "choices")
        items = consensus.item_ids.to_arrow().to_pylist()
        rows = [(code, {"data": {to_name: item}}) for code, item in enumerate(items)]
    control = label_studio.Control(from_name or control.from_name, to_name or control.to_name, kind or control.kind)
    if isinstance(consensus, NumericRun) and control.kind not in ("number", "rating"):
        raise ParameterError(f"numbers are for controls of kind 'number' or 'rating', not {control.kind!r}")
    if control.kind not in label_studio.KINDS:
        raise ParameterError(f"there is no control of kind {control.kind!r}; known are {', '.join(label_studio.KINDS)}")
    version = model_version or version_of(consensus)
    made = _predictions(consensus, control, known, version)
    written = [{**task, "predictions": made[code]} for code, task in rows]
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(written, ensure_ascii=False, default=str) + "\n", "utf-8")


def version_of(consensus: Consensus) -> str:
    """Return the origin of predictions: this library and the method."""
    return f"consilience {metadata.version('consilience')} {consensus.run.get('method', '')}".rstrip()


def labels_of(consensus: Consensus) -> list[tuple[Any, float]]:
    """Return the label of every item, None if it has none, and its confidence."""
    import narwhals as nw

    if isinstance(consensus, SequenceRun):
        raise ParameterError("labels of tokens cannot be written as predictions; write them as CSV")
    labels = nw.from_native(consensus.labels, eager_only=True).to_arrow()
    if isinstance(consensus, NumericRun):
        width = np.nan_to_num(consensus.high - consensus.low)
        sure = np.round(1.0 - width / max(float(width.max(initial=0.0)), 1e-300), 6).tolist()
        return list(zip(labels["value"].to_pylist(), sure, strict=True))
    confidence = np.round(labels["confidence"].to_numpy(), 6).tolist()
    return list(zip(labels["label"].to_pylist(), confidence, strict=True))


def matched(
    consensus: Consensus, records: list[dict[str, Any]], ids: list[Any], what: str
) -> list[tuple[int, dict[str, Any]]]:
    """Return the records of a source that are items of the run, with the code of the item, each item once."""
    codes = consensus.item_ids.codes_of(column_of(ids, "id", what))
    rows: dict[int, dict[str, Any]] = {}
    for code, record in zip(codes.tolist(), records, strict=True):
        if code >= 0:
            rows.setdefault(code, record)
    if not rows:
        raise DataError(f"none of the {len(records)} {what} is an item of this run")
    if missing := len(consensus.item_ids) - len(rows):
        warn(f"{missing} items are not among the {what} and were left out", DataWarning)
    return list(rows.items())


def _of_source(path: Path, question: str | None) -> tuple[list[dict[str, Any]], label_studio.Control, dict[Any, Any]]:
    """Return the tasks of an export, the control, and how each label is written there."""
    source = Source(path)
    if label_studio.recognise(source) is None:
        raise FormatError(f"{path.name} is no JSON export of Label Studio: its tasks have no 'data' and 'annotations'")
    tasks, made = [], []
    for task in source.records():
        data = task.get("data")
        tasks.append({"id": task.get("id"), "data": data if isinstance(data, dict) else {}})
        made += label_studio.annotations_in(task, path.name)
    controls = label_studio.controls_of(made)
    control = controls[choose(list(controls), question, path.name)]
    return tasks, control, label_studio.values_by_label(made, control)


def _predictions(
    consensus: Consensus, control: label_studio.Control, known: dict[Any, Any], version: str
) -> list[list[dict[str, Any]]]:
    """Return the predictions of every item, at most one each."""
    labels = labels_of(consensus)
    key = label_studio.KINDS[control.kind]
    split = _options if isinstance(consensus, MultiRun) else _value
    value = {name: known.get(name, split(name, control.kind)) for name, _ in labels if name is not None}
    return [
        []
        if name is None
        else [
            {
                "model_version": version,
                "score": score,
                "result": [
                    {
                        "id": f"c{n}",
                        "from_name": control.from_name,
                        "to_name": control.to_name,
                        "type": control.kind,
                        "value": {key: value[name]},
                    }
                ],
            }
        ]
        for n, (name, score) in enumerate(labels)
    ]


def _options(label: str, kind: str) -> Any:
    """Return the options of a label as a control writes them."""
    options = [part for part in label.split(SEVERAL) if part]
    return [option.split("/") for option in options] if kind == "taxonomy" else options


def _value(label: Any, kind: str) -> Any:
    if kind == "choices":
        return [label if isinstance(label, str) else json.dumps(label)]
    return [str(label).split("/")] if kind == "taxonomy" else label
