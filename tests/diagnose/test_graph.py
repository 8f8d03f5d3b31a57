"""The co-label graph against walks counted by hand, and tests of independence against all permutations."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.diagnose import blocks, graph
from consilience.diagnose.blocks import block_strength, chance_of_pairs, sampling_error
from consilience.diagnose.graph import co_label_graph, observed_pairs, single_answers
from consilience.moments import CoOccurrences, pair_moments


def pairs_of(M: int, edges: list[tuple[int, int]]) -> CoOccurrences:
    who = np.array(sorted(edges), np.int32).reshape(-1, 2)
    return CoOccurrences(who, np.ones((len(who), 2, 2), np.uint8), Ids.range(M), Ids.range(2))


def random_edges(M: int, density: float, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    return [pair for pair in combinations(range(M), 2) if rng.random() < density]


# ---- the graph ------------------------------------------------------------------------------------------------


def by_hand(M: int, edges: list[tuple[int, int]]) -> tuple[int, list[bool], float, float, float]:
    """Components, which of them are bipartite, and the shares of missing, imputable and triangle blocks."""
    linked = {m: {j for pair in edges for j in pair if m in pair and j != m} for m in range(M)}
    todo, components = set(range(M)), []
    while todo:
        found, front = set(), {min(todo)}
        while front:
            found |= front
            front = {j for m in front for j in linked[m]} - found
        components.append(sorted(found))
        todo -= found
    bipartite = []
    for members in components:
        inner = [pair for pair in edges if pair[0] in members]
        sides = (dict(zip(members, bits, strict=True)) for bits in np.ndindex(*[2] * len(members)))
        bipartite.append(any(all(side[a] != side[b] for a, b in inner) for side in sides))
    missing = [(m, n) for m, n in combinations(range(M), 2) if n not in linked[m]]
    # eqs (7)-(8): with others i, r, the blocks (m, r), (i, r) and (n, i) are observed; for m = n they make a triangle
    imputable = [any(n in linked[i] for r in linked[m] for i in linked[r] - {m, n}) for m, n in missing]
    triangle = [any(m in linked[i] for r in linked[m] for i in linked[r] - {m}) for m in range(M)]
    share = len(missing) / (M * (M - 1) / 2)
    return len(components), bipartite, share, float(np.mean(imputable or [True])), float(np.mean(triangle))


@pytest.mark.parametrize("seed", range(30))
def test_graphs_by_hand(seed: int) -> None:
    M = 4 + seed % 5
    edges = random_edges(M, (0.15, 0.3, 0.5)[seed % 3], seed)
    g = co_label_graph(pairs_of(M, edges), np.full(M, 5))
    components, bipartite, missing, imputable, triangles = by_hand(M, edges)
    assert g.n_components == components
    assert sorted(g.bipartite(c) for c in range(components)) == sorted(bipartite)
    assert g.missing == pytest.approx(missing)
    assert g.imputable == pytest.approx(imputable)
    assert g.triangles == pytest.approx(triangles)
    assert g.exact
    for a, b in edges:
        assert g.component[a] == g.component[b]
        assert g.side[a] != g.side[b] or g.side[a] == -1
    assert g.partners.tolist() == [sum(m in pair for pair in edges) for m in range(M)]


def test_named_graphs() -> None:
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    five = co_label_graph(pairs_of(5, ring), np.full(5, 3))
    assert not five.bipartite(0), "an odd ring"
    assert five.triangles == 0
    assert five.imputable == 1, "m - r - l - n leads the long way round"
    four = co_label_graph(pairs_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)]), np.full(4, 3))
    assert four.bipartite(0)
    assert four.imputable == 0, "the ends of a camp are two steps apart, never three"
    assert four.side[0] == four.side[2] != four.side[1]


def test_components_are_ordered_by_labels_and_loners_come_last() -> None:
    edges = [(0, 1), (2, 3), (3, 4)]
    g = co_label_graph(pairs_of(7, edges), np.array([4, 4, 50, 1, 1, 900, 0]))
    assert g.component.tolist() == [1, 1, 0, 0, 0, 2, -1]
    assert g.n_components == 3
    assert g.members(0).tolist() == [2, 3, 4]
    assert g.isolated.tolist() == [5], "who said nothing is no part of the graph"
    assert g.missing == pytest.approx(1 - 3 / 15)


def test_no_pairs_at_all() -> None:
    g = co_label_graph(pairs_of(3, []), np.array([2, 3, 0]))
    assert (g.n_components, g.missing, g.imputable, g.triangles) == (2, 1.0, 0.0, 0.0)
    only = co_label_graph(pairs_of(1, []), np.array([2]))
    assert (only.n_components, only.missing) == (1, 0.0)


@pytest.mark.parametrize("density", [0.01, 0.02, 0.2])
def test_a_sample_estimates_what_all_would_give(monkeypatch: pytest.MonkeyPatch, density: float) -> None:
    M = 400
    pairs = pairs_of(M, random_edges(M, density, 1))
    exact = co_label_graph(pairs, np.full(M, 5))
    monkeypatch.setattr(graph, "EXACT_WALKS", 100)
    sample = co_label_graph(pairs, np.full(M, 5), seed=3)
    assert exact.exact
    assert not sample.exact
    assert sample.imputable == pytest.approx(exact.imputable, abs=0.06)
    assert sample.triangles == pytest.approx(exact.triangles, abs=0.1)
    assert (sample.missing, sample.n_components) == (exact.missing, exact.n_components)
    monkeypatch.setattr(graph, "WALK_COST", 1)
    assert 0 <= co_label_graph(pairs, np.full(M, 5)).imputable <= 1


def test_the_missing_blocks_of_the_paper(data_folder: Path) -> None:
    """Ibrahim & Fu 2022, Section 4: 2.5 % of Bluebird and 90.68 % of RTE, with the blocks (m, m) counted."""
    for name, percent in (("bluebird", 2.5), ("rte", 90.68)):
        a, _ = real_crowd(name)
        g = co_label_graph(pair_moments(a), a.labels_per_annotator)
        M = a.n_annotators
        assert 100 * (g.missing * (M - 1) + 1) / M == pytest.approx(percent, abs=0.1)


# ---- what is counted ----------------------------------------------------------------------------------------------


def test_repeated_answers_count_once_and_gold_is_an_annotator() -> None:
    import pandas as pd

    rows = [(0, "a", "x"), (0, "a", "y"), (0, "b", "y"), (1, "a", "x"), (2, "b", "x")]
    a = Annotations.from_frame(pd.DataFrame(rows, columns=["task", "worker", "label"]), duplicates="keep")
    single = single_answers(a)
    assert single.n_labels == 4
    pairs = observed_pairs(single)
    assert pairs.totals.tolist() == [1]
    assert pairs.counts[0].tolist() == [[0, 0], [0, 1]], "both said y last"
    gold = single_answers(a.with_gold({1: "x", 2: "y"}))
    assert gold.n_annotators == 3
    assert gold.labels_per_annotator.tolist() == [2, 2, 2]
    found = observed_pairs(gold)
    assert found.who.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.counts[2].tolist() == [[0, 1], [0, 0]], "b said x of what is y"


def test_many_classes_are_merged_for_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(200, 6, 5, prior=[0.5, 0.3, 0.1, 0.05, 0.05], experts=1.0).annotations
    whole = observed_pairs(a)
    monkeypatch.setattr(graph, "MOST_CELLS", 15 * 9)
    merged = observed_pairs(a)
    assert merged.counts.shape == (15, 3, 3)
    np.testing.assert_array_equal(merged.who, whole.who)
    np.testing.assert_array_equal(merged.totals, whole.totals)
    assert merged.counts[:, 0, 0].tolist() == whole.counts[:, 0, 0].tolist(), "the commonest class stays"


# ---- singular values ----------------------------------------------------------------------------------------------


def test_the_sampling_error_is_that_of_the_paper() -> None:
    assert sampling_error([100.0], delta=np.exp(-4.0))[0] == pytest.approx(0.3)
    assert sampling_error([0.0])[0] == np.inf


def test_singular_values_are_within_the_sampling_error() -> None:
    """Eq. (20) bounds the error of a block, and so that of its singular values, with probability 1 - δ."""
    model = random_model(12, 3, seed=2)
    a, _ = model.sample(2000, labels_per_item=6, random_state=1)
    pairs = pair_moments(a)
    strength = block_strength(a, pairs)
    blocks = np.einsum(
        "pik,k,pjk->pij", model.confusions[pairs.who[:, 0]], model.prior, model.confusions[pairs.who[:, 1]]
    )
    true = np.linalg.svd(blocks, compute_uv=False)
    assert strength.n_blocks == strength.pair.size == len(pairs)
    error = np.abs(strength.pair_smallest - true[:, -1])
    assert np.mean(error <= strength.pair_error) >= 0.95
    assert error.max() > 0.02 * strength.pair_error.max(), "the bound is not empty"
    np.testing.assert_allclose(np.median(strength.pair_condition), np.median(true[:, 0] / true[:, -1]), rtol=0.3)


def test_an_annotator_against_the_others_together() -> None:
    said = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1], [0, -1, -1], [1, 0, -1]])
    a = Annotations.from_matrix(said)
    strength = block_strength(a, pair_moments(a))
    # annotator 0 said 0 where both others said 0, and where both said 1; said 1 where both said 1, and where only one
    # spoke, a 0; of item 2 the others are divided, and item 4 is annotator 0's alone
    block = np.array([[1, 1], [1, 1]]) / 4
    assert strength.common.tolist() == [5, 5, 4]
    assert strength.smallest[0] == pytest.approx(np.linalg.svd(block, compute_uv=False)[-1])
    assert np.isinf(strength.condition[0])
    assert strength.error[0] == pytest.approx(min(1.0, float(sampling_error([4.0])[0])))


def test_the_best_observed_blocks_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(500, 40, 3, labels_per_item=4, seed=1).annotations
    pairs = pair_moments(a)
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 200)
    chosen = block_strength(a, pairs).pair
    assert 200 <= chosen.size < len(pairs)
    assert set(np.flatnonzero(pairs.totals > np.sort(pairs.totals)[-200])) <= set(chosen.tolist())
    assert set(pairs.who[chosen].ravel().tolist()) == set(range(40)), "everybody is there"


# ---- more than chance ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]),
        ([0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]),
        ([0, 1, 2, 0, 1], [2, 2, 1, 0, 0]),
    ],
)
def test_mean_and_variance_of_all_permutations(one: list[int], other: list[int]) -> None:
    """Both statistics, over all orders of the second annotator's labels."""
    K = 3
    tables = np.zeros((0, K, K))
    for order in permutations(other):
        table = np.zeros((1, K, K))
        np.add.at(table, (0, one, list(order)), 1)
        tables = np.concatenate([tables, table])
    chi, mean, variance = blocks._chi_square(tables)
    np.testing.assert_allclose(chi.mean(), mean)
    np.testing.assert_allclose(chi.var(), variance)
    excess, agreement = blocks._agreement(tables)
    np.testing.assert_allclose(excess.mean(), 0, atol=1e-12)
    np.testing.assert_allclose(excess.var(), agreement)
    a, b = tables[0].sum(axis=1), tables[0].sum(axis=0)
    expected = np.outer(a, b) / a.sum()
    by_hand = ((tables[0] - expected) ** 2 / np.where(expected > 0, expected, 1)).sum()
    assert chi[0] == pytest.approx(by_hand)


