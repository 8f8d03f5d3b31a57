"""Simulated crowds for timing."""

from __future__ import annotations

from functools import lru_cache

import consilience as cs
from consilience.data.annotations import Annotations


@lru_cache(maxsize=1)
def crowd(n_labels: int, n_annotators: int, n_classes: int = 4) -> Annotations:
    """Return a crowd with five labels per item."""
    return cs.simulate(n_labels // 5, n_annotators, n_classes, labels_per_item=5, seed=0).annotations
