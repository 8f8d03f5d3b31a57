"""The report of a ranking: everything is there, names are escaped, groups are shown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import consilience as cs
from consilience.report.page import render

EVIL = "<script>alert(1)</script>"


def test_all_sections_and_escaped_names(tmp_path: Path) -> None:
    drawn = cs.datasets.simulate_comparisons(6, 5, 600, ties=0.3, guessers=0.2, length=0.3, seed=1)
    frame = drawn.comparisons.to_pandas().replace({"left": {"i0": EVIL}, "right": {"i0": EVIL}})
    ranking = cs.rank(frame)
    page = cs.report(ranking, tmp_path / "report.html").read_text("utf-8")
    assert page.count("<script>") == 1
    for heading in ("Scores", "Win rates", "Judges", "What to compare next", "Pairs whose order is open"):
        assert f"<h2>{heading}</h2>" in page
    assert ranking.headline.split(".")[0] in page
    best = ranking.scores.iloc[0]
    assert f"{best['score']:.2f}" in page
    assert f"{best['wins']} / {best['ties']} / {best['losses']}" in page
    assert "prefers longer" in page
    assert "guesses" in page


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
def test_groups_have_no_common_win_rates() -> None:
    rows = [("a", "b", "x", "left"), ("b", "a", "x", "right"), ("c", "d", "y", "left")]
    page = render(cs.rank(pd.DataFrame(rows, columns=["left", "right", "worker", "winner"])))
    assert "Ranks hold within a group" in page
    assert "<h2>Win rates</h2>" not in page
    with pytest.raises(cs.exceptions.ParameterError, match="no truth"):
        render(cs.rank(pd.DataFrame(rows, columns=["left", "right", "worker", "winner"])), truth={"a": 1})
