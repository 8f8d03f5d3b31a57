"""A review in progress: labels, decisions, consensus and task data together, and which item comes next.

Pages and tests use this; it knows nothing of HTTP.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.option_sets import SEPARATOR
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.web import checks, queue
from consilience.web.filters import Filter
from consilience.web.ledger import Ledger
from consilience.web.live import Live
from consilience.web.material import Material, joined
from consilience.web.snapshot import Snapshot
from consilience.web.store import Event, Store
from consilience.web.task_data import TaskData

__all__ = ["Review"]

#: Seconds for which an item on somebody's screen is not given to others.
_HELD = 120.0
_STEP, _PART = 4096, 1 << 16
#: Limits on names of reviewers, notes, typed answers and the JSON of what was on screen.
MOST_NAME, MOST_NOTE, MOST_ANSWER, MOST_SEEN = 60, 2000, 500, 8000


class Review:
    """Everything that pages need.

    Parameters
    ----------
    material, store
        Labels and decisions.
    fit, run
        As for :class:`consilience.web.live.Live`.
    tasks
        What items show.
    title
        Heading of the pages.
    source
        The file of labels, for exports to the tool that it came from.
    """

    def __init__(
        self,
        material: Material,
        store: Store,
        fit: Callable[[Any], Consensus],
        *,
        run: Consensus | None = None,
        tasks: TaskData | None = None,
        title: str = "Review",
        source: Path | None = None,
        question: str | None = None,
        remote_media: bool = False,
    ) -> None:
        self.material, self.store, self.ledger = material, store, Ledger(store)
        self.tasks, self.title, self.source, self.question = tasks or TaskData(), title, source, question
        self.remote_media, self.read_only = remote_media, store.read_only
        self.live = Live(material, self.ledger, fit, run)
        self._settled = material.known_before.copy()  # decided, in conflict, to be discussed, or known before
        self._accepted = np.zeros(material.labels.n_items, bool)
        self._held: dict[int, tuple[str, float]] = {}
        self.checks: set[int] = set()  #: open items that were drawn at random
        self._lock = threading.Lock()
        self._searched: dict[str, Bools] = {}
        self._marks: dict[str, str] = {}  #: what became of items with events
        self._counts: Counter[str] = Counter()
        self._needed: tuple[Any, int] = (None, 0)
        for item in self.ledger.items():
            self._settle(item)
        self._mark_accepted()

    @property
    def now(self) -> Snapshot:
        """The current snapshot."""
        return self.live.snapshot

    # ---- what reviewers do ------------------------------------------------------------------------------

    def act(
        self, kind: str, reviewer: str, item: str, answer: str = "", *, note: str = "", ref: int = 0, seen: Any = None
    ) -> Event:
        """Commit what a reviewer did to an item; when this returns, it is on disk."""
        if self.material.find(item) is None:
            raise ParameterError(f"there is no item {item[:60]!r}")
        if kind == "decide":
            answer = self._checked(answer)
        elif kind == "note" and not note.strip():
            raise ParameterError("a note needs some text")
        elif kind not in ("skip", "discuss", "note"):
            raise ParameterError(f"an item cannot be {kind!r}")
        event = self.ledger.record(kind, reviewer, item, answer, note=note[:MOST_NOTE], ref=ref, seen=seen)
        self._settle(item)
        if kind == "decide":
            self.live.tell(item)
        return event

    def _checked(self, answer: str) -> str:
        """Return an answer that is allowed: a class, where items share classes, else any text."""
        now = self.now
        if isinstance(now.run, MultiRun):
            answer = joined(answer)
            known = set(map(str, now.run.model.options))
            if new := sorted(set(answer.split(SEPARATOR)) - known - {""}):
                options = ", ".join(sorted(known))[:300]
                raise ParameterError(f"there is no option {new[0][:60]!r}; those to be joined by | are {options}")
            return answer  # of no options, if none is right
        if not answer.strip() or len(answer) > MOST_ANSWER:
            raise ParameterError(f"an answer has 1 to {MOST_ANSWER} characters")
        if now.run is not None and now.posterior is None:
            if now.run.run.get("answers") == "numeric":
                try:
                    return f"{float(answer):g}"
                except ValueError as error:
                    raise ParameterError(f"{answer[:40]!r} is not a number") from error
            return answer.strip()
        if answer not in self.material.class_code:
            raise ParameterError(f"there is no class {answer[:60]!r}")
        return answer

    def undo(self, reviewer: str) -> Event | None:
        """Take back the reviewer's last step, which may be the acceptance of many labels."""
        event = self.ledger.undo(reviewer)
        if event is not None:
            if event.kind == "accept":
                self._mark_accepted()
            else:
                self._settle(event.item)
            self.live.tell(event.item)
        return event

    def accept(self, reviewer: str, threshold: float, seen: Any) -> Event:
        """Accept the labels of all open items with at least this confidence, as one step."""
        now, items = self.now, self.eligible(threshold)
        keys = self.material.keys.take(pa.array(items)).to_pylist()
        labels = [now.label_of(n, self.material.classes) for n in items.tolist()]
        event = self.ledger.accept(reviewer, list(zip(keys, labels, strict=True)), seen)
        self._mark_accepted()
        return event

    def eligible(self, threshold: float) -> Ints:
        """Return the open items with at least this confidence."""
        labelled = self.material.labels.labels_per_item > 0
        return np.flatnonzero(~self._settled & ~self._accepted & labelled & (self.now.confidence >= threshold))

    def _settle(self, item: str) -> None:
        n = self.material.find(item)
        if n is not None:
            state = self.ledger.of(item)
            self._settled[n] = bool(state.decisions) or state.discuss or self.material.known_before[n]
            self._counts[self._marks.get(item, "")] -= 1
            mark = (
                "discuss" if state.discuss else "conflict" if state.conflict else "decided" if state.decisions else ""
            )
            self._marks[item] = mark
            self._counts[mark] += 1

    def _mark_accepted(self) -> None:
        accepted = np.zeros_like(self._accepted)
        accepted[[n for item in self.ledger.accepted if (n := self.material.find(item)) is not None]] = True
        self._accepted = accepted

    # ---- which items ------------------------------------------------------------------------------------

    def next(self, reviewer: str, chosen: Filter, without: int | None = None) -> int | None:
        """Return the most valuable open item that nobody else has on screen; None if there is none.

        If a check is due, it is a random one (:mod:`consilience.web.checks`).
        """
        if chosen == Filter() and self._check_is_due():
            n = self._first(self._at_random, reviewer, chosen, without)
            if n is not None:
                self.checks.add(n)
                return n
        order = self.listed(chosen, reviewer) if chosen.flag != "open" else self.now.order
        return self._first(order, reviewer, chosen, without)

    def _first(self, order: Ints, reviewer: str, chosen: Filter, without: int | None) -> int | None:
        """Return the first item of an order that nobody else has on screen, and hold it."""
        mask = self._mask(chosen)
        clock = time.monotonic()
        for start in range(0, order.size, _STEP):
            part = order[start : start + _STEP]
            if chosen.flag == "open":
                part = part[~self._settled[part] & ~self._accepted[part]]
            for n in (part if mask is None else part[mask[part]]).tolist():
                who, until = self._held.get(n, ("", 0.0))
                if n == without or (who != reviewer and until > clock):
                    continue
                if chosen.flag == "open" and reviewer in self.ledger.of(self.material.key(n)).skipped_by:
                    continue
                self.hold(n, reviewer)
                return int(n)
        return None

    @property
    def checking(self) -> bool:
        """Whether one item in ten is drawn at random."""
        return self.now.posterior is not None and self.store.setting("checks") == "on"

    def _check_is_due(self) -> bool:
        done = self._counts["decided"], len(self.ledger.checks())
        return self.checking and self.now.run is not None and checks.due(*done)

    @cached_property
    def _at_random(self) -> Ints:
        """All labelled items in a random order, the same after a restart."""
        return np.random.default_rng(0).permutation(np.flatnonzero(self.material.labels.labels_per_item > 0))

    def hold(self, n: int, reviewer: str) -> None:
        """Remember that a reviewer has an item on screen; a reviewer holds one at a time."""
        with self._lock:
            clock = time.monotonic()
            self._held = {m: (who, t) for m, (who, t) in self._held.items() if t > clock and who != reviewer}
            self._held[n] = (reviewer, clock + _HELD)

    def listed(self, chosen: Filter, reviewer: str) -> Ints:
        """Return all items of a list, in its order."""
        found = self._base(chosen.flag, reviewer)
        mask = self._mask(chosen)
        return found if mask is None else found[mask[found]]

    def _base(self, flag: str, reviewer: str) -> Ints:
        order = self.now.order
        if flag == "open":
            return order[~self._settled[order] & ~self._accepted[order]]
        if flag == "all":
            return np.concatenate([order, np.setdiff1d(np.arange(self._settled.size), order)])
        if flag == "accepted":
            return np.flatnonzero(self._accepted)
        if flag == "flipped":
            return np.asarray([n for n, _, _ in self.live.changes.flips] if self.live.changes else [], np.int64)
        tests: dict[str, Callable[[Any], bool]] = {
            "decided": lambda s: bool(s.decisions),
            "conflict": lambda s: s.conflict,
            "discuss": lambda s: s.discuss,
            "note": lambda s: bool(s.notes),
            "skipped": lambda s: reviewer in s.skipped_by and not s.decisions,
        }
        states = [(self.ledger.of(item), self.material.find(item)) for item in self.ledger.items()]
        some = sorted((-s.newest, n) for s, n in states if n is not None and tests[flag](s))
        return np.asarray([n for _, n in some], np.int64)

    def _mask(self, chosen: Filter) -> Bools | None:
        if not chosen.narrows:
            return None
        now, mask = self.now, np.ones(self._settled.size, bool)
        if chosen.low > 0 or chosen.high < 1:
            mask &= (now.confidence >= chosen.low) & (now.confidence <= chosen.high)
        if chosen.label:
            if isinstance(now.label, list):
                mask &= np.asarray([each == chosen.label for each in now.label], bool)
            else:
                mask &= now.label == self.material.class_code.get(chosen.label, -1)
        if chosen.annotator:
            one = np.zeros_like(mask)
            if chosen.annotator in self.material.annotator_code:
                one[self.material.labelled_by(self.material.annotator_code[chosen.annotator])] = True
            mask &= one
        return mask & self._found(chosen.q) if chosen.q else mask

    @cached_property
    def searchable(self) -> list[pa.Array]:
        """The names and contents of all items in lower case, (N,) each."""
        labels, fields = self.material.labels, self.tasks.fields
        columns = [self.material.keys]
        if labels.origin.texts is not None:
            columns.append(labels.origin.texts.of(labels.item_ids.to_arrow()))
        if fields:
            joined = ("\n".join(fields[n].values()) if n in fields else None for n in range(labels.n_items))
            columns.append(pa.array(joined, pa.string()))
        return [pc.utf8_lower(column) for column in columns]

    def _found(self, text: str) -> Bools:
        """Return the items whose name or content contains a text, whatever its case."""
        if text not in self._searched:
            found = (pc.match_substring(column, text.lower()) for column in self.searchable)
            hits = np.logical_or.reduce([np.asarray(column.fill_null(False)) for column in found])
            if len(self._searched) > 16:
                self._searched.clear()
            self._searched[text] = hits
        return self._searched[text]

    # ---- how far it is ----------------------------------------------------------------------------------

    @property
    def target(self) -> float:
        """The share of wrong labels to reach: as set, or half of what it was at the start."""
        value = self.store.setting("target")
        return float(value) if value is not None else 0.5 * (self.start or self.now.error.value)

    @property
    def start(self) -> float | None:
        """The estimated share of wrong labels when the review began; None before its first fit."""
        value = self.store.setting("start")
        if value is None and self.live.start_error is not None:
            value = repr(self.live.start_error.value)
            if not self.read_only:
                self.store.set("start", value)
        return None if value is None else float(value)

    def needed(self) -> int:
        """Return how many more decisions the target takes, if each corrects what it is expected to."""
        key = self.now, self.ledger.version, self.target
        if self._needed[0] != key:
            self._needed = key, self._count_needed(self.now)
        return self._needed[1]

    def _count_needed(self, now: Snapshot) -> int:
        N = self._settled.size
        # the estimate of the whole run also knows what confidences do not show
        scale = now.error.value * N / now.total if now.total > 0 else 0.0
        settled = self._settled | self._accepted if self._accepted.any() else self._settled
        parts = (now.order[start : start + _PART] for start in range(0, now.order.size, _PART))
        wrong = (scale * now.wrong[part[~settled[part]]] for part in parts)
        found = queue.needed(wrong, scale * now.total, self.target * N)
        return -(-found * checks.EVERY // (checks.EVERY - 1)) if self.checking else found

    def progress(self) -> dict[str, int]:
        """Return how many items are decided, accepted, open, and so on."""
        return {
            "items": int(self._settled.size),
            **{mark: self._counts[mark] for mark in ("decided", "conflict", "discuss")},
            "accepted": int((self._accepted & ~self._settled).sum()),
            "known": int(self.material.known_before.sum()),
            "open": int((~self._settled & ~self._accepted).sum()),
        }
