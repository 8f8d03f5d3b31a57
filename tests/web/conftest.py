"""A small review, and a client that calls the application without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pandas as pd
import pytest

import consilience as cs
from consilience.web.security import Guard, Keys
from consilience.web.session import Review
from consilience.web.start import open_review

HOST = "127.0.0.1:8765"


@dataclass
class Answer:
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """A browser without a network: keeps its cookie, and says where a form comes from."""

    app: Guard
    cookie: str = ""
    host: str = HOST
    extra: dict[str, str] = field(default_factory=dict)

    def get(self, address: str, **headers: str) -> Answer:
        return self.send("GET", address, b"", headers)

    def post(self, address: str, fields: dict[str, Any] | None = None, **headers: str) -> Answer:
        own = {"origin": f"http://{self.host}", "sec-fetch-site": "same-origin"}
        return self.send("POST", address, urlencode(fields or {}).encode(), {**own, **headers})

    def send(
        self, method: str, address: str, body: bytes | None, headers: dict[str, str], *, length: bool = True
    ) -> Answer:
        """Send a request; one without a body never ends."""
        parts = urlsplit(address)
        given = {"host": self.host, "cookie": self.cookie, **self.extra, **headers}
        if body and length:
            given["content-length"] = str(len(body))
        given = {name.replace("_", "-"): value for name, value in given.items() if value}
        scope = {
            "type": "http", "method": method, "path": parts.path, "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "root_path": "", "scheme": "http", "http_version": "1.1",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        chunks = [] if body is None else [body[at : at + 10_000] for at in range(0, max(len(body), 1), 10_000)]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not chunks:
                await asyncio.Event().wait()  # a browser that stays
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        if "set-cookie" in found:
            self.cookie = found["set-cookie"].split(";")[0]
        return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


def labels_frame(names: tuple[str, str, str] = ("cat", "dog", "owl"), n: int = 60) -> pd.DataFrame:
    crowd = cs.simulate(n, 8, len(names), labels_per_item=4, seed=1)
    frame = pd.DataFrame(crowd.annotations.to_frame("pandas"))
    classes = dict(zip(crowd.annotations.classes, names, strict=True))
    return frame.assign(label=frame["label"].map(classes), item="i" + frame["item"].astype(str))


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    labels_frame().to_csv(path, index=False)
    return path


@pytest.fixture
def review(labels: Path) -> Iterator[Review]:
    made = open_review(labels, "ds-em")
    made.live.start()
    assert made.live.wait(60)
    yield made
    made.live.stop()
    made.store.close()


def client_of(review: Review, name: str | None = "Ada") -> Client:
    from consilience.web.server import application

    keys = Keys(review.store, 8765)
    made = Client(application(review, keys))
    assert made.get(f"/open?token={keys.invite()}").status == 200
    if name is not None:
        assert made.post("/name", {"name": name}).status == 303
    return made


@pytest.fixture
def client(review: Review) -> Client:
    return client_of(review)
