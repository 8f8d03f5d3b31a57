"""Every method on shuffled rows, renamed ids and permuted classes: nothing but names may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import random_model

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.methods.base.registry import METHODS, fit

BINARY = ("eigenratio", "ghosh-svd", "sml", "te")
NAMES = [
    *(name for name in METHODS if name not in ("open-answers", "ordinal")),  # which have tests of their own
    "rob-symnmf+em",
    "spectral-ds+em",
]


def table(K: int, shape: str) -> pd.DataFrame:
    """A crowd of mixed ability, as words."""
    if shape == "alike":  # many annotators say every class equally often
        annotations = cs.simulate(200, 30, K, labels_per_item=3, seed=K).annotations
        said = np.zeros((30, K), int)
        np.add.at(said, (annotations.annotator, annotations.label), 1)
        assert len(np.unique(said, axis=0)) < 30
    else:
        share = {"full": 1.0, "sparse": 0.4}[shape]
        annotations, _ = random_model(12, K, K).sample(250, label_probability=share, random_state=K)
    return pd.DataFrame(
        {
            "task": [f"i{n}" for n in annotations.item_of_label()],
            "worker": [f"w{m}" for m in annotations.annotator],
            "label": [f"c{k}" for k in annotations.label],
        }
    )


def posterior(rows: pd.DataFrame, method: str, back: dict[str, dict[str, str]], gold: Any) -> pd.DataFrame:
    """The posterior by the names of items and classes, after the names are changed back."""
    annotations = Annotations.from_frame(rows, gold=gold)
    made = pd.DataFrame(fit(method, annotations).posterior, list(annotations.items), list(annotations.classes))
    made = made.rename(index=back.get("task", {}), columns=back.get("label", {}))
    return made.sort_index(axis=0).sort_index(axis=1)


@pytest.mark.parametrize(("shape", "with_gold"), [("full", False), ("sparse", True), ("alike", False)])
@pytest.mark.parametrize("method", NAMES)
def test_order_and_names_change_nothing(method: str, shape: str, with_gold: bool) -> None:
    rng = np.random.default_rng(0)
    K = 2 if method in BINARY or shape == "alike" else 4
    rows = table(K, shape)
    gold = {f"i{n}": f"c{n % K}" for n in range(0, 250, 12) if f"i{n}" in set(rows["task"])} if with_gold else None
    plain = posterior(rows, method, {}, gold)
    there = {
        column: dict(zip(rows[column].unique(), rng.permutation(rows[column].unique()), strict=True)) for column in rows
    }
    back = {column: {new: old for old, new in names.items()} for column, names in there.items()}
    shuffled = rows.sample(frac=1, random_state=rng)
    renamed = shuffled.assign(**{column: shuffled[column].map(names) for column, names in there.items()})
    known = gold and {there["task"][n]: there["label"][k] for n, k in gold.items()}
    np.testing.assert_allclose(posterior(renamed, method, back, known).to_numpy(), plain.to_numpy(), atol=1e-6)
