"""Where passes run: in memory, streamed from disk or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.data.annotations import Annotations
from consilience.engine.passes import InMemory, OnDisk, Passes
from consilience.exceptions import ParameterError
from consilience.memory import memory_bytes, room

if TYPE_CHECKING:
    from consilience.engine.scanned import Scanned

__all__ = ["ENGINES", "check_engine", "fits", "holds_parquet", "on_disk", "passes_at", "spilled"]

ENGINES = ("local", "stream", "dask")


def check_engine(engine: Any, scheduler: str | None = None) -> None:
    """Raise unless ``engine`` is the name of an engine or a Dask client, and ``scheduler`` may be an address."""
    if isinstance(engine, str) and engine not in ENGINES:
        raise ParameterError(f"there is no engine {engine!r}; this release has {', '.join(map(repr, ENGINES))}")
    if scheduler is not None and engine == "dask" and find_spec("distributed"):  # also for methods that do not use it
        from consilience.engine.dask import checked_address

        checked_address(scheduler)


def holds_parquet(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a folder of Parquet files."""
    place = Path(path)
    return place.is_dir() and any(place.rglob("*.parquet"))


def fits(scanned: Scanned) -> bool:
    """Return whether a method that needs all labels and posteriors at once fits in the memory allowed."""
    s = scanned.store
    needed = s.n_labels * 12 + s.n_items * (32 * s.n_classes + 64)
    return needed <= room(scanned.memory)


def spilled(annotations: Annotations, memory: int | str | None = None) -> Scanned:
    """Write labels in memory to a temporary folder, to be streamed from there."""
    from consilience.engine.scanned import Scanned
    from consilience.engine.store_writer import write_store
    from consilience.engine.workplace import WorkFolder

    work = WorkFolder()
    return Scanned(write_store(annotations, work.path / "store"), memory_bytes(memory), work)


def on_disk(scanned: Scanned) -> OnDisk:
    """Return passes that stream; pages are kept if all of them take a small part of the memory allowed."""
    s = scanned.store
    mapped = s.n_labels * (s.annotator.itemsize + s.label.itemsize) + s.n_items * 12
    return OnDisk(s, keep=mapped <= room(scanned.memory) // 4)


@contextmanager
def passes_at(home: InMemory | OnDisk, engine: Any, scheduler: Any = None) -> Iterator[Passes]:
    """Return the passes over the labels at ``home``, run by an engine."""
    if isinstance(engine, str) and engine != "dask":
        yield home
        return
    from consilience.engine.dask import OnCluster, connect

    with connect(scheduler if engine == "dask" else engine) as cluster, OnCluster(home, cluster) as passes:
        yield passes
