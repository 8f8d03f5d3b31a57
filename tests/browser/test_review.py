"""A whole review in headless Chromium: ``make test-browser`` brings the browser; elsewhere it is skipped."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from benchmarks.review import kills
from tests.report.test_page import NASTY
from tests.web.conftest import labels_frame

pytestmark = pytest.mark.browser

DESKTOP = {"viewport": {"width": 1200, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 780}, "is_mobile": True, "has_touch": True}
PAGES = ["/", "/items", "/items?flag=all&q=i1", "/annotators", "/annotator/0", "/agreement", "/accept", "/progress"]
PAGES += ["/export", "/name", "/nothing"]


class Server:
    """The command line in a process of its own."""

    def __init__(self, labels: Path, *options: str) -> None:
        self.command = [sys.executable, "-m", "consilience", "review", str(labels), "--no-browser", *options]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"(http://\S+?)/open\S+", self.process.stdout.readline())
        assert found
        self.site, self.address = found[1], found[0]

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    labels_frame(n=200).to_csv(path, index=False)
    items = [f"i{n}" for n in range(200)]
    pd.DataFrame({"item": items, "text": [f"The text of {item}. " * 8 for item in items]}).to_csv(
        tmp_path / "texts.csv", index=False
    )
    return path


@pytest.fixture
def server(labels: Path) -> Iterator[Server]:
    made = Server(labels, "--task-data", str(labels.with_name("texts.csv")), "--method", "ds-em")
    yield made
    made.kill()


class Reviewer:
    """A person with a browser, and what its console said."""

    def __init__(self, browser: Any, address: str, name: str, **options: Any) -> None:
        self.said: list[str] = []
        self.context = browser.new_context(**(options or DESKTOP))
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_url("**/name")
        self.page.fill("input[name=name]", name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#card")

    @property
    def item(self) -> str:
        return str(self.page.inner_text("#item-name"))

    def press(self, key: str) -> None:
        """Press a key, and wait for the next item."""
        before = self.item
        self.page.keyboard.press(key)
        self.page.wait_for_function("h => document.getElementById('item-name')?.innerText !== h", arg=before)

    def up_to_date(self) -> None:
        self.page.wait_for_selector("#status .stage:not(.busy)", timeout=60_000)


def test_the_whole_job(browser: Any, server: Server) -> None:
    ada = Reviewer(browser, server.address, "Ada")
    ada.up_to_date()
    before = ada.page.inner_text("#status .big")
    decided: dict[str, str] = {}
    for turn in range(20):
        key = str(turn % 3 + 1)
        item = ada.item
        decided[item] = ada.page.inner_text(f"button[data-key='{key}'] .answer")
        ada.press(key)
    assert len(decided) == 20
    # what changed is shown, and told to screen readers
    ada.page.wait_for_selector("text=What the last fit changed", timeout=60_000)
    ada.up_to_date()
    assert ada.page.inner_text("#status .big") != before
    assert "decided\n20" in ada.page.inner_text("#status .counts")
    assert ada.page.locator("#told").get_attribute("aria-live") == "polite"
    # skip, discuss, note and undo by keyboard
    skipped = ada.item
    ada.press("s")
    discussed = ada.item
    ada.press("d")
    assert "to discuss" in ada.page.inner_text("#status .counts")
    ada.press("u")
    assert ada.item == discussed
    ada.page.keyboard.press("n")
    ada.page.keyboard.type("blurred 1 2 3")  # keys are text in a field
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector("text=blurred 1 2 3")
    # a reload shows the same state
    ada.page.reload()
    assert "decided\n20" in ada.page.inner_text("#status .counts")
    assert ada.item not in (skipped, *decided)
    # killed and started again: the address is new, the decisions are there
    server.kill()
    ada.page.keyboard.press("1")
    ada.page.wait_for_selector("#toast.bad.show")
    assert "Not saved" in ada.page.inner_text("#toast")
    server.start()
    again = Reviewer(browser, server.address, "Ada")
    again.up_to_date()
    assert "decided\n20" in again.page.inner_text("#status .counts")
    # a second reviewer, invited from the page
    again.page.goto(f"{server.site}/export")
    again.page.click("text=Make an address for another reviewer")
    bob = Reviewer(browser, again.page.input_value("input.address"), "Bob")
    again.page.goto(server.site)
    assert bob.item != again.item  # nobody gets what another has on screen
    number = again.page.locator(".card").get_attribute("data-item")
    both = again.item
    bob.page.goto(f"{server.site}/item/{number}")
    again.press("1")
    bob.page.keyboard.press("2")
    bob.page.wait_for_selector("#toast.show")
    assert "decided differently" in bob.page.inner_text("#toast")
    bob.page.goto(f"{server.site}/items?flag=conflict")
    assert both in bob.page.inner_text("main")
    bob.page.goto(f"{server.site}/item/{number}")
    assert "Reviewers disagree" in bob.page.inner_text(".notice.bad")
    bob.page.keyboard.press("1")
    bob.page.wait_for_selector("#toast.show")
    # files
    again.page.goto(f"{server.site}/export")
    tables = {}
    for name in ("CSV", "Known answers (CSV)", "Audit log (CSV)"):
        with again.page.expect_download() as download:
            again.page.click(f"text='{name}'")
        tables[name] = pd.read_csv(io.BytesIO(Path(download.value.path()).read_bytes()))
    final = tables["CSV"].set_index("item")["label"]
    assert final[list(decided)].to_dict() == decided
    assert len(tables["Known answers (CSV)"]) == 21
    audit = tables["Audit log (CSV)"]
    assert (audit["kind"] == "decide").sum() == 23
    assert set(audit["reviewer"]) == {"Ada", "Bob"}
    assert audit.loc[audit["kind"] == "decide", "seen"].str.contains('"confidence"').all()
    failures = [text for text in (*ada.said, *again.said, *bob.said) if "ERR_CONNECTION" not in text]
    assert failures == []


def test_bulk_acceptance(browser: Any, server: Server) -> None:
    ada = Reviewer(browser, server.address, "Ada")
    ada.up_to_date()
    ada.page.goto(f"{server.site}/accept?threshold=80")
    with ada.page.expect_navigation():
        ada.page.click("text=Draw a random sample of 20")
    for left in range(20, 0, -1):
        assert ada.page.locator("button:text-is('Right')").count() == left
        with ada.page.expect_navigation():
            if left == 20:
                ada.page.locator("button:text-is('Right')").first.click()
            else:  # the keyboard goes on with the next label
                ada.page.keyboard.press("Enter")
    assert "0.0% to 16.8%" in ada.page.inner_text("main")
    with ada.page.expect_navigation():
        ada.page.locator("form.final button").click()
    ada.page.goto(f"{server.site}/items?flag=accepted")
    assert not ada.page.inner_text("main p").startswith("0 items")
    ada.page.goto(f"{server.site}/accept")
    with ada.page.expect_navigation():
        ada.page.keyboard.press("u")
    ada.page.goto(f"{server.site}/items?flag=accepted")
    assert ada.page.inner_text("main p").startswith("0 items")
    assert ada.said == []


@pytest.mark.parametrize(
    "options", [DESKTOP, PHONE, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone", "dark"]
)
def test_every_page_fits_and_is_quiet(browser: Any, server: Server, options: dict[str, Any]) -> None:
    ada = Reviewer(browser, server.address, "Ada", **options)
    ada.up_to_date()
    for path in PAGES:
        ada.page.goto(server.site + path)
        assert ada.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert ada.page.locator("h1").first.is_visible()
        small = ada.page.evaluate(
            "[...document.querySelectorAll('main button, main select, main input:not([type=hidden]), .button')]"
            ".filter(e => e.offsetParent && e.getBoundingClientRect().height < 44).map(e => e.outerHTML)"
        )
        assert small == [], path  # large enough for a finger
        unnamed = ada.page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), select')]"
            ".filter(e => !e.labels.length && !e.ariaLabel).map(e => e.outerHTML)"
        )
        assert unnamed == [], path  # every field has a name for screen readers
    assert [text for text in ada.said if "404" not in text] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Any, server: Server, scheme: str) -> None:
    from tests.browser.test_report import luminance

    ada = Reviewer(browser, server.address, "Ada", **DESKTOP, color_scheme=scheme)
    ada.up_to_date()
    for where in (
        ".facts",
        ".said",
        ".percent",
        ".answer",
        ".stage",
        ".counts dt",
        "nav a",
        "nav a[aria-current]",
        "kbd",
    ):
        colours = ada.page.locator(where).first.evaluate(
            "e => { let g = e; while (getComputedStyle(g).backgroundColor === 'rgba(0, 0, 0, 0)') g = g.parentElement;"
            " return [getComputedStyle(e).color, getComputedStyle(g).backgroundColor]; }"
        )
        light, dark = sorted(map(luminance, colours), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, where  # WCAG AA


def test_keyboard_only(browser: Any, server: Server) -> None:
    ada = Reviewer(browser, server.address, "Ada")
    ada.up_to_date()
    ada.page.keyboard.press("Tab")
    reached = []
    for _ in range(40):
        ada.page.keyboard.press("Tab")
        reached.append(ada.page.evaluate("document.activeElement.dataset.key || document.activeElement.name || ''"))
        outline = ada.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
        if "d" in reached:
            break
    assert {"1", "2", "3", "s", "u", "d"} <= set(reached)


def test_hostile_names(browser: Any, tmp_path: Path) -> None:
    rows = [(item, who, NASTY[(n + m) % 3]) for n, item in enumerate(NASTY) for m, who in enumerate(NASTY)]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_parquet(tmp_path / "hurt.parquet")
    made = Server(tmp_path / "hurt.parquet", "--method", "majority")
    try:
        ada = Reviewer(browser, made.address, "<img src=x onerror=alert(1)>")
        ada.up_to_date()
        ada.press("1")
        for path in [*PAGES[:-2], "/item/1", "/items?flag=all"]:
            ada.page.goto(made.site + path)
            assert ada.page.evaluate("document.scripts.length") == 1
            assert ada.page.locator("main img").count() == 0
        assert ada.said == []
    finally:
        made.kill()


def test_kills() -> None:
    figure = kills(3)[0]
    assert figure.value == 0
