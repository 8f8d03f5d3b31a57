"""Events are on disk when their number is known, whatever happens next."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from consilience.exceptions import FolderError, FormatError, ParameterError
from consilience.web.ledger import Ledger
from consilience.web.store import Store


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store(tmp_path / "d.db")
    made = [
        store.append("decide", "Ada", "i1", "yes", ref=0, seen={"label": "no", "p": [0.4, 0.6]}),
        store.append("note", "Bob", "i1", note="sicher? 🙂"),
        store.append("accept", "Ada", accepted=[("i2", "no"), ("i3", "yes")]),
    ]
    store.close()
    again = Store(tmp_path / "d.db")
    assert list(again.events()) == made
    assert again.accepted(made[2].id) == [("i2", "no"), ("i3", "yes")]
    assert [e.id for e in made] == [1, 2, 3]
    again.close()


def test_commits_are_durable(tmp_path: Path) -> None:
    store = Store(tmp_path / "d.db")
    found = {name: store._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert found == {"journal_mode": "wal", "synchronous": 2}  # 2 is FULL
    assert (tmp_path / "d.db").stat().st_mode & 0o077 == 0
    store.close()


_WRITER = """
import sys
from consilience.web.store import Store
store = Store(sys.argv[1])
while True:
    print(store.append("decide", "Ada", "i", "yes").id, flush=True)
"""


def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    acknowledged = 0
    for wanted in (3, 17, 40):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "d.db")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(wanted):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = int(([str(acknowledged), *process.stdout.read().split()])[-1])
        process.wait()
        store = Store(tmp_path / "d.db")
        assert [e.id for e in store.events()][:acknowledged] == list(range(1, acknowledged + 1))
        store.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "d.db")
    with pytest.raises(FolderError, match="another review of these labels is running"):
        Store(tmp_path / "d.db")
    store.close()
    Store(tmp_path / "d.db").close()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to have a header of its own" * 3)
    with pytest.raises(FormatError, match="is not the file of a review"):
        Store(tmp_path / "text")
    store = Store(tmp_path / "d.db")
    store.set("version", "2")
    store.close()
    with pytest.raises(FormatError, match="has version '2'"):
        Store(tmp_path / "d.db")


def test_read_only(tmp_path: Path) -> None:
    none = Store(tmp_path / "none.db", read_only=True)
    assert list(none.events()) == []
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ParameterError, match="read-only"):
        none.append("decide", "Ada", "i", "yes")
    with pytest.raises(ParameterError, match="no event 'delete'"):
        Store(tmp_path / "d.db").append("delete", "Ada")


def test_sessions_are_kept_as_hashes_and_end(tmp_path: Path) -> None:
    store = Store(tmp_path / "d.db")
    store.open_session("secret")
    store.name_session("secret", "Ada")
    assert store.session("secret") == "Ada"
    assert store.session("other") is None
    assert store.session("secret", days=-1.0) is None
    store.close()
    kept = sqlite3.connect(tmp_path / "d.db").execute("SELECT hash FROM sessions").fetchone()[0]
    assert "secret" not in kept
    assert len(kept) == 64


# ---- what follows from events --------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Store(tmp_path / "d.db"))


def test_the_latest_decision_of_a_reviewer_counts(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes")
    ledger.record("decide", "Ada", "i", "no")
    assert ledger.answers() == {"i": "no"}


def test_unseen_differences_are_conflicts_until_settled(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes", ref=0)
    ledger.record("decide", "Bob", "i", "no", ref=0)  # Bob had the item open before Ada decided
    state = ledger.of("i")
    assert state.conflict
    assert {(d.reviewer, d.answer) for d in state.decisions} == {("Ada", "yes"), ("Bob", "no")}
    assert ledger.answers() == {}
    ledger.record("decide", "Ada", "i", "no", ref=state.newest)  # Ada gives in, having seen both
    assert ledger.answers() == {"i": "no"}
    ledger.record("decide", "Cleo", "i", "yes", ref=ledger.of("i").newest)  # overrules both, in sight of both
    assert ledger.answers() == {"i": "yes"}
    assert len(ledger.of("i").decisions) == 3


def test_the_same_answer_is_no_conflict(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes")
    ledger.record("decide", "Bob", "i", "yes")
    assert ledger.answers() == {"i": "yes"}


def test_undo_takes_back_ones_own_steps_one_by_one(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes")
    ledger.record("discuss", "Ada", "j")
    ledger.record("decide", "Bob", "k", "no")
    assert ledger.of("j").discuss
    undone = ledger.undo("Ada")
    assert undone is not None
    assert undone.item == "j"
    assert not ledger.of("j").discuss
    ledger.undo("Ada")
    assert ledger.answers() == {"k": "no"}
    assert ledger.undo("Ada") is None
    assert [e.kind for e in ledger.events()] == ["decide", "discuss", "decide", "undo", "undo"]  # nothing is deleted


def test_undo_restores_an_earlier_decision(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes")
    ledger.record("decide", "Ada", "i", "no")
    ledger.undo("Ada")
    assert ledger.answers() == {"i": "yes"}


def test_acceptance_is_undone_as_one_step(ledger: Ledger) -> None:
    ledger.accept("Ada", [("i", "yes"), ("j", "no")], None)
    ledger.accept("Ada", [("k", "no")], None)
    assert set(ledger.accepted) == {"i", "j", "k"}
    ledger.undo("Ada")
    assert {item: kept.answer for item, kept in ledger.accepted.items()} == {"i": "yes", "j": "no"}
    ledger.undo("Ada")
    assert ledger.accepted == {}


def test_a_decision_ends_a_discussion(ledger: Ledger) -> None:
    ledger.record("discuss", "Ada", "i")
    ledger.record("decide", "Bob", "i", "yes")
    assert not ledger.of("i").discuss


def test_a_restart_finds_the_same_state(ledger: Ledger) -> None:
    ledger.record("decide", "Ada", "i", "yes")
    ledger.record("skip", "Ada", "j")
    ledger.accept("Bob", [("k", "no"), ("l", "no")], {"threshold": 0.9})
    ledger.record("decide", "Bob", "i", "no")
    ledger.record("decide", "Ada", "m", "yes")
    ledger.undo("Ada")
    before = {item: ledger.of(item) for item in ledger.items()}, dict(ledger.accepted), ledger.version
    ledger.store.close()
    again = Ledger(Store(ledger.store.path))
    assert ({item: again.of(item) for item in again.items()}, dict(again.accepted), again.version) == before
    undone = again.undo("Ada")
    assert undone is not None
    assert undone.kind == "skip"  # the decision on m was taken back before
