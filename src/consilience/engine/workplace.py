"""Temporary folders that do not outlive a killed process for long.

A folder holds a lock for as long as its process lives.  The next process that needs one beside it removes those whose
lock nobody holds.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO

__all__ = ["WorkFolder"]

_LOCK = "lock"


class WorkFolder:
    """A folder of our own.

    Parameters
    ----------
    parent
        Where to make it; None for the temporary folder of the system.
    """

    def __init__(self, parent: Path | None = None) -> None:
        place, prefix = (Path(tempfile.gettempdir()), "consilience-") if parent is None else (parent, ".consilience-")
        for folder in place.glob(f"{prefix}*"):
            if _is_left(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self._lock = _locked(self.path)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _locked(folder: Path) -> IO[str] | None:
    """Make a lock and hold it; None where the system has no locks."""
    fresh = folder / "lock.new"
    file = fresh.open("w")
    if not _take(file):
        file.close()
        fresh.unlink()
        return None
    # only now others may see it: a lock that nobody holds is a sign of death
    fresh.rename(folder / _LOCK)
    return file


def _is_left(lock: Path) -> bool:
    """Tell whether there is a lock that nobody holds."""
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
