"""Whether silence looks informative: labelling functions, assigned crowds, and what lies between."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import real_crowd

import consilience as cs
from consilience.diagnose.silence import examine_silence

CROWDS = [
    *("bluebird", "dog52", "rte", "labelme", "adult2", "sentence_polarity", "music", "zencrowd_us", "product", "duck"),
    *("weather_amt", "zencrowd_all", "leaves", "reuters_amt", "dices350", "metaphor_novelty", "stem_verify"),
    *("cdr_cid_sentence", "snow_valence2", "trec", "fact_eval"),
]
FUNCTIONS = ["ws_youtube", "ws_trec", "ws_yoruba", "ws_rna", "ws_semeval", "ws_spouse"]


def choosing(N: int, M: int, *, one_class: bool, seed: int) -> cs.Annotations:
    """Annotators who speak about a class of their own, and name it always or four times in five."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, N)
    own = np.arange(M) % 3
    speaks = rng.random((N, M)) < np.where(own == truth[:, None], 0.6, 0.1)
    right = rng.random((N, M)) < 0.8
    said = np.tile(own, (N, 1)) if one_class else np.where(right, truth[:, None], rng.integers(0, 3, (N, M)))
    return cs.Annotations.from_matrix(np.where(speaks, said, -1))


def test_annotators_of_one_class_choose_to_speak() -> None:
    found = examine_silence(choosing(800, 9, one_class=True, seed=1))
    assert found.informative
    assert found.one_class == 1.0
    assert "100% of the annotators only ever use one class" in found.reason


def test_annotators_of_several_classes_who_prefer_one_choose_too() -> None:
    found = examine_silence(choosing(3000, 9, one_class=False, seed=2))
    assert found.informative
    assert found.one_class == 0.0
    assert "depends on the class" in found.reason


@pytest.mark.parametrize("seed", range(5))
def test_assigned_items_are_seen_as_assigned(seed: int) -> None:
    crowd = cs.simulate(600, 30, 3, labels_per_item=4, spammers=0.3, adversaries=0.1, seed=seed)
    found = examine_silence(crowd.annotations)
    assert not found.informative
    assert 0.2 < found.dispersion < 3
    assert "assigned" in found.reason


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_class_makes_no_labelling_functions_of_people(seed: int) -> None:
    """Most annotators with few labels never meet the rare class, and use one class only."""
    crowd = cs.simulate(1000, 150, 2, labels_per_item=3, prior=[0.97, 0.03], accuracy=(0.97, 0.99), seed=seed)
    a = crowd.annotations
    said = np.zeros((a.n_annotators, 2))
    np.add.at(said, (a.annotator, a.label), 1)
    assert (said[said.sum(axis=1) >= 10].min(axis=1) == 0).mean() > 0.3
    assert not examine_silence(a).informative


def test_nobody_is_silent() -> None:
    crowd = cs.simulate(200, 8, 2, labels_per_item=8, seed=0)
    assert not examine_silence(crowd.annotations).informative


@pytest.mark.parametrize("matrix", [[[0, 1]], [[0, 0], [0, 0]], [[0, -1], [-1, 1]], [[-1, -1], [0, -1]]])
def test_very_little_is_no_evidence(matrix: list[list[int]]) -> None:
    assert not examine_silence(cs.Annotations.from_matrix(matrix)).informative


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", [*CROWDS, *FUNCTIONS, "llmbar", "llmjudge_trecdl23"])
def test_public_sets(name: str) -> None:
    assert examine_silence(real_crowd(name)[0]).informative == (name in FUNCTIONS)


def test_blocks_of_items_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = cs.simulate(300, 20, 3, labels_per_item=4, seed=2).annotations
    whole = examine_silence(crowd)
    monkeypatch.setattr("consilience.diagnose.silence._BLOCK", 50)
    parts = examine_silence(crowd)
    assert (parts.informative, parts.one_class) == (whole.informative, whole.one_class)
    assert parts.distance == pytest.approx(whole.distance, rel=1e-12)
    assert parts.dispersion == pytest.approx(whole.dispersion, rel=1e-9)
    # the votes on an annotator's items, item by item
    votes = np.zeros((300, 3))
    np.add.at(votes, (crowd.item_of_label(), crowd.label), 1.0)
    n = votes.sum(axis=1)
    share = votes / n[:, None]
    apart = np.zeros(20)
    for m in range(20):
        at = np.flatnonzero(crowd.annotator == m)
        own = np.eye(3)[crowd.label[at]]
        others = (votes[crowd.item_of_label()[at]] - own) / (n[crowd.item_of_label()[at]] - 1)[:, None]
        apart[m] = at.size * np.abs(others.mean(axis=0) - share.mean(axis=0)).sum()
    assert whole.distance == pytest.approx(apart.sum() / (2.0 * crowd.n_labels), rel=1e-9)
