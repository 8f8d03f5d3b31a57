"""Panels of language models with something like a truth, and the figure that is estimated on each."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import consilience as cs
from benchmarks.public import crowd
from consilience.datasets import path
from consilience.kernels._arrays import Codes

__all__ = ["PANELS", "Panel", "panel"]

#: Names of the panels, and the classes whose share is estimated.
PANELS: dict[str, tuple[str, ...]] = {
    "llmbar": ("1",),
    "judge_mtbench_faireval_llmeval2": ("1",),
    "llmjudge_trecdl23": ("2", "3"),
    "pandalm": ("left",),
    "alpaca_eval": ("right",),
}
#: Judges of comparisons whose verdicts are the truth: people, or the evaluator of the leaderboard.
_TRUTH = {"pandalm": "human", "alpaca_eval": "weighted_alpaca_eval_gpt4_turbo"}


class Panel(NamedTuple):
    """Labels of items whose truth is known, and the codes of the truth and of the classes of the figure."""

    annotations: cs.Annotations
    truth: Codes
    of: tuple[int, ...]


@cache
def panel(name: str) -> Panel:
    """Return a panel; of comparisons, two language models against people, and three evaluators against a fourth."""
    if name in _TRUTH:
        annotations, truth = _compared(name)
    else:
        on = crowd(name)
        judged = np.flatnonzero(on.truth >= 0)
        annotations, truth = on.annotations.select_items(judged), on.truth[judged]
    names = list(map(str, annotations.classes))
    return Panel(annotations, truth, tuple(names.index(one) for one in PANELS[name]))


def _compared(name: str) -> tuple[cs.Annotations, Codes]:
    import pandas as pd

    rows = pd.read_csv(path(name) / "comparisons.csv.gz")
    rows["item"] = rows["left"] + " " + rows["right"] + " " + rows["task"].astype(str)
    best = rows["worker"].str.startswith(_TRUTH[name])
    if name == "pandalm":
        given = pd.read_csv(path(name) / "truth.csv.gz").set_index("task")["label"]
        truth = rows.drop_duplicates("item").set_index("item")["task"].map(given)
    else:
        truth = rows[best].drop_duplicates("item").set_index("item")["winner"]
    rows = rows[~best & rows["item"].isin(truth.index)]
    a = cs.Annotations.from_frame(
        rows, item="item", annotator="worker", label="winner", classes=["left", "right", "tie"]
    )
    codes = {"left": 0, "right": 1, "tie": 2}
    return a, np.array([codes[truth[item]] for item in a.items], np.int32)
