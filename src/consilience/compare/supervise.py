"""Runs methods in processes of their own: some at a time, each with a time limit, whatever becomes of the others.

The processes are started by ``subprocess``, not by ``multiprocessing``: that would run the user's own script again in
each of them, which fails where it has no ``if __name__ == "__main__"``, and loads whatever it imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Literal, NamedTuple

from consilience.kernels.blocks import thread_count

__all__ = ["Event", "Task", "run"]

#: Seconds that a process may take, beyond the limit, to start and to load what the method needs.
_START = 120.0

_CODE = """\
import json, sys
path, arguments = json.loads(sys.argv[1])
sys.path[:] = path
from consilience.compare.trial import main
main(*arguments)
"""


class Task(NamedTuple):
    """A method and the seeds to try it with; a method that takes none has the seed None."""

    method: str
    seeds: tuple[int | None, ...]


class Event(NamedTuple):
    """What happened to a task: its process was started, a run is over (in whatever way), or all are."""

    task: Task
    kind: Literal["begun", "run", "ended"]
    row: dict[str, Any] | None = None


def run(tasks: Sequence[Task], labels: Path, *, jobs: int = 1, timeout: float | None = None) -> Generator[Event]:
    """Run the tasks on a file of labels, ``jobs`` at a time; closing the iterator ends what still runs."""
    events: SimpleQueue[Event] = SimpleQueue()
    children = _Children(jobs)
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="consilience-compare")
    try:
        for task in tasks:
            pool.submit(_see_to, task, labels, timeout, children, events)
        open_tasks = len(tasks)
        while open_tasks:
            event = events.get()
            open_tasks -= event.kind == "ended"
            yield event
    finally:
        children.end()
        pool.shutdown(wait=True, cancel_futures=True)


class _Children:
    """The processes that run now; after ``end`` there are none, and none can be started."""

    def __init__(self, jobs: int) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False
        self._environment = dict(os.environ)
        if jobs > 1:
            # several at a time share the cores; what they find does not depend on it
            self._environment.setdefault("CONSILIENCE_THREADS", str(max(1, thread_count() // jobs)))

    def start(self, arguments: list[Any], errors: IO[bytes]) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-c", _CODE, json.dumps([sys.path, arguments])]
        with self._lock:
            if self._ended:
                return None
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=self._environment
            )
            self._running.add(child)
        return child

    def forget(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(child)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for child in self._running:
                child.kill()


class _Limit:
    """Kills a process when its time is up."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.over = False
        self._child = child
        self._timer: threading.Timer | None = None

    def set(self, seconds: float | None) -> None:
        self.cancel()
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._kill)
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        self.over = True
        self._child.kill()


def _see_to(task: Task, labels: Path, timeout: float | None, children: _Children, events: SimpleQueue[Event]) -> None:
    """Run one task from beginning to end; whatever happens, every seed gets its row."""
    left = list(task.seeds)
    how: dict[str, Any] = {}
    events.put(Event(task, "begun"))
    try:
        with tempfile.TemporaryFile() as errors:
            child = children.start([str(labels), task.method, left], errors)
            if child is None:  # nobody waits for it any more
                return
            for row in _rows(child, timeout, how):
                left.remove(row["seed"])
                events.put(Event(task, "run", row))
            children.forget(child)
            if how["status"] == "failed":
                how["note"] += _last_words(errors)
    except Exception as error:
        how = {"status": "failed", "note": f"{type(error).__name__}: {error}"}
    for seed in left:
        events.put(Event(task, "run", {"seed": seed, **how}))
    events.put(Event(task, "ended"))


def _rows(child: subprocess.Popen[bytes], timeout: float | None, how: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give what a process says of each seed; tell in ``how`` what became of the others."""
    assert child.stdin is not None
    assert child.stdout is not None
    limit = _Limit(child)
    limit.set(None if timeout is None else timeout + _START)
    with child:
        try:
            for line in child.stdout:
                message: dict[str, Any] = json.loads(line)
                if "ready" in message:
                    limit.set(timeout)
                else:
                    yield message
            child.stdin.close()
            code = child.wait()
        finally:
            limit.cancel()
            child.kill()
    if limit.over:
        how |= {"status": "out of time", "note": f"not done in {timeout:g} s"}
    elif code < 0:
        cause = "; it may have run out of memory" if code == -9 else ""
        how |= {"status": "failed", "note": f"its process was ended by signal {-code}{cause}"}
    else:
        how |= {"status": "failed", "note": f"its process ended early (exit status {code})"}


def _last_words(errors: IO[bytes], most: int = 200) -> str:
    """Give the last line that a process wrote to standard error."""
    errors.seek(0)
    lines = errors.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:most]}" if lines else ""
