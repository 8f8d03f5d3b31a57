"""Arguments that several packages share: what passes, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.exceptions import ParameterError
from consilience.validation import number, one_of, whole


def test_whole_numbers() -> None:
    assert whole("n", np.int8(3)) == 3
    assert type(whole("n", np.int8(3))) is int
    for bad in (0, 2.0, True, "2", None):
        with pytest.raises(ParameterError, match=r"n must be a whole number ≥ 1, not"):
            whole("n", bad)
    with pytest.raises(ParameterError, match=r"from 1 to 4 \(samples\), not 5"):
        whole("n", 5, 4, "(samples)")


def test_numbers_and_words() -> None:
    for good in (1, 0.5, np.float32(2.0), np.int64(3)):
        number("lam", good)
    number("lam", None, none=True)
    number("tol", 0, zero=True)
    bad: list[Any] = [0, -1, np.nan, np.inf, True, "1", None]
    for value in bad:
        with pytest.raises(ParameterError, match="lam must be a number > 0"):
            number("lam", value)
    one_of("kind", "a", ("a", "b"))
    for value in ("c", None, ["a"]):
        with pytest.raises(ParameterError, match="kind must be one of a, b"):
            one_of("kind", value, ("a", "b"))
