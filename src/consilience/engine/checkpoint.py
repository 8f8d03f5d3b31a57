"""Checkpoints: the state of a long run on disk, from which a killed run resumes.

A folder holds ``checkpoint.json``, which names the labels, method and parameters, and an ``.npz`` file for every state:
results of single passes (votes, pairs) and the current point of EM.  Each file is replaced atomically.  What is missing
is computed again, to the same bits; so a run may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from consilience.exceptions import FolderError, FormatError
from consilience.files import atomic_file, check_replaceable, load_arrays, save_arrays

__all__ = ["Checkpoint", "Keeper"]

T = TypeVar("T")

_FORMAT = {"format": "consilience.Checkpoint", "version": 3}
_HEADER = "checkpoint.json"
#: A state is written again after this many times the seconds of the last write: at most a tenth of the run.
_PATIENCE = 10.0


class Checkpoint:
    """A folder of states of one run.

    Parameters
    ----------
    folder
        Created if missing; a checkpoint of another run is refused.
    of
        What determines the run, in plain values: ``method``, ``parameters``, ``seed``.
    """

    def __init__(self, folder: str | os.PathLike[str], of: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        if not (self.folder.is_dir() and all(map(_unfinished, self.folder.iterdir()))):
            check_replaceable(self.folder, _HEADER)
        self._content = {**_FORMAT, **json.loads(json.dumps(of, default=repr))}
        there = self._there()
        if there is not None:
            self._refuse_another(there, self._content)
        self._clear()
        if there is None:
            self._write()

    def of_labels(self, fingerprint: str) -> Self:
        """Set the labels of the run; a checkpoint of other labels is refused."""
        self._content["fingerprint"] = fingerprint
        there = self._there() or {}
        if "fingerprint" in there:
            self._refuse_another(there, self._content)
        else:
            self._write()
        return self

    def _there(self) -> dict[str, Any] | None:
        header = self.folder / _HEADER
        return dict(json.loads(header.read_text("utf-8"))) if header.exists() else None

    def _write(self) -> None:
        with atomic_file(self.folder / _HEADER) as fresh:
            fresh.write_text(json.dumps(self._content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _clear(self) -> None:
        """Remove unfinished files of a killed run."""
        for left in filter(_unfinished, self.folder.glob(".*")):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def _refuse_another(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        for name in here:
            if there.get(name) == here[name]:
                continue
            if name == "fingerprint":
                what = "of other labels"
            elif name in _FORMAT:
                what = f"of {name} {there.get(name)!r}, and this release reads {here[name]!r}"
            else:
                what = f"with {name} {there.get(name)!r}, not {here[name]!r}"
            raise FolderError(
                f"{self.folder} is the checkpoint of a run {what}; choose another folder, or remove it to start over"
            )

    def load(self, name: str, n_arrays: int) -> tuple[dict[str, Any], list[Any]] | None:
        """Return the content and the arrays of a state; None if it was never written."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        keys = tuple(f"a{i}" for i in range(n_arrays))
        try:
            content, arrays = load_arrays(path, _kind(name), keys, "the state of a run")
        except FormatError as error:
            raise FormatError(
                f"the checkpoint in {self.folder} is damaged: {error}; remove it to start over"
            ) from error
        return content, [arrays[key] for key in keys]

    def save(self, name: str, content: Mapping[str, Any], arrays: Iterable[Any]) -> None:
        """Replace a state."""
        named = {f"a{i}": np.asarray(x) for i, x in enumerate(arrays)}
        save_arrays(self.folder / f"{name}.npz", {**content, **_kind(name)}, **named)

    def remember(self, name: str, make: Callable[..., T], compute: Callable[[], tuple[Any, ...]]) -> T:
        """Return ``make(*compute())``; the numbers and arrays of an earlier call are read from disk."""
        head = self.load(name, 0)
        found = head and self.load(name, int(head[0]["arrays"]))
        if not found:
            values = compute()
            self.save(name, {"arrays": len(values)}, values)
            return make(*values)
        return make(*(float(value) if value.ndim == 0 else value for value in found[1]))


class Keeper:
    """The state of one fit in a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self.checkpoint, self.name = checkpoint, name
        self._due = 0.0

    def load(self, n_arrays: int) -> tuple[dict[str, Any], list[Any]] | None:
        """Return the last state; None if there is none."""
        return self.checkpoint.load(self.name, n_arrays)

    def save(self, content: Mapping[str, Any], arrays: Iterable[Any]) -> None:
        """Write a state, unless the last one was written a moment ago."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self.checkpoint.save(self.name, content, arrays)
        ended = time.monotonic()
        self._due = ended + _PATIENCE * (ended - begun)


def _unfinished(file: Path) -> bool:
    """Return whether a killed run left this file or folder, judged by the names of temporary files."""
    return file.name.startswith((f".{_HEADER}.", ".consilience-", ".labels.")) or ".npz." in file.name


def _kind(name: str) -> dict[str, Any]:
    return {**_FORMAT, "format": f"{_FORMAT['format']}.{name}"}
