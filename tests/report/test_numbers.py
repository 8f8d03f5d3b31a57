"""The numbers on the page are those of the labels, counted again from the frame by other means."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import Node, parsed, quietly

import consilience as cs
from consilience.datasets import Simulation
from consilience.report import render
from consilience.report.crowd import common_items


@pytest.fixture(scope="module")
def frame(simulated: Simulation) -> pd.DataFrame:
    return pd.DataFrame(simulated.annotations.to_frame("pandas"))


@pytest.fixture(scope="module")
def page(run: cs.Consensus, simulated: Simulation) -> Node:
    return parsed(render(run, truth=simulated.truth, items=25))


def number(text: str) -> float:
    return float(text.replace(",", "").replace("%", "").replace("−", "-").strip("<> \u202f\u00a0"))


def tile(page: Node, what: str) -> str:
    found = [li for li in page.one("ul", class_="tiles").all("li") if li.all("span", class_="what")[0].text == what]
    return found[0].one("strong").text


def test_headline_numbers(page: Node, run: cs.Consensus, frame: pd.DataFrame, simulated: Simulation) -> None:
    labels = run.labels
    assert number(tile(page, "Items")) == frame["item"].nunique()
    assert number(tile(page, "Labels")) == len(frame)
    assert number(tile(page, "Annotators")) == frame["annotator"].nunique()
    wrong = 100 * np.mean(np.asarray(labels["label"]) != simulated.truth)
    assert number(tile(page, "Error")) == pytest.approx(wrong, abs=0.051)
    assert number(tile(page, "Error")) == pytest.approx(run.error_rate(simulated.truth), abs=0.051)
    assert number(tile(page, "Estimated error")) == round(100 * run.estimated_error.value)
    sure = 100 * float(np.mean(np.asarray(labels["confidence"]) >= 0.95))
    assert number(tile(page, "Sure items")) == pytest.approx(sure, abs=0.051)


def alpha(frame: pd.DataFrame) -> float:
    """Krippendorff's nominal α from its definition by pairs within items."""
    observed, values = 0.0, []
    for _, said in frame.groupby("item")["label"]:
        if len(said) > 1:
            different = sum(a != b for a, b in combinations(said, 2))
            observed += 2 * different / (len(said) - 1)
            values += list(said)
    n = len(values)
    counts = pd.Series(values).value_counts().to_numpy()
    expected = (n * n - (counts**2).sum()) / (n - 1)
    return float(1 - observed / expected)


def test_agreement_is_krippendorffs(page: Node, frame: pd.DataFrame) -> None:
    assert number(tile(page, "Agreement")) == pytest.approx(alpha(frame), abs=0.0051)


def test_classes_and_thresholds(page: Node, run: cs.Consensus, simulated: Simulation) -> None:
    rows = page.one("table", class_="numbers classes").rows()
    counts = pd.Series(np.asarray(run.labels["label"])).value_counts()
    for name, items, share, _, expected in rows:
        assert number(items) == counts[int(name)]
        assert number(share) == pytest.approx(100 * counts[int(name)] / 300, abs=0.051)
        assert number(expected) == pytest.approx(run.posterior[:, int(name)].sum(), abs=0.051)
    confidence = np.asarray(run.labels["confidence"])
    wrong = np.asarray(run.labels["label"]) != simulated.truth
    table = next(t for t in page.one(id="confidence").all("table"))
    for least, items, _, expected, measured in table.rows():
        taken = confidence >= (0 if least == "all" else float(least))
        assert number(items) == taken.sum()
        if taken.any():
            assert number(expected) == pytest.approx(100 * np.mean(1 - confidence[taken]), abs=0.0101)
            assert number(measured) == pytest.approx(100 * np.mean(wrong[taken]), abs=0.0101)


def test_the_histogram_counts_every_label_once(page: Node, run: cs.Consensus) -> None:
    drawn = page.one(id="confidence").one("svg")
    titles = [title.text for title in drawn.all("title")]
    assert sum(number(title.split(": ")[1].split()[0]) for title in titles) == 300
    confidence = np.asarray(run.labels["confidence"])
    for title in titles:
        low, high = (float(x) for x in title.split(":")[0].split(" to "))
        inside = (confidence >= low - 1e-9) & ((confidence < high - 1e-9) | (high > 0.999))
        assert number(title.split(": ")[1].split()[0]) == inside.sum()
        assert number(title.split("about ")[1].split()[0]) == pytest.approx(np.sum(1 - confidence[inside]), abs=0.051)


def test_annotators(page: Node, run: cs.Consensus, frame: pd.DataFrame) -> None:
    table = page.one("table", id="annotators-table")
    rows = table.rows()
    heads = [head.text for head in table.all("thead")[0].all("th")]
    given = frame.groupby("annotator").size()
    known = run.annotators.set_index("annotator")
    assert len(rows) == len(given) == 12
    order = []
    for row in rows:
        cells = dict(zip(heads, row, strict=True))
        name = cells["annotator"]
        assert number(cells["labels"]) == given[name]
        assert number(cells["accuracy"]) == pytest.approx(100 * known.loc[name, "accuracy"], abs=0.051)
        assert cells["most frequent mistake"].replace("\u00a0", " ") == known.loc[name, "bias"]
        assert "".join(cells["flags"].split()) == "".join(known.loc[name, "flags"].replace(";", "").split())
        serious = [f for f in known.loc[name, "flags"].split("; ") if f and not f.startswith(("few", "specialist"))]
        order.append((not serious, -known.loc[name, "information"]))
    # whom to talk to first, then the most informative
    assert order == sorted(order)
    assert 0 < sum(not fine for fine, _ in order) < 12


