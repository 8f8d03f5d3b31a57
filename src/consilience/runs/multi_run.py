"""The result of a run over answers that name several options: a decision for every option of every item."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames as _frames
from consilience.data.ids import Ids
from consilience.data.option_sets import joined_options, option_sets, truth_sets
from consilience.exceptions import DataError, FormatError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.models.multi import MultiModel
from consilience.runs.annotator_table import FEW, accuracy_columns, annotator_table, information
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import TIE, Choice, chosen_columns, free_names

__all__ = ["MultiRun", "OptionScores", "chosen_sets"]

_OPTIONS = "options.parquet"
#: An annotator whose decisions tell less than this share of what is not known of an option is a spammer.
_SPAM = 0.02


class OptionScores(NamedTuple):
    """Decisions on options against the truth."""

    precision: float  #: share of chosen options that are true
    recall: float  #: share of true options that are chosen
    f1: float
    error_rate: float  #: percent of decisions that are wrong
    log_loss: float


def chosen_sets(
    first: Ints, option: Codes, probability: Floats, options: Ids, spelling: Mapping[str, str]
) -> tuple[Choice, Floats, Ids]:
    """Return the two most probable sets of every item, the probability of the first, and the texts of all sets.

    Decisions on the options of an item count as independent, so the second set differs in the least sure option.
    """
    N, item = first.size - 1, np.repeat(np.arange(first.size - 1), np.diff(first))
    chosen = probability > 0.5
    sure = np.maximum(probability, 1.0 - probability)
    confidence = np.exp(np.bincount(item, np.log(sure), N))
    # the least sure candidate of each item; of equal ones the first option by name
    order = np.lexsort((option, np.round(sure, 9), item))
    some = np.diff(first) > 0
    least = order[first[:-1][some]]
    other = chosen.copy()
    other[least] = ~other[least]
    margin = confidence.copy()
    margin[some] *= np.maximum(2.0 - 1.0 / sure[least], 0.0)  # P - P (1 - s) / s
    texts = [_texts(item, option, which, N, options) for which in (chosen, other)]
    written = pa.concat_arrays(texts).dictionary_encode()
    names = [spelling.get(text, text) for text in written.dictionary.to_pylist()]
    vocabulary = sorted({*names, *spelling.values()})
    place = {name: code for code, name in enumerate(vocabulary)}
    codes = np.array([place[name] for name in names], np.int64)[np.asarray(written.indices)]
    margin = np.where(margin <= TIE, 0.0, margin)
    return Choice(codes[:N], codes[N:], margin), confidence, Ids(pa.array(vocabulary, pa.string()))


def _texts(item: Ints, option: Codes, which: Bools, N: int, options: Ids) -> pa.Array:
    first = np.concatenate([[0], np.cumsum(np.bincount(item[which], minlength=N))])
    return joined_options(options, first, option[which])


@dataclass(frozen=True, eq=False, repr=False)
class MultiRun(Consensus):
    """A consensus of answers that name several options.

    ``posterior`` holds the probability of every candidate option, item after item, and ``options`` shows them in a
    frame.  ``counts`` are the expected decisions of each annotator on false and true options that are no and yes,
    (M, 2, 2): ``counts[m, said, truth]``.
    """

    model: MultiModel  # type: ignore[assignment]
    first: Ints = field(kw_only=True, repr=False)  #: where the candidates of each item begin, (N + 1,)
    option: Codes = field(kw_only=True, repr=False)  #: option of each candidate, (C,)
    n_ticks: Codes = field(kw_only=True, repr=False)  #: how many ticked each candidate, (C,)

    @cached_property
    def options(self) -> Any:
        """Frame with a row for each option of each item: item, option, probability, n_ticks, n_labels."""
        return _frames.make(self._option_columns(), self.origin.frame)

    @cached_property
    def probabilities(self) -> Any:
        """Frame with a row for each item: item, and the probability of every option in a column with its name."""
        if not self.model.shared:
            raise DataError("options differ from item to item, and cannot be columns; the frame options lists them")
        table = self.posterior.reshape(len(self.item_ids), -1)
        columns = {str(name): pa.array(table[:, o]) for o, name in enumerate(self.model.options)}
        name = self.origin.item
        while name in columns:
            name += "_"
        return _frames.make({name: self.item_ids.to_arrow(), **columns}, self.origin.frame)

    @property
    def label_quality(self) -> Any:
        """Refused: an answer is a set of decisions; ``options`` has the probability of each."""
        raise DataError(
            "the quality of labels is for one label from each annotator; the frame options has probabilities"
        )

    @property
    def _item(self) -> Ints:
        """The item of each candidate, (C,)."""
        return np.repeat(np.arange(len(self.item_ids)), np.diff(self.first))

    def option_scores(self, truth: Any) -> OptionScores:
        """Return precision, recall, F1, error rate and log-loss of the decisions on options.

        Judged are items that have both a truth and a label; an option that nobody ticked is a decision too if it is
        true.  ``truth`` has sets joined by ``|``, in any form that :meth:`consilience.Annotations.with_gold` takes.
        """
        known, of_item, option, missed = self._truth(truth)
        judged = known & (self.n_labels > 0)
        if not judged.any():
            raise DataError("no item has both a truth and a label")
        at = judged[self._item]
        key, true = self._item * len(self.model.options) + self.option, of_item * len(self.model.options) + option
        right = np.isin(key, true)[at]
        # true options that are not among the candidates count as decided wrongly, with a probability of zero
        absent = int((~np.isin(true, key) & judged[of_item]).sum()) + int(judged[missed].sum())
        p = np.concatenate([self.posterior[at], np.zeros(absent)])
        right = np.concatenate([right, np.ones(absent, np.bool_)])
        said = p > 0.5
        hits = float((said & right).sum())
        safe = np.clip(np.where(right, p, 1.0 - p), 1e-3, 1.0)
        return OptionScores(
            hits / max(float(said.sum()), 1.0),
            hits / max(float(right.sum()), 1.0),
            2.0 * hits / max(float(said.sum() + right.sum()), 1.0),
            100.0 * float(np.mean(said != right)),
            float(-np.log(safe).mean()),
        )

    def _truth(self, truth: Any) -> tuple[Bools, Ints, Ints, Ints]:
        return truth_sets(truth, self.item_ids, self.model.options, column=self.origin.item, what="truth")

    def codes_of_truth(self, truth: Any) -> Codes:
        """Return the code of the set of every item under these truths, -1 where unknown, K where nobody gave it."""
        known, of_item, option, missed = self._truth(truth)
        keys = joined_options(*option_sets(self.model.classes))
        order = np.lexsort((option, of_item))
        N = len(self.item_ids)
        first = np.concatenate([[0], np.cumsum(np.bincount(of_item, minlength=N))])
        texts = joined_options(self.model.options, first, option[order])
        codes = np.asarray(pc.index_in(texts, value_set=keys).fill_null(len(keys)), np.int64)
        codes[missed] = len(keys)
        codes[~known] = -1
        return codes

    def probabilities_of(self, n: int) -> Floats:
        """Return the probability of every set for item n, (K,): that of the two most probable ones."""
        row = np.zeros(len(self.model.classes))
        best = np.asarray(self.label_columns["confidence"])[n]
        row[self.choice.second[n]] = best - self.choice.margin[n]
        row[self.choice.best[n]] = best
        return row

    def judged_by(self, truth: Codes) -> tuple[Floats, Codes, Codes]:
        """Return posterior, labels and truths in codes: 0 for the chosen set, 1 for any other."""
        p = np.asarray(self.label_columns["confidence"])
        codes = np.where(truth < 0, -1, (truth != self.choice.best).astype(np.int64))
        return np.column_stack([p, 1.0 - p]), np.zeros(p.size, np.int64), codes

    @cached_property
    def annotator_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``annotators``, with the sensitivity and specificity of each.

        Accuracy is over decisions on options; sensitivity is the share of true options that are ticked, specificity
        the share of false ones that are not.
        """
        counts = self.counts
        n_labels = np.bincount(self._annotator, minlength=len(counts))
        asked = counts.sum(axis=(1, 2))
        accuracy = accuracy_columns(counts[:, 0, 0] + counts[:, 1, 1], asked)
        accuracy["n_labels"] = pa.array(n_labels)
        met = counts.sum(axis=1)
        shares = np.divide(counts, met[:, None, :], out=np.full_like(counts, 0.5), where=met[:, None, :] > 0.5)
        prior = met.sum(axis=0) / max(float(met.sum()), 1e-300)
        bits = information(prior, shares)
        entropy = -float(np.sum(prior * np.log2(np.maximum(prior, 1e-300))))
        spam = (bits < _SPAM * entropy) | (self.model.slope <= 0.0)
        flags = np.where(n_labels < FEW, "few labels", np.where(spam, "spammer", "")).tolist()
        biases = [_bias(*pair) for pair in zip(counts.tolist(), shares.tolist(), strict=True)]
        table = annotator_table(accuracy, bits, biases, flags)
        rates = {"sensitivity": (shares[:, 1, 1], met[:, 1]), "specificity": (shares[:, 0, 0], met[:, 0])}
        columns = {name: table[name] for name in ("n_labels", "accuracy")}
        columns |= {name: pa.array(rate, mask=seen <= 0.5) for name, (rate, seen) in rates.items()}
        columns |= {name: table[name] for name in ("information", "bias", "flags", "low", "high")}
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        values = (self.model.annotators.to_arrow(), *columns.values())
        return MappingProxyType(dict(zip(names, values, strict=True)))

    @property
    def _annotator(self) -> Codes:
        if self.annotations is None:
            raise DataError("the run does not hold its labels; aggregate them in memory")
        return self.annotations.annotator

    def _label_columns(self) -> dict[str, pa.Array]:
        sure = np.maximum(self.posterior, 1.0 - self.posterior)
        confidence = np.exp(np.bincount(self._item, np.log(sure), len(self.item_ids)))
        unlabelled = self.n_labels == 0
        if self.annotations is not None and self.annotations.gold is not None:
            unlabelled &= self.annotations.gold < 0
        return chosen_columns(
            self.choice,
            confidence,
            self.item_ids,
            self.n_labels,
            classes=self.model.classes,
            item=self.origin.item,
            without=(unlabelled, unlabelled | (np.diff(self.first) == 0)),
        )

    def _option_columns(self) -> dict[str, pa.Array]:
        names = free_names(self.origin.item, ("option", "probability", "n_ticks", "n_labels"), "item")
        columns = (
            self.item_ids.to_arrow().take(pa.array(self._item)),
            self.model.options.to_arrow().take(pa.array(self.option)),
            pa.array(self.posterior),
            pa.array(self.n_ticks),
            pa.array(self.n_labels[self._item]),
        )
        return dict(zip(names, columns, strict=True))

    def __repr__(self) -> str:
        run = self.run
        return f"<MultiRun: {run['N']} items, {run['M']} annotators, {run['options']} options by {run['method']}>"

    # ---- files ------------------------------------------------------------------------------------------

    def _posterior_table(self) -> Floats:
        return np.empty((len(self.item_ids), 0))

    def _save_more(self, folder: Path) -> None:
        from pyarrow.parquet import write_table

        codes = {"item_code": pa.array(self._item), "option_code": pa.array(self.option)}
        write_table(pa.table({**self._option_columns(), **codes}), folder / _OPTIONS)

    @classmethod
    def _load_more(cls, folder: Path, columns: Mapping[str, Any]) -> tuple[Any, Floats, dict[str, Any]]:
        from pyarrow.parquet import read_table

        try:
            table = read_table(folder / _OPTIONS)
            item, option, posterior, n_ticks = (
                np.asarray(table[name].combine_chunks())
                for name in ("item_code", "option_code", "probability", "n_ticks")
            )
        except (OSError, pa.ArrowException, KeyError) as error:
            raise FormatError(f"{folder} is damaged: {error}") from error
        first = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=len(columns["item"])))])
        return MultiModel.load(folder / "model.npz"), posterior, {"first": first, "option": option, "n_ticks": n_ticks}

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a run over answers that name several options."""
        return (Path(folder) / _OPTIONS).is_file()


def _bias(counts: list[list[float]], shares: list[list[float]]) -> str:
    """Return the more frequent mistake of an annotator, in words."""
    missed, ticked = counts[0][1], counts[1][0]
    what, share = ("misses true", shares[0][1]) if missed >= ticked else ("ticks false", shares[1][0])
    return f"{what} options ({100 * share:.0f}%)" if share >= 0.005 else ""