def test_tables_without_information_are_zero() -> None:
    tables = np.array([[[1, 0], [0, 0]], [[3, 0], [4, 0]], [[0, 0], [0, 0]]], float)
    assert not np.any(blocks._chi_square(tables))
    assert blocks._agreement(tables)[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(blocks._agreement(tables)[1], 0, atol=1e-12)


@pytest.mark.parametrize(
    "how",
    [
        {"n_items": 200, "n_annotators": 8, "n_classes": 3},
        {"n_items": 300, "n_annotators": 10, "n_classes": 2, "prior": [0.95, 0.05]},
        {"n_items": 600, "n_annotators": 300, "n_classes": 3, "labels_per_item": 3},
    ],
    ids=["plain", "rare", "sparse"],
)
def test_spammers_look_like_chance(how: dict[str, object]) -> None:
    """The probabilities that independent annotators get are no smaller than they should be."""
    found, each = [], []
    for seed in range(150):
        a = cs.simulate(**how, spammers=1.0, seed=seed).annotations  # type: ignore[arg-type]
        strength = block_strength(a, pair_moments(a))
        found.append(strength.crowd_chance)
        each.extend(strength.chance.tolist())
    for level in (0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 150)
    assert np.mean(np.array(each) <= 0.01) <= 0.015
    assert min(found) > 1e-4


def test_people_who_look_are_not_chance() -> None:
    for accuracy in ((0.6, 0.7), (0.3, 0.4)):  # K = 2: the second crowd is wrong more often than not
        a = cs.simulate(400, 8, 2, accuracy=accuracy, seed=1).annotations
        strength = block_strength(a, pair_moments(a))
        assert strength.crowd_chance < 1e-6
    sparse = cs.simulate(2000, 1000, 2, labels_per_item=3, seed=1).annotations
    assert block_strength(sparse, pair_moments(sparse)).crowd_chance < 1e-6


def test_a_part_of_the_pairs_can_be_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(300, 6, 2, experts=1.0).annotations
    pairs = pair_moments(a)
    assert chance_of_pairs(pairs) < chance_of_pairs(pairs, [0]) < 1e-6
    assert chance_of_pairs(pairs, np.zeros(len(pairs), bool)) == 1.0
    monkeypatch.setattr(blocks, "MOST_TESTED", 8)
    assert 0 < chance_of_pairs(pairs) < 1e-6
