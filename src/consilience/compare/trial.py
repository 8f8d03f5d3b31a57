"""A method in a process of its own: fits it with one seed after another, and says what each fit costs and gets right.

:func:`consilience.compare` starts ``main`` in a new interpreter, which inherits nothing: no imports, no memory, no
``__main__``.  The labels come as a file of arrays; what is found goes back as lines of JSON.

**Seconds** are those of the fit.  Before the clock runs, one pass over a part of the labels loads the libraries
and compiles the kernels that the method uses.

**Memory** is the peak of the resident set during the fit, less what the process held when the labels had been loaded
and the method warmed up.  On Linux it is read from ``/proc``, where the peak can be reset before every fit.
(``getrusage`` would not do there: a new process inherits the peak of the one that started it.)  Elsewhere it is that of
``getrusage``, which knows only the peak of the whole process: nothing is seen of a fit that stays below it.  Where
there is neither, as on Windows, it is not known.
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
from pathlib import Path
from typing import Any

import numpy as np

from consilience import metrics
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import MethodError
from consilience.files import load_arrays, save_arrays
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Codes
from consilience.kernels.em import SMALL
from consilience.methods.base import registry

__all__ = ["judge", "load_labels", "main", "peak", "release", "save_labels", "trial"]

_FORMAT = {"format": "consilience.Trial", "version": 1}
_ARRAYS = ("indptr", "annotator", "label", "gold", "truth")

#: Labels in the part that a method is warmed up with: enough to go the way of large data.
_WARM = 2 * SMALL


# ---- labels from one process to another ---------------------------------------------------------------------------


def save_labels(path: str | os.PathLike[str], annotations: Annotations, truth: Codes) -> None:
    """Write what a trial needs; the names of items are left out."""
    a = annotations
    content = {
        **_FORMAT,
        "annotators": a.annotator_ids.to_json()["names"],
        "classes": a.class_ids.to_json()["names"],
        "columns": [a.origin.item, a.origin.annotator, a.origin.label],
    }
    gold = np.zeros(0, np.int32) if a.gold is None else a.gold
    save_arrays(path, content, indptr=a.indptr, annotator=a.annotator, label=a.label, gold=gold, truth=truth)


def load_labels(path: str | os.PathLike[str]) -> tuple[Annotations, Codes]:
    """Read what :func:`save_labels` wrote."""
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
    return annotations, arrays["truth"]


# ---- memory -------------------------------------------------------------------------------------------------------


def release() -> None:
    """Give memory that is free back to the system, and forget the peak so far, where that can be done."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # only the C library of GNU has it
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):  # only Linux has it; "5" resets the peak (proc(5))
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def peak() -> int | None:
    """Give the largest resident set since the last :func:`release`, in bytes, or None where nobody knows."""
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


# ---- the fit ------------------------------------------------------------------------------------------------------


def _warm_up(name: str, annotations: Annotations, options: dict[str, Any]) -> None:
    """Let a method do one pass over a part of the items, so that all it uses is there; failures will show later."""
    a = annotations
    step = max(1, a.n_labels // _WARM)
    items = np.arange(0, a.n_items, step)
    if step > 1:
        # with fewer classes, other kernels would run
        absent = a.used_classes & ~a.select_items(items).used_classes
        rare = [int(np.argmax(a.label == k)) for k in np.flatnonzero(absent)[:100]]
        items = np.union1d(items, np.searchsorted(a.indptr, rare, side="right") - 1)
    with suppress(Exception):
        registry.fit(name, a.select_items(items), callback=lambda _state: True, **options)


def trial(name: str, annotations: Annotations, truth: Codes, seed: int | None, held: int | None) -> dict[str, Any]:
    """Fit a method once and judge it; what goes wrong is part of the answer.

    ``held`` are the bytes that were in use before.
    """
    said: dict[str, Any] = {"seed": seed}
    release()
    begun = time.perf_counter()
    try:
        fit = registry.fit(name, annotations, **_seeded(seed))
        said["seconds"] = time.perf_counter() - begun
        most = peak()
        said["memory_mb"] = None if most is None or held is None else max(most - held, 0) / 1e6
        said |= judge(fit, truth)
        if why := fit.details.get("why"):
            said["note"] = "; ".join(filter(None, (why, said["note"])))
        return said
    except MethodError as error:
        return {"seed": seed, "status": "refused", "note": str(error)}
    except MemoryError as error:
        return {"seed": seed, "status": "failed", "note": f"out of memory; {error}".rstrip("; ")}
    except Exception as error:
        return {"seed": seed, "status": "failed", "note": f"{type(error).__name__}: {error}".rstrip(": ")}


def judge(fit: Fit, truth: Codes) -> dict[str, Any]:
    """Measure a fit against the truth (-1: not judged)."""
    posterior = fit.posterior
    if not np.isfinite(posterior).all():
        return {"status": "failed", "note": "some of its probabilities are no numbers"}
    labels = fit.choice.best
    bins = metrics.reliability(posterior, truth, labels=labels)
    return {
        "status": "done",
        "note": "; ".join(sentence for sentence, _ in fit.cautions),
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


# ---- the process --------------------------------------------------------------------------------------------------


def main(path: str, name: str, seeds: list[int | None]) -> None:
    """Do the trials of one method; prints ``{"ready": true}``, then a line for each seed."""
    send = _own_channel()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    annotations, truth = load_labels(path)
    _warm_up(name, annotations, _seeded(seeds[0]))
    release()
    held = peak()
    send({"ready": True})
    for seed in seeds:
        send(trial(name, annotations, truth, seed, held))


def _own_channel() -> Callable[[dict[str, Any]], None]:
    """Keep standard output to ourselves: what a method prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    return send


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open; nobody wants what comes after."""
    sys.stdin.buffer.read()
    os._exit(1)
