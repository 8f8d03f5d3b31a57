"""The fit: recovery of what comparisons were drawn from, invariances, and honest intervals."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import choix
import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.datasets import ComparisonSimulation, simulate_comparisons
from consilience.exceptions import ConsilienceWarning, ConvergenceWarning
from consilience.kernels._arrays import Floats
from consilience.ranking.comparisons import from_frame
from consilience.ranking.fit import fit
from consilience.ranking.information import centred
from consilience.ranking.uncertainty import _sampled, rank_intervals, ranks_of, uncertainty


def frame_of(drawn: ComparisonSimulation) -> pd.DataFrame:
    return drawn.comparisons.to_pandas()


def scores_of(ranking: cs.Ranking) -> Floats:
    """Return the scores in the order of the simulation."""
    frame = ranking.scores.set_index("item")["score"]
    return np.asarray(frame.loc[sorted(frame.index, key=lambda name: int(name[1:]))])


def test_scores_are_near_those_of_choix() -> None:
    """With many comparisons the posterior mean and the mode are the same."""
    drawn = simulate_comparisons(10, 1, 20_000, reliability_spread=0.0, seed=1)
    rows = drawn.comparisons.to_pylist()
    pairs = [(int(r["left"][1:]), int(r["right"][1:])) for r in rows]
    wins = [p if r["winner"] == "left" else p[::-1] for p, r in zip(pairs, rows, strict=True)]
    theirs = choix.opt_pairwise(10, wins, alpha=0.5)
    ours = scores_of(cs.rank(drawn.comparisons.to_pandas(), judges=False, position=False, spread=1.0))
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=0.01)


def test_everything_is_recovered() -> None:
    drawn = simulate_comparisons(
        30, 10, 40_000, ties=0.8, position=0.4, position_spread=0.3, length=0.5, reliability_spread=0.3, seed=2
    )
    found = cs.rank(frame_of(drawn))
    share = np.bincount([int(j[1:]) for j in frame_of(drawn)["worker"]]) / 40_000
    scale = share @ drawn.reliability
    truth = drawn.scores * scale
    error = scores_of(found) - (truth - truth.mean())
    assert np.sqrt(np.mean(error**2)) < 0.1
    np.testing.assert_allclose(found.model.judges[:, 0], drawn.reliability / scale, atol=0.15)
    np.testing.assert_allclose(found.model.judges[:, 1], drawn.position, atol=0.15)
    assert found.model.average[2] == pytest.approx(0.5, abs=0.05)
    assert np.exp(found.model.average[3]) == pytest.approx(0.8, abs=0.08)
    assert found.model.spread == pytest.approx(np.std(truth), rel=0.1)


def test_without_effects_none_are_found() -> None:
    found = cs.rank(frame_of(simulate_comparisons(30, 10, 20_000, length=0.0, reliability_spread=0.0, seed=3)))
    assert abs(found.model.average[1]) < 0.1
    assert abs(found.model.average[2]) < 0.1
    assert set(found.judges["flags"]) == {""}


def test_guessers_and_adversaries_are_found() -> None:
    drawn = simulate_comparisons(40, 20, 8000, guessers=0.2, adversaries=0.1, reliability_spread=0.1, seed=4)
    judges = cs.rank(frame_of(drawn)).judges.set_index("worker")
    roles = {f"j{m}": role for m, role in enumerate(drawn.roles)}
    expected = {"ordinary": "", "guesser": "guesses", "adversary": "reversed"}
    assert all(judges.loc[name, "flags"] == expected[role] for name, role in roles.items())
    by_role = judges["reliability"].groupby(roles).mean()
    assert abs(by_role["guesser"]) < 0.2
    assert by_role["adversary"] < -0.8


def test_judges_help() -> None:
    """Scores are nearer to the truth if guessers do not count."""
    drawn = simulate_comparisons(50, 20, 4000, guessers=0.5, seed=5)
    told, plain = cs.rank(frame_of(drawn)), cs.rank(frame_of(drawn), judges=False)
    near = [np.corrcoef(scores_of(found), drawn.scores)[0, 1] for found in (told, plain)]
    assert near[0] > near[1] + 0.01


@pytest.mark.parametrize(
    "options",
    [{}, {"ties": 1.0, "position": 0.3, "position_spread": 0.3, "length": 0.4}, {"guessers": 0.2, "groups": 2}],
    ids=["plain", "ties, position and length", "guessers and groups"],
)
def test_intervals_cover_the_truth(options: dict[str, Any]) -> None:
    covered, ranked = [], []
    for seed in range(30):
        drawn = simulate_comparisons(50, 20, 2500, seed=seed, **options)
        data = from_frame(drawn.comparisons)
        found = fit(data)
        spread = uncertainty(data, found)
        n_groups, group = data.groups
        items, judges = ([int(name[1:]) for name in ids] for ids in (data.item_ids, data.judge_ids))
        truth = drawn.scores[items] * (data.judge_shares @ drawn.reliability[judges])
        truth = centred(truth[:, None], group, n_groups)[:, 0]
        covered.append(np.abs(found.model.scores - truth) < 1.96 * spread.deviation)
        low, high = rank_intervals(found.model.scores, spread, group, 0)
        place = ranks_of(truth, group)
        ranked.append((low <= place) & (place <= high))
    # 1500 scores, of which those of a set share their error in scale
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(ranked) >= 0.93


def test_sampled_variances_are_near_the_exact_ones() -> None:
    drawn = simulate_comparisons(60, 12, 1500, ties=0.5, position=0.2, length=0.3, groups=3, seed=6)
    data = from_frame(drawn.comparisons)
    found = fit(data)
    exact, sampled = uncertainty(data, found).deviation ** 2, _sampled(data, found)
    assert np.mean(sampled) == pytest.approx(np.mean(exact), rel=0.02)
    np.testing.assert_allclose(sampled, exact, rtol=0.15)


def test_the_exact_covariance_is_the_inverse_of_the_information() -> None:
    data = from_frame(simulate_comparisons(7, 4, 120, ties=0.7, position=0.3, seed=7).comparisons)
    found = fit(data)
    H = found.information
    n = 7 + 16 + 4
    whole = H.multiply(np.eye(n))  # with the constraint on both sides: balanced(H x) for balanced x
    P = H.balanced(np.eye(n))
    inverse = np.linalg.pinv(P @ whole @ P)[:7, :7]
    centre = np.eye(7) - 1.0 / 7
    covariance = uncertainty(data, found).covariance
    assert covariance is not None
    np.testing.assert_allclose(covariance, centre @ inverse @ centre, atol=1e-8)


def test_a_comparison_of_weight_two_counts_as_two() -> None:
    data = from_frame(simulate_comparisons(8, 3, 60, ties=0.5, position=0.3, length=0.4, seed=2).comparisons)
    twice = data.subset(np.repeat(np.arange(data.n_comparisons), 2))
    heavy = replace(data, weight=np.full(data.n_comparisons, 2.0))
    one, two = fit(twice, tol=1e-6), fit(heavy, tol=1e-6)
    np.testing.assert_allclose(two.model.scores, one.model.scores, atol=1e-6)
    np.testing.assert_allclose(two.model.judges, one.model.judges, atol=1e-6)
    expected, found = uncertainty(twice, one).deviation, uncertainty(heavy, two).deviation
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# ---- invariances ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn() -> pd.DataFrame:
    return frame_of(simulate_comparisons(80, 12, 3000, ties=0.5, position=0.5, length=0.3, seed=8))


@pytest.fixture(scope="module")
def ranking(drawn: pd.DataFrame) -> cs.Ranking:
    return cs.rank(drawn)


def test_the_order_of_rows_changes_nothing(drawn: pd.DataFrame, ranking: cs.Ranking) -> None:
    mixed = cs.rank(drawn.sample(frac=1.0, random_state=1))
    assert mixed.scores.equals(ranking.scores)
    assert mixed.judges.equals(ranking.judges)
    assert mixed.pairs.equals(ranking.pairs)


def test_swapped_sides_turn_the_effect_of_the_position(drawn: pd.DataFrame, ranking: cs.Ranking) -> None:
    names = {"left": "right", "right": "left", "left_length": "right_length", "right_length": "left_length"}
    swapped = drawn.rename(columns=names)
    swapped["winner"] = swapped["winner"].map({"left": "right", "right": "left", "tie": "tie"})
    found = cs.rank(swapped)
    np.testing.assert_allclose(found.scores["score"], ranking.scores["score"], atol=1e-9)
    np.testing.assert_allclose(found.scores["low"], ranking.scores["low"], atol=1e-9)
    assert found.scores["rank_high"].equals(ranking.scores["rank_high"])
    np.testing.assert_allclose(found.judges["left_share"], 1.0 - ranking.judges["left_share"], atol=1e-9)


def test_names_change_nothing(drawn: pd.DataFrame, ranking: cs.Ranking) -> None:
    items = {f"i{n}": f"x{(37 * n) % 80:02}" for n in range(80)}
    judges = {f"j{m}": f"z{(5 * m) % 12:02}" for m in range(12)}
    renamed = drawn.assign(
        left=drawn["left"].map(items), right=drawn["right"].map(items), worker=drawn["worker"].map(judges)
    )
    found = cs.rank(renamed)
    assert list(found.scores["item"]) == [items[name] for name in ranking.scores["item"]]
    for name in ("score", "low", "high", "win_rate"):
        # steps are solved to a relative accuracy of 1e-3, and stop well below the standard errors
        np.testing.assert_allclose(found.scores[name], ranking.scores[name], atol=1e-4)
    assert found.scores["rank_low"].equals(ranking.scores["rank_low"])
    one, two = (r.judges.set_index("worker")["reliability"] for r in (found, ranking))
    np.testing.assert_allclose(one[[judges[name] for name in two.index]], two, atol=1e-4)
    pairs, before = found.pairs, ranking.pairs
    key = [items[a] + items[b] for a, b in zip(before["left"], before["right"], strict=True)]
    confidence = dict(zip(pairs["left"] + pairs["right"], pairs["confidence"], strict=True))
    np.testing.assert_allclose([confidence[k] for k in key], before["confidence"], atol=1e-4)


def test_winners_by_name_are_the_same_as_by_side(drawn: pd.DataFrame, ranking: cs.Ranking) -> None:
    named = drawn.copy()
    for side in ("left", "right"):
        named.loc[drawn["winner"] == side, "winner"] = drawn[side]
    assert cs.rank(named).scores.equals(ranking.scores)


# ---- hard data -------------------------------------------------------------------------------------------------------


def test_an_undefeated_item_has_a_finite_score() -> None:
    rows = [("a", "b", "a"), ("a", "c", "a"), ("b", "c", "b"), ("b", "c", "c")]
    frame = pd.DataFrame(rows, columns=["left", "right", "winner"]).assign(worker="w")
    found = cs.rank(frame)
    assert found.scores["item"][0] == "a"
    assert np.isfinite(found.scores[["score", "low", "high"]].to_numpy()).all()
    assert any("won or lost all" in sentence for sentence in found.advice)


def test_a_reference_that_is_always_on_the_left_gets_no_position_effect() -> None:
    drawn = frame_of(simulate_comparisons(20, 5, 4000, seed=9))
    drawn["left"] = "reference"
    found = cs.rank(drawn[drawn["right"] != "i0"])
    assert not found.model.effects.common[1]
    assert any("position" in note for note in found.notes)
    assert "left_share" not in found.judges


def test_lengths_that_belong_to_items_are_not_corrected_for() -> None:
    drawn = frame_of(simulate_comparisons(30, 6, 4000, seed=10))
    length = {f"i{n}": 50 + 10 * n for n in range(30)}
    found = cs.rank(drawn.assign(left_length=drawn["left"].map(length), right_length=drawn["right"].map(length)))
    assert not found.model.effects.common[2]
    assert any("always have the same length" in note for note in found.notes)
    plain = cs.rank(drawn)
    assert np.corrcoef(scores_of(found), scores_of(plain))[0, 1] > 0.99


def test_groups_are_found_and_ranked_apart() -> None:
    drawn = simulate_comparisons(30, 5, 2000, groups=3, seed=11)
    with pytest.warns(ConsilienceWarning, match="3 groups that were never compared"):
        found = cs.rank(frame_of(drawn))
    assert found.n_groups == 3
    for _, part in found.scores.groupby("group"):
        assert sorted(part["rank"]) == list(range(1, 11))
        assert abs(part["score"].mean()) < 1e-4
        assert len({int(name[1:]) % 3 for name in part["item"]}) == 1
    bridges = found.next_comparisons[found.next_comparisons["reason"] == "connects two groups"]
    assert len(bridges) == 2
    assert "connect them" in found.advice[0]
    same = [
        int(a[1:]) % 3 == int(b[1:]) % 3
        for a, b in zip(found.indistinguishable["item"], found.indistinguishable["other"], strict=True)
    ]
    assert all(same)


def test_one_judge_and_one_pair() -> None:
    frame = pd.DataFrame({"left": ["a"], "right": ["b"], "worker": ["w"], "winner": ["tie"]})
    found = cs.rank(frame)
    np.testing.assert_allclose(found.scores["score"], 0.0, atol=1e-6)
    assert len(found.indistinguishable) == 1


def test_running_out_of_rounds_is_a_warning() -> None:
    drawn = frame_of(simulate_comparisons(20, 5, 500, seed=12))
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 rounds"):
        found = cs.rank(drawn, max_iter=1)
    assert not found.run["converged"]


def test_the_same_seed_gives_the_same_bytes(drawn: pd.DataFrame, ranking: cs.Ranking) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = cs.rank(drawn)
    assert again.scores.equals(ranking.scores)
    assert again.indistinguishable.equals(ranking.indistinguishable)
