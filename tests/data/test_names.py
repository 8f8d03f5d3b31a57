"""What notebooks show: short, and only text where names come from data."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from tests.report.conftest import parsed, quietly, tags_of
from tests.report.test_page import NASTY

import consilience as cs


def objects(names: list[str]) -> list[Any]:
    rows = [(item, who, names[(n + m) % 3]) for n, item in enumerate(names) for m, who in enumerate(names)]
    annotations = cs.Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    run = quietly(annotations, "majority")
    return [annotations, run, run.diagnosis]


@pytest.mark.parametrize("at", range(3), ids=["annotations", "consensus", "diagnosis"])
def test_names_are_only_text(at: int) -> None:
    hurt = objects(NASTY)[at]._repr_html_()
    plain = objects([f"n{k}" for k in range(len(NASTY))])[at]._repr_html_()
    assert tags_of(hurt) == tags_of(plain)
    assert not {"script", "img", "style"} & set(tags_of(hurt))
    assert len(hurt) < 20_000


def test_a_consensus_shows_the_items_and_annotators_that_matter() -> None:
    crowd = cs.simulate(100, 8, 2, labels_per_item=5, seed=0)
    run = quietly(crowd.annotations)
    items, people = parsed(run._repr_html_()).all("table")
    wanted = run.labels.sort_values("margin", kind="stable").head(5)
    assert [row[0] for row in items.rows()] == wanted["item"].astype(str).tolist()
    assert [float(row[2]) for row in items.rows()] == pytest.approx(wanted["confidence"].tolist(), abs=0.00051)
    best = run.annotators.sort_values("information", ascending=False).head(5)
    assert [row[0] for row in people.rows()] == best["annotator"].tolist()
    shown = parsed(run._repr_html_()).text
    assert "100 items" in shown
    assert run.diagnosis.headline in shown
    assert f"Estimated error: {run.estimated_error}" in shown


def test_a_diagnosis_shows_its_verdict_and_sequences_their_tokens() -> None:
    crowd = cs.simulate(100, 8, 2, labels_per_item=5, seed=0)
    found = cs.diagnose(crowd.annotations)
    text = parsed(found._repr_html_()).text
    assert found.headline in text
    assert all(reason in text for reason in found.reasons)
    run = quietly(cs.datasets.simulate_sequences(5, 6, 4, 3, seed=0).annotations, "majority+hmm")
    assert "sequence" in parsed(run._repr_html_()).all("table")[0].text


def test_few_rows_and_items_without_labels() -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "worker": ["x", "x"], "label": ["y", None]})
    annotations = quietly(frame, "majority")
    assert len(parsed(annotations._repr_html_()).all("table")[0].rows()) == 1
