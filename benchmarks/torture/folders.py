"""Attacks on what is written: kills, concurrent writers, full disks, read-only folders, memory limits.

Each attack yields a sentence for every try: None if it was survived, otherwise what went wrong.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv

import consilience as cs
from benchmarks.torture.calls import call, fault, kill_at_random, start
from benchmarks.torture.damage import flipped_bytes
from consilience.exceptions import ConsilienceWarning

__all__ = ["ATTACKS", "Outcome"]

Outcome = Iterator[str | None]


def _crowd(folder: Path, n_items: int = 3000, seed: int = 0) -> Path:
    """Write a simulated crowd; return its labels."""
    place = folder / f"crowd{seed}-{n_items}"
    if not place.exists():
        options = ["--items", n_items, "--annotators", 40, "--labels-per-item", 5, "--seed", seed]
        assert call(["simulate", *options, "--out", place]).status == 0
    return place / "labels.csv"


def _pairs(folder: Path) -> Path:
    """Write simulated comparisons; return their file."""
    drawn = cs.datasets.simulate_comparisons(20, 8, 400, seed=0).comparisons
    pyarrow.csv.write_csv(drawn, folder / "pairs.csv")
    return folder / "pairs.csv"


def _state(path: Path) -> dict[str, bytes] | bytes | None:
    """Return the content of a file, or of all files of a folder; None if there is nothing."""
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return path.read_bytes() if path.exists() else None


def _shape(state: dict[str, bytes] | bytes | None) -> Any:
    """Return what a whole folder or file has in every run: the names and ends of its files."""
    if isinstance(state, dict):
        return {name: raw[-2:] for name, raw in state.items() if not name.endswith(".npz")}
    return state and state[-8:] if state is None or state[-8:].endswith(b">\n") else len(state)


def _whole(path: Path, load: Callable[[Path], Any] = cs.load) -> str | None:
    """Return what is wrong with the folder of a run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConsilienceWarning)
            load(path)
    except Exception as error:  # whatever it is, it goes into the report
        return f"{type(error).__name__}: {error}"
    return None


def _hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


# ---- kills -------------------------------------------------------------------------------------------------------


def kills(folder: Path, seconds: float, rng: random.Random) -> Outcome:
    """Kill every verb that writes at random moments: the old content or the new is there, and no leftovers stay."""
    labels, more = _crowd(folder), _crowd(folder, 300, 1)
    truth = labels.with_name("truth.csv")
    run, out, pairs = folder / "run", folder / "out", _pairs(folder)
    assert call(["aggregate", labels, "--method", "ds-em", "--out", run]).status == 0
    fit = ["aggregate", labels, "--method", "ds-em"]
    verbs: dict[str, tuple[list[Any], Path]] = {
        "aggregate": ([*fit, "--out", out / "run"], out / "run"),
        "aggregate, streamed": ([*fit, "--engine", "stream", "--out", out / "run"], out / "run"),
        "aggregate, checkpoint": ([*fit, "--checkpoint", out / "kept", "--out", out / "run"], out / "run"),
        "update": (["update", run, more, "--method", "ds-em", "--out", out / "run"], out / "run"),
        "simulate": (["simulate", "--items", 2000, "--annotators", 30, "--out", out / "crowd"], out / "crowd"),
        "demo": (["demo", "--out", out / "run"], out / "run"),
        "report": (["report", run, "--out", out / "report.html"], out / "report.html"),
        "export": (["export", run, "--out", out / "labels.csv"], out / "labels.csv"),
        "plan": (["plan", more, "--budget", 50, "--out", out / "plan.csv"], out / "plan.csv"),
        "rank": (["rank", pairs, "--out", out / "ranking"], out / "ranking"),
        "estimate": (
            ["estimate", more, "--of", "0", "--sample", 20, "--out", out / "sample.csv"],
            out / "sample.csv",
        ),
        "compare": (
            ["compare", labels, "--truth", truth, "--methods", "majority,ds-em", "--out", out / "c"],
            out / "c",
        ),
    }
    lengths, complete = {}, {}
    for name, (arguments, target) in verbs.items():
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        begun = time.monotonic()
        done = call(arguments)
        lengths[name], complete[name] = time.monotonic() - begun, _shape(_state(target))
        if done.status:
            yield f"{name}, not killed: {done.err[-200:]}"
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, (arguments, target) in verbs.items():
            before = _state(target)
            if not kill_at_random(arguments, lengths[name], out, rng):
                continue
            after = _state(target)
            wrong = None
            if isinstance(after, dict) and "checksums.json" in after:
                wrong = _whole(target, cs.Ranking.load if name == "rank" else cs.load)
            elif after != before and _shape(after) != complete[name]:
                wrong = f"{_shape(after)} where {complete[name]} is complete"
            yield wrong and f"{name}: {wrong}"
    for arguments, _ in verbs.values():
        call(arguments)  # the next run removes what killed ones left
    if left := _hidden(out):
        yield f"leftovers: {left}"


