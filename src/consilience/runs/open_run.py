"""The result of a run over answers whose options differ from item to item: no classes, no confusion matrices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.exceptions import FormatError
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.models.open_answers import OpenModel, OpenPosterior
from consilience.runs.annotator_table import FEW, accuracy_columns, annotator_table
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import TIE, Choice, chosen_columns, free_names

__all__ = ["OpenRun", "choose_answers"]

_CANDIDATES = "candidates.parquet"
#: An annotator whose labels tell less than this share of what a right one tells is a spammer.
_SPAM = 0.02


def choose_answers(found: OpenPosterior) -> Choice:
    """Choose the answer of every item; items without candidates get the first of all answers."""
    best, second = found.two_best()
    p, answer = np.append(found.probability, 0.0), np.append(found.candidates.answer, 0)
    margin = p[best] - p[second]
    return Choice(answer[best], answer[np.where(second < 0, best, second)], np.where(margin <= TIE, 0.0, margin))


@dataclass(frozen=True, eq=False, repr=False)
class OpenRun(Consensus):
    """A consensus of answers whose options differ from item to item.

    ``posterior`` holds the probability of every candidate, item after item, and ``candidates`` shows them in a frame.
    ``counts`` are the expected right and wrong labels of each annotator, (M, 2).
    """

    model: OpenModel  # type: ignore[assignment]
    first: Ints = field(kw_only=True, repr=False)  #: where the candidates of each item begin, (N + 1,)
    answer: Codes = field(kw_only=True, repr=False)  #: code of the answer of each candidate, (C,)
    size: Codes = field(kw_only=True, repr=False)  #: labels of each candidate, (C,)

    @cached_property
    def candidates(self) -> Any:
        """Frame with a row for each answer to each item: item, answer, probability, n_labels.

        The probabilities of an item sum to one less the probability that none of its answers is right.
        """
        return _frames.make(self._candidate_columns(), self.origin.frame)

    @property
    def _item(self) -> Ints:
        """The item of each candidate, (C,)."""
        return np.repeat(np.arange(len(self.item_ids)), np.diff(self.first))

    def probabilities_of(self, n: int) -> Floats:
        """Return the probability of every answer for item n, (K,)."""
        row = np.zeros(len(self.model.classes))
        here = slice(int(self.first[n]), int(self.first[n + 1]))
        row[self.answer[here]] = self.posterior[here]
        return row

    def judged_by(self, truth: Codes) -> tuple[Floats, Codes, Codes]:
        """Return posterior, labels and truths, coded by the place of an answer among the candidates of its item.

        The last code stands for answers that nobody gave.
        """
        N, many = len(self.item_ids), np.diff(self.first)
        last = int(many.max(initial=0))
        item = self._item
        place = np.arange(item.size) - self.first[item]
        table = np.zeros((N, last + 1))
        table[item, place] = self.posterior
        table[:, last] = np.maximum(1.0 - table.sum(axis=1), 0.0)

        def placed(codes: Codes) -> Codes:
            found = np.where(codes < 0, -1, last)
            same = self.answer == codes[item]
            found[item[same]] = place[same]
            return found

        return table, placed(self.choice.best), placed(truth)

    @cached_property
    def annotator_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``annotators``, computed once for all tables, files and reports."""
        model, n_labels, bits = self.model, self.counts.sum(axis=1), self.model.information
        few = n_labels < FEW
        spam = (model.accuracy <= model.chance) | (bits < _SPAM * np.log2(1.0 / model.chance))
        flags = np.where(few, "few labels", np.where(spam, "spammer", "")).tolist()
        accuracy = accuracy_columns(self.counts[:, 0], n_labels, self._doubt())
        columns = annotator_table(accuracy, bits, [""] * bits.size, flags)
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        return MappingProxyType(dict(zip(names, (model.annotators.to_arrow(), *columns.values()), strict=True)))

    def _doubt(self) -> Floats | None:
        a = self.annotations
        if a is None:
            return None
        # the candidate of each label: answers ascend within an item
        item = a.item_of_label()
        key = self._item * len(self.model.classes) + self.answer
        r = self.posterior[np.searchsorted(key, item * len(self.model.classes) + a.label)]
        return np.bincount(a.annotator, r * (1.0 - r), a.n_annotators).astype(float)

    def _label_columns(self) -> dict[str, pa.Array]:
        many = np.diff(self.first)
        top = np.zeros(many.size)
        np.maximum.at(top, self._item, self.posterior)
        return chosen_columns(
            self.choice,
            top,
            self.item_ids,
            self.n_labels,
            classes=self.model.classes,
            item=self.origin.item,
            without=(many == 0, many < 2),
        )

    def _candidate_columns(self) -> dict[str, pa.Array]:
        names = free_names(self.origin.item, ("answer", "probability", "n_labels"), "item")
        columns = (
            self.item_ids.to_arrow().take(pa.array(self._item)),
            self.model.classes.to_arrow().take(pa.array(self.answer)),
            pa.array(self.posterior),
            pa.array(self.size),
        )
        return dict(zip(names, columns, strict=True))

    def __repr__(self) -> str:
        run = self.run
        return f"<OpenRun: {run['N']} items, {run['M']} annotators, {run['K']} different answers by {run['method']}>"

    # ---- files ------------------------------------------------------------------------------------------

    def _posterior_table(self) -> Floats:
        return np.empty((len(self.item_ids), 0))

    def _save_more(self, folder: Path) -> None:
        from pyarrow.parquet import write_table

        codes = {"item_code": pa.array(self._item), "answer_code": pa.array(self.answer)}
        write_table(pa.table({**self._candidate_columns(), **codes}), folder / _CANDIDATES)

    @classmethod
    def _load_more(cls, folder: Path, columns: Mapping[str, Any]) -> tuple[Any, Floats, dict[str, Any]]:
        from pyarrow.parquet import read_table

        try:
            table = read_table(folder / _CANDIDATES)
            item, answer, posterior, size = (
                np.asarray(table[name].combine_chunks())
                for name in ("item_code", "answer_code", "probability", "n_labels")
            )
        except (OSError, pa.ArrowException, KeyError) as error:
            raise FormatError(f"{folder} is damaged: {error}") from error
        first = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=len(columns["item"])))])
        return OpenModel.load(folder / "model.npz"), posterior, {"first": first, "answer": answer, "size": size}

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a run over open answers."""
        return (Path(folder) / _CANDIDATES).is_file()
