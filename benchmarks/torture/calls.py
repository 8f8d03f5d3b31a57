"""The command line in a process of its own, with limits, and the rules that every call must keep."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import consilience as cs

__all__ = ["Done", "call", "fault", "kill_at_random", "start"]

_SECONDS = 120


class Done(NamedTuple):
    """The end of a call."""

    status: int
    out: str
    err: str


def start(arguments: list[Any], limits: dict[int, int] | None = None) -> subprocess.Popen[str]:
    """Start the command line; ``limits`` are those of the module resource."""

    def limit() -> None:
        for kind, value in (limits or {}).items():
            resource.setrlimit(kind, (value, value))

    here = os.pathsep.join(p for p in (str(Path(cs.__file__).parents[1]), os.environ.get("PYTHONPATH", "")) if p)
    command = [sys.executable, "-m", "consilience", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "PYTHONPATH": here}, preexec_fn=limit
    )


def call(arguments: list[Any], limits: dict[int, int] | None = None, seconds: float = _SECONDS) -> Done:
    """Run the command line to its end; status -1 if it takes too long."""
    with start(arguments, limits) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return Done(-1, "", f"not done after {seconds:.0f} s")
    return Done(process.returncode, out, err)


def kill_at_random(arguments: list[Any], most: float, place: Path, rng: random.Random) -> bool:
    """Start the command line and kill it; return whether it was still running.

    One half is killed after up to ``most`` seconds.  Most of that time goes to loading and fitting, so the other half
    is killed within 20 ms of the first change of a name in the folder ``place``, while it writes.
    """
    before = place.stat().st_mtime_ns
    with start(arguments) as process:
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0.0, most))
        else:
            while process.poll() is None and place.stat().st_mtime_ns == before:
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode == -signal.SIGKILL


def fault(done: Done, status: int | tuple[int, ...], says: str = "") -> str | None:
    """Return what is wrong with the end of a call; None if it is as it should be."""
    expected = (status,) if isinstance(status, int) else status
    if "Traceback" in done.err:
        return f"traceback: {done.err.strip().splitlines()[-1][:200]}"
    if done.status not in expected:
        return f"status {done.status}, expected {expected}: {done.err.strip()[-200:]}"
    if not re.search(says, done.err, re.DOTALL):
        return f"expected {says!r}, got: {done.err.strip()[-200:]}"
    if done.status == 1 and len(done.err.strip().splitlines()) != 1:
        return f"not one sentence: {done.err.strip()[:300]}"
    return None
