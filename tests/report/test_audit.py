"""The page of an audit: whom to keep, what cannot be known, and nothing that runs."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import consilience as cs
from consilience.exceptions import ConsilienceWarning, ParameterError
from consilience.report.page import render

_NAMES = ["north", "<b>south</b>", "east", "west", "centre"]


@cache
def audit(known: int) -> cs.Audit:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    right = rng.random((200, 5)) < np.array([0.95, 0.85, 0.8, 0.75, 0.7])
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    a = cs.Annotations.from_matrix(np.array(["no", "yes"])[said], annotators=_NAMES)
    gold = {n: ("no", "yes")[truth[n]] for n in range(known)} or None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.audit(a, gold=gold, costs=dict(zip(_NAMES, (20.0, 5.0, 1.0, 0.5, 0.2), strict=True)), without=False)


def test_it_says_whom_to_keep_with_the_figures_of_the_audit(tmp_path: Path) -> None:
    found = audit(80)
    path = cs.report(found, tmp_path / "audit.html", title="My judges")
    text = path.read_text("utf-8")
    assert "<bdi>My judges</bdi>" in text
    assert f"Keep {len(found.panel)}." in text
    assert text.count(">keep</span>") == len(found.panel)
    rows = found.judges
    best = rows.loc[rows["error"].idxmin()]
    assert f"{100 * best['error']:.1f}" in text
    assert "cost of an item" in text
    clear, unclear = (len(re.findall('data-l="p"', part)) for part in text.split("Effects that are not clear"))
    assert clear == int((found.effects["p"] < 0.05).sum())
    assert clear + unclear == len(found.effects)
    assert "&lt;b&gt;south" in text
    assert "<b>south" not in text
    assert len(re.findall("<script", text)) == 1


def test_without_known_answers_it_begins_with_what_is_unknown() -> None:
    text = render(audit(0))
    assert "Which of them to keep is unknown without known answers." in text
    assert "errors that most judges share cannot be seen" in text
    assert ">keep</span>" not in text
    assert "<figure>" not in text
    with pytest.raises(ParameterError, match="an audit has its known answers already"):
        render(audit(0), truth={0: "no"})
