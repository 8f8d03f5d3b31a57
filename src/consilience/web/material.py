"""The labels under review, whatever their kind: names of items, options to choose from, known answers for a fit.

Items are called by a text that survives a restart: their id, or sequence and position of a token.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations
from consilience.data.option_sets import SEPARATOR
from consilience.data.sequences import SequenceAnnotations
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun
from consilience.web.learning import LabelsByAnnotator

__all__ = ["Material", "Option", "has_classes", "joined"]

#: Separates sequence and position in the name of a token.
_BETWEEN = " · "
#: Options of an item that are offered, where they differ from item to item.
_MOST_OPTIONS = 12


class Option(NamedTuple):
    """An answer that a reviewer can choose."""

    answer: str
    probability: float | None
    code: int = -1  #: of the class, where there are classes


def has_classes(run: Consensus | None) -> bool:
    """Return whether all items share the classes of the run."""
    return not isinstance(run, OpenRun | MultiRun | NumericRun)


def joined(answer: str) -> str:
    """Return the options of an answer in order, so that the same set is the same text."""
    return SEPARATOR.join(sorted({part.strip() for part in answer.split(SEPARATOR)} - {""}))


class Material:
    """Labels, as :func:`consilience.read` returns them, and lookups by item and annotator."""

    def __init__(self, data: Annotations | SequenceAnnotations) -> None:
        self.data = data
        self.sequences = data if isinstance(data, SequenceAnnotations) else None
        self.labels: Annotations = data.tokens if isinstance(data, SequenceAnnotations) else data

    @cached_property
    def id_columns(self) -> dict[str, pa.Array]:
        """The columns that name an item, under the names of the source: its id, or sequence and position of a token."""
        if self.sequences is None:
            return {self.labels.origin.item: self.labels.item_ids.to_arrow()}
        columns, s = self.sequences.token_columns(), self.sequences
        return {name: columns[name] for name in (s.sequence_column, s.position_column)}

    @cached_property
    def keys(self) -> pa.Array:
        """The name of every item as text, (N,)."""
        return pc.binary_join_element_wise(*(c.cast(pa.string()) for c in self.id_columns.values()), _BETWEEN)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {key: n for n, key in enumerate(self.keys.to_pylist())}

    def key(self, n: int) -> str:
        """Return the name of item n."""
        return str(self.keys[n].as_py())

    def find(self, key: str) -> int | None:
        """Return the number of an item; None if the labels no longer have it."""
        return self._place.get(key)

    @cached_property
    def classes(self) -> list[str]:
        """The names of the classes as text."""
        return [str(name) for name in self.labels.class_ids]

    @cached_property
    def _joined(self) -> list[str]:
        return [joined(name) for name in self.classes]

    def answers(self, run: Consensus | None) -> list[str]:
        """Return the text of every class as an answer: of a set of options always in the same order."""
        return self._joined if isinstance(run, MultiRun) else self.classes

    @cached_property
    def class_code(self) -> dict[str, int]:
        """The code of every class by its text."""
        return {name: k for k, name in enumerate(self.classes)}

    @cached_property
    def annotators(self) -> list[str]:
        """The names of the annotators as text."""
        return [str(name) for name in self.labels.annotator_ids]

    @cached_property
    def annotator_code(self) -> dict[str, int]:
        """The code of every annotator by its text."""
        return {name: m for m, name in enumerate(self.annotators)}

    @cached_property
    def by_annotator(self) -> LabelsByAnnotator:
        """The labels grouped by annotator."""
        return LabelsByAnnotator.of(self.labels)

    @cached_property
    def known_before(self) -> Bools:
        """Items whose answer was known before the review, (N,)."""
        gold = self.labels.gold
        return np.zeros(self.labels.n_items, bool) if gold is None else gold >= 0

    def said(self, n: int) -> tuple[Ints, Ints]:
        """Return the annotators of an item and what they said, as codes."""
        here = slice(int(self.labels.indptr[n]), int(self.labels.indptr[n + 1]))
        return self.labels.annotator[here].astype(np.int64), self.labels.label[here].astype(np.int64)

    def gold(self, answers: dict[str, str]) -> Any:
        """Return decisions, with the answers known before, in the form that :func:`consilience.aggregate` takes."""
        known = {n: answer for item, answer in answers.items() if (n := self.find(item)) is not None}
        if self.labels.gold is not None:
            before = np.flatnonzero(self.known_before)
            known = {int(n): self.classes[int(self.labels.gold[n])] for n in before} | known
        if not known:
            return None
        return self.answer_table(known)

    def answer_table(self, answers: dict[int, str]) -> pa.Table:
        """Return answers by number of the item as a table, with the columns that name items."""
        rows = pa.array(list(answers), pa.int64())
        columns = {name: column.take(rows) for name, column in self.id_columns.items()}
        return pa.table({**columns, "label": pa.array(answers.values(), pa.string())})

    def options(self, run: Consensus | None, posterior: Floats | None, n: int) -> list[Option]:
        """Return what a reviewer can choose for item n: all classes in their order, or the answers to this item."""
        if posterior is not None:
            return [Option(name, float(posterior[n, k]), k) for k, name in enumerate(self.classes)]
        names = self.answers(run)
        given = dict.fromkeys(names[k] for k in self.said(n)[1].tolist())
        if isinstance(run, OpenRun):
            here = slice(int(run.first[n]), int(run.first[n + 1]))
            p = dict(zip((str(run.model.classes[int(k)]) for k in run.answer[here]), run.posterior[here], strict=True))
            order = sorted(p, key=lambda answer: -p[answer])
            return [Option(answer, float(p[answer])) for answer in order[:_MOST_OPTIONS]]
        if isinstance(run, NumericRun):
            value = run.label_columns["value"][n].as_py()
            first = {} if value is None else {f"{value:g}": None}
            return [Option(answer, None) for answer in [*dict(first), *(g for g in given if g not in first)]][
                :_MOST_OPTIONS
            ]
        first_label: dict[str, float | None] = {}
        if run is not None and (label := run.label_columns["label"][n].as_py()) is not None:
            first_label[joined(str(label))] = run.label_columns["confidence"][n].as_py()
        sets = dict.fromkeys([*first_label, *given, ""])
        return [Option(answer, first_label.get(answer)) for answer in sets][:_MOST_OPTIONS]

    def labelled_by(self, annotator: int) -> Codes:
        """Return the items that an annotator labelled, ascending."""
        by = self.by_annotator
        return np.unique(by.item[int(by.indptr[annotator]) : int(by.indptr[annotator + 1])])
