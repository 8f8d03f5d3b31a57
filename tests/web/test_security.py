"""What must not pass: strangers, other sites, other hosts, large bodies, paths, markup in names."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from tests.report.test_page import NASTY
from tests.web.conftest import Client, client_of, labels_frame

from consilience.web.security import MOST_BYTES, Keys
from consilience.web.server import application
from consilience.web.session import Review
from consilience.web.start import open_review
from consilience.web.store import Store

PAGES = ["/", "/items", "/annotators", "/annotator/0", "/item/0", "/progress", "/accept", "/export", "/status"]


@pytest.fixture
def stranger(review: Review) -> Client:
    return Client(application(review, Keys(review.store, 8765)))


@pytest.mark.parametrize("path", [*PAGES, "/export/audit.csv", "/export/labels", "/media/0/0", "/nothing"])
def test_strangers_see_nothing(stranger: Client, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status == 403
    assert "cat" not in answer.text


def test_wrong_tokens_and_cookies_are_refused(stranger: Client) -> None:
    for token in ("", "x", "é" * 10, "0" * 32):
        assert stranger.get(f"/open?token={token}").status == 403
    for cookie in ("consilience_8765=x", "consilience_8765=", "a=b; ;;=", 'consilience_8765="\\"'):
        stranger.cookie = cookie
        assert stranger.get("/").status == 403


def test_a_token_works_once(review: Review) -> None:
    keys = Keys(review.store, 8765)
    app, token = application(review, keys), keys.invite()
    first, second = Client(app), Client(app)
    answer = first.get(f"/open?token={token}")
    assert answer.status == 200
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=Strict" in kept
    assert second.get(f"/open?token={token}").status == 403
    assert first.get("/items").status == 200
    assert first.get(f"/open?token={token}").status == 303  # the browser that has the cookie goes on


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[::2]:1", "a@b@c"]
)
def test_other_hosts_are_refused(client: Client, host: str) -> None:
    client.host = host
    assert client.get("/").status == 403
    assert client.post("/undo").status == 403


@pytest.mark.parametrize("host", ["localhost:1", "[::1]:8765", "127.0.0.1:99"])
def test_loopback_names_are_fine(client: Client, host: str) -> None:
    client.host = host
    assert client.get("/items").status == 200
    assert client.post("/undo").status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8765"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_other_sites_change_nothing(review: Review, client: Client, headers: dict[str, str]) -> None:
    answer = client.post("/decide", {"item": "i0", "answer": "cat"}, **headers)
    assert answer.status == 403
    assert review.ledger.events() == []


def test_large_requests_are_refused(review: Review, client: Client) -> None:
    own = {"origin": f"http://{client.host}"}
    for length in (True, False):  # also if the length is not announced
        answer = client.send("POST", "/act", b"kind=note&item=i0&note=" + b"x" * MOST_BYTES, own, length=length)
        assert answer.status == 413
    assert client.send("POST", "/act", b"x", {**own, "content-length": "many"}, length=False).status == 413
    assert client.get("/items?q=" + "x" * 10_000).status == 414
    assert client.send("DELETE", "/", b"", own).status == 405
    assert review.ledger.events() == []


def test_damaged_forms_are_refused(review: Review, client: Client) -> None:
    own = {"origin": f"http://{client.host}"}
    decision = b"item=i0&answer=cat&"
    damaged = (b"ref=x", b"ref=-1", b"ref=" + b"9" * 30, b"seen={", b"seen=" + b"[" * 7000)
    for body in (b"\xff\xfe=1", b"a=1&" * 500, *(decision + part for part in damaged)):
        assert client.send("POST", "/decide", body, own).status == 400
    for fields in ({"item": "nobody", "answer": "cat"}, {"item": "i0", "answer": "horse"}, {"item": "i0"}, {}):
        assert client.post("/decide", fields).status == 400
    assert client.post("/act", {"item": "i0", "kind": "accept"}).status == 400
    assert client.post("/act", {"item": "i0", "kind": "note", "note": " "}).status == 400
    assert client.post("/target", {"target": "101"}).status == 400
    assert client.post("/name", {"name": "x" * 61}).status == 400
    assert client.get("/items?flag=nothing").status == 400
    assert client.get("/items?low=x").status == 400
    assert review.ledger.events() == []


def test_slow_requests_are_refused(review: Review, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilience.web.security._PATIENCE", 0.01)
    answer = client.send("POST", "/decide", None, {"origin": f"http://{client.host}"})
    assert (answer.status, review.ledger.events()) == (408, [])


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/static/../server.py",
            "/static/..%2fserver.py",
            "/static/server.py",
            "/static/",
            "/media/0/../../etc/passwd",
        ),
        *("/media/0/0", "/media/999999/0", "/media/-1/0", "/item/999999", "/item/-1", "/annotator/999"),
    ],
)
def test_there_is_no_way_to_other_files(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert "import" not in answer.text


def test_every_answer_has_the_headers(client: Client, stranger: Client) -> None:
    for answer in (*(client.get(path) for path in PAGES), client.get("/static/review.js"), stranger.get("/")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


def test_pages_have_nothing_inline(client: Client) -> None:
    for path in PAGES[:-1]:
        text = client.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick=" not in text
        assert text.count("<script") == 1
        assert '<script src="/static/review.js" defer></script>' in text


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    rows = [(item, who, NASTY[(n + m) % 3]) for n, item in enumerate(NASTY) for m, who in enumerate(NASTY)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    frame.to_parquet(tmp_path / "hurt.parquet")
    pd.DataFrame({"task": NASTY, "text": NASTY[::-1]}).to_parquet(tmp_path / "texts.parquet")
    made = open_review(tmp_path / "hurt.parquet", "majority", task_data=tmp_path / "texts.parquet")
    made.live.start()
    assert made.live.wait(30)
    client = client_of(made, NASTY[0][:60].strip() or "x")
    for n in range(3):
        card = client.get(f"/item/{n}").text
        fields = {"item": made.material.key(n), "answer": made.material.classes[n % 3], "note": NASTY[1]}
        assert client.post("/decide", fields).status == 303
        assert client.post("/act", {**fields, "kind": "note"}).status == 303
        assert "<script>" not in card
    pages = [f"/item/{n}" for n in range(made.material.labels.n_items)]
    pages += [f"/annotator/{m}" for m in range(made.material.labels.n_annotators)]
    for path in [*pages, *PAGES, "/items?flag=all", "/agreement"]:
        text = client.get(path).text
        assert text.count("<script") == (0 if path == "/status" else 1), path
        assert "<img src=x" not in text
        assert "javascript:" not in text.replace("&#", "").split("href=")[0]
    made.live.stop()
    made.store.close()


def test_read_only_changes_nothing(labels: Path) -> None:
    first = open_review(labels, "majority")
    first.act("decide", "Ada", "i0", "cat")
    first.store.close()
    made = open_review(labels, "majority", read_only=True)
    client = client_of(made)
    for path, fields in {
        "/decide": {"item": "i1", "answer": "cat"},
        "/act": {"item": "i1", "kind": "skip"},
        "/undo": {},
        "/target": {"target": "1"},
        "/accept/sample": {"threshold": "0"},
        "/accept/judge": {"item": "i1", "answer": "cat"},
        "/accept": {},
        "/invite": {},
    }.items():
        assert client.post(path, fields).status == 403, path
    assert "disabled" in client.get("/item/0").text
    assert made.ledger.answers() == {"i0": "cat"}
    made.store.close()
    with Path(made.store.path).open("rb"):
        again = Store(made.store.path)
        assert len(list(again.events())) == 1
        again.close()


def test_names_of_classes_do_not_leak_into_addresses(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    labels_frame(("a&b=c", "50 % <b>", "x\"y'z")).to_csv(path, index=False)
    made = open_review(path, "majority")
    made.live.start()
    assert made.live.wait(30)
    client = client_of(made)
    from urllib.parse import urlencode

    for name in made.material.classes:
        assert client.get(f"/items?{urlencode({'label': name})}").status == 200
        assert client.post("/decide", {"item": "i1", "answer": name}).status == 303
        assert made.ledger.answers()["i1"] == name
    made.live.stop()
    made.store.close()
