"""Agreement on sets, against all pairs written out."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.exceptions import ParameterError


def jaccard(a: set[str], b: set[str]) -> float:
    return 1.0 - len(a & b) / len(a | b) if a | b else 0.0


def masi(a: set[str], b: set[str]) -> float:
    if a == b:
        return 0.0
    weight = 2 / 3 if a <= b or b <= a else 1 / 3 if a & b else 0.0
    return 1.0 - weight * len(a & b) / len(a | b)


def crowd(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(12):
        true = rng.random(4) < 0.4
        for m in range(int(rng.integers(1, 5))):
            ticked = np.where(rng.random(4) < 0.25, ~true, true)
            rows.append((n, f"w{m}", "|".join(np.array(list("abcd"))[ticked])))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


@pytest.mark.parametrize(("level", "distance"), [("jaccard", jaccard), ("masi", masi)])
def test_alpha_and_observed_agreement(level: str, distance: object) -> None:
    frame = crowd()
    assert (frame["label"] == "").any()
    sets = [(n, set(filter(None, text.split("|")))) for n, text in zip(frame["item"], frame["label"], strict=True)]
    by_item = {n: [s for item, s in sets if item == n] for n in frame["item"].unique()}
    by_item = {n: group for n, group in by_item.items() if len(group) > 1}
    every = [s for group in by_item.values() for s in group]
    within = [[distance(a, b) for a, b in permutations(group, 2)] for group in by_item.values()]  # type: ignore[operator]
    observed = sum(sum(d) / (len(g) - 1) for d, g in zip(within, by_item.values(), strict=True)) / len(every)
    expected = np.mean([distance(a, b) for a, b in permutations(every, 2)])  # type: ignore[operator]
    found: Any = cs.agreement(frame, level=level)  # type: ignore[arg-type]
    assert found.alpha.value == pytest.approx(1 - observed / expected, rel=1e-12)
    assert found.observed.value == pytest.approx(1 - np.mean([np.mean(d) for d in within]), rel=1e-12)
    assert found.alpha.low < found.alpha.value < found.alpha.high
    assert found.fleiss.value is None


def test_row_order_does_not_change_the_interval() -> None:
    frame = crowd(1)
    one, two = (cs.agreement(f, level="masi") for f in (frame, frame.sample(frac=1.0, random_state=3)))
    assert one.alpha == pytest.approx(two.alpha)


def test_single_options_are_nominal() -> None:
    frame = crowd(2)
    frame = frame[frame["label"] != ""]
    frame["label"] = frame["label"].str[0]
    nominal = cs.agreement(frame, bootstrap=0).alpha.value
    for level in ("jaccard", "masi"):
        assert cs.agreement(frame, level=level, bootstrap=0).alpha.value == pytest.approx(nominal)


def test_what_is_refused() -> None:
    with pytest.raises(ParameterError, match="values are for level='interval'"):
        cs.agreement(crowd(), level="masi", values=[1.0])
    with pytest.raises(ParameterError, match="level must be 'nominal', 'ordinal', 'interval', 'jaccard' or 'masi'"):
        cs.agreement(crowd(), level="dice")  # type: ignore[arg-type]
