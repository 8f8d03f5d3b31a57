"""Tables that hand a consensus over to the training of a model: probabilities, labels with weights, quality of labels.

====== =========================================== ========
symbol name                                        shape
====== =========================================== ========
q      ``posterior``                               (N, K)
..     ``probability`` of a label i of item n, q_ni (labels,)
====== =========================================== ========
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.exceptions import DataError, ParameterError
from consilience.runs.label_table import TIE

if TYPE_CHECKING:
    from consilience.runs.consensus import Consensus

__all__ = ["Training", "probability_columns", "quality_columns", "training_tables"]


class Training(NamedTuple):
    """Labels to train a model with, and items to leave out; frames of the kind that the data came in."""

    labels: Any  #: item, label, weight: the probability that the label is right
    left_out: Any  #: item, label, confidence, reason


def probability_columns(run: Consensus) -> dict[str, pa.Array]:
    """Return the item, and the probability of every class in a column with its name."""
    classes = [str(name) for name in run.model.classes]
    if run.posterior.ndim != 2:
        raise DataError("open answers have no classes in common; candidates has the probability of every answer")
    columns = {name: pa.array(np.ascontiguousarray(run.posterior[:, k])) for k, name in enumerate(classes)}
    return {**_free(_items(run), columns), **columns}


def training_tables(run: Consensus, threshold: Any) -> Training:
    """Split the items into those to train with and those to leave out."""
    if not (isinstance(threshold, int | float) and not isinstance(threshold, bool) and 0 <= threshold <= 1):
        raise ParameterError(f"threshold must be a number from 0 to 1, not {threshold!r}")
    columns, items = run.label_columns, _items(run)
    label, confidence = columns["label"], np.asarray(columns["confidence"])
    missing = np.asarray(label.is_null())
    tie = ~missing & (np.asarray(columns["margin"]) <= TIE)
    low = ~missing & ~tie & (confidence < threshold)
    kept, out = (pa.array(np.flatnonzero(mask)) for mask in (~(missing | tie | low), missing | tie | low))
    reasons = np.select([missing, tie], ["no label", "tie"], f"confidence below {threshold:g}")
    good = {"label": label, "weight": pa.array(confidence)}
    bad = {"label": label, "confidence": pa.array(confidence), "reason": pa.array(reasons.tolist(), pa.string())}
    tables = (({**_free(items, more), **more}, at) for more, at in ((good, kept), (bad, out)))
    made = ({name: column.take(at) for name, column in table.items()} for table, at in tables)
    return Training(*(_frames.make(table, run.origin.frame) for table in made))


def quality_columns(run: Consensus) -> dict[str, pa.Array]:
    """Return item, annotator, label, the probability that the label is right, and the consensus, for every label."""
    a = run.annotations
    if a is None:
        raise DataError("the run does not hold its labels, so their quality is not known; aggregate them in memory")
    if run.posterior.ndim != 2:
        raise DataError("the quality of labels is for classes that items share; candidates has that of open answers")
    item = a.item_of_label()
    at, classes = pa.array(item), run.model.classes.to_arrow()
    columns = {
        "label": classes.take(pa.array(a.label)),
        "probability": pa.array(run.posterior[item, a.label]),
        "consensus": run.label_columns["label"].take(at),
    }
    annotator = run.model.annotators.to_arrow().take(pa.array(a.annotator))
    people = _free({run.origin.annotator: annotator}, columns)
    items = {name: column.take(at) for name, column in _items(run).items()}
    return {**_free(items, (*people, *columns)), **people, **columns}


def _items(run: Consensus) -> dict[str, pa.Array]:
    """Return the columns that name the items: all before ``label``."""
    names = list(run.label_columns)
    return {name: run.label_columns[name] for name in names[: names.index("label")]}


def _free(columns: Mapping[str, pa.Array], taken: Iterable[str]) -> dict[str, pa.Array]:
    """Return the columns under their own names, with _ appended if another column has the name."""
    others, made = set(taken), {}
    for name, column in columns.items():
        while name in others:
            name += "_"
        made[name] = column
    return made