def test_the_accuracy_shown_is_the_expected_share_of_right_labels(
    page: Node, run: cs.Consensus, frame: pd.DataFrame
) -> None:
    # over the labels of an annotator: the mean probability of what they said
    position = {item: n for n, item in enumerate(run.item_ids)}
    frame = frame.assign(p=[run.posterior[position[i], k] for i, k in zip(frame["item"], frame["label"], strict=True)])
    expected = 100 * frame.groupby("annotator")["p"].mean()
    for row in page.one("table", id="annotators-table").rows():
        assert number(row[2]) == pytest.approx(expected[row[0]], abs=0.051)


def test_small_matrices_have_the_shades_of_the_confusions(page: Node, run: cs.Consensus) -> None:
    for line in page.one("table", id="annotators-table").all("tbody")[0].parts:
        if not isinstance(line, Node):
            continue
        m = list(run.model.annotators).index(line.all("th")[0].text)
        shades = np.zeros((3, 3))
        for path in line.one("svg", class_="matrix").all("path"):
            kind = path.attributes["class"] or ""
            for cell in (path.attributes["d"] or "").split("z")[:-1] if kind != "ground" else []:
                column, row = (int(x) for x in cell[1:].split("h")[0].split())
                assert (kind[0] == "r") == (row == column)
                shades[row, column] = int(kind[1:])
        np.testing.assert_allclose(shades / 10, run.model.confusions[m], atol=0.0501)


def test_items_to_look_at_first(page: Node, run: cs.Consensus, frame: pd.DataFrame, simulated: Simulation) -> None:
    labels = run.labels.sort_values("margin", kind="stable").head(25).astype({"label": str, "runner_up": str})
    rows = page.one("table", id="items-table").rows()
    assert [row[0] for row in rows] == [str(item) for item in labels["item"]]
    for row, (_, wanted) in zip(rows, labels.iterrows(), strict=True):
        name, label, confidence, runner_up, n, truth, said = row
        assert (label, runner_up.split()[0]) == (wanted["label"], wanted["runner_up"])
        assert float(confidence) == pytest.approx(wanted["confidence"], abs=0.00051)
        mine = frame[frame["item"] == int(name)]
        assert int(n) == len(mine)
        assert truth == str(simulated.truth[int(name)])
        # "2 a3, a7  0 a1": a class, then who said it
        shown: dict[str, set[str]] = {}
        now = ""
        for word in said.replace(",", " ").split():
            if word.startswith("a"):
                shown[now].add(word)
            else:
                now = word
                shown[now] = set()
        assert shown == {str(k): set(group["annotator"]) for k, group in mine.groupby("label")}


def test_known_items_need_no_look(simulated: Simulation) -> None:
    first = quietly(simulated.annotations)
    doubtful = int(np.argmin(first.choice.margin))
    gold = {doubtful: int(simulated.truth[doubtful])}
    rows = parsed(render(quietly(simulated.annotations, gold=gold))).one("table", id="items-table").rows()
    assert str(doubtful) not in [row[0] for row in rows]


def test_common_items_are_those_of_both(simulated: Simulation, frame: pd.DataFrame) -> None:
    a = simulated.annotations
    who = np.array([3, 0, 7, 11])
    sets = [set(frame[frame["annotator"] == a.annotator_ids[m]]["item"]) for m in who.tolist()]
    wanted = [[0 if i == j else len(x & y) for j, y in enumerate(sets)] for i, x in enumerate(sets)]
    assert common_items(a, who).tolist() == wanted


def test_repeated_answers_are_one_common_item() -> None:
    a = cs.datasets.load("dawid_skene").annotations  # annotator 1 answered thrice
    assert (common_items(a, np.arange(5)) == 45 * (1 - np.eye(5))).all()


def test_calibration(page: Node, run: cs.Consensus, simulated: Simulation) -> None:
    figures = {
        div.one("dt").text: div.one("dd").text for div in page.one("section", id="errors").all("div") if div.all("dt")
    }
    best, truth = run.posterior.argmax(axis=1), simulated.truth
    wrong = int((best != truth).sum())
    assert figures["wrong labels"] == f"{wrong} of 300"
    loss = -np.mean(np.log(np.maximum(run.posterior[np.arange(300), truth], np.finfo(float).eps)))
    assert number(figures["log-loss"].split()[0]) == pytest.approx(loss, abs=0.00051)
    squares = ((run.posterior - np.eye(3)[truth]) ** 2).sum(axis=1).mean()
    assert number(figures["Brier score"]) == pytest.approx(squares, abs=0.00051)
    dots = page.one("section", id="calibration").one("svg").all("title")
    assert sum(number(dot.text.split()[0]) for dot in dots) == 300
    cells = page.one("section", id="errors").one("table", class_="cells").rows()
    counted: Any = pd.crosstab(best, truth)
    assert [[int(x or 0) for x in row[1:]] for row in cells] == counted.to_numpy().tolist()


def testwilson_intervals_interval_iswilson_intervals() -> None:
    from scipy.stats import binomtest

    from consilience.report.calibration import wilson_interval

    for wrong, n in ((0, 7), (3, 11), (50, 50), (67, 1000)):
        wanted = binomtest(wrong, n).proportion_ci(method="wilson")
        assert wilson_interval(wrong, n) == pytest.approx((wanted.low, wanted.high), abs=1e-9)
