"""A review from the first decision to the files: the consensus follows, nothing is lost on the way."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.web.conftest import Client, client_of

import consilience as cs
from consilience.exceptions import DataWarning, ParameterError
from consilience.web.bulk import accept_sampled, clopper_pearson, draw_sample, sample_of
from consilience.web.exports import final, formats_of, gold_table
from consilience.web.filters import Filter
from consilience.web.session import Review
from consilience.web.start import open_review

EVERYTHING = Filter()


def test_a_decision_becomes_a_known_answer_and_the_fit_is_that_of_aggregate(review: Review, labels: Path) -> None:
    before = review.now
    decisions = {}
    for _ in range(6):
        n = review.next("Ada", EVERYTHING)
        assert n is not None
        item = review.material.key(n)
        # against the consensus, so that something changes
        answer = review.material.classes[(int(before.label[n]) + 1) % 3]
        review.act("decide", "Ada", item, answer)
        decisions[item] = answer
    assert review.live.wait(60)
    with pytest.warns(DataWarning, match="on your 6 known answers"):
        expected = cs.aggregate(cs.read(labels), "ds-em", gold=decisions)
    assert review.now.posterior is not None
    np.testing.assert_allclose(review.now.posterior, expected.posterior, atol=1e-12)
    changes = review.live.changes
    assert changes is not None
    known = np.asarray([review.material.find(item) for item in decisions], np.int64)
    flipped = np.flatnonzero(before.label != expected.choice.best)
    assert changes.n_flips == np.setdiff1d(flipped, known).size
    assert changes.after.value > changes.before.value, "all six answers contradict the labels"
    moved = {m: (a, b) for m, a, b in changes.moved}
    assert moved
    for m, (_, after) in moved.items():
        assert after == pytest.approx(expected.annotator_columns["accuracy"][m].as_py())


def test_the_first_update_comes_before_the_fit(labels: Path) -> None:
    slow = open_review(labels, "ds-em")
    fit, gate = slow.live._fit, [0.0]

    def late(known: Any) -> Any:
        time.sleep(gate[0])
        return fit(known)

    slow.live._fit = late
    slow.live.start()
    assert slow.live.wait(60)
    before, gate[0] = slow.now, 3.0
    n = int(before.order[0])
    slow.act("decide", "Ada", slow.material.key(n), "cat")
    for _ in range(200):
        if slow.now.stage == "updating":
            break
        time.sleep(0.01)
    now = slow.now
    assert now.stage == "updating"
    assert now.posterior is not None
    assert now.posterior[n].tolist() == [1.0, 0.0, 0.0]
    assert now.error.value < before.error.value
    assert n not in now.order
    slow.live.stop()
    slow.store.close()


def test_the_page_is_there_while_the_first_fit_runs(labels: Path) -> None:
    waiting = open_review(labels)  # its threads are not started: the fit never ends
    client = client_of(waiting)
    text = client.get("/").text
    assert "The first fit is running" in text
    n = waiting.next("Ada", EVERYTHING)
    assert n is not None
    item = waiting.material.key(n)
    assert client.post("/decide", {"item": item, "answer": "owl"}).status == 303
    assert waiting.ledger.answers() == {item: "owl"}
    for path in ("/items", "/annotators", "/annotator/1", "/progress", "/accept"):
        assert client.get(path).status == 200
    waiting.store.close()


def test_reviewers_get_different_items(review: Review) -> None:
    first, second = review.next("Ada", EVERYTHING), review.next("Bob", EVERYTHING)
    assert first is not None
    assert second is not None
    assert first != second
    assert review.next("Ada", EVERYTHING) == first  # as long as it is not decided
    review.act("skip", "Ada", review.material.key(first))
    assert review.next("Ada", EVERYTHING) not in (first, second)


def test_filters(review: Review) -> None:
    a, now = review.material.labels, review.now
    items = np.arange(a.n_items)
    who = review.material.annotators[2]
    by_hand = {n for n in items.tolist() if 2 in a.annotator[a.indptr[n] : a.indptr[n + 1]]}
    assert set(review.listed(Filter(annotator=who), "Ada").tolist()) == by_hand
    assert set(review.listed(Filter(label="dog"), "Ada").tolist()) == set(np.flatnonzero(now.label == 1).tolist())
    between = (now.confidence >= 0.6) & (now.confidence <= 0.9)
    assert set(review.listed(Filter(low=0.6, high=0.9), "Ada").tolist()) == set(np.flatnonzero(between).tolist())
    assert [review.material.key(n) for n in review.listed(Filter(q="I59"), "Ada")] == ["i59"]
    assert review.listed(Filter(annotator="nobody"), "Ada").size == 0
    order = review.listed(EVERYTHING, "Ada")
    assert np.all(np.diff(now.value[order]) <= 0)
    review.act("discuss", "Ada", "i3")
    review.act("note", "Ada", "i4", note="blurred")
    review.act("decide", "Ada", "i5", "cat")
    for flag, expected in (("discuss", ["i3"]), ("note", ["i4"]), ("decided", ["i5"])):
        assert [review.material.key(n) for n in review.listed(Filter(flag=flag), "Ada")] == expected
    left = {review.material.key(n) for n in review.listed(EVERYTHING, "Ada")}
    assert {"i3", "i5"}.isdisjoint(left)
    assert "i4" in left


def test_filter_and_address_are_inverse() -> None:
    chosen = Filter("all", "w 1", "a&b", 0.25, 0.5, "é")
    assert Filter.of(chosen.parameters) == chosen
    assert EVERYTHING.parameters == {}


def test_known_answers_of_the_file_are_not_asked_again(labels: Path) -> None:
    made = open_review(labels, "ds-em", gold={"i7": "owl"})
    assert made.material.find("i7") not in made.now.order
    made.live.start()
    made.act("decide", "Ada", "i8", "cat")
    assert made.live.wait(60)
    assert made.now.run is not None
    assert made.now.run.run["gold_items"] == 2
    made.live.stop()
    made.store.close()


def test_undo_brings_the_consensus_back(review: Review) -> None:
    before = review.now.posterior
    item = review.material.key(int(review.now.order[0]))
    review.act("decide", "Ada", item, "cat")
    assert review.live.wait(60)
    review.undo("Ada")
    assert review.live.wait(60)
    assert before is not None
    assert review.now.posterior is not None
    np.testing.assert_allclose(review.now.posterior, before, atol=1e-12)
    assert review.material.find(item) in review.now.order


def test_decisions_on_doubtful_items_are_no_sample_of_the_labels(tmp_path: Path) -> None:
    crowd = cs.simulate(400, 12, 3, labels_per_item=4, seed=3)
    made = open_review(crowd.annotations, decisions=tmp_path / "d.db")
    made.live.start()
    assert made.live.wait(60)
    before = made.now.error.value
    for n in made.now.order[:40].tolist():  # wrong more often than others
        made.act("decide", "Ada", made.material.key(n), made.material.classes[int(crowd.truth[n])])
    assert made.live.wait(60)
    now = made.now
    left = float((np.asarray(now.label) != crowd.truth).mean())
    assert now.run is not None
    taken_as_a_sample = 0.9 * now.run.run["known_answers"]["error_with"]
    # simulated crowds are better than estimates from labels
    assert left < now.error.value < before < taken_as_a_sample
    made.live.stop()
    made.store.close()


def test_target(review: Review) -> None:
    assert review.target == pytest.approx(review.now.error.value / 2)
    assert 0 < review.needed() < 60
    review.store.set("target", "1.0")
    assert review.needed() == 0


# ---- accepting many labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "n"), [(0, 20), (1, 20), (7, 20), (20, 20), (3, 50)])
def test_clopper_pearson_is_the_inverse_of_the_binomial_tail(wrong: int, n: int) -> None:
    from scipy.stats import binom

    low, high = clopper_pearson(wrong, n)
    assert low == 0.0 if wrong == 0 else binom.sf(wrong - 1, n, low) == pytest.approx(0.025)
    assert high == 1.0 if wrong == n else binom.cdf(wrong, n, high) == pytest.approx(0.025)


def test_nothing_seen_wrong_in_twenty_still_allows_a_sixth() -> None:
    assert clopper_pearson(0, 20)[1] == pytest.approx(0.1684, abs=1e-4)  # 1 - 0.025^(1/20)


def test_bulk_acceptance_needs_a_judged_sample_and_is_one_step(review: Review, client: Client) -> None:
    assert client.post("/accept", {}).status == 400  # no sample yet
    assert client.post("/accept/sample", {"threshold": "60"}).status == 303
    sample = sample_of(review, "Ada")
    assert sample is not None
    eligible = {review.material.key(n) for n in review.eligible(0.6)}
    assert set(sample.items) <= eligible
    assert len(set(sample.items)) == 20
    assert client.post("/accept", {}).status == 400  # not judged yet
    for item, label in zip(sample.items[:-1], sample.labels, strict=False):
        client.post("/accept/judge", {"item": item, "answer": label})
    other = next(c for c in review.material.classes if c != sample.labels[-1])
    client.post("/accept/judge", {"item": sample.items[-1], "answer": "", "instead": other})
    low, high = clopper_pearson(1, 20)
    text = client.get("/accept").text
    assert f"{100 * low:.1f}" in text
    assert f"{100 * high:.1f}" in text
    posterior = review.now.posterior
    assert client.post("/accept", {}).status == 303
    accepted = dict(review.ledger.accepted)
    assert set(accepted) <= eligible - set(sample.items)
    assert len(accepted) > 5
    assert set(sample.items) <= set(review.ledger.answers())
    assert review.ledger.answers().keys().isdisjoint(accepted)  # they are not known answers
    assert {review.material.key(n) for n in review.listed(Filter(flag="accepted"), "Ada")} == set(accepted)
    assert review.next("Ada", Filter(low=0.6)) is None or posterior is not None
    assert client.post("/undo", {"back": "/accept"}).status == 303
    assert review.ledger.accepted == {}


def test_nothing_to_accept(review: Review) -> None:
    with pytest.raises(ParameterError, match="no open item"):
        draw_sample(review, "Ada", 1.01)
    with pytest.raises(ParameterError, match="random sample first"):
        accept_sampled(review, "Ada")


# ---- files -------------------------------------------------------------------------------------------------------


def test_files(review: Review, client: Client, tmp_path: Path) -> None:
    other = {}
    for item in ("i0", "i5"):
        label = review.now.label_of(review.material.find(item) or 0, review.material.classes)
        other[item] = next(c for c in review.material.classes if c != label)
    for item, answer in other.items():
        n = review.material.find(item)
        card = client.get(f"/item/{n}").text
        assert item in card
        client.post("/decide", {"item": item, "answer": answer, "seen": json.dumps({"label": "x", "error": 0.3})})
    table = pd.read_csv(io.BytesIO(client.get("/export/labels?format=csv").body)).set_index("item")
    assert table.loc[list(other), "label"].to_dict() == other
    assert (table.loc[list(other), "confidence"] == 1).all()
    assert len(table) == 60
    (tmp_path / "gold.csv").write_bytes(client.get("/export/gold.csv").body)
    again = cs.aggregate(review.material.labels, "majority", gold=cs.read_truth(tmp_path / "gold.csv"))
    assert again.run["gold_items"] == 2
    review.undo("Ada")
    audit = pd.read_csv(io.BytesIO(client.get("/export/audit.csv").body))
    assert audit["kind"].tolist() == ["decide", "decide", "undo"]
    assert audit["undone"].tolist() == [False, True, False]
    assert audit["reviewer"].tolist() == ["Ada"] * 3
    assert json.loads(audit["seen"][0]) == {"label": "x", "error": 0.3}
    assert client.get("/export/labels?format=parquet").body[:4] == b"PAR1"
    for name in formats_of(review):
        assert f"format={name}" in client.get("/export").text
        assert name == "excel" or client.get(f"/export/labels?format={name}").status == 200, name
    for name in ("nothing", "mturk"):  # only for the results of a batch
        assert f"format={name}" not in client.get("/export").text
        assert client.get(f"/export/labels?format={name}").status == 400


def test_the_audit_log_for_spreadsheets_has_no_formulas(review: Review, client: Client) -> None:
    review.act("note", "Ada", "i1", note="=1+1")
    assert ",=1+1," in client.get("/export/audit.csv").text.replace('"', "")
    assert ",'=1+1," in client.get("/export/audit.csv?spreadsheet=1").text.replace('"', "")


def test_accepted_labels_are_final(review: Review) -> None:
    draw_sample(review, "Ada", 0.5, np.random.default_rng(0))
    event = review.accept("Ada", 0.99, None)
    kept = {item: k.answer for item, k in review.ledger.accepted.items() if k.event == event.id}
    run = final(review)
    best = {str(i): str(run.model.classes[int(k)]) for i, k in zip(run.item_ids, run.choice.best, strict=True)}
    assert {item: best[item] for item in kept} == kept


def test_conflicts_are_shown(review: Review) -> None:
    ada, bob = client_of(review, "Ada"), client_of(review, "Bob")
    n = review.material.find("i9")
    page = ada.get(f"/item/{n}").text, bob.get(f"/item/{n}").text
    assert all('name="ref" value="0"' in text for text in page)
    ada.post("/decide", {"item": "i9", "answer": "cat", "ref": 0})
    answer = bob.post("/decide", {"item": "i9", "answer": "dog", "ref": 0}, x_fragment="1").json
    assert "Another reviewer decided differently" in answer["told"]
    assert "Reviewers disagree" in bob.get(f"/item/{n}").text
    assert "i9" in ada.get("/items?flag=conflict").text
    assert gold_table(review).num_rows == 0
    assert "0%" in ada.get("/agreement").text
    newest = review.ledger.of("i9").newest
    bob.post("/decide", {"item": "i9", "answer": "cat", "ref": newest})
    assert review.ledger.answers() == {"i9": "cat"}


def test_a_restart_continues(labels: Path) -> None:
    first = open_review(labels, "majority")
    first.live.start()
    assert first.live.wait(30)
    client = client_of(first)
    client.post("/decide", {"item": "i2", "answer": "owl"})
    client.post("/act", {"item": "i3", "kind": "discuss"})
    target = first.target  # half of the error at the start, whatever follows
    first.live.stop()
    first.store.close()
    again = open_review(labels, "majority")
    again.live.start()
    assert again.live.wait(30)
    assert again.ledger.answers() == {"i2": "owl"}
    assert again.target == target
    assert again.next("Ada", Filter(q="i2")) not in (again.material.find("i2"),)
    from consilience.web.security import Keys
    from consilience.web.server import application

    same = Client(application(again, Keys(again.store, 8765)), cookie=client.cookie)
    assert same.get("/items").status == 200  # the browser goes on with its cookie
    again.live.stop()
    again.store.close()
