"""Atomic files and folders: a reader finds either the old content or the new, never half of it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consilience.exceptions import FolderError, FormatError

__all__ = ["atomic_file", "atomic_folder", "check_replaceable", "load_arrays", "save_arrays"]


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; on success it replaces ``path`` in one step."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _to_disk(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], marker: str) -> Iterator[Path]:
    """Yield an empty folder to fill; on success it replaces ``path``.

    An existing folder is only replaced if it is empty or its file ``marker`` shows that we wrote it: a typing error
    must not delete a home directory.
    """
    target = Path(path)
    check_replaceable(target, marker)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield fresh
        for file in fresh.rglob("*"):
            _to_disk(file)
        fresh.chmod(0o777 & ~_umask())
        if not target.exists():
            fresh.rename(target)
        elif not _exchange(fresh, target):
            retired = fresh.with_name(fresh.name + ".old")
            target.rename(retired)
            fresh.rename(target)
            shutil.rmtree(retired)
    finally:
        # The unfinished folder, or after the exchange the old one.
        shutil.rmtree(fresh, ignore_errors=True)


def check_replaceable(path: str | os.PathLike[str], marker: str) -> None:
    """Raise unless ``path`` is free, an empty folder, or a folder whose JSON file ``marker`` names a format of ours."""
    target = Path(path)
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or _is_ours(target / marker))):
        raise FolderError(f"{target} exists and is not a folder of an earlier run; choose another place")


def _is_ours(marker: Path) -> bool:
    try:
        content = json.loads(marker.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and str(content.get("format", "")).startswith("consilience.")


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step if the system can (Linux ``renameat2``); return whether it did."""
    here, swap = -100, 2
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(call(here, os.fsencode(one), here, os.fsencode(other), swap) == 0)


def _to_disk(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_arrays(path: str | os.PathLike[str], content: dict[str, Any], **arrays: Any) -> None:
    """Write arrays to an ``.npz`` file, with ``content`` as JSON beside them, never as a pickle."""
    import numpy as np

    described = np.frombuffer(json.dumps(content).encode(), np.uint8)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, names=described, **arrays)


def load_arrays(
    path: str | os.PathLike[str], expected: dict[str, Any], names: tuple[str, ...], what: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what :func:`save_arrays` wrote; raise unless it has the ``expected`` format and version."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            content = json.loads(file["names"].tobytes())
            arrays = {name: file[name] for name in names}
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error}") from error
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"{path} is not {what}") from error
    if not isinstance(content, dict) or content.get("format") != expected["format"]:
        raise FormatError(f"{path} is not {what}")
    if content.get("version") != expected["version"]:
        raise FormatError(
            f"{path} has format version {content.get('version')}; this release reads {expected['version']}"
        )
    return content, arrays
