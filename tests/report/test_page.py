"""The page as a whole: well formed, self-contained, escaped, small, quick, and written in one step."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report.conftest import Node, parsed, quietly, tags_of

import consilience as cs
from consilience.data.texts import Texts
from consilience.datasets import Simulation
from consilience.exceptions import DataError, ParameterError
from consilience.report import render

NASTY = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert('2')>",
    "'; </style></svg></table> &amp; &lt;b&gt;",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "日本語 émoji 😀 שלום",
    "a" * 5000,
    "line\nbreak\ttab\x00nul\x1b[31m",
    "]]><!-- -->",
]


def check_page(page: str) -> None:
    """What every page must be, whatever is in it."""
    root = parsed(page)
    ids = [node.attributes["id"] for node in root.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    assert root.one("h1").text
    for link in root.all("a"):
        address = link.attributes["href"] or ""
        if address.startswith("#"):
            assert address[1:] in ids
        else:  # an item that is an address, or shows one
            assert address.startswith(("http://", "https://"))
            assert link.attributes["rel"] == "noopener noreferrer"
    for node in root.all():
        assert not {"src", "srcset", "style", "action", "data", "poster"} & set(node.attributes), node.tag
        assert "href" not in node.attributes or node.tag in ("a", "link")
        assert not any(name.startswith("on") for name in node.attributes), node.attributes
        if node.tag == "svg":
            assert node.attributes.get("aria-label") or node.attributes.get("aria-hidden") == "true"
    assert root.one("link").attributes["href"] == "data:,"
    # the policy names the one script and the one style by their hashes, and allows nothing to be fetched
    policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"] or ""
    for tag in ("script", "style"):
        content = "".join(root.one(tag).parts)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "http" not in content
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp", page)
    assert "nan" not in re.findall(r"(?:>|\")(-?nan|inf|None)(?:<|\")", page)


def test_a_page_is_well_formed_and_self_contained(run: cs.Consensus, simulated: Simulation) -> None:
    for truth in (None, simulated.truth):
        check_page(render(run, truth=truth))
    page = parsed(render(run))
    assert page.one("h1").text == "Consensus"
    assert [s.attributes["id"] for s in page.all("section") if "id" in s.attributes] == [
        "annotators",
        "items",
        "classes",
        "crowd",
        "convergence",
        "computed",
    ]


def test_names_from_data_are_only_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilience.report.items._MOST_LETTERS", 10_000)  # as many names, whatever their length
    rng = np.random.default_rng(0)
    rows = [
        (item, who, NASTY[int(rng.integers(3))] if rng.random() < 0.4 else NASTY[n % 3])
        for n, item in enumerate(NASTY + [f"{x}!" for x in NASTY])
        for who in NASTY
    ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    plain = frame.copy()
    for column in plain:
        plain[column] = column + plain[column].map({v: str(k) for k, v in enumerate(dict.fromkeys(plain[column]))})
    truth = dict.fromkeys(NASTY, NASTY[0])
    run = quietly(frame)
    hurt = replace(
        run, run={**run.run, "warnings": NASTY, "why": NASTY[0], "method": NASTY[1], "parameters": {"x": NASTY[2]}}
    )
    page = render(hurt, truth=truth, title=NASTY[0])
    check_page(page)
    same = quietly(plain)
    story = {**same.run, "warnings": ["x"] * len(NASTY), "why": "x", "method": "x", "parameters": {"x": 1}}
    other = render(replace(same, run=story), truth={f"task{k}": "label0" for k in range(len(NASTY))}, title="x")
    # names change no element: the same kind of data has the same number of each
    assert tags_of(page) == tags_of(other)
    root = parsed(page)
    assert root.one("h1").text == NASTY[0]
    text = root.text
    for name in NASTY[:4]:
        assert " ".join(name.split()) in text
    assert not set("\u202e\u202c\u2066\u2069\x00\x1b") & set(page)
    assert not [table for table in root.all("table") if "a" * 49 in table.text]
    assert any((node.attributes.get("title") or "").startswith("aaaa") for node in root.all("bdi"))


#: Never blank: a blank name is a missing one.
text = st.text(max_size=12).map("a{}b".format)


def small_page(people: list[str], classes: list[str], title: str) -> str:
    said = np.asarray([[0, 0, 1], [1, 1, 1], [0, 1, 0], [1, 0, 1]])
    made = cs.Annotations.from_matrix(np.asarray(classes, object)[said], annotators=people, classes=classes)
    return render(quietly(made, "majority"), title=title)


@cache
def plain_tags() -> Counter[str]:
    return tags_of(small_page(["p", "q", "r"], ["x", "y"], "t"))


@settings(derandomize=True, max_examples=20, deadline=None)
@given(st.lists(text, min_size=3, max_size=3, unique=True), st.lists(text, min_size=2, max_size=2, unique=True), text)
def test_any_text_is_only_text(people: list[str], classes: list[str], title: str) -> None:
    page = small_page(people, classes, title)
    check_page(page)
    assert tags_of(page) == plain_tags()


def test_a_large_run_is_a_small_page_and_soon_written() -> None:
    seconds: list[float] = []
    for n in (10_000, 100_000):
        crowd = cs.simulate(n, 300, 3, labels_per_item=4, experts=0.1, seed=0)
        consensus = quietly(crowd.annotations, "ds-em")
        begun = time.process_time()
        page = render(consensus, truth=crowd.truth)
        seconds.append(time.process_time() - begun)
    assert len(page.encode()) < 1_000_000
    check_page(page)
    root = parsed(page)
    assert "100,000" in root.text
    # ten times the items: at most ten times the time, and a little
    assert seconds[1] < 12 * seconds[0] + 0.5


def test_long_names_many_classes_and_many_annotators_stay_small() -> None:
    rng = np.random.default_rng(1)
    N, M, K = 4000, 1500, 30
    who = [f"{'annotator ' * 40}{m}" for m in range(M)]
    truth = rng.integers(K, size=N)
    item = np.repeat(np.arange(N), 6)
    said = np.where(rng.random(item.size) < 0.6, truth[item], rng.integers(K, size=item.size))
    frame = pd.DataFrame(
        {
            "task": np.asarray([f"{'item ' * 80}{n}" for n in range(N)], object)[item],
            "worker": np.asarray(who, object)[rng.integers(M, size=item.size)],
            "label": np.asarray([f"{'class ' * 60}{k}" for k in range(K)], object)[said],
        }
    )
    page = render(quietly(frame, "majority"), items=200)
    assert len(page.encode()) < 1_000_000
    check_page(page)


def test_a_run_from_its_folder_has_the_same_report(run: cs.Consensus, simulated: Simulation, tmp_path: Path) -> None:
    run.save(tmp_path / "saved")
    live = render(run, truth=simulated.truth, title="saved")
    assert render(cs.load(tmp_path / "saved"), truth=simulated.truth, title="saved") == live
    # a folder is called after itself
    assert render(tmp_path / "saved", truth=simulated.truth) == live


def test_a_run_without_its_labels_says_so(run: cs.Consensus) -> None:
    page = render(replace(run, annotations=None, diagnose=None))
    check_page(page)
    root = parsed(page)
    assert "not kept with this run" in root.one("section", id="crowd").text
    assert "not kept with this run" in root.one("section", id="items").text
    assert "No verdict" in root.one("section", aria_label="Verdict").text
    assert not root.all("td", class_="said")
    assert len(root.one("table", id="annotators-table").rows()) == 12


def test_the_diagnosis_that_was_made_is_taken(run: cs.Consensus) -> None:
    fresh = replace(run)
    fresh.__dict__["diagnosis"] = replace(run.diagnosis, reasons=["It was made before."])
    assert "It was made before." in render(fresh)


def test_what_is_wrong_is_said(run: cs.Consensus, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="of a run or of its folder, not of dict"):
        render({})
    with pytest.raises(ParameterError, match="items must be"):
        render(run, items=-1)
    with pytest.raises(cs.exceptions.FormatError, match="not the folder of a run"):
        render(tmp_path)
    with pytest.raises(cs.exceptions.ConsilienceError):
        render(run, truth={"nobody": 0})
    unknown = np.full(300, -1)
    with pytest.raises(DataError, match="both a truth and a label"):
        render(run, truth=unknown)


def test_the_file_appears_whole_or_not_at_all(
    run: cs.Consensus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "deep" / "report.html"
    assert cs.report(run, place) == place
    before = place.read_text("utf-8")
    assert before == render(run)

    def fails(*_: Any, **__: Any) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(OSError, match="disk full"):
        cs.report(run, place)
    monkeypatch.undo()
    assert place.read_text("utf-8") == before
    assert [file.name for file in place.parent.iterdir()] == ["report.html"]


def with_texts(texts: list[str | None]) -> cs.Consensus:
    """A run whose items show these."""
    said = np.asarray([[n % 2, n % 2, 1 - n % 2] for n in range(len(texts))])
    run = quietly(cs.Annotations.from_matrix(said, items=[f"i{n}" for n in range(len(texts))]), "majority")
    shown = Texts(run.item_ids, pa.array(texts, pa.string()))
    return replace(run, origin=replace(run.origin, texts=shown, question="Which <kind>?"))


def test_the_text_of_an_item_stands_below_its_name() -> None:
    texts = [*NASTY, None, "https://example.org/?a=1&b=<2>", "javascript:alert(1)", "plain"]
    page = render(with_texts(texts))
    check_page(page)
    root = parsed(page)
    cells = {cell.text.split()[0]: cell for cell in (row.all("th")[0] for row in items_of(root))}
    for n, text in enumerate(texts):
        cell = cells[f"i{n}"]
        if text is None:
            assert cell.text == f"i{n}"
        elif text.startswith("https"):
            assert cell.one("a").attributes["href"] == text
        elif text.isascii() and text.isprintable():
            assert cell.one("span", class_="context").text == (text if len(text) < 160 else text[:160] + "…")
            assert not cell.all("a")
    assert tags_of(page)["script"] == 1


def items_of(root: Node) -> list[Node]:
    return [row for row in root.one("table", id="items-table").all("tr") if row.all("th")[0].text != "item"]


def test_an_item_that_is_an_address_is_a_link() -> None:
    frame = pd.DataFrame(
        [(f"https://example.org/{n}.jpg", w, "ab"[n % 2]) for n in range(6) for w in "xyz"],
        columns=["item", "worker", "label"],
    )
    page = render(quietly(frame))
    check_page(page)
    assert len(parsed(page).one("table", id="items-table").all("a")) == 6


def test_the_title_is_the_question() -> None:
    run = with_texts(["a", "b", "c", "d"])
    assert parsed(render(run)).one("h1").text == "Which <kind>?"
    assert parsed(render(run, title="Mine")).one("h1").text == "Mine"
    named = replace(run, run={**run.run, "source": "labels.csv"})
    assert "labels.csv" in parsed(render(named)).one("p", class_="over").text
    other = replace(named, origin=replace(run.origin, question=""))
    assert parsed(render(other)).one("h1").text == "labels.csv"


def test_what_to_do_comes_first_and_how_it_was_computed_last(run: cs.Consensus, simulated: Simulation) -> None:
    root = parsed(render(run, truth=simulated.truth))
    order = [node.attributes["id"] for node in root.all() if node.attributes.get("id") and node.tag != "table"]
    assert order == [
        *("annotators", "items", "confidence", "classes"),
        *("details", "calibration", "errors", "crowd", "convergence", "computed"),
    ]
    details = root.one("details", id="details")
    assert "open" not in details.attributes
    assert len(details.all("section")) == 5
    to_do = root.one("dl", class_="todo")
    assert [term.text for term in to_do.all("dt")] == ["Accept", "Review", "Talk to", "Collect"]
    flagged = [row[0] for row in root.one("table", id="annotators-table").rows()][: to_do.text.count(" a")]
    assert flagged
    assert all(name in to_do.all("dd")[2].text for name in flagged[:2])


def test_a_truth_that_contradicts_is_the_headline(run: cs.Consensus, simulated: Simulation) -> None:
    agreed = parsed(render(run, truth=simulated.truth)).one("section", aria_label="Verdict")
    assert agreed.one("p", class_="headline").text == "The labels show who is right."
    other = (np.asarray(run.choice.best) + 1) % 3
    verdict = parsed(render(run, truth=other)).one("section", class_="verdict not")
    assert verdict.one("p", class_="headline").text.startswith(
        "On the 300 items whose truth you gave, 100% of the labels"
    )
    assert "From the labels alone it would seem that they show who is right." in verdict.text
    assert "Accept" not in verdict.text


def test_several_questions_are_one_page(run: cs.Consensus, simulated: Simulation) -> None:
    runs = cs.QuestionRuns({NASTY[0]: run, "second": run}, NASTY[1], {NASTY[2]: "textarea"}, {"late": NASTY[0]})
    page = render(runs, truth={"second": simulated.truth})
    check_page(page)
    root = parsed(page)
    assert root.one("h1").text == NASTY[1]
    first, second = root.all("article")
    assert first.all("h2")[0].text == NASTY[0]
    assert not first.all("section", id="q1-calibration")
    assert second.all("section", id="q2-calibration")
    # the same numbers as on a page of its own
    alone = parsed(render(run, truth=simulated.truth)).one("table", id="annotators-table").rows()
    assert second.one("table", id="q2-annotators-table").rows() == alone
    assert len(page.encode()) < 500_000
