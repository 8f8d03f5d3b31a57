"""What reviewers did, kept in SQLite: events are appended and never changed, and a returned number means committed.

=========== ==========================================================================================================
kind        meaning
=========== ==========================================================================================================
``decide``  the reviewer says what the answer is
``skip``    the reviewer leaves the item to others
``discuss`` the item needs discussion
``note``    a remark on the item
``accept``  many labels accepted at once; the table ``accepted`` lists them
``undo``    takes back the event ``ref``
=========== ==========================================================================================================

``ref`` of a decision is the newest event on the item that the reviewer had on screen: a decision made without sight of
an earlier, different one is a conflict.  ``seen`` is what was on screen, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consilience.exceptions import FolderError, FormatError, ParameterError

__all__ = ["KINDS", "Event", "Store"]

KINDS = ("decide", "skip", "discuss", "note", "accept", "undo")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, reviewer TEXT NOT NULL, kind TEXT NOT NULL, item TEXT NOT NULL,
    answer TEXT NOT NULL, note TEXT NOT NULL, ref INTEGER NOT NULL, seen TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS accepted (event INTEGER NOT NULL, item TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (hash TEXT PRIMARY KEY, at TEXT NOT NULL, reviewer TEXT NOT NULL);
"""
_FORMAT = {"format": "consilience.Review", "version": "1"}
_COLUMNS = "id, at, reviewer, kind, item, answer, note, ref, seen"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the table of events."""

    id: int
    at: str  #: UTC, ISO 8601
    reviewer: str
    kind: str
    item: str = ""
    answer: str = ""
    note: str = ""
    ref: int = 0
    seen: str = ""

    @property
    def on_screen(self) -> dict[str, Any]:
        """What was on screen; empty if nothing is known of it."""
        found = json.loads(self.seen) if self.seen else None
        return found if isinstance(found, dict) else {}


class Store:
    """The events of a review, in a file that one process has open at a time.

    Parameters
    ----------
    path
        The SQLite file; it is made if there is none.
    read_only
        Refuse to append; without a file the store is empty.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path, self.read_only = Path(path), read_only
        self._lock = threading.Lock()
        there = self.path.exists()
        try:
            self._database = sqlite3.connect(
                ":memory:" if read_only and not there else self.path, check_same_thread=False, isolation_level=None
            )
            if not there and not read_only:
                self.path.chmod(0o600)
            self._prepare()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise FolderError(
                    f"{self.path} is in use: another review of these labels is running. Use its page, or end it first"
                ) from error
            raise FormatError(f"cannot open {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{self.path} is not the file of a review: {error}") from error

    def _prepare(self) -> None:
        run = self._database.execute
        run("PRAGMA busy_timeout = 1000")
        if not self.read_only:
            # one process at a time, since decisions are also held in memory; the system frees the lock after a kill
            run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")  # a commit is on disk before it returns
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            run(statement)
        for name, value in _FORMAT.items():
            run("INSERT OR IGNORE INTO settings VALUES (?, ?)", (name, value))
            found = run("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()[0]
            if found != value:
                run("ROLLBACK")
                raise FormatError(f"{self.path} has {name} {found!r}; this release reads {value!r}")
        run("COMMIT")

    def append(
        self,
        kind: str,
        reviewer: str,
        item: str = "",
        answer: str = "",
        *,
        note: str = "",
        ref: int = 0,
        seen: Any = None,
        accepted: Iterable[tuple[str, str]] = (),
    ) -> Event:
        """Commit an event, and return it once it is on disk; ``accepted`` are the items and labels of ``accept``."""
        if kind not in KINDS:
            raise ParameterError(f"there is no event {kind!r}; the events are {', '.join(KINDS)}")
        if self.read_only:
            raise ParameterError("the review is read-only: nothing can be changed")
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (at, reviewer, kind, item, answer, note, int(ref), "" if seen is None else json.dumps(seen))
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            made = self._database.execute(
                f"INSERT INTO events ({_COLUMNS[4:]}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            number = int(made.lastrowid or 0)
            rows = ((number, name, label) for name, label in accepted)
            self._database.executemany("INSERT INTO accepted VALUES (?, ?, ?)", rows)
        return Event(number, *values)

    def events(self) -> Iterator[Event]:
        """Yield all events in order."""
        with self._lock:
            rows = self._database.execute(f"SELECT {_COLUMNS} FROM events ORDER BY id").fetchall()
        yield from (Event(*row) for row in rows)

    def accepted(self, event: int) -> list[tuple[str, str]]:
        """Return the items and labels that an event accepted."""
        with self._lock:
            return self._database.execute("SELECT item, answer FROM accepted WHERE event = ?", (event,)).fetchall()

    # ---- settings and sessions --------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        """Return a setting, such as the target; None if it was never set."""
        with self._lock:
            row = self._database.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._lock:
            self._database.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def open_session(self, secret: str) -> None:
        """Remember a browser by the hash of its secret, so that it can go on after a restart."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, '')", (_hash(secret), at))

    def session(self, secret: str, days: float = 7.0) -> str | None:
        """Return the reviewer's name in a session, "" before there is one; None if there is no such session."""
        with self._lock:
            row = self._database.execute(
                "SELECT at, reviewer FROM sessions WHERE hash = ?", (_hash(secret),)
            ).fetchone()
        if row is None or (datetime.now(UTC) - datetime.fromisoformat(row[0])).total_seconds() > 86400.0 * days:
            return None
        return str(row[1])

    def name_session(self, secret: str, reviewer: str) -> None:
        """Remember the name of the reviewer."""
        with self._lock:
            self._database.execute("UPDATE sessions SET reviewer = ? WHERE hash = ?", (reviewer, _hash(secret)))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
