"""Temporary folders that are removed even after a killed process.

A folder holds a lock while its process lives.  The next process that makes one in the same place removes folders whose
lock is free.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO

__all__ = ["WorkFolder"]

_LOCK = "lock"


class WorkFolder:
    """A temporary folder.

    Parameters
    ----------
    parent
        Folder to make it in; None: the temporary folder of the system.
    """

    def __init__(self, parent: Path | None = None) -> None:
        place, prefix = (Path(tempfile.gettempdir()), "consilience-") if parent is None else (parent, ".consilience-")
        for folder in place.glob(f"{prefix}*"):
            if _is_abandoned(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self._lock = _locked(self.path)

    def remove(self) -> None:
        """Remove the folder and its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _locked(folder: Path) -> IO[str] | None:
    """Create a lock and hold it; None if the system has no locks."""
    fresh = folder / "lock.new"
    file = fresh.open("w")
    if not _take(file):
        file.close()
        fresh.unlink()
        return None
    # visible to others only now: a free lock marks an abandoned folder
    fresh.rename(folder / _LOCK)
    return file


def _is_abandoned(lock: Path) -> bool:
    """Return whether there is a lock and it is free."""
    try:
        with lock.open("r+") as file:
            return _take(file)
    except OSError:
        return False


def _take(file: IO[str]) -> bool:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
