"""Coefficients of agreement: published examples, every pair enumerated, and intervals that cover what they should."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score
from tests.conftest import random_model

import consilience as cs
from consilience import Agreement, agreement

_ = np.nan
#: Krippendorff (2011), section C: 4 observers (columns), 12 units; also Gwet's (2014) example of missing ratings.
KRIPPENDORFF = np.array(
    [
        [1, 1, _, 1],
        [2, 2, 3, 2],
        [3, 3, 3, 3],
        [3, 3, 3, 3],
        [2, 2, 2, 2],
        [1, 2, 3, 4],
        [4, 4, 4, 4],
        [1, 1, 2, 1],
        [2, 2, 2, 2],
        [_, 5, 5, 5],
        [_, _, 1, 1],
        [_, _, 3, _],
    ]
)
#: Fleiss (1971): how many of 6 psychiatrists gave each of 5 diagnoses to each of 30 patients.
FLEISS = (
    "00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031 "
    "00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"
)


def votes(counts: Any) -> NDArray[np.int64]:
    """Raters in any order who gave so many of each label."""
    return np.array([np.repeat(np.arange(len(row)), [int(c) for c in row]) for row in counts])


def table(counts: list[list[int]]) -> NDArray[np.int64]:
    """Two raters whose labels have this table."""
    K = len(counts)
    return np.array([(i, j) for i in range(K) for j in range(K) for _ in range(counts[i][j])])


def numbers(found: Agreement) -> list[float]:
    whole = found.to_dict()
    parts = (whole[name][part] for name in ("observed", "alpha", "fleiss", "cohen", "gwet") for part in whole[name])
    return [-9.0 if part is None else part for part in parts] + [whole["items"], whole["labels"]]


# ---- published -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_example(level: Any, alpha: float) -> None:
    found = agreement(KRIPPENDORFF, level=level)
    assert found.alpha.value == pytest.approx(alpha, abs=5e-4)
    assert (found.n_items, found.n_labels, found.n_annotators) == (11, 40, 4)


def test_gwets_example_of_missing_ratings() -> None:
    found = agreement(KRIPPENDORFF)
    assert found.observed.value == pytest.approx(0.81818, abs=5e-6)
    assert found.gwet.value == pytest.approx(0.77544, abs=5e-6)
    assert found.fleiss.value == pytest.approx(0.76117, abs=5e-6)


def test_fleiss_example_and_that_of_the_encyclopedia() -> None:
    assert agreement(votes(FLEISS.split())).fleiss.value == pytest.approx(0.430, abs=5e-4)
    ten = "00 0 0 14|0 2 6 4 2|0 0 3 5 6|0 3 9 2 0|2 2 8 1 1|7 7 0 0 0|3 2 6 3 0|2 5 3 2 2|6 5 2 1 0|0 2 2 3 7"
    rows = [row.replace("00", "0 0").split() for row in ten.split("|")]
    assert agreement(votes(rows)).fleiss.value == pytest.approx(0.210, abs=5e-4)


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [([[20, 5], [10, 15]], 0.40), ([[88, 10, 2], [14, 40, 6], [18, 10, 12]], 0.492), ([[45, 15], [25, 15]], 0.1304)],
    ids=["grants", "psychiatrists", "uneven"],
)
def test_cohens_kappa_of_textbooks(counts: list[list[int]], kappa: float) -> None:
    found = agreement(table(counts))
    assert found.cohen.value == pytest.approx(kappa, abs=5e-4)
    assert found.pairs["kappa"].tolist() == [pytest.approx(kappa, abs=5e-4)]


def test_two_abstractors_of_gwet() -> None:
    # Gwet (2014): ectopic, abnormal and normal pregnancies
    found = agreement(table([[13, 0, 0], [0, 20, 7], [0, 4, 56]]))
    assert found.observed.value == pytest.approx(0.89)
    assert found.cohen.value == pytest.approx(0.7964094, abs=5e-8)
    assert found.gwet.value == pytest.approx(0.8493305, abs=5e-8)
    assert found.alpha.value == pytest.approx(0.7972585, abs=5e-8)


def test_gwets_paradox() -> None:
    # 118 of 125 agree: κ is near zero, AC1 is not (Gwet 2008, section 2)
    found = agreement(table([[118, 5], [2, 0]]))
    assert found.cohen.value == pytest.approx(-0.0234, abs=5e-4)
    assert found.gwet.value == pytest.approx(0.9408, abs=5e-4)


# ---- by enumeration ------------------------------------------------------------------------------------------------


def by_pairs(matrix: NDArray[Any], distance: Any) -> tuple[float, float, float, float]:
    """Observed agreement, α, Fleiss' κ and AC1, one pair of labels after the other."""
    units = [row[~np.isnan(row)] for row in matrix]
    classes = np.unique(np.concatenate(units))
    paired = [u for u in units if len(u) > 1]
    pool = np.concatenate(paired)
    inner = sum(sum(distance(a, b, pool) for a, b in permutations(u, 2)) / (len(u) - 1) for u in paired) / len(pool)
    outer = sum(distance(a, b, pool) for a, b in permutations(pool, 2)) / (len(pool) * (len(pool) - 1))
    observed = np.mean([np.mean([a == b for a, b in permutations(u, 2)]) for u in paired])
    share = np.array([np.mean([np.mean(u == k) for u in units if len(u)]) for k in classes])
    fleiss = np.sum(share**2)
    gwet = np.sum(share * (1 - share)) / (len(classes) - 1)
    return observed, 1 - inner / outer, (observed - fleiss) / (1 - fleiss), (observed - gwet) / (1 - gwet)


