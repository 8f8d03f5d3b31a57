"""The consensus of labels on disk: the model is in memory, and items are labelled block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.engine.gold import gold_of_items
from consilience.engine.progress import Callback, steps
from consilience.engine.scanned import Scanned
from consilience.engine.store import Store
from consilience.exceptions import DataError
from consilience.files import atomic_folder
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_shares, vote_statistics
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import SUMMARY, Consensus, choose
from consilience.runs.estimated_error import EstimatedError, estimate
from consilience.runs.label_table import Choice, ItemTables, TableFormat, label_columns

__all__ = ["StreamedConsensus"]

#: Labels of a block.
_BLOCK = 1 << 20
#: Items listed for review.
_DOUBTFUL = 12


class Block(NamedTuple):
    """Some items, labelled."""

    items: Ids
    n_labels: Ints
    posterior: Floats
    choice: Choice


class Overview(NamedTuple):
    """Results of one pass over all labelled items."""

    per_class: Ints  #: items of each class, (K,)
    doubt: Floats  #: Σ r (1 - r) over the labels of each annotator, r = Pr(label is right), (M,)
    doubtful: pa.Table  #: the items with the smallest margins
    against: float  #: Σ over items of the share of their labels that differ from the consensus


class StreamedConsensus(Consensus):
    """A consensus whose items are labelled block by block.

    It has all of :class:`consilience.Consensus`.  :meth:`save`, :meth:`error_rate` and :meth:`blocks` need memory for
    one block at a time; ``labels``, ``posterior``, ``choice``, ``item_ids`` and ``n_labels`` for all items.
    """

    def __init__(
        self,
        scanned: Scanned,
        model: DawidSkene,
        counts: Floats | None,
        run: Mapping[str, Any],
        *,
        by_votes: bool = False,
        predictor: Callable[[Annotations], tuple[Floats, Floats]] | None = None,
        judged: Consensus | None = None,
        callback: Callback | None = None,
    ) -> None:
        values = {"scanned": scanned, "model": model, "run": run, "origin": scanned.origin, "annotations": None}
        values |= {"by_votes": by_votes, "predictor": predictor, "judged": judged, "callback": callback}
        diagnose = None if judged is None or judged.diagnose is None else lambda _: judged.diagnosis
        examine = None if judged is None else lambda _: judged.health
        for name, value in {**values, "diagnose": diagnose, "examine": examine}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "counts", self._counted() if counts is None else counts)

    scanned: Scanned
    by_votes: bool  #: whether the share of votes is the posterior, and the model breaks ties
    #: Returns probabilities and vote shares of items, if they do not follow from the model alone.
    predictor: Callable[[Annotations], tuple[Floats, Floats]] | None
    judged: Consensus | None  #: that of a sample, which has verdict, estimated error and health
    callback: Callback | None

    @property
    def store(self) -> Store:
        """The labels."""
        return self.scanned.store

    def with_run(self, run: Mapping[str, Any]) -> StreamedConsensus:
        """Return the same consensus with another ``run``."""
        made = type(self)(
            self.scanned,
            self.model,
            self.counts,
            run,
            by_votes=self.by_votes,
            predictor=self.predictor,
            judged=self.judged,
            callback=self.callback,
        )
        if "overview" in self.__dict__:
            made.__dict__["overview"] = self.overview
        return made

    def blocks(self, step: str = "labels") -> Iterator[Block]:
        """Label all items, block by block."""
        told = steps(self.callback, step, self.store.n_labels)
        for first, stop in self.store.cut(_BLOCK):
            block = self._block(first, stop)
            posterior, hint = self._posterior(block)
            choice = choose(posterior, self.model.prior, hint)
            yield Block(block.item_ids, block.labels_per_item, posterior, choice)
            if told:
                told(block.n_labels)
            self.store.release(first, stop)

    @cached_property
    def _codes(self) -> Ints:
        """The class of the model of each class of the labels, which may be in another order."""
        return np.asarray(self.model.classes.codes_of(self.store.class_ids.to_arrow()))

    def _block(self, first: int, stop: int) -> Annotations:
        block = self.store.annotations(first, stop)
        same = (self._codes == np.arange(self._codes.size)).all()
        return block if same else block.recode(block.annotator_ids, self.model.classes)

    def _posterior(self, block: Annotations) -> tuple[Floats, Floats | None]:
        """Return the posterior of some items, and a second one that breaks ties."""
        if self.predictor is not None:
            return self.predictor(block)
        posterior = self.model.posterior(block)
        if self.by_votes:
            return vote_shares(block.indptr, block.label, block.gold, block.n_classes), posterior
        return posterior, None

    def _counted(self) -> Floats:
        """Return how many times annotator m is expected to have said i of truth k, by the probabilities of items."""
        M, K = len(self.model.annotators), len(self.model.classes)
        counts = np.zeros((M, K, K))
        for first, stop in self.store.cut(_BLOCK):
            block = self._block(first, stop)
            posterior, _ = self._posterior(block)
            counts += vote_statistics(block.indptr, block.annotator, block.label, posterior, M).counts
            self.store.release(first, stop)
        return counts

    # ---- all items at once ---------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> Block:
        parts = list(self.blocks())
        choices = [np.concatenate(column) for column in zip(*(part.choice for part in parts), strict=True)]
        return Block(
            self.store.item_ids(),
            np.concatenate([part.n_labels for part in parts]),
            np.concatenate([part.posterior for part in parts]),
            Choice(*choices),
        )

    @property
    def posterior(self) -> Floats:
        """Pr(truth of n = k | labels of n), (N, K)."""
        return self._whole.posterior

    @property
    def choice(self) -> Choice:
        """The label of every item."""
        return self._whole.choice

    @property
    def item_ids(self) -> Ids:
        """The names of all items."""
        return self._whole.items

    @property
    def n_labels(self) -> Ints:
        """Labels of each item, (N,)."""
        return self._whole.n_labels

    # ---- a block at a time ---------------------------------------------------------------------------------

    @cached_property
    def overview(self) -> Overview:
        """Results of one pass over all labelled items."""
        for _ in self._overviewed():
            pass
        made: Overview = self.__dict__["overview"]
        return made

    def _overviewed(self) -> Iterator[Block]:
        """Yield every block, and compute the overview on the way."""
        M, K, _ = self.counts.shape
        per_class, doubt = np.zeros(K, np.int64), np.zeros(M)
        doubtful: pa.Table | None = None
        first, against = 0, 0.0
        for block in self.blocks("writing labels"):
            yield block
            per_class += np.bincount(block.choice.best[block.n_labels > 0], minlength=K)
            low, high = self.store.indptr[[first, first + block.n_labels.size]]
            first += block.n_labels.size
            item = np.repeat(np.arange(block.n_labels.size), block.n_labels)
            label = self._codes[self.store.label[low:high]]
            r = block.posterior[item, label]
            differ = label != block.choice.best[item]
            against += float((differ / block.n_labels[item]).sum())
            doubt += np.bincount(self.store.annotator[low:high], r * (1.0 - r), M)
            there = np.flatnonzero(block.n_labels > 0)
            least = there[np.argsort(block.choice.margin[there], kind="stable")[:_DOUBTFUL]]
            some = Block(
                block.items.take(least),
                block.n_labels[least],
                block.posterior[least],
                Choice(*(column[least] for column in block.choice)),
            )
            rows = pa.table(self._columns(some))
            rows = rows if doubtful is None else pa.concat_tables([doubtful, rows])
            doubtful = rows.take(pa.array(np.argsort(rows["margin"].to_numpy(), kind="stable")[:_DOUBTFUL]))
        self.__dict__["overview"] = Overview(per_class, doubt, doubtful, against)

    def _columns(self, block: Block) -> dict[str, pa.Array]:
        return label_columns(
            block.posterior,
            block.choice,
            block.items,
            block.n_labels,
            classes=self.model.classes,
            prior=self.model.prior,
            item=self.origin.item,
            gold=bool(self.run.get("gold_items")),
        )

    def items_per_class(self) -> Ints:
        """Count the items of each class."""
        return self.overview.per_class

    def doubtful(self, most: int = _DOUBTFUL) -> Any:
        """Return the rows of ``labels`` with the smallest margins."""
        table = self.overview.doubtful[:most]
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        return _frames.make(columns, self.origin.frame)

    def _doubt(self) -> Floats:
        return self.overview.doubt

    @cached_property
    def estimated_error(self) -> EstimatedError:
        """The share of wrong labels: of a sample, or from known answers and labels that differ from the consensus."""
        if self.judged is not None:
            return self.judged.estimated_error
        labelled = int(self.overview.per_class.sum())
        known = self.run.get("known_answers", {"items": 0, "error_with": 0.0})
        wrong = round(known["error_with"] * known["items"])
        return estimate(self.overview.against / max(labelled, 1), labelled, wrong=wrong, known=known["items"])

    def count_wrong(self, truth: Any) -> tuple[int, int]:
        """Return the number of wrong labels, and that of the items with both a truth and a label."""
        names = (self.store.item_ids(first, stop).to_arrow() for first, stop in self.store.cut(_BLOCK))
        places, codes = gold_of_items(truth, names, self.model.classes, self.origin.item, what="truth", strict=False)
        wrong = judged = first = 0
        for block in self.blocks("comparing with the truth"):
            low, high = np.searchsorted(places, [first, first + len(block.items)])
            at = places[low:high] - first
            counted = block.n_labels[at] > 0
            judged += int(counted.sum())
            wrong += int((block.choice.best[at] != codes[low:high])[counted].sum())
            first += len(block.items)
        if not judged:
            raise DataError("no item has both a truth and a label")
        return wrong, judged

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        add: Callable[[Path], object] | None = None,
        labels: TableFormat | None = None,
    ) -> None:
        """Write the run to a folder, like :meth:`consilience.Consensus.save`, block by block."""
        with atomic_folder(folder, SUMMARY) as fresh:
            with ItemTables(fresh, self.store.n_items, labels) as tables:
                for block in self._overviewed():
                    tables.append(self._columns(block), block.posterior, block.choice, block.items, block.n_labels)
            self.save_rest(fresh, add)
