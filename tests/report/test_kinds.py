"""Reports of runs of every kind: poor data, sequences, networks, methods without passes."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import parsed, quietly
from tests.report.test_page import check_page

import consilience as cs
from consilience.report import render


def frame_of(rows: list[tuple[object, object, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def test_one_class() -> None:
    page = render(quietly(frame_of([(n, w, "x") for n in range(4) for w in "abc"])))
    check_page(page)
    root = parsed(page)
    assert "Every label is x" in root.one("section", aria_label="Verdict").text
    assert not root.all("svg", class_="matrix")


def test_one_annotator() -> None:
    page = render(quietly(frame_of([(n, "a", "xy"[n % 2]) for n in range(12)])))
    check_page(page)
    assert "There is only one annotator." in parsed(page).one("section", id="crowd").text


def test_one_item_and_one_label() -> None:
    page = render(quietly(frame_of([("i", "a", "x")])))
    check_page(page)


def test_items_without_labels_are_counted_and_not_judged() -> None:
    rows: list[tuple[object, object, object]] = [(f"i{n}", w, "xy"[n % 2]) for n in range(9) for w in "abc"]
    run = quietly(frame_of([*rows, ("lonely", "a", None)]))
    page = render(run)
    check_page(page)
    root = parsed(page)
    assert "1 without a label" in root.one("ul", class_="tiles").text
    assert "lonely" not in [row[0] for row in root.one("table", id="items-table").rows()]
    estimated = float(np.mean(1 - np.asarray(run.labels["confidence"])[:9]))
    assert estimated < 0.05  # an unlabelled item is not a wrong one
    assert "stays unlabelled" in root.one("aside").text


def test_two_crowds_that_share_nothing() -> None:
    rows = [(n, w, "xy"[n % 2]) for n in range(10) for w in "abc"]
    rows += [(n, w, "xy"[n % 2]) for n in range(10, 20) for w in "def"]
    root = parsed(render(quietly(frame_of(list(rows)))))
    assert "2 groups" in root.one("section", aria_label="Verdict").text
    drawn = root.one("section", id="crowd").one("svg")
    assert len(drawn.all("circle")) == 6
    assert len(drawn.all("line")) == 6  # three within each crowd, none between


def test_a_method_without_passes(run: cs.Consensus) -> None:
    assert run.annotations is not None
    root = parsed(render(quietly(run.annotations, "majority")))
    assert "needs no passes" in root.one("section", id="convergence").text
    assert not root.one("section", id="convergence").all("svg")


def test_a_fit_that_did_not_converge_says_so(run: cs.Consensus) -> None:
    assert run.annotations is not None
    root = parsed(render(quietly(run.annotations, "ds-em", max_iter=2)))
    assert "Not converged" in root.one("section", id="convergence").text
    assert root.all("aside", class_="warnings")


@pytest.mark.parametrize("method", ["auto", "glad", "ibcc", "rob-symnmf", "kos"])
def test_every_kind_of_method(run: cs.Consensus, method: str) -> None:
    assert run.annotations is not None
    page = render(quietly(run.annotations, method))
    check_page(page)
    assert method in parsed(page).one("section", id="computed").text


def test_sequences() -> None:
    rows = [
        (s, p, w, tag)
        for s in range(8)
        for p, tag in enumerate(("B-PER", "I-PER", "O", "B-LOC"))
        for w in "abcd"
        if (s + p, w) != (3, "d")
    ]
    frame = pd.DataFrame(rows, columns=["sequence", "position", "worker", "label"])
    frame.loc[5, "label"] = "O"
    run = quietly(cs.SequenceAnnotations.from_frame(frame), "majority+hmm")
    assert isinstance(run, cs.SequenceRun)
    truth = frame[["sequence", "position"]].drop_duplicates().assign(
        label=lambda f: f["position"].map(dict(enumerate(("B-PER", "I-PER", "O", "B-LOC"))))
    )  # fmt: skip
    page = render(run, truth=truth)
    check_page(page)
    root = parsed(page)
    assert "in 8 sequences" in root.one("ul", class_="tiles").text
    cells = root.one("section", id="transitions").one("table").rows()
    shown = [[float(x or 0) for x in row[1:]] for row in cells]
    np.testing.assert_allclose(shown, run.transitions, atol=0.00501)
    assert len(root.all("section", id="convergence")) == 1
    assert " · " in root.one("table", id="items-table").rows()[0][0]


def test_words_stand_in_their_sentence(tmp_path: object) -> None:
    from pathlib import Path

    place = Path(str(tmp_path)) / "names.conll"
    place.write_text("Ann B-PER B-PER B-PER\n<Lee> I-PER O I-PER\nsaw O O O\nRome B-LOC B-LOC O\n")
    run = quietly(cs.read_sequences(place), "majority+hmm")
    page = render(run)
    check_page(page)
    marks = [mark.text for mark in parsed(page).all("mark")]
    assert sorted(marks) == ["<Lee>", "Ann", "Rome", "saw"]


def test_networks(run: cs.Consensus) -> None:
    assert run.annotations is not None
    items = run.annotations.items.tolist()
    beside = quietly(run.annotations, "majority", graph=list(itertools.pairwise(items)))
    check_page(render(beside))


def test_many_classes_and_a_truth_that_nobody_said() -> None:
    crowd = cs.simulate(400, 10, 25, labels_per_item=4, seed=0)
    truth = crowd.truth.astype(object)
    truth[:3] = "never"
    with pytest.warns(cs.exceptions.DataWarning, match="never"):
        page = render(quietly(crowd.annotations, "majority"), truth=dict(enumerate(truth.astype(str))))
    check_page(page)
    root = parsed(page)
    assert len(root.one("table", class_="numbers classes").rows()) == 20
    assert "5 more classes" in root.one("section", id="classes").text
    assert "12 most frequent of 25 classes" in root.one("section", id="annotators").text


def test_many_annotators_are_reduced_to_those_with_most_labels() -> None:
    crowd = cs.simulate(3000, 400, 2, labels_per_item=5, seed=0)
    run = quietly(crowd.annotations)
    root = parsed(render(run))
    rows = root.one("table", id="annotators-table").rows()
    assert len(rows) == 200
    labels = crowd.annotations.labels_per_annotator
    least = min(int(row[1]) for row in rows)
    assert (np.sort(labels)[::-1][:200] >= least).all()
    section = root.one("section", id="crowd")
    assert len(section.all("circle")) == 60
    assert "60 of 400" in root.text


def test_large_data_goes_without_what_is_slow(monkeypatch: pytest.MonkeyPatch, run: cs.Consensus) -> None:
    from dataclasses import replace

    monkeypatch.setattr("consilience.diagnose.diagnosis.MOST_STEPS", 10)
    verdict = parsed(render(replace(run))).one("section", aria_label="Verdict").text
    assert "bootstrap over items was left out" in verdict
    monkeypatch.setattr("consilience.report.view._MOST_LABELS", 10)
    verdict = parsed(render(replace(run))).one("section", aria_label="Verdict").text
    assert "consilience diagnose" in verdict
