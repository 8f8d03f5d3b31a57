"""The result of a run: labels with probabilities, annotators with confusions, and how it was computed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.data.texts import Texts
from consilience.data.truth import truth_codes
from consilience.exceptions import DataError, DataWarning, FormatError, warn
from consilience.files import CHECKSUMS, atomic_folder, check_checksums, write_checksums
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.choice import two_best
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.annotator_table import Health, annotator_columns
from consilience.runs.estimated_error import EstimatedError, estimate
from consilience.runs.label_table import TIE, Choice, ItemTables, TableFormat, free_names, label_columns
from consilience.runs.training import Training, probability_columns, quality_columns, training_tables

__all__ = ["SUMMARY", "TIE", "Choice", "Consensus", "choose"]

_FORMAT = {"format": "consilience.Consensus", "version": 1}
SUMMARY = "summary.json"
#: What the summary says of annotators, beside ``run``.
_FOUND = ("effective_annotators", "health")
#: What it says of the estimated error.
_ERROR = ("estimated_error", "estimated_error_low", "estimated_error_high", "estimated_error_basis")
#: Files with the codes of all labels and of known truths, item after item.
_ANSWERS, _GOLD = "answers.parquet", "gold.parquet"
#: File with what the items show.
_TEXTS = "texts.parquet"


def choose(posterior: Floats, prior: Floats, hint: Floats | None = None) -> Choice:
    """Choose the label of every item: its class, the runner-up, and the margin between them.

    The most probable class wins.  Ties (within ``TIE``) go to the class that is more probable under the ``hint``, a
    second posterior; then to the one with the larger prior; then to the first class.  The margin of a tie is 0.
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


#: Labels up to which a notebook shows the verdict.
_SHOWN_VERDICT = 50_000


