"""The consensus while people decide: updated at once to first order, then exactly, in the background.

A snapshot (:mod:`consilience.web.snapshot`) is never changed, so pages are drawn from one without waiting.  One thread
applies decisions as they come (:mod:`consilience.web.learning`), another fits everything again with all decisions as
known answers.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from consilience.auto.expected_error import estimated_error
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import estimate
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.web import queue
from consilience.web.checks import NO_CHECKS, Checks, checked
from consilience.web.learning import Beliefs, beliefs_of, decided
from consilience.web.ledger import Ledger
from consilience.web.material import Material, has_classes, joined
from consilience.web.snapshot import Changes, Error, Snapshot

__all__ = ["Live", "error_of"]

_log = logging.getLogger("consilience")

#: Seconds without a decision before the exact fit begins.
QUIET = 0.4
#: Change of an annotator's accuracy that is worth telling.
_MOVED = 0.01
#: Items and annotators that are listed as changed.
_MOST_LISTED = 50
#: Expected absolute error of a normal variable over the width of its 90 % interval: sqrt(2 / pi) / (2 · 1.645).
_OF_WIDTH = 0.2425


class Live:
    """The current snapshot, and the threads that replace it.

    Parameters
    ----------
    material
        The labels.
    ledger
        The decisions.
    fit
        Returns the exact consensus under known answers, in the form of :meth:`Material.gold`.
    run
        A consensus that was computed before, if it has no decisions to learn from.
    """

    def __init__(
        self, material: Material, ledger: Ledger, fit: Callable[[Any], Consensus], run: Consensus | None = None
    ) -> None:
        self.material, self.ledger, self._fit, self._first = material, ledger, fit, run
        self.changes: Changes | None = None
        self.failure = ""  #: why the last fit failed
        self.start_error: Error | None = None  #: of the first fit of this session
        self.fitting = False
        self.told = ledger.version  #: newest event that the consensus should know
        self._wake, self._stop = threading.Event(), threading.Event()
        self._new: deque[str] = deque()  #: items with new events; its own methods are atomic
        self._lock = threading.Lock()
        self._updated = threading.Event()
        self._beliefs: Beliefs | None = None
        self._exact: Snapshot | None = None
        self.snapshot = self._by_votes()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._fit_always, self._update_always)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        self._stop.set()
        self._wake.set()
        self._updated.set()

    def tell(self, *items: str) -> None:
        """Report that there are new events about these items."""
        self.told = self.ledger.version
        self._new.extend(items)
        self._updated.set()
        self._wake.set()

    def wait(self, seconds: float) -> bool:
        """Wait until the exact fit knows all events; return whether it does."""
        end = time.monotonic() + seconds
        while not self.current:
            if time.monotonic() > end or self.failure:
                return False
            time.sleep(0.02)
        return True

    @property
    def current(self) -> bool:
        """Whether the snapshot is exact and knows all decisions."""
        now = self.snapshot
        return now.stage == "exact" and now.upto >= self.told

    # ---- exact ------------------------------------------------------------------------------------------

    def _fit_always(self) -> None:
        took = 0.0
        while not self._stop.is_set():
            upto = self.told
            if self.snapshot.stage == "votes" or self.snapshot.upto < upto:
                begun = time.monotonic()
                self._fit_once(upto)
                took = time.monotonic() - begun
            self._wake.wait()
            self._wake.clear()
            # the machine also has pages to serve, and decisions come in quick succession
            self._stop.wait(max(QUIET, min(took, 30.0)))

    def _fit_once(self, upto: int) -> None:
        answers = self.ledger.answers()
        self.fitting = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = self._first if self._first is not None and not answers else self._fit(self.material.gold(answers))
                made = self._of_run(run, answers, upto)
            self.failure = ""
        except Exception as error:  # the thread must go on, and the page must say so
            self.failure = str(error)
            _log.warning("the consensus could not be updated: %s", error)
            return
        finally:
            self.fitting = False
        with self._lock:
            if self._exact is None:
                self.start_error = made.error
            else:
                self.changes = self._compared(self._exact, made, answers)
            self.snapshot = self._exact = made
            self._new.extend(item for item in self.ledger.items() if self.ledger.of(item).newest > upto)
        self._updated.set()
        self._set_teaching()

    def _of_run(self, run: Consensus, answers: dict[str, str], upto: int) -> Snapshot:
        a, known = self.material.labels, self._known(answers)
        posterior: Floats | None = None
        label: list[str] | Codes
        if has_classes(run):
            posterior = np.ascontiguousarray(run.posterior)
            label, confidence = run.choice.best, posterior[np.arange(a.n_items), run.choice.best]
            wrong = 1.0 - confidence
            self._beliefs = beliefs_of(a, posterior.copy(), run.counts.copy(), str(run.run.get("method")))
        else:
            columns = run.label_columns
            if isinstance(run, NumericRun):
                label = ["" if each is None else f"{each:g}" for each in columns["value"].to_pylist()]
                low, high = (np.nan_to_num(np.asarray(columns[name], float)) for name in ("low", "high"))
                wrong = _OF_WIDTH * (high - low)
                confidence = 1.0 - wrong / max(float(wrong.max(initial=0.0)), 1e-12)
            else:
                label = ["" if each is None else str(each) for each in columns["label"].to_pylist()]
                label = [joined(each) for each in label] if isinstance(run, MultiRun) else label
                confidence = np.asarray(columns["confidence"], float)
                wrong = 1.0 - confidence
        accuracy = (
            np.asarray(run.annotator_columns["accuracy"].to_numpy(zero_copy_only=False), float)
            if "accuracy" in run.annotator_columns
            else np.full(a.n_annotators, np.nan)
        )
        return Snapshot(
            self.snapshot.number + 1, "exact", run, posterior, label, confidence, wrong, wrong,
            queue.order_of(wrong, ~known), float(wrong[~known].sum()), accuracy,
            error_of(run, wrong, known, checked(self.ledger)), upto,
        )  # fmt: skip

    def _known(self, answers: dict[str, str]) -> Bools:
        known = self.material.known_before.copy()
        known[[n for item in answers if (n := self.material.find(item)) is not None]] = True
        return known

    def _set_teaching(self) -> None:
        """Add what decisions on the most doubtful items would teach, once it is known."""
        now, beliefs = self.snapshot, self._beliefs
        if now.posterior is None or beliefs is None or not now.order.size:
            return
        items = now.order[: queue.CANDIDATES]
        fixed = Beliefs(now.posterior, beliefs.counts.copy(), beliefs.weight)
        value = now.value.copy()
        value[items] += queue.teaching(self.material.labels, self.material.by_annotator, fixed, items)
        with self._lock:
            if self.snapshot is now:
                head = items[np.argsort(-value[items], kind="stable")]
                order = np.concatenate([head, now.order[items.size :]])
                self.snapshot = replace(now, value=value, order=order)

    def _compared(self, before: Snapshot, after: Snapshot, answers: dict[str, str]) -> Changes:
        """Compare two exact fits; items that somebody decided do not count as flipped.

        A number counts if it moved by more than its expected error.
        """
        if before.numbers is not None and after.numbers is not None:
            differ = np.abs(after.numbers.value - before.numbers.value) > after.wrong
        elif isinstance(before.label, list) or isinstance(after.label, list):
            differ = np.asarray([x != y for x, y in zip(before.label, after.label, strict=True)], bool)
        else:
            differ = before.label != after.label
        flips = np.flatnonzero(differ & ~self._known(answers))
        names = self.material.classes
        listed = flips[np.argsort(-after.confidence[flips], kind="stable")][:_MOST_LISTED].tolist()
        move = np.nan_to_num(np.abs(after.accuracy - before.accuracy))
        moved = [m for m in np.argsort(-move, kind="stable")[:_MOST_LISTED].tolist() if move[m] >= _MOVED]
        return Changes(
            len(answers),
            [(n, before.label_of(n, names), after.label_of(n, names)) for n in listed],
            int(flips.size),
            [(m, float(before.accuracy[m]), float(after.accuracy[m])) for m in moved],
            before.error,
            after.error,
        )

    # ---- at once ----------------------------------------------------------------------------------------

    def _update_always(self) -> None:
        while not self._stop.is_set():
            self._updated.wait()
            self._updated.clear()
            with self._lock:
                if self.snapshot.stage != "votes":
                    items = [self._new.popleft() for _ in range(len(self._new))]
                    try:
                        self._update(list(dict.fromkeys(items)))
                    except Exception as error:  # the exact fit follows anyway
                        _log.warning("the first update failed: %s", error)

    def _update(self, items: list[str]) -> None:
        """Apply the decisions on these items to first order; the exact fit replaces this."""
        now, beliefs = self.snapshot, self._beliefs
        if now.posterior is None or beliefs is None:
            return
        touched: list[Ints] = []
        done = np.flatnonzero(self._known(self.ledger.answers()))
        for item in items:
            n, answer = self.material.find(item), self.ledger.of(item).answer
            if n is not None and answer in self.material.class_code:
                k = self.material.class_code[answer]
                touched += [
                    decided(self.material.labels, self.material.by_annotator, beliefs, n, k, done),
                    np.array([n]),
                ]
        if not touched:
            return
        at = np.unique(np.concatenate(touched))
        posterior, value, wrong = beliefs.posterior.copy(), now.value.copy(), now.wrong.copy()
        best = np.array(now.label, copy=True)
        best[at] = posterior[at].argmax(axis=1)
        change = (1.0 - posterior[at].max(axis=1)) - wrong[at]
        wrong[at] += change
        value[at] += change
        open_ = np.ones(value.size, bool)
        open_[done] = False
        total = max(now.total + float(change.sum()), 0.0)
        scale = total / now.total if now.total > 0 else 1.0
        self.snapshot = replace(
            now, number=now.number + 1, stage="updating", posterior=posterior, label=best, value=value, wrong=wrong,
            confidence=posterior[np.arange(best.size), best], total=total,
            order=queue.reordered(now.order, value, at, open_), error=Error(*(each * scale for each in now.error)),
        )  # fmt: skip

    def _by_votes(self) -> Snapshot:
        """Return what is shown until the first fit is done: shares of votes."""
        a = self.material.labels
        small = a.n_items * a.n_classes <= 50_000_000
        posterior = vote_posterior(a) if small else None
        known = self._known(self.ledger.answers())
        label: list[str] | Codes
        if posterior is not None:
            label = posterior.argmax(axis=1).astype(np.int32)
            wrong = queue.direct(posterior)
        else:
            label, wrong = [""] * a.n_items, np.full(a.n_items, 0.5)
        return Snapshot(
            0, "votes", None, posterior, label, 1.0 - wrong, wrong, wrong, queue.order_of(wrong, ~known),
            float(wrong[~known].sum()), np.full(a.n_annotators, np.nan), error_of(None, wrong, known), 0,
        )  # fmt: skip


def error_of(run: Consensus | None, wrong: Floats, known: Bools, checks: Checks = NO_CHECKS) -> Error:
    """Return the share of wrong labels among all items: known answers count as right.

    Reviewers decide the doubtful items, which are wrong more often than others.  So decisions do not count as a sample
    of the labels, except random ``checks``; the others only teach the model how sure to be.
    """
    share = float((~known).mean()) if known.size else 0.0
    if run is not None and has_classes(run) and run.annotations is not None:
        if run.run.get("method") != "auto":  # the confidences on screen are not those of the estimate
            checks = checks._replace(doubt=None)
        found = estimated_error(run.annotations, run, checks)[:3]
    elif isinstance(run, NumericRun):
        found = run.estimated_error[:3]
    else:
        mean = float(wrong[~known].mean()) if share else 0.0
        found = (mean, mean, mean) if run is None else estimate(mean, int((~known).sum()))[:3]
    return Error(*(each * share for each in found))
