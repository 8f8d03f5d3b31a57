"""The report in headless Chromium: ``make test-browser`` brings the browser and runs this; elsewhere it is skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.report.conftest import quietly
from tests.report.test_page import NASTY

import consilience as cs
from consilience.data.texts import Texts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    demo = quietly(cs.datasets.load("dawid_skene").annotations, "ds-em")
    crowd = cs.simulate(1000, 30, 3, experts=0.1, spammers=0.3, adversaries=0.1, seed=4)
    rows = [
        (item, who, NASTY[n % 3 if who == "x" else m % 3])
        for n, item in enumerate(NASTY)
        for m, who in enumerate(NASTY)
    ]
    hurt = quietly(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    many = cs.simulate(3000, 400, 12, labels_per_item=5, seed=0)
    tokens = cs.datasets.simulate_sequences(30, 8, 6, 4, seed=0)
    return {
        "demo": cs.report(demo, folder / "demo.html", title="Dawid & Skene (1979)"),
        "crowd": cs.report(quietly(crowd.annotations), folder / "crowd.html", truth=crowd.truth, title="labels.csv"),
        "hurt": cs.report(hurt, folder / "hurt.html", title=NASTY[0], truth={NASTY[0]: NASTY[1]}),
        "many": cs.report(quietly(many.annotations), folder / "many.html"),
        "tokens": cs.report(quietly(tokens.annotations, "ds-em+hmm"), folder / "tokens.html"),
        "questions": cs.report(several(crowd.annotations), folder / "questions.html"),
    }


def several(annotations: cs.Annotations) -> cs.QuestionRuns:
    """Runs of three questions whose items show a text, and whose annotators have long names."""
    frame = pd.DataFrame(annotations.to_frame("pandas"))
    run = quietly(frame.assign(annotator="annotator.number." + frame["annotator"].str[1:] + "@example.org"))
    texts = [
        f"https://example.org/{n}" if n % 3 == 0 else f"{n}: " + "many words " * 30 for n in range(len(run.item_ids))
    ]
    run = replace(run, origin=replace(run.origin, texts=Texts(run.item_ids, pa.array(texts))))
    return cs.QuestionRuns({"topic": run, "a question with a rather long name " * 3: run, "mood": run}, "export.json")


class Seen:
    """A page, what its console said, and what it asked for."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.said, self.asked = page, list[str](), list[str]()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())


Open = Callable[..., Seen]


