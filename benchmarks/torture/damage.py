"""Damage to files of runs: every file of every kind of run is flipped, cut, lengthened and zeroed.

Loading such a folder must end in a sentence of ours.  The report is left out, because it can be written again.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import consilience as cs
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ConsilienceError, ConsilienceWarning
from consilience.runs.question_runs import QuestionRuns
from consilience.streams.stream import Stream

__all__ = ["KINDS", "damaged", "flipped_bytes"]

Loader = Callable[[Path], Any]


def _classes(place: Path, method: str = "ds-em", **options: Any) -> None:
    crowd = cs.simulate(200, 12, 3, labels_per_item=4, seed=2)
    gold = {0: int(crowd.truth[0])}
    cs.aggregate(crowd.annotations.with_gold(gold), method, **options).save(place)


def _numeric(place: Path) -> None:
    cs.aggregate(cs.datasets.simulate_numeric(60, 8, seed=0).annotations, answers="numeric").save(place)


def _multi(place: Path) -> None:
    drawn = cs.datasets.simulate_multi(60, 8, 4, seed=0)
    cs.aggregate(drawn.annotations, answers="multi").save(place)


def _ordinal(place: Path) -> None:
    cs.aggregate(cs.datasets.simulate_scale(60, 8, 5, seed=0).annotations, answers="ordinal").save(place)


def _open(place: Path) -> None:
    said = [(t, w, f"answer {t * (w % 4 > 0)}") for t in range(40) for w in range(6)]
    table = pa.table(dict(zip(("task", "worker", "label"), map(list, zip(*said, strict=True)), strict=True)))
    cs.aggregate(table, answers="open").save(place)


def _ranking(place: Path) -> None:
    cs.rank(cs.datasets.simulate_comparisons(10, 5, 200, seed=0).comparisons).save(place)


def _sequences(place: Path) -> None:
    drawn: SequenceAnnotations = cs.datasets.simulate_sequences(20, 6, 3, seed=0).annotations
    cs.aggregate(drawn, "ds-em+hmm").save(place)


def _network(place: Path) -> None:
    crowd = cs.simulate(100, 8, 2, labels_per_item=3, seed=0)
    edges = [(n, n + 1) for n in range(99)]
    cs.aggregate(crowd.annotations, "ds-em", graph=edges).save(place)


def _questions(place: Path) -> None:
    def answers(j: int, i: int) -> list[dict[str, Any]]:
        asked = {"topic": "ab"[(i + (i * j) % 5 // 4) % 2], "tone": "xyz"[(i + (i * j) % 7 // 6) % 3]}
        return [
            {"from_name": name, "to_name": "t", "type": "choices", "value": {"choices": [said]}}
            for name, said in asked.items()
        ]

    tasks = [
        {"id": i, "data": {"t": "x"}, "annotations": [{"completed_by": j, "result": answers(j, i)} for j in range(4)]}
        for i in range(30)
    ]
    export = place.with_suffix(".json")
    export.write_text(json.dumps(tasks))
    cs.aggregate_questions(export, "ds-em").save(place)


def _stream(place: Path) -> None:
    crowd = cs.simulate(200, 12, 3, labels_per_item=4, seed=2)
    stream = Stream("ds-em", window=100)
    stream.update(crowd.annotations)
    stream.save(place)


def _streamed(place: Path) -> None:
    crowd = cs.simulate(200, 12, 3, labels_per_item=4, seed=2)
    cs.aggregate(crowd.annotations, "ds-em", engine="stream").save(place)


#: How to save a run of each kind, and how to load it.
KINDS: dict[str, tuple[Callable[[Path], None], Loader]] = {
    "classes": (_classes, cs.load),
    "numeric": (_numeric, cs.load),
    "multi": (_multi, cs.load),
    "ordinal": (_ordinal, cs.load),
    "open": (_open, cs.load),
    "sequences": (_sequences, cs.load),
    "network": (_network, cs.load),
    "streamed": (_streamed, cs.load),
    "stream": (_stream, Stream.load),
    "questions": (_questions, QuestionRuns.load),
    "ranking": (_ranking, cs.Ranking.load),
}


def damaged(folder: Path, kind: str, rng: random.Random, tries: int = 5) -> Iterator[str | None]:
    """Damage each file of a run ``tries`` times; yield None where loading refuses it, otherwise what happened."""
    target = folder / kind
    save, load = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        save(target)
        load(target)
    for path in sorted(file for file in target.rglob("*") if file.is_file() and file.name != "report.html"):
        whole = path.read_bytes()
        for n in range(tries):
            path.write_bytes(_CHANGES[n % len(_CHANGES)](whole, rng))
            wrong = None if path.read_bytes() == whole else _refusal(load, target)
            yield wrong and f"{kind}, {path.relative_to(target)}: {wrong}"
        path.write_bytes(whole)
    load(target)


def _refusal(load: Loader, target: Path) -> str | None:
    """Return what is wrong with the answer to a damaged folder."""
    try:
        load(target)
    except ConsilienceError as error:
        return None if str(error).strip() else "an error without a message"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "loaded although it was changed"


def _flip(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(changed)


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    lambda raw, rng: raw[: rng.randrange(len(raw))],
    lambda raw, rng: raw + bytes(rng.randrange(1, 99)),
    lambda raw, rng: b"\0" * len(raw),
    lambda raw, rng: _flip(_flip(raw, rng), rng),
)


def flipped_bytes(folder: Path, seconds: float, rng: random.Random) -> Iterator[str | None]:
    """Damage every file of every kind of run."""
    for kind in KINDS:
        yield from damaged(folder, kind, rng, 20)
