"""Random checks: which items they are, what they show, and that they can be switched off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.web.conftest import Client

from consilience.runs.estimated_error import estimate
from consilience.web.card import card
from consilience.web.checks import EVERY, Checks, checked, due
from consilience.web.filters import Filter
from consilience.web.live import error_of
from consilience.web.session import Review
from consilience.web.start import open_review

EVERYTHING = Filter()


@pytest.fixture
def checking(review: Review) -> Review:
    review.store.set("checks", "on")
    return review


def decide_next(review: Review, answer: str | None = None) -> tuple[int, bool]:
    """Decide the item that Ada gets, as its page does; by default confirm its label."""
    n = review.next("Ada", EVERYTHING)
    assert n is not None
    shown = card(review, n, "Ada", EVERYTHING)
    answer = answer or review.now.label_of(n, review.material.classes)
    review.act("decide", "Ada", shown["key"], answer, seen=json.loads(shown["seen"]))
    return n, shown["check"]


def test_one_item_in_ten_is_drawn_at_random(checking: Review) -> None:
    made = [decide_next(checking) for _ in range(35)]
    assert [at for at, (_, check) in enumerate(made, 1) if check] == [10, 20, 30]
    assert checked(checking.ledger).items == 3
    assert len({n for n, _ in made}) == 35


def test_random_items_are_like_the_others(review: Review) -> None:
    order, wrong = review._at_random, review.now.wrong
    assert sorted(order.tolist()) == list(range(60))
    assert abs(np.corrcoef(np.arange(60), wrong[order])[0, 1]) < 0.3


def test_a_check_stays_until_it_is_decided_or_skipped(checking: Review) -> None:
    for _ in range(EVERY - 1):
        decide_next(checking)
    n = checking.next("Ada", EVERYTHING)
    assert n is not None
    assert n == checking._at_random[~checking._settled[checking._at_random]][0]
    assert checking.next("Ada", EVERYTHING) == n
    assert checking.next("Bob", EVERYTHING) != n  # it is on Ada's screen
    checking.act("skip", "Ada", checking.material.key(n))
    other = checking.next("Ada", EVERYTHING)
    assert other not in (n, None)
    assert other in checking.checks
    # who looks for something gets what they look for
    assert checking.next("Ada", Filter(low=0.3)) not in checking.checks


def test_what_checks_show(checking: Review) -> None:
    for at in range(1, 2 * EVERY + 1):
        confirmed = checking.next("Ada", EVERYTHING)
        assert confirmed is not None
        label = checking.now.label_of(confirmed, checking.material.classes)
        decide_next(checking, "owl" if at == EVERY and label != "owl" else "cat" if at == EVERY else None)
    found = checked(checking.ledger)
    assert (found.items, found.wrong) == (2, 1)
    doubts = [1 - seen["confidence"] for seen in checking.ledger.checks().values()]
    assert found.doubt == pytest.approx(np.mean(doubts))
    # the last check is taken back
    checking.undo("Ada")
    assert checked(checking.ledger).items == 1


def test_they_are_the_basis_of_the_estimate(review: Review) -> None:
    run, N = review.now.run, 60
    assert run is not None
    known = np.zeros(N, bool)
    mean = error_of(run, review.now.wrong, known)
    few, many = (error_of(run, review.now.wrong, known, Checks(n, n // 2, None)) for n in (10, 100))
    assert mean.value < few.value < many.value < 0.5
    assert many.high - many.low < few.high - few.low
    # the run is by ds-em, whose confidences are not those of the estimate
    assert error_of(run, review.now.wrong, known, Checks(100, 50, 0.9)) == many


def test_confidences_on_screen_count_for_auto(tmp_path: Path, labels: Path) -> None:
    made = open_review(labels, "auto", decisions=tmp_path / "d.db")
    made.live.start()
    assert made.live.wait(60)
    run, known = made.now.run, np.zeros(60, bool)
    assert run is not None
    doubt = float(made.now.wrong.mean())
    found = error_of(run, made.now.wrong, known, Checks(20, 8, doubt))
    together = run.run["dependent"], run.run["if_dependent"]
    assert found.value == pytest.approx(estimate(doubt, 60, wrong=8, known=20, together=together).value, abs=1e-6)
    made.live.stop()
    made.store.close()


def test_who_wants_them_switches_them_on_and_they_survive_a_restart(
    review: Review, client: Client, tmp_path: Path
) -> None:
    for _ in range(EVERY):
        assert not decide_next(review)[1]
    assert "Switch random checks on" in client.get("/progress").text
    before = review.needed()
    assert client.post("/checks", {"checks": "on"}).status == 303
    assert "Switch random checks off" in client.get("/progress").text
    assert decide_next(review)[1]
    assert "Of 1 random check" in client.get("/").text
    keep = review.ledger.checks()
    assert before < review.needed() <= -(-before * 10 // 9) + 1 or before == 0
    copy = tmp_path / "copy.db"
    review.live.stop()
    review.store._database.execute("VACUUM INTO ?", (str(copy),))
    again = open_review(review.source, "ds-em", decisions=copy)
    assert again.ledger.checks() == keep
    again.store.close()


def test_the_page_says_so(checking: Review, client: Client) -> None:
    for _ in range(EVERY - 1):
        decide_next(checking)
    assert "Random check" in client.get("/").text
    decide_next(checking)
    assert "Random check." not in client.get("/").text


@pytest.mark.parametrize(
    "seen",
    [{"check": True}, {"check": True, "label": 3, "confidence": "x"}, ["check"], "check"]
    + [{"check": True, "label": "cat", "confidence": each} for each in (float("nan"), 7, None)],
)
def test_broken_records_are_not_checks(seen: object, labels: Path) -> None:
    made = open_review(labels, "ds-em")
    made.act("decide", "Ada", "i5", "cat", seen=seen)
    assert checked(made.ledger) == Checks(0, 0, None)
    made.store.close()


def test_due() -> None:
    made = 0
    for decided in range(100):
        made += due(decided, made)
    assert made == 10