def concurrent_writers(folder: Path, seconds: float, rng: random.Random) -> Outcome:
    """Let two processes write to one folder at once: it holds one of the two runs, whole."""
    labels, target = _crowd(folder), folder / "shared"
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        two = [start(["aggregate", labels, "--method", m, "--out", target]) for m in ("majority", "ds-em")]
        ends = [(process.communicate()[1], process.returncode) for process in two]
        bad = [err for err, status in ends if status not in (0, 1) or "Traceback" in err]
        wrong = (
            _whole(target) or (bad[0][-300:] if bad else None) or (f"left {h}" if (h := _hidden_of(target)) else None)
        )
        if rng.random() < 0.3:
            shutil.rmtree(target, ignore_errors=True)
        yield wrong


def _hidden_of(target: Path) -> list[str]:
    return [name for name in _hidden(target.parent) if name.startswith(f".{target.name}.")]


# ---- limits ------------------------------------------------------------------------------------------------------


def full_disk(folder: Path, seconds: float, rng: random.Random) -> Outcome:
    """Limit the size of files, as a full disk does: one sentence, and the earlier run stays."""
    labels, target = _crowd(folder), folder / "full"
    arguments = ["aggregate", labels, "--method", "ds-em", "--out", target]
    assert call(arguments).status == 0
    before = _state(target)
    for size in (0, 1000, 4096, 20_000, 60_000, 120_000):
        done = call(arguments, {resource.RLIMIT_FSIZE: size})
        changed = _state(target) != before or _hidden_of(target)
        yield fault(done, (0, 1)) or ("the earlier run was changed" if done.status and changed else None)
        before = _state(target)
    done = call(["export", target, "--out", "/dev/full", "--format", "csv"])
    yield fault(done, 1, "No space left")


def read_only(folder: Path, seconds: float, rng: random.Random) -> Outcome:
    """Write where nothing can be written: one sentence."""
    labels, closed, pairs = _crowd(folder), folder / "closed", _pairs(folder)
    closed.mkdir(exist_ok=True)
    closed.chmod(0o555)
    places = [Path("/proc/run"), Path("/sys/run"), *([] if os.geteuid() == 0 else [closed / "run"])]
    for place in places:
        for arguments in (
            ["aggregate", labels, "--method", "majority", "--out", place],
            ["aggregate", labels, "--method", "ds-em", "--checkpoint", place],
            ["simulate", "--items", 50, "--annotators", 5, "--out", place],
            ["demo", "--out", place],
            ["rank", pairs, "--out", place],
            ["estimate", labels, "--of", "0", "--sample", 20, "--out", place],
        ):
            yield fault(call(arguments), 1)


def memory_limits(folder: Path, seconds: float, rng: random.Random) -> Outcome:
    """Limit the address space: a result, or one sentence with a remedy.

    The libraries reserve about a gigabyte before anything is read; the limits are above that.
    """
    many = folder / "classes.csv"
    rows = (f"t{n},w{m},c{(n * 7 + m * (n % 3)) % 4000}\n" for n in range(40_000) for m in range(3))
    many.write_text("task,worker,label\n" + "".join(rows))
    for labels in (_crowd(folder, 200_000), many):
        for megabytes in (3000, 2000, 1600, 1400, 1200):
            for method in ("auto", "ds-em", "majority"):
                done = call(["aggregate", labels, "--method", method], {resource.RLIMIT_AS: megabytes << 20})
                wrong = fault(done, (0, 1), "" if done.status == 0 else "memory")
                yield wrong and f"{labels.name}, {method} in {megabytes} MB: {wrong}"


#: Attacks, and their share of the time.
ATTACKS: dict[str, tuple[Callable[[Path, float, random.Random], Outcome], float]] = {
    "kills at random moments": (kills, 0.5),
    "two concurrent writers": (concurrent_writers, 0.1),
    "full disk": (full_disk, 0.0),
    "read-only folders": (read_only, 0.0),
    "memory limits": (memory_limits, 0.0),
    "damaged files of a run": (flipped_bytes, 0.0),
}