def ordinal(a: float, b: float, pool: NDArray[Any]) -> float:
    low, high = min(a, b), max(a, b)
    between = np.sum((pool >= low) & (pool <= high))
    return float((between - (np.sum(pool == low) + np.sum(pool == high)) / 2) ** 2)


DISTANCES = {"nominal": lambda a, b, _: float(a != b), "ordinal": ordinal, "interval": lambda a, b, _: (a - b) ** 2}


def sparse(seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    N, M, K = rng.integers(2, 12), rng.integers(2, 6), rng.integers(2, 5)
    truth = rng.integers(0, K, N)
    said = np.where(rng.random((N, M)) < 0.6, truth[:, None], rng.integers(0, K, (N, M))).astype(float) ** 2
    said[rng.random((N, M)) < 0.3] = np.nan
    return said


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(sorted(DISTANCES)))
def test_coefficients_are_those_of_all_pairs(seed: int, level: Any) -> None:
    matrix = sparse(seed)
    said = matrix[~np.isnan(matrix)]
    paired = matrix[(~np.isnan(matrix)).sum(axis=1) > 1]
    if not paired.size or np.unique(paired[~np.isnan(paired)]).size < 2:
        return
    found = agreement(matrix, level=level, bootstrap=0)
    wanted = by_pairs(matrix, DISTANCES[level])
    for measure, value in zip((found.observed, found.alpha, found.fleiss, found.gwet), wanted, strict=True):
        assert measure.value == pytest.approx(value, abs=1e-9), said


def test_cohens_kappa_is_the_mean_over_pairs_by_common_items() -> None:
    crowd = cs.simulate(300, 6, 3, labels_per_item=3, seed=5).annotations
    matrix = np.full((300, 6), -1)
    matrix[crowd.item_of_label(), crowd.annotator] = crowd.label
    kappas, common = {}, {}
    for m in range(6):
        for j in range(m + 1, 6):
            both = (matrix[:, m] >= 0) & (matrix[:, j] >= 0)
            kappas[m, j], common[m, j] = cohen_kappa_score(matrix[both, m], matrix[both, j]), both.sum()
    found = agreement(crowd, bootstrap=0)
    assert found.cohen.value == pytest.approx(np.average(list(kappas.values()), weights=list(common.values())))
    pairs = found.pairs
    assert pairs["kappa"].tolist() == pytest.approx(list(kappas.values()))
    assert pairs["common_items"].tolist() == list(common.values())
    assert pairs["annotator"].tolist() == [f"a{m}" for m, _ in kappas]


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_intervals_surround_the_value(level: Any) -> None:
    found = agreement(cs.simulate(3000, 40, 5, label_probability=0.1, seed=1).annotations, level=level, bootstrap=100)
    for measure in (found.alpha, found.fleiss, found.gwet, found.cohen):
        assert measure.low is not None
        assert measure.high is not None
        assert measure.low < measure.value < measure.high  # type: ignore[operator]


def test_ranks_that_stay_give_nearly_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = cs.simulate(400, 12, 5, seed=1).annotations
    whole = agreement(crowd, level="ordinal").alpha
    monkeypatch.setattr("consilience.diagnose.agreement.AGREEMENT_ROOM", 10**3)
    fixed = agreement(crowd, level="ordinal").alpha
    assert fixed.value == pytest.approx(whole.value)
    assert fixed.low == pytest.approx(whole.low, abs=0.02)
    assert fixed.high == pytest.approx(whole.high, abs=0.02)


