"""Run methods in separate processes, several at a time, each with a time limit.

The processes are started by ``subprocess``.  ``multiprocessing`` would run the user's own script again in each of them,
which fails without ``if __name__ == "__main__"`` and loads whatever it imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Literal, NamedTuple

from consilience.kernels.blocks import thread_count

__all__ = ["Event", "Task", "command", "run"]

#: Seconds beyond the time limit for a process to start and to load what the method needs.
_START = 120.0

_CODE = """\
import json, sys
path, arguments = json.loads(sys.argv[1])
sys.path[:] = path
from consilience.compare.trial import main
main(*arguments)
"""


class Task(NamedTuple):
    """A method and its seeds; a method without random numbers has the seed None."""

    method: str
    seeds: tuple[int | None, ...]


class Event(NamedTuple):
    """An event of a task: its process was started, a run ended (in whatever way), or all runs ended."""

    task: Task
    kind: Literal["begun", "run", "ended"]
    row: dict[str, Any] | None = None


def run(tasks: Sequence[Task], labels: Path, *, jobs: int = 1, timeout: float | None = None) -> Generator[Event]:
    """Run the tasks on a file of labels, ``jobs`` at a time; closing the iterator kills what still runs."""
    events: SimpleQueue[Event] = SimpleQueue()
    children = _Children(jobs)
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="consilience-compare")
    try:
        for task in tasks:
            pool.submit(_run_task, task, labels, timeout, children, events)
        open_tasks = len(tasks)
        while open_tasks:
            event = events.get()
            open_tasks -= event.kind == "ended"
            yield event
    finally:
        children.end()
        pool.shutdown(wait=True, cancel_futures=True)


def command(arguments: list[Any]) -> list[str]:
    """Return the command line of a process that calls :func:`consilience.compare.trial.main`."""
    return [sys.executable, "-c", _CODE, json.dumps([sys.path, arguments])]


class _Children:
    """The running processes; after ``end``, all are killed and none can be started."""

    def __init__(self, jobs: int) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False
        self._environment = dict(os.environ)
        if jobs > 1:
            # share the cores; the results do not depend on the number of threads
            self._environment.setdefault("CONSILIENCE_THREADS", str(max(1, thread_count() // jobs)))

    def start(self, arguments: list[Any], errors: IO[bytes]) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._ended:
                return None
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            child = subprocess.Popen(command(arguments), env=self._environment, **pipes)
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


def _timer(seconds: float | None, expire: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(threading.TIMEOUT_MAX if seconds is None else seconds, expire)
    timer.daemon = True
    timer.start()
    return timer


def _run_task(task: Task, labels: Path, timeout: float | None, children: _Children, events: SimpleQueue[Event]) -> None:
    """Run one task; whatever happens, every seed gets its row."""
    left = list(task.seeds)
    how: dict[str, Any] = {}
    events.put(Event(task, "begun"))
    try:
        with tempfile.TemporaryFile() as errors:
            child = children.start([str(labels), task.method, left], errors)
            if child is None:  # the comparison was stopped
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
    """Yield what a process reports of each seed; set the status of the others in ``how``."""
    assert child.stdin is not None
    assert child.stdout is not None
    over = threading.Event()

    def expire() -> None:
        over.set()
        child.kill()

    timer = _timer(None if timeout is None else timeout + _START, expire)
    with child:
        try:
            for line in child.stdout:
                message: dict[str, Any] = json.loads(line)
                if "ready" in message:
                    timer.cancel()
                    timer = _timer(timeout, expire)
                else:
                    yield message
            child.stdin.close()
            code = child.wait()
        finally:
            timer.cancel()
            child.kill()
    if over.is_set():
        how |= {"status": "out of time", "note": f"not done in {timeout:g} s"}
    elif code < 0:
        cause = "; it may have run out of memory" if code == -9 else ""
        how |= {"status": "failed", "note": f"its process was ended by signal {-code}{cause}"}
    else:
        how |= {"status": "failed", "note": f"its process ended early (exit status {code})"}


def _last_words(errors: IO[bytes], most: int = 200) -> str:
    """Return the last line that a process wrote to standard error."""
    errors.seek(0)
    lines = errors.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:most]}" if lines else ""
