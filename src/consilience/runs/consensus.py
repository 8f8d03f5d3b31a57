"""What a run gives back: labels with probabilities, annotators with confusions, and how it was computed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.data.truth import truth_codes
from consilience.exceptions import DataError, FormatError
from consilience.files import atomic_folder
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.choice import two_best
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.annotator_table import Health, annotator_columns
from consilience.runs.answers import load_answers, save_answers
from consilience.runs.label_table import TIE, Choice, ItemTables, TableFormat, free_names, label_columns

__all__ = ["SUMMARY", "TIE", "Choice", "Consensus", "choose"]

_FORMAT = {"format": "consilience.Consensus", "version": 1}
SUMMARY = "summary.json"
#: What the summary says of annotators, beside the run.
_FOUND = ("effective_annotators", "health")


def choose(posterior: Floats, prior: Floats, hint: Floats | None = None) -> Choice:
    """Choose the label of every item: its class, the runner-up, and the margin between them.

    The most probable class wins.  Among classes that tie (within ``TIE``), the one that the ``hint``, a second
    opinion of the same shape, finds more probable; then the one with the larger prior; then the first in the order of
    the classes.  The margin of a tie is 0.
    """
    K = prior.size
    order = np.lexsort((np.arange(K), -np.round(prior, 9)))
    best, second, margin = two_best(posterior, order, TIE)
    if K == 1:
        return Choice(best, best, posterior[:, 0].copy())
    margin[margin <= TIE] = 0.0
    if hint is not None:
        ties = np.flatnonzero(margin == 0.0)
        top = posterior[ties].max(axis=1, keepdims=True)
        by_hint = np.where(posterior[ties] >= top - TIE, hint[ties], -1.0)
        best[ties], second[ties], _ = two_best(by_hint, order, TIE)
    return Choice(best, second, margin)


@dataclass(frozen=True, eq=False)
class Consensus:
    """Consensus labels, the model behind them, and the story of the run.

    ``labels`` and ``annotators`` are frames of the kind that the data came in.
    """

    model: DawidSkene
    posterior: Floats  #: Pr(truth of n = k | labels of n), (N, K)
    choice: Choice
    item_ids: Ids
    n_labels: Ints  #: labels of each item, (N,)
    counts: Floats  #: expected number of times that annotator m said i of truth k, (M, K, K)
    run: Mapping[str, Any]  #: method, seed, seconds, log_likelihood, converged, iterations, warnings, …
    origin: Origin = field(default_factory=Origin)
    #: Gives the diagnosis of this run's labels; a run that was loaded leaves that to :func:`consilience.diagnose`.
    diagnose: Callable[[Consensus], Any] | None = field(default=None, repr=False)
    #: What annotators said; None where there were too many labels to keep.
    annotations: Annotations | None = field(default=None, repr=False, kw_only=True)
    #: Looks at the labels for copies and changes; a run that was loaded knows what was found.
    examine: Callable[[Consensus], Health] | None = field(default=None, repr=False, kw_only=True)

    @cached_property
    def diagnosis(self) -> Any:
        """Whether the labels determine the model, with reasons and advice: a :class:`consilience.Diagnosis`.

        It is made when first asked for.
        """
        if self.diagnose is None:
            raise DataError("a run that was loaded has no diagnosis; use diagnose(run.annotations, consensus=run)")
        return self.diagnose(self)

    @cached_property
    def health(self) -> Health:
        """Who copies whom, who changes over time, and how many independent annotators the crowd is worth."""
        return Health() if self.examine is None else self.examine(self)

    @property
    def effective_annotators(self) -> float | None:
        """The effective number of independent annotators: copies count once, and errors that go together count less.

        Without known answers it is the most that it can be: what all get wrong together looks right.
        """
        return self.health.effective

    @cached_property
    def labels(self) -> Any:
        """Frame with a row for each item: item, label, confidence, runner_up, margin, n_labels.

        An item that nobody labelled has no label, confidence 0 and margin 0; beside neighbours that tell of it, in a
        sequence or on a graph, it has.
        """
        return _frames.make(self._label_columns(), self.origin.frame)

    @cached_property
    def annotators(self) -> Any:
        """Frame with a row for each annotator: n_labels, accuracy, information, bias, flags, low, high."""
        return _frames.make(self._annotator_columns(), self.origin.frame)

    @property
    def warnings(self) -> list[str]:
        """What the user should know about this run."""
        return list(self.run["warnings"])

    def error_rate(self, truth: Any) -> float:
        """Give the percentage of wrong labels, over the items that have both a truth and a label.

        ``truth`` is what :meth:`consilience.Annotations.with_gold` takes.
        """
        codes = truth_codes(
            truth, self.item_ids, self.model.classes, column=self.origin.item, what="truth", strict=False
        )
        judged = (codes >= 0) & (self.n_labels > 0)
        if not judged.any():
            raise DataError("no item has both a truth and a label")
        return 100.0 * float(np.mean(self.choice.best[judged] != codes[judged]))

    def items_per_class(self) -> Ints:
        """Count the items that were given each class, (K,)."""
        counts: Ints = np.bincount(self.choice.best[self.n_labels > 0], minlength=len(self.model.classes))
        return counts

    def doubtful(self, most: int = 12) -> Any:
        """Give the rows of ``labels`` with the smallest margins: what to look at first."""
        there = np.flatnonzero(self.n_labels > 0)
        columns = self._label_columns()
        rows = pa.array(there[np.argsort(np.asarray(columns["margin"])[there], kind="stable")[:most]])
        return _frames.make({name: column.take(rows) for name, column in columns.items()}, self.origin.frame)

    def with_run(self, run: Mapping[str, Any]) -> Consensus:
        """Give the same consensus with another story."""
        return replace(self, run=run)

    def summary(self) -> dict[str, Any]:
        """Give the run in plain values: what ``summary.json`` holds."""
        found = self.effective_annotators, self.health.to_dict()
        return {**_FORMAT, **self.run, **dict(zip(_FOUND, found, strict=True))}

    def _label_columns(self) -> dict[str, pa.Array]:
        return label_columns(
            self.posterior,
            self.choice,
            self.item_ids,
            self.n_labels,
            classes=self.model.classes,
            prior=self.model.prior,
            item=self.origin.item,
            gold=bool(self.run.get("gold_items")),
            neighbours=bool(self.run.get("neighbours")),
        )

    def _annotator_columns(self) -> dict[str, Any]:
        columns = annotator_columns(self.model, self.counts, self._doubt(), self.health)
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        return dict(zip(names, (self.model.annotators.to_arrow(), *columns.values()), strict=True))

    def _doubt(self) -> Floats | None:
        """Give the sum of r (1 - r) over the labels of each annotator, r the probability that a label is right."""
        a = self.annotations
        if a is None:
            return None
        doubt = np.zeros(a.n_annotators)
        lengths = a.labels_per_item
        step = 1 << 20
        for first in range(0, a.n_items, step):
            items = slice(first, first + step)
            labels = slice(int(a.indptr[first]), int(a.indptr[min(first + step, a.n_items)]))
            item = np.repeat(np.arange(lengths[items].size), lengths[items])
            r = self.posterior[items][item, a.label[labels]]
            doubt += np.bincount(a.annotator[labels], r * (1.0 - r), a.n_annotators)
        return doubt

    # ---- files ------------------------------------------------------------------------------------------

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        add: Callable[[Path], object] | None = None,
        labels: TableFormat | None = None,
    ) -> None:
        """Write the run to a folder: tables as CSV, the model as npz, the summary as JSON.

        The folder appears whole or not at all; an earlier run in its place is replaced in one step.

        Parameters
        ----------
        folder
            Where to.
        add
            Called with the folder before it takes its place, to write more files into it, such as a report.
        labels
            "csv" for ``labels.csv`` or "parquet" for ``labels.parquet``; by default CSV, and Parquet for more than five
            million items.
        """
        with atomic_folder(folder, SUMMARY) as fresh:
            with ItemTables(fresh, len(self.item_ids), labels) as tables:
                tables.append(self._label_columns(), self.posterior, self.choice, self.item_ids, self.n_labels)
            self.save_rest(fresh, add)

    def save_rest(self, fresh: Path, add: Callable[[Path], object] | None = None) -> None:
        """Write all but the tables of items, into a folder that is not in its place yet."""
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.table(self._annotator_columns()), fresh / "annotators.csv")
        self.model.save(fresh / "model.npz")
        np.savez(fresh / "evidence.npz", counts=self.counts)
        origin = {
            "item": self.origin.item,
            "annotator": self.origin.annotator,
            "label": self.origin.label,
        }
        if self.annotations is not None:
            save_answers(self.annotations, fresh)
        self._save_more(fresh)
        if add is not None:
            add(fresh)
        content = {**self.summary(), "columns": origin}
        (fresh / SUMMARY).write_text(json.dumps(content, indent=2, ensure_ascii=False, default=float) + "\n", "utf-8")

    def _save_more(self, folder: Path) -> None:
        """Write what a richer kind of run adds."""

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Consensus:
        """Read what :meth:`save` wrote."""
        return cls.load_part(folder)

    @classmethod
    def load_part(cls, folder: str | os.PathLike[str], *, answers: bool = True) -> Consensus:
        """Read a run, with or without what annotators said: the answers are by far the largest part of it."""
        import pyarrow.parquet

        place = Path(folder)
        try:
            summary = json.loads((place / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{place} is not the folder of a run: cannot read its {SUMMARY}") from error
        if not isinstance(summary, dict) or summary.get("format") != _FORMAT["format"]:
            raise FormatError(f"{place} is not the folder of a run")
        if summary.get("version") != _FORMAT["version"]:
            raise FormatError(f"{place} has format version {summary.get('version')}; this release reads 1")
        try:
            table = pyarrow.parquet.read_table(place / "posterior.parquet")
            with np.load(place / "evidence.npz", allow_pickle=False) as file:
                counts = file["counts"]
        except (OSError, pa.ArrowException, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise FormatError(f"{place} is damaged: {error}") from error
        model = DawidSkene.load(place / "model.npz")
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        posterior = np.column_stack([columns[f"p{k}"] for k in range(len(model.classes))])
        run = {key: value for key, value in summary.items() if key not in (*_FORMAT, "columns", *_FOUND)}
        items, n_labels, origin = Ids(columns["item"]), np.asarray(columns["n_labels"]), Origin(**summary["columns"])
        return cls(
            model,
            posterior,
            Choice(*(np.asarray(columns[name]) for name in Choice._fields)),
            items,
            n_labels,
            counts,
            run,
            origin,
            annotations=load_answers(place, n_labels, items, model.annotators, model.classes, origin)
            if answers
            else None,
            examine=partial(_found_before, Health.from_dict(*(summary.get(name) for name in _FOUND))),
        )

    def _repr_html_(self) -> str:
        """Show the items to look at first and the most informative annotators, in notebooks."""
        from consilience.data.names import lines, table

        labels, people = pa.table(self._label_columns()), pa.table(self._annotator_columns())
        labelled = labels.filter(labels["n_labels"].to_numpy() > 0) if self.posterior.size else labels
        first = labelled.take(np.argsort(labelled["margin"].to_numpy(), kind="stable")[:5])
        best = people.take(np.argsort(-people["information"].to_numpy(), kind="stable")[:5])
        made = lines(repr(self).strip("<>"))
        for caption, rows in (("Items to look at first", first), ("Annotators, most informative first", best)):
            made += table(caption, rows.column_names, zip(*rows.to_pydict().values(), strict=True))
        return str(made)

    def __repr__(self) -> str:
        run = self.run
        state = "" if run["converged"] else ", not converged"
        return f"<Consensus: {run['N']} items, {run['M']} annotators, {run['K']} classes by {run['method']}{state}>"


def _found_before(health: Health, _: Consensus) -> Health:
    return health
