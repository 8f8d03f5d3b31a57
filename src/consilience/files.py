"""Atomic files and folders: a reader finds either the old content or the new, never half of it.

What is being written has a temporary name beside its target, and is locked.  A killed process leaves it unlocked, and
the next process that writes to the same target removes it.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consilience.exceptions import FolderError, FormatError

__all__ = [
    "CHECKSUMS",
    "atomic_file",
    "atomic_folder",
    "check_checksums",
    "check_replaceable",
    "load_arrays",
    "save_arrays",
    "write_checksums",
]


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; on success it replaces ``path`` in one step.

    A symbolic link stays, and the file that it leads to is replaced.  A device or a pipe is written to.
    """
    place = Path(path)
    if place.exists() and not place.is_file() and not place.is_dir():
        with tempfile.TemporaryDirectory(prefix="consilience-") as folder:
            yield Path(folder, "content")
            with place.open("wb") as file:
                file.write(Path(folder, "content").read_bytes())
        return
    target = _behind_links(path)
    with _held(target, _new_file) as temporary:
        try:
            yield temporary
            _to_disk(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], marker: str) -> Iterator[Path]:
    """Yield an empty folder to fill; on success it replaces ``path``, or the folder that a symbolic link leads to.

    An existing folder is only replaced if it is empty or its file ``marker`` shows that we wrote it: a typing error
    must not delete a home directory.
    """
    target = _behind_links(path)
    check_replaceable(target, marker)
    with _held(target, _new_folder) as fresh:
        try:
            yield fresh
            for file in fresh.rglob("*"):
                _to_disk(file)
            fresh.chmod(0o777 & ~_umask())
            if not target.exists():
                fresh.rename(target)
            elif not _exchange(fresh, target):
                retired = fresh.with_name(fresh.name + _RETIRED)
                target.rename(retired)
                fresh.rename(target)
                shutil.rmtree(retired)
        finally:
            # The unfinished folder, or after the exchange the old one.
            shutil.rmtree(fresh, ignore_errors=True)


def _behind_links(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


# ---- temporary names, locked while their process lives -------------------------------------------------------------

#: Mark of temporary names, and the ending of an old folder whose place is being taken.
_MARK, _RETIRED = ".consilience-", ".old"


def _prefix(target: Path) -> str:
    return f".{target.name[:40]}{_MARK}"


def _new_file(target: Path) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=_prefix(target), dir=target.parent)
    os.close(descriptor)
    return Path(name)


def _new_folder(target: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))


@contextmanager
def _held(target: Path, make: Callable[[Path], Path]) -> Iterator[Path]:
    """Make a temporary file or folder beside the target, and hold its lock; remove those of killed processes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    fresh = make(target)
    lock = _lock(fresh, wait=True)
    while lock is not None and not os.fstat(lock).st_nlink:  # taken for a leftover before it was locked
        os.close(lock)
        fresh = make(target)
        lock = _lock(fresh, wait=True)
    try:
        yield fresh
    finally:
        if lock is not None:
            os.close(lock)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files and folders of this target whose lock is free: their process was killed."""
    for path in target.parent.glob(f"{glob.escape(_prefix(target))}*"):
        if path.name.endswith(_RETIRED) and not target.exists():
            continue  # the only copy of an earlier run
        lock = _lock(path, wait=False)
        if lock is not None:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            os.close(lock)


def _lock(path: Path, *, wait: bool) -> int | None:
    """Return a descriptor that locks a file or folder; None where that cannot be done, or another process has it."""
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def check_replaceable(path: str | os.PathLike[str], marker: str) -> None:
    """Raise unless ``path`` is free, an empty folder, or a folder whose JSON file ``marker`` names a format of ours."""
    target = _behind_links(path)
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


# ---- checksums -----------------------------------------------------------------------------------------------------

#: Holds the SHA-256 of every other file of a folder.
CHECKSUMS = "checksums.json"
_SUMS = {"format": "consilience.Checksums", "version": 1}


def write_checksums(folder: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Write the checksums of all files of a folder, but those that may change later or have checksums of their own."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in (CHECKSUMS, *leave_out)
        and (path.parent == folder or not (path.parent / CHECKSUMS).exists())
    )
    sums = {path.relative_to(folder).as_posix(): _sha256(path) for path in files}
    (folder / CHECKSUMS).write_text(json.dumps({**_SUMS, "sha256": sums}, indent=2) + "\n", "utf-8")


def check_checksums(folder: Path, leave_out: tuple[str, ...] = ()) -> bool:
    """Raise if a file, other than those left out, is not as it was written; return False if there are no checksums."""
    if not (folder / CHECKSUMS).exists():
        return False
    try:
        content = json.loads((folder / CHECKSUMS).read_bytes())
        if {name: content[name] for name in _SUMS} != _SUMS:
            raise ValueError("another format")
        sums = dict(content["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{folder} is damaged: cannot read its {CHECKSUMS}") from error
    for name, expected in sums.items():
        if name in leave_out:
            continue
        try:
            same = _sha256(folder / name) == expected
        except OSError as error:
            raise FormatError(f"{folder} is damaged: cannot read its {name} ({error.strerror})") from error
        if not same:
            raise FormatError(
                f"{folder} is damaged: {name} is not as it was written. Restore it, or run again. (After a change on "
                f"purpose, delete {CHECKSUMS}: the folder is then read unchecked)"
            )
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- arrays --------------------------------------------------------------------------------------------------------


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