@pytest.fixture
def open_(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    contexts: list[Any] = []

    def opened(name: str, **options: Any) -> Seen:
        contexts.append(browser.new_context(**options))
        return Seen(contexts[-1].new_page(), pages[name])

    yield opened
    for context in contexts:
        context.close()


DESKTOP = {"viewport": {"width": 1200, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 780}, "is_mobile": True, "has_touch": True}
NAMES = ["demo", "crowd", "hurt", "many", "tokens", "questions"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_without_complaint_and_asks_for_nothing(open_: Open, name: str, scheme: str) -> None:
    seen = open_(name, **DESKTOP, color_scheme=scheme)
    assert seen.said == []
    # the page itself, and the empty icon in it
    assert [url for url in seen.asked if not url.startswith("data:")] == [seen.page.url]
    assert seen.page.locator("h1").is_visible()
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def luminance(colour: str) -> float:
    parts = [int(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_: Open, scheme: str) -> None:
    seen = open_("crowd", **DESKTOP, color_scheme=scheme)
    ground = luminance(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (ground < 0.05) == (scheme == "dark")
    for where in ("h1", ".lead", ".aside", ".headline", "thead th", ".quiet", ".flag", "nav a", "figcaption", "dt"):
        colour = seen.page.locator(where).first.evaluate("element => getComputedStyle(element).color")
        light, dark = sorted([luminance(colour), ground], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, where  # WCAG AA


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_does_not_scroll_sideways(open_: Open, name: str) -> None:
    seen = open_(name, **PHONE)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert seen.said == []
    # no cell is cut off, and charts keep legible letters
    assert seen.page.evaluate(
        "[...document.querySelectorAll('.cards > tbody > tr > *')].every(e => e.getBoundingClientRect().right <= 360)"
    )
    assert seen.page.locator(".tick").first.evaluate("e => e.getBoundingClientRect().height") >= 9
    # every cell of a card has its name, since there is no head
    assert seen.page.evaluate(
        "[...document.querySelectorAll('.cards > tbody > tr > td:not(.said)')].every(e => e.dataset.l)"
    )


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_what_to_do_is_in_sight_first(open_: Open, options: dict[str, Any]) -> None:
    page = open_("crowd", **options).page
    tops = [
        page.locator(where).first.bounding_box()["y"]
        for where in (
            "h1",
            ".headline",
            ".todo",
            ".tiles",
            "#annotators",
            "#items",
            "#confidence",
            "#classes",
            "#details",
        )
    ]
    assert tops == sorted(tops)
    assert tops[2] < options["viewport"]["height"]  # without scrolling
    assert page.locator("#crowd").is_hidden()
    page.locator("#details > summary").click()
    assert page.locator("#crowd").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_questions_can_be_reached_and_searched(open_: Open, options: dict[str, Any]) -> None:
    seen = open_("questions", **options, reduced_motion="reduce")
    seen.page.locator("#questions a").nth(2).click()
    assert abs(seen.page.locator("#q3-question").bounding_box()["y"]) < 100
    # each table is searched on its own
    seen.page.locator("[data-filter='q3-annotators-table']").fill("number.7@")
    assert len(column(seen, "q3-annotators-table", 0)) == 1
    assert len(column(seen, "q1-annotators-table", 0)) == 30
    link = seen.page.locator("#q1-items-table a").first
    assert link.get_attribute("href").startswith("https://example.org/")
    assert seen.said == []


def column(seen: Seen, table: str, n: int) -> list[str]:
    found: list[str] = seen.page.evaluate(
        f"[...document.querySelectorAll('#{table} > tbody > tr')].filter(r => !r.hidden)"
        f".map(r => r.cells[{n}].dataset.v ?? r.cells[{n}].textContent.trim())"
    )
    return found


def test_tables_sort(open_: Open) -> None:
    seen = open_("crowd", **DESKTOP)
    table = "annotators-table"
    head = seen.page.locator(f"#{table} thead th")
    first = column(seen, table, 0)
    labels = head.nth(1).locator("button")
    labels.click()
    numbers = [int(x) for x in column(seen, table, 1)]
    assert numbers == sorted(numbers, reverse=True)
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    labels.click()
    assert [int(x) for x in column(seen, table, 1)] == sorted(numbers)
    labels.click()
    assert column(seen, table, 0) == first
    assert head.nth(1).get_attribute("aria-sort") is None
    # names in the order that people expect: a2 before a10; from the keyboard, too
    head.nth(0).locator("button").focus()
    seen.page.keyboard.press("Enter")
    assert column(seen, table, 0) == [f"a{n}" for n in range(30)]
    head.nth(2).locator("button").click()
    accuracy = [float(x) for x in column(seen, table, 2)]
    assert accuracy == sorted(accuracy, reverse=True)
    confidence = seen.page.locator("#items-table thead th").nth(2).locator("button")
    confidence.click()
    confidence.click()
    shown = [float(x) for x in column(seen, "items-table", 2)]
    assert shown == sorted(shown)
    assert seen.said == []


def test_tables_filter(open_: Open) -> None:
    seen = open_("crowd", **DESKTOP)
    search = seen.page.locator("[data-filter='annotators-table']")
    search.fill("adversary")
    assert len(column(seen, "annotators-table", 0)) == 3
    assert seen.page.locator("[data-count='annotators-table']").inner_text() == "3 of 30"
    search.fill("")
    seen.page.locator("[data-flagged='annotators-table']").check()
    flagged = len(column(seen, "annotators-table", 0))
    assert 3 < flagged < 30
    search.fill("SPAM")
    assert 0 < len(column(seen, "annotators-table", 0)) < flagged
    seen.page.locator("[data-filter='items-table']").fill("a11")
    rows = column(seen, "items-table", 6)
    assert rows
    assert all("a11" in row for row in rows)
    # what is hidden stays hidden when sorted
    seen.page.locator("#items-table thead button").first.click()
    assert len(column(seen, "items-table", 6)) == len(rows)


def test_names_run_nothing(open_: Open) -> None:
    seen = open_("hurt", **DESKTOP)
    dialogs: list[str] = []
    seen.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    assert seen.page.locator("h1").inner_text() == NASTY[0]
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("script").count() == 1
    # and if one were not escaped, the policy of the page would stop it
    seen.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        " const i = document.createElement('div'); i.innerHTML = '<img src=x onerror=\"window.ran = 2\">';"
        " document.body.append(i); }"
    )
    seen.page.wait_for_timeout(200)
    assert seen.page.evaluate("window.ran") is None
    assert dialogs == []


def pages_of(seen: Seen) -> int:
    """The number of pages on paper."""
    pdf = seen.page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize(("name", "most"), [("demo", 4), ("crowd", 4), ("many", 4), ("tokens", 4), ("questions", 10)])
def test_it_is_short_on_paper(open_: Open, name: str, most: int) -> None:
    assert 1 <= pages_of(open_(name, **DESKTOP)) <= most


def test_it_prints(open_: Open) -> None:
    seen = open_("crowd", **DESKTOP, color_scheme="dark")
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#details").is_hidden()
    assert seen.page.locator("#annotators-table > tbody > tr:visible").count() == 12
    assert seen.page.locator("#annotators .on-paper").is_visible()
    assert seen.page.locator("nav").is_hidden()
    assert seen.page.locator(".controls").first.is_hidden()
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert luminance(ground) > 0.99  # paper is white, whatever the screen
    # the heads of tables are there in print, although they are buttons on screen
    assert seen.page.locator("#annotators-table thead th").first.inner_text().strip() == "annotator"


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_is_whole_without_script(open_: Open, options: dict[str, Any]) -> None:
    seen = open_("crowd", **options, java_script_enabled=False)
    page = seen.page
    for section in ("#confidence", "#classes", "#items", "#annotators"):
        assert page.locator(section).is_visible()
    page.locator("#details > summary").click()
    for section in ("#crowd", "#calibration", "#computed"):
        assert page.locator(section).is_visible()
    assert page.locator("#annotators-table > tbody > tr").count() == 30
    assert page.locator(".controls").first.is_hidden()
    page.locator("#annotators-table summary").first.click()
    assert page.locator("#annotators-table details .cells").first.is_visible()
    assert seen.said == []
