"""Crowds whose state is known, and what every diagnosis has."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from tests.conftest import random_model

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.diagnose import Diagnosis

#: Words of the trade that a sentence must not use without saying what they mean.
JARGON = re.compile(r"identifiab|singular|bipartite|component|bootstrap|posterior|prior|NaN|nan\b|inf\b|SSC|rank", re.I)


def frame_of(annotations: Annotations, prefix: str = "", items: int = 0) -> pd.DataFrame:
    frame = annotations.to_frame("pandas")
    frame["annotator"] = prefix + frame["annotator"].astype(str)
    frame["item"] += items
    return frame


def crowd(*frames: pd.DataFrame) -> Annotations:
    return Annotations.from_frame(pd.concat(frames))


def healthy(N: int = 400, M: int = 10, seed: int = 1, **more: Any) -> Annotations:
    return cs.simulate(N, M, 3, labels_per_item=6, experts=0.3, seed=seed, **more).annotations


def camps(seed: int = 0) -> Annotations:
    """Six annotators; every item has one label of a0 to a2 and one of a3 to a5."""
    model = random_model(6, 2, seed=4, skill=0.8)
    full, _ = model.sample(600, random_state=seed)
    rng = np.random.default_rng(seed)
    matrix = full.label.reshape(600, 6).astype(int)
    kept = np.full((600, 6), -1)
    for half in (0, 3):
        who = half + rng.integers(0, 3, 600)
        kept[np.arange(600), who] = matrix[np.arange(600), who]
    return Annotations.from_matrix(kept, annotators=[f"a{m}" for m in range(6)])


def plain(found: Diagnosis) -> None:
    """What every diagnosis has: sentences, plain values, a way back from JSON."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    content = found.to_dict()
    assert json.loads(json.dumps(content), parse_constant=refuse) == content
    assert found.verdict in ("identified", "weakly", "not")
    assert found.reasons
    assert found.verdict == "identified" or found.advice
    for sentence in (found.headline, *found.reasons, *found.advice):
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
        assert not JARGON.search(sentence), sentence
        assert not re.search(r"\b1 (items|labels|annotators|groups)\b", sentence), sentence
        assert not re.search(r"  |\(\)| ,|None", sentence), sentence
    assert str(found).startswith(found.headline)
    assert all(sentence in str(found) for sentence in (*found.reasons, *found.advice))
