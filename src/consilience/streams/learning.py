"""How a stream learns: labels are held, settled in sums, and taken out of them again; both together give the consensus.

:mod:`consilience.streams.stream` tells the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.diagnose.runs import LATER
from consilience.exceptions import DataError, DataWarning
from consilience.fitting.em import Callback, Parameters
from consilience.fitting.fit import unconverged, vote_posterior
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.grouping import group_by_item
from consilience.methods.base.cautions import warn_of
from consilience.methods.base.running import run_method
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus, choose
from consilience.streams.archive import Archive
from consilience.streams.em import Held, Solved, likelihoods_of, ratios_of
from consilience.streams.names import Meeting, Vocabulary, lots
from consilience.streams.past import Past, sums_of
from consilience.streams.solve import Situation, behind, model_step, solve

__all__ = ["Learning"]


@dataclass(frozen=True)
class _Now:
    """What the held labels say."""

    items: Ints  #: codes of their items, ascending
    active: Ints  #: codes of their annotators, ascending
    labels: Annotations  #: in the codes of these
    solved: Solved
    ratios: Floats | None = None  #: what the past says of the items
    whole: Consensus | None = None  #: the consensus, where all labels are held


class Learning:
    """Everything that a stream knows, and how it comes to know it.

    Parameters
    ----------
    method, seed, parameters
        As they are checked by :class:`consilience.streams.stream.Stream`.
    limits
        What each update forgets, how many labels are held, and how many remembered.
    """

    def __init__(
        self, method: str, seed: int | None, parameters: Mapping[str, Any], limits: tuple[float, int, int]
    ) -> None:
        self.method, self.seed, self.parameters = method, seed, dict(parameters)
        self.forget, self.window, self.remember = limits
        self.updates, self.seconds = 0, 0.0
        self.origin, self.notes, self._unsaid = Origin(), list[str](), list[str]()
        self._items, self._annotators = Vocabulary(), Vocabulary()
        self._past, self._archive = Past(method), Archive(self.remember)
        self.place: tuple[Path, Any] | None = None  #: the folder that it was loaded from, and how that looked
        self._held: list[Codes] = []  #: (4, labels) each: item, annotator, label, number of the update
        self._now: _Now | None = None
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
        """How many labels there were, held and settled."""
        return self._past.n_labels + self.n_held

    @property
    def n_held(self) -> int:
        """How many labels are held as they are."""
        return sum(part.shape[1] for part in self._held)

    @property
    def n_remembered(self) -> int:
        """How many labels are remembered beside these."""
        return len(self._archive)

    # ---- labels that are held ---------------------------------------------------------------------------

    def _take(self, new: Annotations, classes: Ids, items: Meeting, annotators: Meeting) -> None:
        """Append labels to those that are held."""
        past, first = self._past, not self.n_labels
        self._open(items.codes)
        self._open(self._archive.next(new.n_labels))  # every new label pays for another look at an old one
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
            past.know(items.codes[new.gold >= 0], new.gold[new.gold >= 0])
        self._now = self._consensus = None

    def _open(self, items: Ints) -> None:
        """Hold the remembered labels of these items again, so that old and new ones are judged together."""
        items = np.sort(items[self._archive.has(items)])
        if not items.size:
            return
        held = self._archive.take(items)
        active = np.unique(held[1])
        labels = self._labels(held, items, active, Ids.range(items.size), Ids.range(active.size))
        self._past.take_back(items, active, labels, self._annotators.ids)
        self._held.insert(0, held)

    def _say(self) -> None:
        """Warn of what is new among the notes, once nothing can be lost by it."""
        unsaid, self._unsaid = self._unsaid, []
        warn_of([(sentence, DataWarning) for sentence in unsaid])

    def _note(self, sentence: str) -> None:
        self.notes.append(sentence)
        self._unsaid.append(sentence)

    def _columns(self) -> Codes:
        """Give the held labels as they count: where an annotator answered an item again, those of the last update."""
        if len(self._held) > 1:
            held = np.concatenate(self._held, axis=1)
            _, group = np.unique(held[0].astype(np.int64) * self.n_annotators + held[1], return_inverse=True)
            stays = held[3] == _last_update(group, held[3])[group]
            self._held = [np.ascontiguousarray(held[:, stays])]
            if repeats := int((~stays).sum()):
                self._note(
                    f"{repeats} labels repeat an answer of the same annotator to the same item in an earlier update; "
                    "the last was kept"
                )
        return self._held[0] if self._held else np.empty((4, 0), np.int32)

    # ---- what the held labels say -----------------------------------------------------------------------

    def _fitted(self, callback: Callback | None = None) -> _Now:
        if self._now is None:
            held, past = self._columns(), self._past
            now = self._go_on(held, callback) if past.n_labels else self._from_all(held, callback)
            new = sums_of(now.labels, now.solved.posterior)
            latest = past.annotators["counts"].copy()
            latest[now.active] += new.counts
            past.annotators["latest"] = latest
            past.latest_classes = past.classes_without(now.items) + new.class_counts
            self._now = now
        return self._now

    def _from_all(self, held: Codes, callback: Callback | None) -> _Now:
        """Fit all labels at once, as :func:`consilience.aggregate` does."""
        everything = np.arange(self.n_items), np.arange(self.n_annotators)
        annotations = self._labels(held, *everything, self._items.ids, self._annotators.ids)
        whole = run_method(annotations, self.method, later=LATER, seed=self.seed, callback=callback, **self.parameters)
        labelled = np.flatnonzero(whole.n_labels > 0)
        hint = whole.model.posterior(annotations)[labelled] if self.method == "majority" else None
        run, at = whole.run, Parameters(whole.model.prior, whole.model.confusions)
        found = Solved(at, whole.posterior[labelled], run["log_likelihood"], run["converged"], run["history"], hint, at)
        return _Now(labelled, everything[1], annotations.select_items(labelled), found, whole=whole)

    def _go_on(self, held: Codes, callback: Callback | None) -> _Now:
        """Fit the held labels with the past behind them."""
        past = self._past
        items, active = np.unique(held[0]), np.unique(held[1])
        labels = self._labels(held, items, active, Ids.range(items.size), Ids.range(active.size))
        step = model_step(self.method, self.parameters)
        old, ratios = past.known(items), None
        if old.any():
            K = len(past.classes)
            prior = step(Statistics(np.ones((1, K, K)), past.class_counts, float("nan"))).prior
            ratios = np.ones((items.size, K))
            ratios[old] = ratios_of(past.items["belief"][items[old]], prior)
        sums = Statistics(past.annotators["counts"][active], past.classes_without(items), float("nan"))
        latest, classes = past.annotators["latest"], past.latest_classes
        if (classes < 0.5).any():
            # a new class begins where the votes see it
            votes = sums_of(labels, vote_posterior(labels))
            latest = latest.copy()
            latest[active] = sums.counts + votes.counts
            classes = sums.class_counts + votes.class_counts
        start = step(Statistics(latest[active] + behind(latest, self.parameters), classes, float("nan")))
        now = Situation(
            Held(labels, sums, ratios),
            start,
            latest,
            classes,
            active,
            self.parameters,
            past.items["votes"][items] if "votes" in past.items else None,
            past.pairs_with(labels, active, self._annotators.ids) if past.counts_pairs else None,
            self.seed,
            callback,
        )
        return _Now(items, active, labels, solve(self.method, now), ratios)

    def _labels(self, held: Codes, items: Ints, active: Ints, item_ids: Ids, annotator_ids: Ids) -> Annotations:
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
            items=item_ids,
            annotators=annotator_ids,
            classes=self._past.classes,
            gold=self._past.items["gold"][items],
            origin=replace(self.origin, notes=tuple(self.notes)),
        )

    def _settle(self, keep: int, callback: Callback | None = None) -> None:
        """Sum labels up until so many are held: items whole, and together those that one update was the last to label.

        The oldest go first.  What the newest update labelled stays as long as the window has room for it.
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
        labels, solved = now.labels.select_items(which), now.solved
        hint, ratios = (None if x is None else x[which] for x in (solved.hint, now.ratios))
        found = replace(solved, posterior=solved.posterior[which], hint=hint)
        likelihood = likelihoods_of(Held(labels, self._past.sums, ratios), found.parameters)
        # what is remembered is remembered whole: not an item of which other labels are known in sums only
        whole = going & ~self._past.known(now.items)
        self._past.add(now.items[which], now.active, labels, found, likelihood, self._annotators.ids)
        settled = held[:, whole[place]]
        self._archive.add(settled, self._past.items["lot"][settled[0]])
        held = held[:, ~going[place]]
        self._held = [held] if held.size else []
        self._now = None
        self.note_of_auto()

    def note_of_auto(self) -> None:
        """Say once that labels which were summed up can no longer choose among models."""
        note = "auto compares models over all labels; the labels before are kept in sums, and ds-em goes on from them"
        if self.method == "auto" and note not in self.notes:
            self.notes.append(note)

    # ---- the consensus ----------------------------------------------------------------------------------

    def _told(self) -> Consensus:
        """Join what held and settled labels say."""
        past, K = self._past, len(self._past.classes)
        if not (self._held or past.n_labels):
            raise DataError("the stream has no labels yet; give it some with update")
        now = self._fitted() if self._held else None
        if now is not None and now.whole is not None:
            return now.whole
        posterior, n_labels = past.posterior(slice(None)).copy(), past.items["n"].copy()
        hint = past.items["belief"].copy() if "votes" in past.items else None
        counts, class_counts = past.annotators["counts"].copy(), past.class_counts
        found = Solved(Parameters(np.empty(0), np.empty(0)), np.empty((0, K)), 0.0)
        if now is not None:
            found, new = now.solved, sums_of(now.labels, now.solved.posterior)
            counts[now.active] += new.counts
            class_counts = past.classes_without(now.items) + new.class_counts
            posterior[now.items] = found.posterior
            n_labels[now.items] += now.labels.labels_per_item
            if hint is not None and found.hint is not None:
                hint[now.items] = found.hint
        prior, confusions = self._parameters(now, counts, class_counts)
        gold = past.items["gold"]
        known = np.flatnonzero(gold >= 0)
        posterior[(n_labels == 0) & (gold < 0)] = prior
        posterior[known] = np.eye(K)[gold[known]]
        tol = self.parameters.get("tol", 1e-7)
        cautions = unconverged(found.converged, self.method, f"{len(found.history)} passes", tol)
        warn_of(list(cautions))
        run = {
            "method": self.method,
            "chosen_by": "user",
            "parameters": self.parameters,
            "N": self.n_items,
            "M": self.n_annotators,
            "K": K,
            "labels": self.n_labels,
            "gold_items": int(known.size),
            "seed": self.seed,
            "seconds": 0.0,
            "log_likelihood": past.log_likelihood + found.log_likelihood,
            "converged": bool(found.converged),
            "iterations": len(found.history),
            "history": [float(value) for value in found.history],
            "warnings": [*self.notes, *(sentence for sentence, _ in cautions)],
        }
        model = DawidSkene(prior, confusions, past.classes, self._annotators.ids)
        choice = choose(posterior, prior, hint)
        return Consensus(model, posterior, choice, self._items.ids, n_labels, counts, run, self.origin)

    def _parameters(self, now: _Now | None, counts: Floats, class_counts: Floats) -> Parameters:
        """Give prior and confusions of everybody."""
        if now is not None and now.solved.everybody is not None:
            return now.solved.everybody
        sums = counts if self.method == "majority" else counts + behind(counts, self.parameters)
        prior, confusions = model_step(self.method, self.parameters)(Statistics(sums, class_counts, float("nan")))
        if now is None:
            return Parameters(prior, confusions)
        confusions[now.active] = now.solved.parameters.confusions
        return Parameters(now.solved.parameters.prior, confusions)

    def _story(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 6),
            "updates": self.updates,
            "forget": self.forget,
            "window": self.window,
            "held": self.n_held,
            "remembered": self.n_remembered,
        }


def _last_update(group: Ints, update: Codes) -> Ints:
    """Give the number of the last update of each group."""
    last = np.zeros(group.max(initial=-1) + 1, np.int64)
    order = np.argsort(update, kind="stable")
    last[group[order]] = update[order]  # of several the last one stays
    return last
