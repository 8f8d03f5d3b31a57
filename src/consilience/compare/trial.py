"""Trials of one method in its own process: fit it with every seed, and measure cost and error.

:func:`consilience.compare` starts ``main`` in a new interpreter, which inherits nothing: no imports, no memory, no
``__main__``.  The labels come as a file of arrays; results go back as lines of JSON.

**Seconds** are those of the fit.  Before the clock starts, one pass over a part of the labels loads libraries and
compiles kernels.

**Memory** is the peak of the resident set during the fit, less that of the process after loading the labels and warming
up.  On Linux it is read from ``/proc``, where the peak can be reset before every fit.  (With ``getrusage``, a new
process inherits the peak of its parent.)  Elsewhere it is that of ``getrusage``, the peak of the whole process: a fit
below it shows as 0.  Without either, as on Windows, it is None.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from consilience import metrics
from consilience.answers.kinds import OPEN_METHOD, Kind, Taken
from consilience.answers.open_consensus import aggregate_open
from consilience.answers.ordinal_consensus import fit_levels
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import MethodError
from consilience.files import load_arrays, save_arrays
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry
from consilience.runs.open_run import OpenRun

__all__ = [
    "judge",
    "judge_labels",
    "load_labels",
    "main",
    "measured",
    "peak",
    "release",
    "save_labels",
    "trial",
]

_FORMAT = {"format": "consilience.Trial", "version": 1}
_ARRAYS = ("indptr", "annotator", "label", "gold", "truth")

#: Labels of the warm-up: few, but enough for the same kernels as the whole data.
_WARM = 1 << 16


def save_labels(path: str | os.PathLike[str], annotations: Annotations, truth: Codes, kind: Kind = "nominal") -> None:
    """Write the labels of a trial, without the names of items, and what their answers mean."""
    a = annotations
    content = {
        **_FORMAT,
        "answers": kind,
        "annotators": a.annotator_ids.to_json()["names"],
        "classes": a.class_ids.to_json()["names"],
        "columns": [a.origin.item, a.origin.annotator, a.origin.label],
    }
    gold = np.zeros(0, np.int32) if a.gold is None else a.gold
    save_arrays(path, content, indptr=a.indptr, annotator=a.annotator, label=a.label, gold=gold, truth=truth)


def load_labels(path: str | os.PathLike[str]) -> tuple[Annotations, Codes, Kind]:
    """Read a file written by :func:`save_labels`."""
    content, arrays = load_arrays(path, _FORMAT, _ARRAYS, "the labels of a trial")
    annotations = Annotations(
        arrays["indptr"],
        arrays["annotator"],
        arrays["label"],
        items=Ids.range(arrays["indptr"].size - 1),
        annotators=Ids(content["annotators"]),
        classes=Ids(content["classes"]),
        gold=arrays["gold"] if arrays["gold"].size else None,
        origin=Origin(*content["columns"]),
    )
    return annotations, arrays["truth"], content["answers"]


def release() -> None:
    """Return free memory to the system, and reset the peak, where possible."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # GNU C library only
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):  # Linux only; "5" resets the peak (proc(5))
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def peak() -> int | None:
    """Return the largest resident set since the last :func:`release`, in bytes; None where unknown."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _run(name: str, annotations: Annotations, kind: Kind, **options: Any) -> Fit | OpenRun:
    """Run a method by name as :func:`consilience.aggregate` does."""
    if kind == "open" and name in ("auto", OPEN_METHOD):
        return aggregate_open(annotations, Taken(kind), callback=options.get("callback"))
    fit = fit_levels if kind == "ordinal" else registry.fit
    return fit(name, annotations, **options)


def _warm_up(name: str, annotations: Annotations, kind: Kind, options: dict[str, Any]) -> None:
    """Run one pass of a method over a part of the items, to load and compile what it uses; ignore failures."""
    a = annotations
    step = max(1, a.n_labels // _WARM)
    items = np.arange(0, a.n_items, step)
    if step > 1:
        # with fewer classes, other kernels would run
        absent = a.used_classes & ~a.select_items(items).used_classes
        rare = [int(np.argmax(a.label == k)) for k in np.flatnonzero(absent)[:100]]
        items = np.union1d(items, np.searchsorted(a.indptr, rare, side="right") - 1)
    with suppress(Exception):
        _run(name, a.select_items(items), kind, callback=lambda _state: True, **options)


def trial(
    name: str,
    annotations: Annotations,
    truth: Codes,
    seed: int | None,
    held: int | None,
    kind: Kind = "nominal",
) -> dict[str, Any]:
    """Fit a method by name once and judge it; ``held`` is as in :func:`measured`."""
    return measured(partial(_run, name, annotations, kind, **_seeded(seed)), lambda fit: judge(fit, truth), seed, held)


def measured(
    fit: Callable[[], Any], judged: Callable[[Any], dict[str, Any]], seed: int | None, held: int | None
) -> dict[str, Any]:
    """Fit once, with time and memory, and judge the result; failures are part of the result.

    ``held`` is the memory in use before, in bytes.
    """
    said: dict[str, Any] = {"seed": seed}
    release()
    begun = time.perf_counter()
    try:
        found = fit()
        said["seconds"] = time.perf_counter() - begun
        most = peak()
        said["memory_mb"] = None if most is None or held is None else max(most - held, 0) / 1e6
        return said | judged(found)
    except MethodError as error:
        return {"seed": seed, "status": "refused", "note": str(error)}
    except MemoryError as error:
        return {"seed": seed, "status": "failed", "note": f"out of memory; {error}".rstrip("; ")}
    except Exception as error:
        return {"seed": seed, "status": "failed", "note": f"{type(error).__name__}: {error}".rstrip(": ")}


def judge(fit: Fit | OpenRun, truth: Codes) -> dict[str, Any]:
    """Compare a fit with the truth (-1: not judged)."""
    if isinstance(fit, OpenRun):
        posterior, labels, known = fit.judged_by(truth)
        return judge_labels(labels, posterior, known)
    notes = filter(None, (fit.details.get("why"), *(sentence for sentence, _ in fit.cautions)))
    return judge_labels(fit.choice.best, fit.posterior, truth, "; ".join(notes))


def judge_labels(labels: Codes, posterior: Floats | None, truth: Codes, note: str = "") -> dict[str, Any]:
    """Compare labels, and probabilities if there are any, with the truth (-1: not judged)."""
    if posterior is None:
        return {"status": "done", "note": note, "error": metrics.error_rate(labels, truth)}
    if not np.isfinite(posterior).all():
        return {"status": "failed", "note": "some of its probabilities are NaN or infinite"}
    bins = metrics.reliability(posterior, truth, labels=labels)
    return {
        "status": "done",
        "note": note,
        "error": metrics.error_rate(labels, truth),
        "log_loss": metrics.log_loss(posterior, truth),
        "brier": metrics.brier_score(posterior, truth),
        "ece": bins.calibration_error,
        "confidence": metrics.mean_confidence(posterior, truth, labels=labels),
        "bins": [
            {"count": n, "confidence": c * n if n else 0.0, "right": round(r * n) if n else 0}
            for n, c, r in zip(bins.count.tolist(), bins.confidence.tolist(), bins.accuracy.tolist(), strict=True)
        ],
    }


def _seeded(seed: int | None) -> dict[str, Any]:
    return {} if seed is None else {"random_state": seed}


def main(path: str, name: str, seeds: list[int | None]) -> None:
    """Run the trials of one method; print ``{"ready": true}``, then a line for each seed."""
    send = _own_channel()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    annotations, truth, kind = load_labels(path)
    _warm_up(name, annotations, kind, _seeded(seeds[0]))
    release()
    held = peak()
    send({"ready": True})
    for seed in seeds:
        send(trial(name, annotations, truth, seed, held, kind))


def _own_channel() -> Callable[[dict[str, Any]], None]:
    """Reserve standard output for results: what a method prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    return send


def _end_with_parent() -> None:
    """Exit at the end of standard input, which the parent holds open."""
    sys.stdin.buffer.read()
    os._exit(1)