@dataclass(frozen=True, eq=False)
class Consensus:
    """Consensus labels, their model, and a record of the run.

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
    #: Computes the diagnosis; None for a loaded run, which :func:`consilience.diagnose` can diagnose.
    diagnose: Callable[[Consensus], Any] | None = field(default=None, repr=False)
    #: The labels of the annotators; None if there were too many to keep.
    annotations: Annotations | None = field(default=None, repr=False, kw_only=True)
    #: Finds copies and changes over time; a loaded run returns what was found before.
    examine: Callable[[Consensus], Health] | None = field(default=None, repr=False, kw_only=True)
    #: Estimates the share of wrong labels; a loaded run returns what was estimated before.
    estimate: Callable[[Consensus], EstimatedError] | None = field(default=None, repr=False, kw_only=True)

    _unit = "item"  # what a label belongs to, in messages

    @cached_property
    def diagnosis(self) -> Any:
        """Whether the labels determine the model, with reasons and advice: a :class:`consilience.Diagnosis`.

        It is computed when first needed.
        """
        if self.diagnose is None:
            raise DataError("a loaded run has no diagnosis; use diagnose(run.annotations, consensus=run)")
        return self.diagnose(self)

    @cached_property
    def verdict(self) -> str | None:
        """Whether the labels determine who is right: "identified", "weakly" or "not"; None if nobody has looked."""
        return None if self.diagnose is None else str(self.diagnosis.verdict)

    @cached_property
    def estimated_error(self) -> EstimatedError:
        """The share of wrong labels, over items whose truth is not known: value, low, high (90 %), and basis.

        The basis is "known answers", or "labels": then it rests on the labels alone, and the interval is as wide as
        such estimates were off on public data.
        """
        if self.estimate is not None:
            return self.estimate(self)
        columns = self.label_columns
        labelled = np.asarray(columns["label"].is_valid())
        confidence = np.asarray(columns["confidence"])[labelled]
        return estimate(float(1.0 - confidence.mean()) if confidence.size else 0.0, confidence.size)

    @cached_property
    def health(self) -> Health:
        """Copies among annotators, changes over time, and the effective number of independent annotators."""
        return Health() if self.examine is None else self.examine(self)

    @property
    def effective_annotators(self) -> float | None:
        """The effective number of independent annotators: copies count once, correlated errors count less.

        Without known answers it is an upper bound: an error that all make together is not seen.
        """
        return self.health.effective

    @property
    def question(self) -> str:
        """What was asked, if the labels came from an export that names it, else ""."""
        return self.origin.question or str(self.run.get("question", ""))

    def texts_of(self, items: Any) -> list[str | None]:
        """Return what these items show, such as their text or an address, as far as an export held it."""
        if self.origin.texts is None:
            return [None] * len(items)
        return list(self.origin.texts.of(self.item_ids.to_arrow().take(pa.array(items))).to_pylist())

    @cached_property
    def labels(self) -> Any:
        """Frame with a row for each item: item, label, confidence, runner_up, margin, n_labels.

        An item that nobody labelled has no label, confidence 0 and margin 0, unless its neighbours in a sequence or on
        a graph decide its label, or silence does.
        """
        return _frames.make(self.label_columns, self.origin.frame)

    @cached_property
    def annotators(self) -> Any:
        """Frame with a row for each annotator: n_labels, accuracy, information, bias, flags, low, high."""
        return _frames.make(self.annotator_columns, self.origin.frame)

    @cached_property
    def probabilities(self) -> Any:
        """Frame with a row for each item: item, and the probability of every class in a column with its name."""
        return _frames.make(probability_columns(self), self.origin.frame)

    @cached_property
    def label_quality(self) -> Any:
        """Frame with a row for each label that was given: item, annotator, label, probability, consensus.

        ``probability`` is the probability that the label is right given all labels of the item, itself included.
        """
        return _frames.make(quality_columns(self), self.origin.frame)

    def to_training(self, threshold: float = 0.5) -> Training:
        """Return the labels to train a model with, and the items to leave out.

        Parameters
        ----------
        threshold
            Confidence below which an item is left out.  Ties and items without a label are left out too.

        Returns
        -------
        Training
            ``labels``, a frame with item, label and weight (the probability that the label is right, to be used as
            sample weight), and ``left_out``, a frame with item, label, confidence and reason.
        """
        return training_tables(self, threshold)

    @cached_property
    def label_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``labels``, computed once for all tables, files and reports."""
        return MappingProxyType(self._label_columns())

    @cached_property
    def annotator_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``annotators``, computed once for all tables, files and reports."""
        columns = annotator_columns(self.model, self.counts, self._doubt(), self.health, choose=self.silence_speaks)
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        return MappingProxyType(dict(zip(names, (self.model.annotators.to_arrow(), *columns.values()), strict=True)))

    @property
    def silence_speaks(self) -> bool:
        """Whether silence says something about an item, so that items get a label even if all are silent."""
        return bool(self.run.get("silence", "random") != "random")

    @property
    def warnings(self) -> list[str]:
        """What the user should know about this run."""
        return list(self.run["warnings"])

    def error_rate(self, truth: Any) -> float:
        """Return the percentage of wrong labels, over the items that have both a truth and a label.

        ``truth`` has any form that :meth:`consilience.Annotations.with_gold` takes.
        """
        wrong, judged = self.count_wrong(truth)
        return 100.0 * (wrong / judged)

    def count_wrong(self, truth: Any) -> tuple[int, int]:
        """Return the number of wrong labels, and that of the items with both a truth and a label."""
        codes = self.codes_of_truth(truth)
        judged = (codes >= 0) & ((self.n_labels > 0) | self.silence_speaks)
        if not judged.any():
            raise DataError(f"no {self._unit} has both a truth and a label")
        return int((self.choice.best[judged] != codes[judged]).sum()), int(judged.sum())

    def codes_of_truth(self, truth: Any) -> Codes:
        """Return the class code of every item under these truths, -1 where unknown, K where it is not a class."""
        return truth_codes(
            truth, self.item_ids, self.model.classes, column=self.origin.item, what="truth", strict=False
        )

    def items_per_class(self) -> Ints:
        """Return the number of items with each class as their label, (K,)."""
        labelled = (self.n_labels > 0) | self.silence_speaks
        counts: Ints = np.bincount(self.choice.best[labelled], minlength=len(self.model.classes))
        return counts

    def probabilities_of(self, n: int) -> Floats:
        """Return the probability of every class for item n, (K,)."""
        row: Floats = self.posterior[n]
        return row

    def judged_by(self, truth: Codes) -> tuple[Floats, Codes, Codes]:
        """Return posterior, labels and truths in codes that measures of calibration can use."""
        return self.posterior, self.choice.best, truth

    def doubtful(self, most: int = 12) -> Any:
        """Return the rows of ``labels`` with the smallest margins: what to look at first."""
        there = np.flatnonzero(self.n_labels > 0)
        columns = self.label_columns
        rows = pa.array(there[np.argsort(np.asarray(columns["margin"])[there], kind="stable")[:most]])
        return _frames.make({name: column.take(rows) for name, column in columns.items()}, self.origin.frame)

    def with_run(self, run: Mapping[str, Any]) -> Consensus:
        """Return the same consensus with another record of the run; tables computed before are kept."""
        made = replace(self, run=run)
        made.__dict__.update({key: value for key, value in self.__dict__.items() if key not in made.__dict__})
        return made

    def summary(self) -> dict[str, Any]:
        """Return the run in plain values: the content of ``summary.json``."""
        found = self.effective_annotators, self.health.to_dict()
        error = self.estimated_error
        return {
            **_FORMAT,
            **({"question": self.question} if self.question else {}),
            "verdict": self.verdict,
            **dict(zip(_ERROR, error, strict=True)),
            **self.run,
            **dict(zip(_FOUND, found, strict=True)),
        }

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
            silence=self.silence_speaks,
        )

    def _doubt(self) -> Floats | None:
        """Return Σ r (1 - r) over the labels of each annotator, where r is the probability that a label is right."""
        a = self.annotations
        if a is None:
            return None
        doubt = np.zeros(a.n_annotators)
        lengths = a.labels_per_item
        step = 1 << 18
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

        The folder appears complete or not at all; an earlier run in its place is replaced in one step.

        Parameters
        ----------
        folder
            The folder to write.
        add
            Called with the new folder before it takes its place, to add files such as a report.
        labels
            "csv" for ``labels.csv`` or "parquet" for ``labels.parquet``; by default CSV up to five million items.
        """
        with atomic_folder(folder, SUMMARY) as fresh:
            with ItemTables(fresh, len(self.item_ids), labels) as tables:
                tables.append(self.label_columns, self._posterior_table(), self.choice, self.item_ids, self.n_labels)
            self.save_rest(fresh, add)

    def save_rest(self, fresh: Path, add: Callable[[Path], object] | None = None) -> None:
        """Write everything but the tables of items into a new folder."""
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.table(dict(self.annotator_columns)), fresh / "annotators.csv")
        self.model.save(fresh / "model.npz")
        np.savez(fresh / "evidence.npz", counts=self.counts)
        origin = {role: getattr(self.origin, role) for role in ("item", "annotator", "label")}
        if self.annotations is not None:
            _save_answers(self.annotations, fresh)
        if self.origin.texts is not None:
            _save_texts(self.origin.texts, fresh)
        self._save_more(fresh)
        if add is not None:
            add(fresh)
        content = {**self.summary(), "columns": origin}
        (fresh / SUMMARY).write_text(json.dumps(content, indent=2, ensure_ascii=False, default=float) + "\n", "utf-8")
        write_checksums(fresh, leave_out=("report.html",))  # which can be written again

    def _posterior_table(self) -> Floats:
        """Return the columns p0, p1, … of ``posterior.parquet``."""
        return self.posterior

    def _save_more(self, folder: Path) -> None:
        """Write the files that a subclass adds."""

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, answers: bool = True) -> Consensus:
        """Read what :meth:`save` wrote, with or without the labels of the annotators, by far the largest part."""
        import pyarrow.parquet

        place = Path(folder)
        checked = check_checksums(place, leave_out=() if answers else (_ANSWERS,))
        try:
            summary = json.loads((place / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{place} is not the folder of a run: cannot read its {SUMMARY}") from error
        if not isinstance(summary, dict) or summary.get("format") != _FORMAT["format"]:
            raise FormatError(f"{place} is not the folder of a run")
        if summary.get("version") != _FORMAT["version"]:
            raise FormatError(f"{place} has format version {summary.get('version')}; this release reads 1")
        if not checked:
            warn(f"{place} has no {CHECKSUMS}, as runs of earlier releases: damage cannot be detected", DataWarning)
        try:
            table = pyarrow.parquet.read_table(place / "posterior.parquet")
            with np.load(place / "evidence.npz", allow_pickle=False) as file:
                counts = file["counts"]
        except (OSError, pa.ArrowException, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise FormatError(f"{place} is damaged: {error}") from error
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        model, posterior, more = cls._load_more(place, columns)
        computed = (*_FORMAT, "columns", "verdict", *_FOUND, *_ERROR)
        run = {key: value for key, value in summary.items() if key not in computed}
        items, n_labels = Ids(columns["item"]), np.asarray(columns["n_labels"])
        origin = Origin(**summary["columns"], texts=_load_texts(place))
        made = cls(
            model,
            posterior,
            Choice(*(np.asarray(columns[name]) for name in Choice._fields)),
            items,
            n_labels,
            counts,
            run,
            origin,
            annotations=_load_answers(place, n_labels, items, model, origin) if answers else None,
            examine=partial(_found_before, Health.from_dict(*(summary.get(name) for name in _FOUND))),
            estimate=_estimated_before(summary),
            **more,
        )
        made.__dict__["verdict"] = summary.get("verdict")
        return made

    @classmethod
    def _load_more(cls, folder: Path, columns: Mapping[str, Any]) -> tuple[Any, Floats, dict[str, Any]]:
        """Read the model, the posterior and the fields that a subclass adds."""
        model = DawidSkene.load(folder / "model.npz")
        return model, np.column_stack([columns[f"p{k}"] for k in range(len(model.classes))]), {}

    def _repr_html_(self) -> str:
        """Show in a notebook how far to trust the labels, items to look at first, and informative annotators."""
        from consilience.data.names import lines, table

        labels, people = (pa.table(dict(table)) for table in (self.label_columns, self.annotator_columns))
        labelled = labels.filter(labels["n_labels"].to_numpy() > 0) if self.posterior.size else labels
        first = labelled.take(np.argsort(labelled["margin"].to_numpy(), kind="stable")[:5])
        best = people.take(np.argsort(-people["information"].to_numpy(), kind="stable")[:5])
        made = lines(repr(self).strip("<>"), *self._trust())
        for caption, rows in (("Items to look at first", first), ("Annotators, most informative first", best)):
            made += table(caption, rows.column_names, zip(*rows.to_pydict().values(), strict=True))
        return str(made)

    def _trust(self) -> list[str]:
        """Return the verdict with its first reason, where it takes no more than a second, and the estimated error."""
        said = []
        known = "diagnosis" in self.__dict__ or self.run["labels"] <= _SHOWN_VERDICT
        if self.diagnose is not None and known:
            reasons = self.diagnosis.reasons[: self.verdict != "identified"]
            said = [" ".join([self.diagnosis.headline, *reasons])]
        if self.run["K"] > 1:
            error = self.estimated_error
            basis = "the labels alone" if error.basis == "labels" else error.basis
            said.append(f"Estimated error: {error}, from {basis}.")
        return said

    def __repr__(self) -> str:
        run = self.run
        state = "" if run["converged"] else ", not converged"
        return f"<Consensus: {run['N']} items, {run['M']} annotators, {run['K']} classes by {run['method']}{state}>"


def _found_before(found: Any, _: Consensus) -> Any:
    return found


def _estimated_before(summary: Mapping[str, Any]) -> Callable[[Consensus], EstimatedError] | None:
    """Return what was estimated when a run was saved; None for runs of earlier releases."""
    if any(summary.get(name) is None for name in _ERROR):
        return None
    error: Any = [summary[name] for name in _ERROR]
    return partial(_found_before, EstimatedError(*error))


def _save_answers(annotations: Annotations, folder: Path) -> None:
    """Write the codes of all labels and known truths; their names are saved with the run."""
    from pyarrow.parquet import write_table

    columns = {"annotator": pa.array(annotations.annotator), "label": pa.array(annotations.label)}
    write_table(pa.table(columns), folder / _ANSWERS, compression="zstd")
    if annotations.gold is not None:
        write_table(pa.table({"gold": pa.array(annotations.gold)}), folder / _GOLD, compression="zstd")


def _load_answers(folder: Path, n_labels: Ints, items: Ids, model: Any, origin: Origin) -> Annotations | None:
    """Read what :func:`_save_answers` wrote; None if a run was saved without its labels."""
    if not (folder / _ANSWERS).is_file():
        return None
    annotators, classes = model.annotators, model.classes
    who, said = _read_codes(folder / _ANSWERS, annotator=len(annotators), label=len(classes))
    gold = _read_codes(folder / _GOLD, gold=len(classes))[0] if (folder / _GOLD).is_file() else None
    if who.size != n_labels.sum() or (gold is not None and gold.size != len(items)):
        raise FormatError(f"{folder} is damaged: its {_ANSWERS} belongs to another run")
    indptr = np.concatenate([[0], np.cumsum(n_labels)])
    return Annotations(indptr, who, said, items=items, annotators=annotators, classes=classes, gold=gold, origin=origin)


def _save_texts(texts: Texts, folder: Path) -> None:
    from pyarrow.parquet import write_table

    write_table(pa.table({"item": texts.items.to_arrow(), "text": texts.texts}), folder / _TEXTS, compression="zstd")


def _load_texts(folder: Path) -> Texts | None:
    from pyarrow.parquet import read_table

    if not (folder / _TEXTS).is_file():
        return None
    try:
        table = read_table(folder / _TEXTS)
        return Texts(Ids(table["item"].combine_chunks()), table["text"].combine_chunks())
    except (OSError, pa.ArrowException, KeyError) as error:
        raise FormatError(f"{folder} is damaged: {error}") from error


def _read_codes(path: Path, **names: int) -> list[Ints]:
    """Read columns of codes, each below the number given for it."""
    from pyarrow.parquet import read_table

    try:
        table = read_table(path)
        columns = [np.asarray(table[name].combine_chunks()) for name in names]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise FormatError(f"{path.parent} is damaged: {error}") from error
    for codes, (name, most) in zip(columns, names.items(), strict=True):
        least = -1 if name == "gold" else 0
        if codes.dtype.kind not in "iu" or (codes.size and not least <= codes.min() <= codes.max() < most):
            raise FormatError(f"{path.parent} is damaged: {path.name} has a code without a name")
    return columns
