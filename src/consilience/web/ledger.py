"""What follows from the events of a review: the answer of each item, conflicts, and what can be undone.

The latest decision of each reviewer counts.  If they differ, the item is in conflict and has no answer, until a
reviewer decides with all other decisions on screen.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from consilience.web.store import Event, Store

__all__ = ["ItemState", "Ledger"]

#: What a reviewer can take back.
_UNDOABLE = ("decide", "skip", "discuss", "note", "accept")


@dataclass(frozen=True)
class ItemState:
    """What reviewers made of an item."""

    decisions: tuple[Event, ...] = ()  #: the latest of each reviewer, oldest first
    notes: tuple[Event, ...] = ()
    skipped_by: frozenset[str] = frozenset()
    discuss: bool = False
    newest: int = 0  #: number of the newest event

    @property
    def answer(self) -> str | None:
        """The answer on which reviewers agree, or that of a decision made with all others in sight."""
        if not self.decisions:
            return None
        last = self.decisions[-1]
        return None if any(d.answer != last.answer and d.id > last.ref for d in self.decisions[:-1]) else last.answer

    @property
    def conflict(self) -> bool:
        """Whether reviewers decided differently without knowing of each other."""
        return bool(self.decisions) and self.answer is None


NOTHING = ItemState()


class Accepted(NamedTuple):
    """A label that was accepted with many others."""

    event: int
    answer: str


def _is_complete(seen: dict[str, Any]) -> bool:
    """Return whether label and confidence of a check are known; what was on screen comes from the browser."""
    confidence = seen.get("confidence")
    return isinstance(seen.get("label"), str) and isinstance(confidence, int | float) and 0.0 <= confidence <= 1.0


class Ledger:
    """All events in memory, and the store that they are appended to first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.version = 0  #: number of the newest event
        self.undone: set[int] = set()
        self.accepted: dict[str, Accepted] = {}
        self._checks: dict[str, dict[str, Any]] = {}
        self._events: dict[int, Event] = {}
        self._answers: dict[str, str] = {}
        self._by_item: dict[str, list[Event]] = defaultdict(list)
        self._by_reviewer: dict[str, list[Event]] = defaultdict(list)
        self._batches: dict[int, list[tuple[str, str]]] = {}
        self._lock = threading.RLock()
        for event in store.events():
            self._add(event, store.accepted(event.id) if event.kind == "accept" else [])

    def record(self, kind: str, reviewer: str, item: str = "", answer: str = "", **details: Any) -> Event:
        """Commit an event about an item, then count it; ``details`` are those of :meth:`Store.append`."""
        with self._lock:
            event = self.store.append(kind, reviewer, item, answer, **details)
            self._add(event, [])
        return event

    def accept(self, reviewer: str, labels: list[tuple[str, str]], seen: object) -> Event:
        """Accept the labels of many items as one event."""
        with self._lock:
            event = self.store.append("accept", reviewer, seen=seen, accepted=labels)
            self._add(event, labels)
        return event

    def undo(self, reviewer: str) -> Event | None:
        """Take back the last event of this reviewer that is not taken back yet, and return it."""
        with self._lock:
            mine = self._by_reviewer[reviewer]
            if not mine:
                return None
            last = mine[-1]
            self._add(self.store.append("undo", reviewer, last.item, ref=last.id), [])
            return last

    def _add(self, event: Event, labels: list[tuple[str, str]]) -> None:
        self.version = max(self.version, event.id)
        self._events[event.id] = event
        if event.kind == "undo":
            self._take_back(event.ref)
            return
        if event.kind in _UNDOABLE:
            self._by_reviewer[event.reviewer].append(event)
        if event.kind == "accept":
            self._batches[event.id] = labels
            self.accepted |= {item: Accepted(event.id, answer) for item, answer in labels}
        else:
            self._by_item[event.item].append(event)
            self._settle(event.item)

    def _take_back(self, number: int) -> None:
        event = self._events.get(number)
        if event is None or number in self.undone:
            return
        self.undone.add(number)
        self._by_reviewer[event.reviewer] = [e for e in self._by_reviewer[event.reviewer] if e.id != number]
        if event.kind == "accept":
            del self._batches[number]
            self.accepted = {}
            for batch in sorted(self._batches):
                self.accepted |= {item: Accepted(batch, answer) for item, answer in self._batches[batch]}
        else:
            self._by_item[event.item] = [e for e in self._by_item[event.item] if e.id != number]
            self._settle(event.item)

    def _settle(self, item: str) -> None:
        answer = self.of(item).answer
        if answer is None:
            self._answers.pop(item, None)
        else:
            self._answers[item] = answer
        seen = (e.on_screen for e in self._by_item.get(item, ()) if e.kind == "decide")
        check = next((each for each in seen if each.get("check") is True and _is_complete(each)), None)
        if check is None:
            self._checks.pop(item, None)
        else:
            self._checks[item] = check

    # ---- what follows -----------------------------------------------------------------------------------

    def of(self, item: str) -> ItemState:
        """Return what reviewers made of an item."""
        with self._lock:
            events = list(self._by_item.get(item, ()))
        if not events:
            return NOTHING
        latest = {e.reviewer: e for e in events if e.kind == "decide"}
        decisions = tuple(sorted(latest.values(), key=lambda e: e.id))
        decided = decisions[-1].id if decisions else 0
        return ItemState(
            decisions,
            tuple(e for e in events if e.kind == "note"),
            frozenset(e.reviewer for e in events if e.kind == "skip"),
            any(e.kind == "discuss" and e.id > decided for e in events),
            events[-1].id,
        )

    def items(self) -> list[str]:
        """Return the items that have events of their own."""
        with self._lock:
            return [item for item, events in self._by_item.items() if events]

    def answers(self) -> dict[str, str]:
        """Return the answers that reviewers agree on: the known answers of the next fit."""
        with self._lock:
            return dict(self._answers)

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the decided items that had been drawn at random, each with what was on screen."""
        with self._lock:
            return dict(self._checks)

    def events(self) -> list[Event]:
        """Return all events in order, also those that were taken back."""
        with self._lock:
            return list(self._events.values())

    def counts(self) -> dict[str, Counter[str]]:
        """Return the number of events of each kind by reviewer, without those that were taken back."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for event in self.events():
            if event.id not in self.undone and event.kind != "undo":
                found[event.reviewer][event.kind] += 1
        return dict(found)
