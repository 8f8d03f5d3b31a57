"""consilience next to crowd-kit, cleanlab, Snorkel and peerannot: the same labels, each library as its manual shows.

Each runs in a process of its own with a time limit (``BENCH_SECONDS``, 120).  Time is measured from labels in the
format of the library to the labels that it returns.  The first run is a warm-up and the second one counts, unless the
first took longer than twenty seconds.  Memory is the peak of that run beyond that of the process before it.  Errors
are in percent.

* cleanlab's CROWDLAB needs the probabilities of a classifier.  There is none here, so it gets the vote shares, with one
  vote distributed over the classes.
* Snorkel's ``LabelModel`` is trained with its defaults.  It assumes annotators better than chance and, by default,
  equally frequent classes.
* peerannot needs items and annotators numbered from zero.

``make libraries`` installs the peers into an environment of their own (they need PyTorch).  A library that is not
installed is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.figures import Figure
from benchmarks.public import crowd as public
from consilience.compare.trial import load_labels, peak, release, save_labels
from consilience.data.annotations import Annotations
from consilience.datasets.hard_cases import clones, long_tail
from consilience.kernels._arrays import Codes, Ints

SECONDS = float(os.environ.get("BENCH_SECONDS", "120"))
PUBLIC = "bluebird", "dog52", "rte", "labelme", "music", "zencrowd_us", "sentence_polarity"
#: A longer run is not repeated.
SHORT = 20.0

Labels = Callable[[], Ints]


class Contender(NamedTuple):
    """A library, its method, and how it is called: annotations in, a function to be timed out."""

    library: str
    name: str
    prepare: Callable[[Annotations], Labels]

    @property
    def title(self) -> str:
        """The name in tables."""
        return f"{self.library}: {self.name}"


# ---- how each is called ------------------------------------------------------------------------------------


def ours(method: str) -> Callable[[Annotations], Labels]:
    return lambda a: lambda: cs.aggregate(a, method).choice.best


def crowd_kit(name: str) -> Callable[[Annotations], Labels]:
    def prepare(a: Annotations) -> Labels:
        import crowdkit.aggregation as kit
        import pandas as pd

        item = np.repeat(np.arange(a.n_items), a.labels_per_item)
        frame = pd.DataFrame({"task": item, "worker": a.annotator, "label": a.label.astype(np.int64)})

        def work() -> Ints:
            series = getattr(kit, name)().fit_predict(frame)
            return np.asarray(series.reindex(np.arange(a.n_items)), np.int64)

        return work

    return prepare


def matrix(a: Annotations, missing: float) -> Any:
    made = np.full((a.n_items, a.n_annotators), missing)
    made[np.repeat(np.arange(a.n_items), a.labels_per_item), a.annotator] = a.label
    return made


def cleanlab(a: Annotations) -> Labels:
    import pandas as pd
    from cleanlab.multiannotator import get_label_quality_multiannotator

    table = pd.DataFrame(matrix(a, np.nan))
    votes = np.ones((a.n_items, a.n_classes)) / a.n_classes
    np.add.at(votes, (np.repeat(np.arange(a.n_items), a.labels_per_item), a.label), 1.0)
    votes /= votes.sum(axis=1, keepdims=True)

    def work() -> Ints:
        found = get_label_quality_multiannotator(table, votes, verbose=False)
        return np.asarray(found["label_quality"]["consensus_label"], np.int64)

    return work


def snorkel(a: Annotations) -> Labels:
    from snorkel.labeling.model import LabelModel

    L = matrix(a, -1).astype(np.int64)

    def work() -> Ints:
        model = LabelModel(cardinality=a.n_classes, verbose=False)
        model.fit(L, seed=0, progress_bar=False)
        return np.asarray(model.predict_proba(L).argmax(axis=1), np.int64)

    return work


def peerannot(name: str) -> Callable[[Annotations], Labels]:
    def prepare(a: Annotations) -> Labels:
        from peerannot import models

        answers = {
            n: {int(a.annotator[i]): int(a.label[i]) for i in range(a.indptr[n], a.indptr[n + 1])}
            for n in range(a.n_items)
        }

        def work() -> Ints:
            model = getattr(models, name)(answers=answers, n_classes=a.n_classes, n_workers=a.n_annotators)
            if hasattr(model, "run"):
                model.run()
            return np.asarray(model.get_answers()).astype(np.int64)

        return work

    return prepare


CONTENDERS = {
    c.title: c
    for c in (
        Contender("consilience", "auto", ours("auto")),
        Contender("consilience", "ds-em", ours("ds-em")),
        Contender("consilience", "majority", ours("majority")),
        *(
            Contender("crowd-kit", name, crowd_kit(name))
            for name in ("DawidSkene", "OneCoinDawidSkene", "GLAD", "MMSR", "MajorityVote")
        ),
        Contender("cleanlab", "CROWDLAB", cleanlab),
        Contender("snorkel", "LabelModel", snorkel),
        *(Contender("peerannot", name, peerannot(name)) for name in ("DawidSkene", "MajorityVoting")),
    )
}
MODULES = {"crowd-kit": "crowdkit"}


# ---- one contender, in a process of its own ----------------------------------------------------------------


def child(path: str, title: str) -> dict[str, Any]:
    annotations, truth, _ = load_labels(path)
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        work = CONTENDERS[title].prepare(annotations)
        for _ in range(2):
            release()
            held, begun = peak(), time.perf_counter()
            labels = work()
            seconds = time.perf_counter() - begun
            memory = ((peak() or 0) - (held or 0)) / 1e6
            if seconds > SHORT:
                break
    judged = (truth >= 0) & (annotations.labels_per_item > 0)
    error = 100.0 * float(np.mean(labels[judged] != truth[judged]))
    return {"error": error, "seconds": seconds, "memory": memory}


def outcome(path: Path, title: str) -> dict[str, Any]:
    """Run a contender; errors are part of the result."""
    command = [sys.executable, "-m", "benchmarks.libraries", str(path), title]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 30)
    except subprocess.TimeoutExpired:
        return {"note": f"> {SECONDS:.0f} s"}
    if done.returncode:
        return {"note": "fails", "why": done.stderr.strip().splitlines()[-1][:120] if done.stderr.strip() else ""}
    said: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return said


# ---- crowds ------------------------------------------------------------------------------------------------


def crowds() -> Iterator[tuple[str, Annotations, Codes]]:
    plain = cs.simulate(5000, 50, 4, labels_per_item=5, spammers=0.2, adversaries=0.1, seed=0)
    large = cs.simulate(40_000, 50, 4, labels_per_item=5, spammers=0.2, seed=0)
    drawn = {"simulated": plain, "clones": clones(0, 0.05), "long tail": long_tail(0), "200,000 labels": large}
    if os.environ.get("CONSILIENCE_DATA"):
        for name in PUBLIC:
            yield name, *public(name)
    for name, crowd in drawn.items():
        yield name, crowd.annotations, np.asarray(crowd.truth)


def run() -> list[Figure]:
    here = [c for c in CONTENDERS.values() if find_spec(MODULES.get(c.library, c.library))]
    rows: dict[str, dict[str, Mapping[str, Any]]] = {c.title: {} for c in here}
    names = []
    with tempfile.TemporaryDirectory() as folder:
        for name, a, truth in crowds():
            names.append(name)
            path = Path(folder) / f"{len(names)}.npz"
            save_labels(path, a, np.asarray(truth, np.int32))
            for c in here:
                rows[c.title][name] = said = outcome(path, c.title)
                print(f"{name:18s} {c.title:32s} {said}", flush=True)
    for what, shown in (("error", "Error, percent"), ("seconds", "Seconds"), ("memory", "Memory, MB")):
        print(f"\n{shown}\n\n| | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
        for title, cells in rows.items():
            values = (f"{c[what]:.2f}" if what in c else c["note"] for c in cells.values())
            print(f"| {title} | {' | '.join(values)} |")
    return figures(rows, names)


def figures(rows: Mapping[str, Mapping[str, Mapping[str, Any]]], names: list[str]) -> list[Figure]:
    made = []
    for name in names:
        theirs = [
            cells[name]["error"] for t, cells in rows.items() if not t.startswith("consil") and "error" in cells[name]
        ]
        if theirs:
            lead = rows["consilience: auto"][name]["error"] - min(theirs)
            made.append(
                Figure(f"{name}: error of auto less that of the best of the other libraries", lead, 0.0, unit="%")
            )
    return made


if __name__ == "__main__":
    print(json.dumps(child(*sys.argv[1:3])))
