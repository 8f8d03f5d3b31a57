"""How a stream learns: new labels are held, fitted, settled into sums, and reopened when their item is labelled again.

:mod:`consilience.streams.stream` describes the whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from consilience.auto.expected_error import LATER
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import DataWarning, ParameterError
from consilience.fitting.em import Callback, Parameters
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.grouping import group_by_item
from consilience.methods.base.cautions import warn_of
from consilience.methods.base.running import run_method
from consilience.runs.consensus import Consensus
from consilience.streams.archive import Archive
from consilience.streams.em import LabelsWithPast, StreamFit, ratios_of
from consilience.streams.input import read_update
from consilience.streams.names import Lookup, Vocabulary, joined, lots
from consilience.streams.past import Past, sums_of
from consilience.streams.solve import STREAMED, FitInput, model_step, pseudo_counts
from consilience.validation import whole

__all__ = ["REMEMBER", "WINDOW", "Learning", "check_limits"]

#: Default number of labels that are held.
WINDOW = 100_000
#: Default number of settled labels that are remembered, to be reopened when their item is labelled again.
REMEMBER = 10_000_000


@dataclass(frozen=True)
class _Present:
    """The held labels and their fit."""

    items: Ints  #: codes of their items, ascending
    active: Ints  #: codes of their annotators, ascending
    labels: Annotations  #: in the codes of these
    fit: StreamFit
    ratios: Floats | None = None  #: evidence of the past about the items
    whole: Consensus | None = None  #: the consensus, if all labels are held


class Learning:
    """The state of a stream, and its updates.

    Parameters
    ----------
    method, seed, parameters
        As checked by :class:`consilience.streams.stream.Stream`.
    limits
        Share that each update forgets, number of labels to hold and number to remember.
    """

    def __init__(
        self, method: str, seed: int | None, parameters: Mapping[str, Any], limits: tuple[float, int, int]
    ) -> None:
        self.method, self.seed, self.parameters = method, seed, dict(parameters)
        self.forget, self.window, self.remember = limits
        self.updates, self.seconds = 0, 0.0
        self.origin, self.notes, self._new_notes = Origin(), list[str](), list[str]()
        self._items, self._annotators = Vocabulary(), Vocabulary()
        self._past, self._archive = Past(method), Archive(self.remember)
        self.place: tuple[Path, Any] | None = None  #: the folder that it was loaded from, and its state then
        self._held: list[Codes] = []  #: (4, labels) each: item, annotator, label, number of the update
        self._present: _Present | None = None
        self._consensus: Consensus | None = None

    @property
    def n_items(self) -> int:
        """N."""
        return len(self._items)

    @property
    def n_annotators(self) -> int:
        """M."""
        return len(self._annotators)

    @property
    def n_labels(self) -> int:
        """Number of labels, held and settled."""
        return self._past.n_labels + self.n_held

    @property
    def n_held(self) -> int:
        """Number of labels that are held."""
        return sum(part.shape[1] for part in self._held)

    @property
    def n_remembered(self) -> int:
        """Number of settled labels that are remembered."""
        return len(self._archive)

    # ---- updates ----------------------------------------------------------------------------------------

    def update(self, labels: Any, *, gold: Any = None, callback: Callback | None = None, **reading: Any) -> Self:
        """Add new labels: of old and new items, by old and new annotators, of old and new classes.

        If an annotator answers an item again, the last answer counts as long as the earlier one is held or remembered.
        Otherwise the new answer counts as a further label, and a warning says how many such labels there seem to be.
        If the labels cannot be read, the stream stays as it was.  An update without rows changes nothing.

        Parameters
        ----------
        labels
            Annotations, a long frame, a matrix, or the path of a file.
        gold
            Known truths of items of this update, fixed from now on.
        callback
            Called after every pass over the held labels.
        **reading
            How to read a file or a frame: options of :func:`consilience.read` or
            :meth:`consilience.Annotations.from_frame`.  By default columns have the names of earlier updates, or are
            recognised.
        """
        begun = time.perf_counter()
        new = read_update(labels, reading, self.origin)
        if new is None:
            return self
        classes = joined(self._past.classes, new.class_ids)
        new = new.recode(new.annotator_ids, classes)
        if gold is not None:
            new = new.with_gold(gold)
        items, annotators = self._items.look_up(new.item_ids), self._annotators.look_up(new.annotator_ids)
        if self.forget and self._held:
            self._settle(0, callback)
        self._hold(new, classes, items, annotators)
        if self.forget:
            self._past.forget(np.unique(annotators.codes[new.annotator]), self.forget)
        if self.n_held > self.window:
            # half of the window is then free, so that not every small update needs a fit
            self._settle(self.window // 2, callback)
        self.seconds += time.perf_counter() - begun
        self._warn()
        return self

    def _hold(self, new: Annotations, classes: Ids, items: Lookup, annotators: Lookup) -> None:
        """Append labels to those that are held."""
        past, first = self._past, not self.n_labels
        self._reopen(items.codes)
        self._reopen(self._archive.next(new.n_labels))  # for every new label, one old label is fitted again
        if classes != past.classes:
            place = past.widen(classes)
            self._archive.recode(place)
            for part in self._held:
                part[2] = place[part[2]]
        if first:
            self.origin = replace(new.origin, notes=())
        self.updates += 1
        self._items, self._annotators = items.accept(), annotators.accept()
        past.grow(len(self._items), len(self._annotators))
        past.items["lot"][len(self._items) - len(items.new) :] = lots(items.new)
        self.notes += new.origin.notes
        item, annotator = np.repeat(items.codes, new.labels_per_item), annotators.codes[new.annotator]
        repeats, exact = past.repeats(item, annotator)
        if repeats:
            self._note(
                f"{'' if exact else 'about '}{repeats} of {item.size} labels repeat an answer of the same annotator to "
                "the same item that is known in sums only; they count as further labels"
            )
        self._held.append(np.array([item, annotator, new.label, np.full(item.size, self.updates)], np.int32))
        if new.gold is not None:
            past.fix(items.codes[new.gold >= 0], new.gold[new.gold >= 0])
        self._present = self._consensus = None

    def _reopen(self, items: Ints) -> None:
        """Hold the remembered labels of these items again, so that old and new labels are fitted together."""
        items = np.sort(items[self._archive.has(items)])
        if not items.size:
            return
        held = self._archive.take(items)
        active = np.unique(held[1])
        self._past.remove(items, active, self._labels(held, items, active), self._annotators.ids)
        self._held.insert(0, held)

    def _note(self, sentence: str) -> None:
        self.notes.append(sentence)
        self._new_notes.append(sentence)

    def _warn(self) -> None:
        """Warn of new notes, after the state is complete: warnings may be errors."""
        new, self._new_notes = self._new_notes, []
        warn_of([(sentence, DataWarning) for sentence in new])

    # ---- the fit of held labels -------------------------------------------------------------------------

    def _columns(self) -> Codes:
        """Return the held labels; of repeated answers of an annotator to an item, those of the last update."""
        if len(self._held) > 1:
            held = np.concatenate(self._held, axis=1)
            _, group = np.unique(held[0].astype(np.int64) * self.n_annotators + held[1], return_inverse=True)
            kept = held[3] == _last_update(group, held[3])[group]
            self._held = [np.ascontiguousarray(held[:, kept])]
            if repeats := int((~kept).sum()):
                self._note(
                    f"{repeats} labels repeat an answer of the same annotator to the same item in an earlier update; "
                    "the last was kept"
                )
        return self._held[0] if self._held else np.empty((4, 0), np.int32)

    def _labels(
        self, held: Codes, items: Ints, active: Ints, item_ids: Ids | None = None, annotator_ids: Ids | None = None
    ) -> Annotations:
        """Group held labels by item, in the codes of these items and annotators, both ascending."""
        item, annotator = np.searchsorted(items, held[0]), np.searchsorted(active, held[1])
        grouped = group_by_item(
            item.astype(np.int32),
            annotator.astype(np.int32),
            np.ascontiguousarray(held[2]),
            items.size,
            active.size,
            len(self._past.classes),
        )
        return Annotations(
            *grouped,
            items=Ids.range(items.size) if item_ids is None else item_ids,
            annotators=Ids.range(active.size) if annotator_ids is None else annotator_ids,
            classes=self._past.classes,
            gold=self._past.items["gold"][items],
            origin=replace(self.origin, notes=tuple(self.notes)),
        )

    def _fitted(self, callback: Callback | None = None) -> _Present:
        """Fit the held labels, unless that is done."""
        if self._present is None:
            held, past = self._columns(), self._past
            now = self._fit_with_past(held, callback) if past.n_labels else self._fit_all(held, callback)
            new = sums_of(now.labels, now.fit.posterior)
            latest = past.annotators["counts"].copy()
            latest[now.active] += new.counts
            past.annotators["latest"] = latest
            past.latest_classes = past.classes_without(now.items) + new.class_counts
            self._present = now
        return self._present

    def _fit_all(self, held: Codes, callback: Callback | None) -> _Present:
        """Fit all labels at once, as :func:`consilience.aggregate` does."""
        everything = np.arange(self.n_items), np.arange(self.n_annotators)
        annotations = self._labels(held, *everything, self._items.ids, self._annotators.ids)
        whole = run_method(annotations, self.method, later=LATER, seed=self.seed, callback=callback, **self.parameters)
        labelled = np.flatnonzero(whole.n_labels > 0)
        hint = whole.model.posterior(annotations)[labelled] if self.method == "majority" else None
        run, at = whole.run, Parameters(whole.model.prior, whole.model.confusions)
        posterior, facts = whole.posterior[labelled], (run["log_likelihood"], run["converged"], run["history"])
        fit = StreamFit(at, posterior, *facts, hint, at)
        return _Present(labelled, everything[1], annotations.select_items(labelled), fit, whole=whole)

    def _fit_with_past(self, held: Codes, callback: Callback | None) -> _Present:
        """Fit the held labels with the past in sums."""
        past, parameters = self._past, self.parameters
        items, active = np.unique(held[0]), np.unique(held[1])
        labels = self._labels(held, items, active)
        step = model_step(self.method, parameters)
        old, ratios = past.is_settled(items), None
        if old.any():
            K = len(past.classes)
            prior = step(Statistics(np.ones((1, K, K)), past.class_counts, float("nan"))).prior
            ratios = np.ones((items.size, K))
            ratios[old] = ratios_of(past.items["belief"][items[old]], prior)
        sums = Statistics(past.annotators["counts"][active], past.classes_without(items), float("nan"))
        latest, classes = past.annotators["latest"], past.latest_classes
        if (classes < 0.5).any():
            # a new class starts from the votes
            votes = sums_of(labels, vote_posterior(labels))
            latest = latest.copy()
            latest[active] = sums.counts + votes.counts
            classes = sums.class_counts + votes.class_counts
        data = FitInput(
            held=LabelsWithPast(labels, sums, ratios),
            start=step(Statistics(latest[active] + pseudo_counts(latest, parameters), classes, float("nan"))),
            counts=latest,
            class_counts=classes,
            active=active,
            parameters=parameters,
            votes=past.items["votes"][items] if "votes" in past.items else None,
            pairs=past.pairs_with(labels, active, self._annotators.ids),
            seed=self.seed,
            callback=callback,
        )
        return _Present(items, active, labels, STREAMED[self.method](data), ratios)

    def _settle(self, keep: int, callback: Callback | None = None) -> None:
        """Settle the oldest items, update by update, until about ``keep`` labels are held.

        An item is settled whole, with all items that were last labelled in the same update.  Items of the newest update
        stay as long as they fit the window.
        """
        now, held = self._fitted(callback), self._columns()
        place = np.searchsorted(now.items, held[0])
        updates, turn = np.unique(_last_update(place, held[3]), return_inverse=True)
        left = self.n_held - np.cumsum(np.bincount(turn, now.labels.labels_per_item, updates.size))
        stop = int(np.searchsorted(-left, -keep))  # the first after which few enough are left
        if keep and 0 < left[-2:][0] <= self.window:
            stop = min(stop, updates.size - 2)
        going = turn <= stop
        which = np.flatnonzero(going)
        labels, fit = now.labels.select_items(which), now.fit
        hint, ratios = (None if x is None else x[which] for x in (fit.hint, now.ratios))
        fit = replace(fit, posterior=fit.posterior[which], hint=hint)
        likelihood = LabelsWithPast(labels, self._past.sums, ratios).log_likelihoods(fit.parameters)
        # only whole items are remembered, not those with other labels that are known in sums only
        whole = going & ~self._past.is_settled(now.items)
        self._past.add(now.items[which], now.active, labels, fit, likelihood, self._annotators.ids)
        settled = held[:, whole[place]]
        self._archive.add(settled, self._past.items["lot"][settled[0]])
        held = held[:, ~going[place]]
        self._held = [held] if held.size else []
        self._present = None
        self.note_of_auto()

    def note_of_auto(self) -> None:
        """Note once that ``auto`` cannot compare models any more."""
        note = "auto compares models over all labels; earlier labels are kept as sums, and ds-em continues from them"
        if self.method == "auto" and note not in self.notes:
            self.notes.append(note)


def _last_update(group: Ints, update: Codes) -> Ints:
    """Return the number of the last update of each group."""
    last = np.zeros(group.max(initial=-1) + 1, np.int64)
    np.maximum.at(last, group, update)
    return last


def check_limits(forget: Any, window: Any, remember: Any) -> tuple[float, int, int]:
    """Check the limits of a stream; by default nothing is held or remembered if anything is forgotten."""
    if isinstance(forget, bool) or not isinstance(forget, int | float | np.number) or not 0 <= forget < 1:
        raise ParameterError(
            f"forget must be a number from 0 (nothing) up to 1, the share of the past that an update takes away, "
            f"not {forget!r}"
        )
    for name, value in (("window", window), ("remember", remember)):
        if value is not None:
            whole(name, value, least=0)
        if forget and value:
            raise ParameterError(
                f"forget and {name} exclude each other: held labels are judged by what annotators are now, "
                "forgotten labels by what they were then"
            )
    default = (0, 0) if forget else (WINDOW, REMEMBER)
    held, kept = (default[n] if value is None else int(value) for n, value in enumerate((window, remember)))
    return float(forget), held, kept
