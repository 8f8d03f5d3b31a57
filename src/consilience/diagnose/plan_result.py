"""A plan of labels to collect: tables, files, plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Origin
from consilience.data.ids import Ids
from consilience.diagnose.guaranteed import Guarantees
from consilience.diagnose.plain import plain_rows
from consilience.files import atomic_file
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.label_table import free_names

__all__ = ["Plan"]

_FORMAT = {"format": "consilience.Plan", "version": 1}


@dataclass(frozen=True, eq=False)
class Plan:
    """Labels to collect, with reasons, and items whose truth is worth knowing.

    ``table``, ``load``, ``skipped`` and ``gold`` are frames of the same kind as the data.
    """

    item: Ints  #: code of the item of each label: first those that join annotators, then by gain
    annotator: Ints  #: code of the annotator to ask
    gain: Floats  #: expected information of the label about its item, in bits; of numbers, how far the error falls
    cost: Floats
    reasons: pa.Array
    gold_items: Ints  #: items whose truth is most informative about annotators
    gold_gains: Floats
    gold_reasons: pa.Array
    budget: float
    joining: int  #: number of labels that join annotators, the first rows
    wrong_now: float  #: expected number of wrong labels now, or what ``measure`` names
    wrong_then: float  #: the same after the plan, if the model is right
    notes: list[str]
    not_asked: Mapping[int, str]  #: code of each annotator who is not asked as they are flagged, and why
    accuracy: Floats  #: estimated share of right labels of each annotator, NaN if they gave few, (M,)
    item_ids: Ids
    annotator_ids: Ids
    origin: Origin = field(default_factory=Origin)
    measure: str = "wrong labels"  #: what ``wrong_now`` and ``wrong_then`` are
    guarantees: Guarantees | None = None  #: labels an item until an error is guaranteed

    @property
    def spent(self) -> float:
        """Cost of all labels."""
        return float(self.cost.sum())

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each label to collect: item, annotator, reason, gain (bits), cost."""
        return _frames.make(self._columns(), self.origin.frame)

    @cached_property
    def load(self) -> Any:
        """Frame with a row for each annotator who is asked: annotator, labels, cost, accuracy so far."""
        return _frames.make(self._load_columns(), self.origin.frame)

    @cached_property
    def skipped(self) -> Any:
        """Frame with a row for each annotator who is not asked because of a flag: annotator, reason."""
        return _frames.make(self._skipped_columns(), self.origin.frame)

    @cached_property
    def gold(self) -> Any:
        """Frame with a row for each item whose truth is worth knowing: item, reason, gain."""
        return _frames.make(self._gold_columns(), self.origin.frame)

    def _columns(self) -> dict[str, pa.Array]:
        others = ("reason", "gain", "cost")
        item = free_names(self.origin.item, (*others, "annotator"), "item")[0]
        annotator = free_names(self.origin.annotator, (*others, item), "annotator")[0]
        columns = (
            self.item_ids.to_arrow().take(pa.array(self.item)),
            self.annotator_ids.to_arrow().take(pa.array(self.annotator)),
            self.reasons,
            pa.array(self.gain),
            pa.array(self.cost),
        )
        return dict(zip((item, annotator, *others), columns, strict=True))

    def _load_columns(self) -> dict[str, pa.Array]:
        M = len(self.annotator_ids)
        labels, cost = np.bincount(self.annotator, minlength=M), np.bincount(self.annotator, self.cost, M)
        who = np.lexsort((np.arange(M), -self.accuracy, -labels))[: np.count_nonzero(labels)]
        columns = {"labels": pa.array(labels[who]), "cost": pa.array(cost[who])}
        if np.isfinite(self.accuracy).any() or self.measure == "wrong labels":
            columns["accuracy"] = pa.array(self.accuracy[who], from_pandas=True)
        return self._of_people(who, columns)

    def _skipped_columns(self) -> dict[str, pa.Array]:
        reasons = pa.array(list(self.not_asked.values()), pa.string())
        return self._of_people(np.array(list(self.not_asked), np.int64), {"reason": reasons})

    def _of_people(self, who: Ints, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        name = free_names(self.origin.annotator, tuple(columns), "annotator")[0]
        return {name: self.annotator_ids.to_arrow().take(pa.array(who)), **columns}

    def _gold_columns(self) -> dict[str, pa.Array]:
        names = free_names(self.origin.item, ("reason", "gain"), "item")
        items = self.item_ids.to_arrow().take(pa.array(self.gold_items))
        return dict(zip(names, (items, self.gold_reasons, pa.array(self.gold_gains)), strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, atomically."""
        import pyarrow.csv

        with atomic_file(path) as fresh:
            pyarrow.csv.write_csv(pa.table(self._columns()), fresh)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {
            **_FORMAT,
            "budget": self.budget,
            "spent": self.spent,
            "labels": int(self.item.size),
            "joining": self.joining,
            "measure": self.measure,
            "wrong_now": self.wrong_now,
            "wrong_then": self.wrong_then,
            "guarantees": None if self.guarantees is None else self.guarantees.to_dict(),
            "notes": list(self.notes),
            "plan": plain_rows(self._columns()),
            "load": plain_rows(self._load_columns()),
            "skipped": plain_rows(self._skipped_columns()),
            "gold": plain_rows(self._gold_columns()),
        }

    def __len__(self) -> int:
        return int(self.item.size)

    def __repr__(self) -> str:
        items = np.unique(self.item).size
        return f"<Plan: {len(self)} labels of {items} items, {self.joining} of them to join annotators>"
