"""The order of levels and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.data.ids import Ids
from consilience.data.scales import known_order, numbers_of, scale_of
from consilience.exceptions import MethodError, ParameterError


def names(values: list[Any], order: Any = None) -> tuple[list[Any], list[float]]:
    ids = Ids(values)
    scale = scale_of(ids, order)
    return [ids[int(code)] for code in scale.order], scale.values.tolist()


def test_numbers_are_in_their_order_whatever_their_type() -> None:
    assert names([3, 1, 2]) == ([1, 2, 3], [1.0, 2.0, 3.0])
    assert names(["10", "9", "-1"]) == (["-1", "9", "10"], [-1.0, 9.0, 10.0])
    assert names([0.5, 0.0]) == ([0.0, 0.5], [0.0, 0.5])


def test_known_words_are_in_their_order() -> None:
    assert names(["High", "low", "MEDIUM"]) == (["low", "MEDIUM", "High"], [1.0, 2.0, 3.0])
    likert = ["agree", "disagree", "neutral", "strongly_agree", "strongly-disagree"]
    assert names(likert)[0] == ["strongly-disagree", "disagree", "neutral", "agree", "strongly_agree"]
    # two words for one level are no scale
    assert known_order(Ids(["poor", "bad", "good"])) is None


def test_a_given_order_counts() -> None:
    assert names(["R", "G", "X"], ["G", "P", "R", "X"]) == (["G", "R", "X"], [1.0, 3.0, 4.0])
    assert names([1, 2, 3], [3, 2, 1]) == ([3, 2, 1], [3.0, 2.0, 1.0])
    assert names([1, 2, 3], ["2", "1", "3"]) == ([2, 1, 3], [1.0, 2.0, 3.0])


def test_unknown_words_are_refused_with_the_remedy() -> None:
    with pytest.raises(MethodError, match=r"the order of the levels 'G', 'P', 'X' is not known; .*order=\[…\]"):
        scale_of(Ids(["G", "P", "X"]))
    assert names(["yes", "no"])[1] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["G", "P"], "order must name every level that was used; it lacks 'X'"),
        (["G", "P", "X", "G"], "order names a level twice"),
        ("GPX", "order must list the levels from low to high, not 'GPX'"),
        ([], "order must list the levels"),
    ],
)
def test_wrong_orders(order: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        scale_of(Ids(["G", "P", "X"]), order)


def test_what_is_no_number() -> None:
    assert numbers_of(Ids(["1", "two"])) is None
    assert numbers_of(Ids([True, False])) is None
    assert numbers_of(Ids(["1", "1.0"])) is None
    assert numbers_of(Ids(["1", "nan"])) is None
    np.testing.assert_array_equal(numbers_of(Ids(["1", "2e1"])), [1.0, 20.0])
