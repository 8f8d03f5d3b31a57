"""Which labels are taken for levels of a scale: simulated ones, and every public crowd."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.answers.ordinal_detection import looks_like_scale
from consilience.data.annotations import Annotations
from consilience.datasets import simulate_scale


def renamed(annotations: Annotations, names: list[Any]) -> Annotations:
    return annotations.relabel(dict(zip(annotations.class_ids, names, strict=True)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("K", [4, 5, 7, 10])
def test_simulated_scales_are_found(K: int, seed: int) -> None:
    crowd = simulate_scale(400 * K, 30, K, seed=seed, severity=2.0 / K).annotations
    looks = looks_like_scale(crowd)
    assert looks.scale
    assert looks.reason.startswith(f"labels are treated as a scale from 0 to {K - 1} (answers='ordinal')")


def test_the_same_labels_in_another_order_are_no_scale() -> None:
    crowd = simulate_scale(1500, 30, 4, seed=1).annotations
    taken = [order for order in permutations(range(4)) if looks_like_scale(renamed(crowd, list(order))).scale]
    assert taken == [(0, 1, 2, 3), (3, 2, 1, 0)]


@pytest.mark.parametrize("K", [3, 4, 5, 8])
def test_codes_of_classes_are_no_scale(K: int) -> None:
    found = [looks_like_scale(cs.simulate(1500, 30, K, seed=seed).annotations).scale for seed in range(20)]
    # of 20 sets of four classes, two resemble each other in the order of their codes by chance
    assert sum(found) <= (3 if K == 4 else 0)


def test_words_of_a_known_scale() -> None:
    crowd = simulate_scale(300, 20, 3, seed=2).annotations
    looks = looks_like_scale(renamed(crowd, ["low", "medium", "high"]))
    assert (looks.scale, looks.lowest, looks.highest) == (True, "low", "high")
    assert not looks_like_scale(renamed(crowd, ["high", "low", "medium"])).scale
    assert not looks_like_scale(renamed(crowd, ["cat", "dog", "fox"])).scale


def test_few_labels_are_remarked_on_only() -> None:
    annotations, _ = cs.datasets.load("dawid_skene")
    looks = looks_like_scale(annotations)
    assert not looks.scale
    assert looks.hint == "labels may be a scale from 1 to 4: answers='ordinal' would use their order"
    run = cs.aggregate(annotations).run
    assert (run["answers"], run["hint"]) == ("nominal", looks.hint)


def test_numbers_at_unequal_distances_and_single_labels() -> None:
    crowd = simulate_scale(1500, 30, 4, seed=3).annotations
    assert not looks_like_scale(renamed(crowd, [1, 2, 3, 7])).scale
    assert looks_like_scale(renamed(crowd, [0.0, 0.5, 1.0, 1.5])).scale
    alone = Annotations.from_matrix(np.arange(200)[:, None] % 5)
    assert not looks_like_scale(alone).scale


#: Public crowds whose labels are levels in the order of their names, and many enough.
SCALES = {"llmjudge_trecdl23", "metaphor_novelty", "convabuse"}
KINDS = {"crowd", "scale", "labelling functions", "language models"}


@pytest.mark.parametrize("name", [name for name in cs.datasets.names() if cs.datasets.info(name).kind in KINDS])
@pytest.mark.usefixtures("data_folder")
def test_public_crowds(name: str) -> None:
    """Codes of classes are no scale; the levels of adult2 are letters, and -1, 0, 1 and the table of 1979 too few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        crowd = cs.datasets.load(name)
    assert isinstance(crowd, cs.datasets.Crowd)
    assert looks_like_scale(crowd.annotations).scale == (name in SCALES)
