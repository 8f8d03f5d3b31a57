"""Streams for tests: labels cut into updates, and what became of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import (
    ConsilienceWarning,
)
from consilience.kernels._arrays import Ints
from consilience.streams.solve import STREAMED

METHODS = list(STREAMED)

#: Nothing is held or remembered: every update is known in sums only.
SUMS: dict[str, Any] = {"window": 0, "remember": 0}


def cut(a: Annotations, updates: int, by: str = "items", seed: int = 0) -> list[pd.DataFrame]:
    """Rows in updates: items whole, or every label by itself."""
    rows, rng = a.to_frame("pandas"), np.random.default_rng(seed)
    turn = rng.integers(0, updates, a.n_items)[a.item_of_label()] if by == "items" else rng.integers(0, updates, len(a))
    return [rows[turn == t] for t in range(updates)]


def streamed(parts: list[Any], method: str = "ds-em", **options: Any) -> cs.Stream:
    stream = cs.Stream(method, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for part in parts:
            stream.update(part)
        _ = stream.consensus
    return stream


def best_of(consensus: cs.Consensus, a: Annotations) -> Ints:
    """Class code of every item of ``a``."""
    best: Ints = consensus.choice.best[consensus.item_ids.codes_of(a.item_ids.to_arrow())]
    return best


def confusions_of(consensus: cs.Consensus, a: Annotations) -> Any:
    return consensus.model.confusions[consensus.model.annotators.codes_of(a.annotator_ids.to_arrow())]
