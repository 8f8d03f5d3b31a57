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


def decide_next(review: Review, answer: str | None = None) -> tuple[int, bool]:
    """Decide the item that Ada gets, as its page does; by default confirm its label."""
    n = review.next("Ada", EVERYTHING)
    assert n is not None
    shown = card(review, n, "Ada", EVERYTHING)
    answer = answer or review.now.label_of(n, review.material.classes)
    review.act("decide", "Ada", shown["key"], answer, seen=json.loads(shown["seen"]))
    return n, shown["check"]


def test_one_item_in_ten_is_drawn_at_random(review: Review) -> None:
    made = [decide_next(review) for _ in range(35)]
    assert [at for at, (_, check) in enumerate(made, 1) if check] == [10, 20, 30]
    assert checked(review.ledger).items == 3
    assert len({n for n, _ in made}) == 35


def test_random_items_are_like_the_others(review: Review) -> None:
    order, wrong = review._at_random, review.now.wrong
    assert sorted(order.tolist()) == list(range(60))
    assert abs(np.corrcoef(np.arange(60), wrong[order])[0, 1]) < 0.3


def test_a_check_stays_until_it_is_decided_or_skipped(review: Review) -> None:
    for _ in range(EVERY - 1):
        decide_next(review)
    n = review.next("Ada", EVERYTHING)
    assert n is not None
    assert n == review._at_random[~review._settled[review._at_random]][0]
    assert review.next("Ada", EVERYTHING) == n
    assert review.next("Bob", EVERYTHING) != n  # it is on Ada's screen
    review.act("skip", "Ada", review.material.key(n))
    other = review.next("Ada", EVERYTHING)
    assert other not in (n, None)
    assert other in review.checks
    # who looks for something gets what they look for
    assert review.next("Ada", Filter(low=0.3)) not in review.checks


def test_what_checks_show(review: Review) -> None:
    for at in range(1, 2 * EVERY + 1):
        confirmed = review.next("Ada", EVERYTHING)
        assert confirmed is not None
        label = review.now.label_of(confirmed, review.material.classes)
        decide_next(review, "owl" if at == EVERY and label != "owl" else "cat" if at == EVERY else None)
    found = checked(review.ledger)
    assert (found.items, found.wrong) == (2, 1)
    doubts = [1 - seen["confidence"] for seen in review.ledger.checks().values()]
    assert found.doubt == pytest.approx(np.mean(doubts))
    # the last check is taken back
    review.undo("Ada")
    assert checked(review.ledger).items == 1


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
    assert found.value == pytest.approx(estimate(doubt, 60, wrong=8, known=20).value, abs=1e-6)
    made.live.stop()
    made.store.close()


def test_they_survive_a_restart_and_can_be_switched_off(review: Review, client: Client, tmp_path: Path) -> None:
    for _ in range(EVERY):
        decide_next(review)
    assert "Of 1 random checks" in client.get("/").text.replace("\n", " ")
    assert "One item in ten is drawn at random" in client.get("/progress").text
    assert client.post("/checks", {"checks": "off"}).status == 303
    assert "Random checks are off" in client.get("/progress").text
    for _ in range(EVERY):
        assert not decide_next(review)[1]
    before, keep = review.needed(), review.ledger.checks()
    assert client.post("/checks", {"checks": "on"}).status == 303
    assert review._check_is_due()
    assert before < review.needed() <= -(-before * 10 // 9) + 1 or before == 0
    copy = tmp_path / "copy.db"
    review.live.stop()
    review.store._database.execute("VACUUM INTO ?", (str(copy),))
    again = open_review(review.source, "ds-em", decisions=copy)
    assert again.ledger.checks() == keep
    again.store.close()


def test_the_page_says_so(review: Review, client: Client) -> None:
    for _ in range(EVERY - 1):
        decide_next(review)
    assert "Random check" in client.get("/").text
    decide_next(review)
    assert "Random check." not in client.get("/").text


@pytest.mark.parametrize("seen", [{"check": True}, {"check": True, "label": 3, "confidence": "x"}, ["check"], "check"])
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