# ---- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2000, 100], ids=["items", "blocks of items"])
def test_intervals_cover_the_value_of_endless_items(monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    monkeypatch.setattr("consilience.diagnose.agreement.AGREEMENT_BLOCKS", blocks)
    model = random_model(8, 3, seed=2)
    endless = agreement(model.sample(200_000, labels_per_item=4, random_state=0)[0], bootstrap=0)
    names = ("alpha", "fleiss", "gwet", "observed", "cohen")
    hits = dict.fromkeys(names, 0)
    trials = 80
    for seed in range(trials):
        found = agreement(model.sample(200, labels_per_item=4, random_state=100 + seed)[0], bootstrap=150, seed=seed)
        for name in names:
            measure, truth = getattr(found, name), getattr(endless, name).value
            hits[name] += measure.low <= truth <= measure.high
    # 95 % of 80 are 76; fewer than 69 have a chance of 1 in 1600
    assert all(count >= 69 for count in hits.values()), hits


def test_more_confidence_and_fewer_items_make_wider_intervals() -> None:
    crowd = cs.simulate(800, 10, 3, seed=3).annotations

    def width(data: cs.Annotations, confidence: float) -> float:
        alpha = agreement(data, confidence=confidence).alpha
        return float(alpha.high - alpha.low)  # type: ignore[operator]

    assert width(crowd, 0.99) > 1.2 * width(crowd, 0.9)
    assert width(crowd.select_items(slice(200)), 0.95) == pytest.approx(2 * width(crowd, 0.95), rel=0.25)


# ---- manners -------------------------------------------------------------------------------------------------------


def test_names_order_and_repeats_do_not_matter() -> None:
    crowd = cs.simulate(200, 8, 3, seed=4).annotations
    frame = crowd.to_frame("pandas")
    plain = agreement(crowd, bootstrap=0)
    shuffled = frame.sample(frac=1, random_state=1)
    shuffled["annotator"] = shuffled["annotator"].map(lambda name: f"x{name}")
    assert numbers(agreement(shuffled, bootstrap=0)) == pytest.approx(numbers(plain))
    kept = cs.Annotations.from_frame(pd.concat([frame, frame.iloc[:50]]), duplicates="keep")
    assert numbers(agreement(kept, bootstrap=0)) == pytest.approx(numbers(plain))


def test_perfect_agreement_and_labels_that_are_all_the_same() -> None:
    perfect = agreement([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    for measure in (perfect.alpha, perfect.fleiss, perfect.cohen, perfect.gwet, perfect.observed):
        assert measure == pytest.approx((1.0, 1.0, 1.0))
    same = agreement([[1, 1], [1, 1]])
    assert same.observed.value == 1.0
    assert same.alpha == same.fleiss == same.cohen == (None, None, None)
    assert "not defined" in str(same)


def test_what_it_shows() -> None:
    found = agreement(KRIPPENDORFF, seed=1)
    assert isinstance(found, Agreement)
    content = found.to_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["alpha"]["value"] == found.alpha.value
    assert found.table["measure"].tolist()[:3] == ["observed agreement", "Krippendorff's α", "Fleiss' κ"]
    assert found.table["value"].tolist()[1] == found.alpha.value
    assert str(found).startswith("observed agreement 0.818 (0.")
    assert repr(found).startswith("<Agreement: α 0.743 (")
    assert agreement(KRIPPENDORFF, seed=1).to_dict() == content
    assert agreement(KRIPPENDORFF, seed=2).to_dict() != content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "ratio"}, "level must be 'nominal', 'ordinal', 'interval', 'jaccard' or 'masi', not 'ratio'"),
        ({"bootstrap": 1}, "bootstrap must be 0, or at least 2 draws, not 1"),
        ({"confidence": 95}, "confidence must be a number between 0 and 1, not 95"),
        ({"values": [1, 2]}, "values are for level='interval'"),
        ({"level": "interval"}, "needs a number for each of the 2 classes, which are 'cat', 'dog'; give them as"),
    ],
)
def test_wrong_use(options: Any, message: str) -> None:
    with pytest.raises(cs.exceptions.ParameterError, match=message):
        agreement([["cat", "dog"], ["dog", "dog"]], **options)


def test_values_of_classes_that_are_words() -> None:
    words = np.array([["low", "mid"], ["mid", "mid"], ["high", "mid"], ["low", "low"]])
    numbers = np.select([words == "low", words == "mid"], [0, 1], 5)
    # in the order of the classes: high, low, mid
    by_name = agreement(words, level="interval", values=[5, 0, 1], bootstrap=0).alpha.value
    assert by_name == agreement(numbers, level="interval", bootstrap=0).alpha.value


def test_busy_annotators_without_a_common_item_have_no_kappa() -> None:
    """Of more than a hundred annotators, those with most labels are compared: here they never meet."""
    matrix = np.full((480, 240), -1)
    matrix[np.arange(480), np.arange(480) % 120] = 0
    matrix[np.arange(120), 120 + np.arange(120)] = np.arange(120) % 2
    matrix[np.arange(120), 120 + (np.arange(120) + 1) % 120] = 1
    found = agreement(cs.Annotations.from_matrix(matrix), bootstrap=50)
    assert found.cohen.value is None
    assert found.alpha.value is not None


def test_items_with_one_label_say_nothing() -> None:
    with pytest.raises(cs.exceptions.DataError, match="no item has labels of two annotators"):
        agreement([[1, -1], [-1, 2]])
