"""Plans of comparisons: gains against integration, order against random pairs, groups, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import consilience as cs
from consilience.datasets import simulate_comparisons
from consilience.exceptions import ColumnError, ParameterError
from consilience.ranking import planning


@pytest.fixture(scope="module")
def ranking() -> cs.Ranking:
    return cs.rank(simulate_comparisons(7, 5, 80, ties=0.3, seed=3).comparisons.to_pandas())


def test_gain_is_the_expected_decrease_of_doubt(ranking: cs.Ranking) -> None:
    state = planning._Exact(ranking)
    before = state.covariance.copy()
    i, j, gain, v = state.gains()
    small = 1e-4  # the gain is exact to first order in the information
    factor = (v / (1 + v * state.variances(i, j))) / (small / (1 + small * state.variances(i, j)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)

    def doubt(means: Any, variance: Any) -> float:
        p = ndtr((means[i] - means[j]) / np.sqrt(variance))
        return float(np.sum(p * (1 - p)))

    for k in range(0, i.size, 5):
        state.covariance = before
        now = doubt(state.scores, state.variances(i, j))
        u = before[:, i[k]] - before[:, j[k]]
        c = small / (1 + small * (u[i[k]] - u[j[k]]))
        state.observe(i[[k]], j[[k]], np.array([small]))
        np.testing.assert_allclose(state.covariance, before - c * np.outer(u, u), atol=1e-12)
        variance = state.variances(i, j)
        then = sum(w * doubt(state.scores + np.sqrt(c) * u * x, variance) for x, w in zip(nodes, weights, strict=True))
        assert now - then / weights.sum() == pytest.approx(gain[k] / factor[k], rel=1e-3)


def test_expected_wrong_pairs_match_draws() -> None:
    rng = np.random.default_rng(0)
    one = np.array([0])
    now = planning._Doubts(one, one, np.array([0.4]), np.array([1.0]))
    expected = planning._wrong_then(now, np.array([0.3]))
    found = 0.4 + np.sqrt(0.7) * rng.standard_normal(400_000)
    truth = found + np.sqrt(0.3) * rng.standard_normal(400_000)
    assert expected == pytest.approx(np.mean(np.sign(found) != np.sign(truth)), abs=0.003)
    assert expected < now.wrong[0]


def _answers(rng: Any, scores: Any, left: Any, right: Any) -> pd.DataFrame:
    won = rng.random(len(left)) < 1 / (1 + np.exp(scores[right] - scores[left]))
    return pd.DataFrame({"left": left, "right": right, "worker": "all", "winner": np.where(won, "left", "right")})


def test_planned_pairs_are_better_than_random_ones() -> None:
    wrong: dict[str, list[float]] = {"random": [], "planned": []}
    n = 16
    i, j = np.triu_indices(n, 1)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scores = 2.0 * rng.standard_normal(n)

        def pairs(size: int, rng: Any = rng) -> tuple[Any, Any]:
            left = rng.integers(0, n, size)
            return left, (left + rng.integers(1, n, size)) % n

        ring = np.arange(n), (np.arange(n) + 1) % n
        start = pd.concat([_answers(rng, scores, *ring), _answers(rng, scores, *pairs(40))])
        for policy in wrong:
            known = start
            for _ in range(2):
                if policy == "random":
                    known = pd.concat([known, _answers(rng, scores, *pairs(30))])
                else:
                    table = cs.plan(cs.rank(known, judges=False, position=False), 30).table
                    known = pd.concat(
                        [known, _answers(rng, scores, table["left"].to_numpy(), table["right"].to_numpy())]
                    )
            found = (
                cs.rank(known, judges=False, position=False).scores.set_index("item")["score"].loc[range(n)].to_numpy()
            )
            wrong[policy].append(float(np.mean((found[i] > found[j]) != (scores[i] > scores[j]))))
    assert np.mean(wrong["planned"]) < 0.9 * np.mean(wrong["random"])


@pytest.mark.parametrize("exactly", [1000, 1])
def test_groups_are_connected(monkeypatch: pytest.MonkeyPatch, exactly: int) -> None:
    monkeypatch.setattr(planning, "PLANNED_EXACTLY", exactly)
    drawn = simulate_comparisons(8, 4, 400, groups=2, seed=1)
    with pytest.warns(cs.exceptions.FewLabelsWarning):
        ranking = cs.rank(drawn.comparisons.to_pandas())
    found = cs.plan(ranking, 3)
    assert found.table["reason"].iloc[0] == "connects two groups"
    group = ranking.comparisons.groups[1]
    assert group[found.left[0]] != group[found.right[0]]


def test_a_judge_compares_a_pair_once() -> None:
    frame = pd.DataFrame(
        {"left": ["a", "a", "b"], "right": ["b", "c", "c"], "worker": "j", "winner": ["left", "left", "right"]}
    )
    found = cs.plan(frame, 5)
    assert len(found) == 0
    assert "every judge has compared every pair" in found.notes[-1]
    found = cs.plan(frame.iloc[:2], 5)
    assert [{*row} for row in found.table[["left", "right"]].to_numpy().tolist()] == [{"b", "c"}]
    assert len(cs.plan(frame.assign(task=[1, 2, 3]), 5)) == 5


def test_many_items_are_compared_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = cs.rank(simulate_comparisons(60, 8, 2000, spread=3.0, seed=1).comparisons.to_pandas())
    exact = cs.plan(ranking, 100)
    monkeypatch.setattr(planning, "PLANNED_EXACTLY", 10)
    found = cs.plan(ranking, 100)
    assert len(found) == 100
    assert found.wrong_then < found.wrong_now
    rank = ranking.scores.set_index("item")["rank"]
    for plan in (exact, found):
        apart = np.abs(rank[plan.table["left"]].to_numpy() - rank[plan.table["right"]].to_numpy())
        assert np.median(apart) <= 3


def test_sides_even_out(ranking: cs.Ranking) -> None:
    table = cs.plan(ranking, 40).table
    lead = table["left"].value_counts().subtract(table["right"].value_counts(), fill_value=0)
    data = ranking.comparisons
    before = np.bincount(data.first, data.side, 7) - np.bincount(data.second, data.side, 7)
    after = before + lead.reindex([f"i{k}" for k in range(7)], fill_value=0).to_numpy()
    assert np.abs(after).max() < np.abs(before).max()


def test_the_same_plan_from_a_file_and_a_folder(ranking: cs.Ranking, tmp_path: Path) -> None:
    frame = simulate_comparisons(7, 5, 80, ties=0.3, seed=3).comparisons.to_pandas()
    file, folder = tmp_path / "comparisons.csv", tmp_path / "ranking"
    frame.to_csv(file, index=False)
    ranking.save(folder)
    for data in (frame, file, folder):
        assert cs.plan(data, 6).to_dict()["plan"] == cs.plan(ranking, 6).to_dict()["plan"]


def test_what_a_plan_of_comparisons_refuses(ranking: cs.Ranking, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="at least 1 comparison"):
        cs.plan(ranking, 0.5)
    with pytest.raises(ParameterError, match="costs=… is for labels"):
        cs.plan(ranking, 5, costs=2)
    file = tmp_path / "comparisons.csv"
    file.write_text("left,right,worker,winner\na,b,j,left\n")
    with pytest.raises(ColumnError, match=r"rank them with cs\.rank"):
        cs.aggregate(file)
