"""The folder of a run whose items are too many to be held: written block by block, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from consilience.data.annotations import Origin
from consilience.data.ids import Ids
from consilience.files import atomic_folder
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import SUMMARY, Consensus, choose
from consilience.runs.label_table import Choice, ItemTables, TableFormat, label_columns

__all__ = ["RunWriter"]


class RunWriter:
    """Takes the posteriors of one block of items after the other, and makes the folder of a run.

    >>> with RunWriter("run", model, n_items) as writer:  # doctest: +SKIP
    ...     for block in blocks:
    ...         writer.append(block.item_ids, block.labels_per_item, posterior)
    ...     writer.finish(counts, run)

    The folder is what :meth:`consilience.Consensus.save` writes, and :func:`consilience.load` reads it.  It appears
    when the ``with`` ends after :meth:`finish`; until then what was there before stays.

    Parameters
    ----------
    folder
        Where to.
    model
        The parameters behind the posteriors.
    n_items
        How many items there will be.
    origin
        Names of the columns.
    gold
        Whether some truths were known.
    labels
        "csv" or "parquet"; by default CSV, and Parquet where there are many items.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: DawidSkene,
        n_items: int,
        *,
        origin: Origin | None = None,
        gold: bool = False,
        labels: TableFormat | None = None,
    ) -> None:
        self._folder, self._model, self._n_items = folder, model, n_items
        self._origin, self._gold, self._form = origin or Origin(), gold, labels
        self._stack = ExitStack()
        self._finished = False

    def __enter__(self) -> Self:
        self._fresh: Path = self._stack.enter_context(atomic_folder(self._folder, SUMMARY))
        self._tables = self._stack.enter_context(ItemTables(self._fresh, self._n_items, self._form))
        return self

    def append(self, items: Ids, n_labels: Ints, posterior: Floats, choice: Choice | None = None) -> Choice:
        """Write the next items: their names, how many labels each has, and its posterior, (items, K).

        Returns the choice, which is made from the posterior unless it is given.
        """
        model = self._model
        choice = choose(posterior, model.prior) if choice is None else choice
        columns = label_columns(
            posterior,
            choice,
            items,
            n_labels,
            classes=model.classes,
            prior=model.prior,
            item=self._origin.item,
            gold=self._gold,
        )
        self._tables.append(columns, posterior, choice, items, n_labels)
        return choice

    def finish(self, counts: Floats, run: Mapping[str, Any], add: Callable[[Path], object] | None = None) -> None:
        """Write annotators, model and summary; the arguments are fields of Consensus, and ``add`` is that of save."""
        nothing = np.empty(0, np.int64)
        rest = Consensus(
            self._model,
            np.empty((0, len(self._model.classes))),
            Choice(nothing, nothing, np.empty(0)),
            Ids(nothing),
            nothing,
            counts,
            run,
            self._origin,
        )
        self.finish_with(rest, add)

    def finish_with(self, rest: Consensus, add: Callable[[Path], object] | None = None) -> None:
        """Write annotators, model and summary as this consensus has them."""
        rest.save_rest(self._fresh, add)
        self._finished = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._finished:
            error = RuntimeError("the run was not finished")
            self._stack.__exit__(RuntimeError, error, None)
            raise error
        self._stack.__exit__(kind, error, trace)
