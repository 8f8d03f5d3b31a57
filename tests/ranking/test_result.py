"""What a ranking reports: tables against direct computation, predictions, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.datasets import simulate_comparisons
from consilience.exceptions import FolderError, FormatError
from consilience.ranking.uncertainty import ranks_of


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return simulate_comparisons(12, 6, 1500, ties=0.6, position=0.3, spread=1.5, seed=1).comparisons.to_pandas()


@pytest.fixture(scope="module")
def ranking(frame: pd.DataFrame) -> cs.Ranking:
    return cs.rank(frame)


def test_scores_columns_and_counts(frame: pd.DataFrame, ranking: cs.Ranking) -> None:
    scores = ranking.scores
    assert list(scores)[:5] == ["item", "score", "low", "high", "rank"]
    assert list(scores["rank"]) == list(range(1, 13))
    assert scores["score"].is_monotonic_decreasing
    assert ((scores["low"] < scores["score"]) & (scores["score"] < scores["high"])).all()
    assert ((scores["rank_low"] <= scores["rank"]) & (scores["rank"] <= scores["rank_high"])).all()
    named = frame.copy()
    named["won"] = np.where(
        frame["winner"] == "left", frame["left"], np.where(frame["winner"] == "right", frame["right"], "")
    )
    wins = named["won"].value_counts()
    both = pd.concat([frame["left"], frame["right"]]).value_counts()
    by = scores.set_index("item")
    assert all(by.loc[item, "wins"] == wins.get(item, 0) for item in by.index)
    assert all(by.loc[item, "n_comparisons"] == both[item] for item in by.index)
    assert ((by["wins"] + by["losses"] + by["ties"]) == by["n_comparisons"]).all()


def test_win_rates(frame: pd.DataFrame, ranking: cs.Ranking) -> None:
    rates, model = ranking.win_rates, ranking.model
    row = rates.iloc[3]
    one, two = row["item"], row["other"]
    met = frame[frame["left"].isin([one, two]) & frame["right"].isin([one, two])]
    winner = np.where(met["winner"] == "left", met["left"], np.where(met["winner"] == "right", met["right"], "tie"))
    assert row["n_comparisons"] == len(met)
    assert row["observed"] == pytest.approx(np.mean(np.where(winner == "tie", 0.5, winner == one)))
    s = ranking.scores.set_index("item")["score"]
    gap, nu = s[one] - s[two], np.exp(model.average[3])
    weights = np.array([np.exp(gap / 2), nu, np.exp(-gap / 2)])
    assert row["expected"] == pytest.approx((weights[0] + nu / 2) / weights.sum())
    matrix = ranking.expected_win_rates()
    np.testing.assert_allclose(matrix + matrix.T, 1.0)
    mean = (matrix.sum(axis=1) - 0.5) / 11
    names = list(ranking.comparisons.item_ids)
    np.testing.assert_allclose([mean[names.index(i)] for i in ranking.scores["item"]], ranking.scores["win_rate"])


def test_win_rates_of_many_items_come_from_a_grid(monkeypatch: pytest.MonkeyPatch, ranking: cs.Ranking) -> None:
    from consilience.ranking import tables

    exact = ranking.scores["win_rate"]
    monkeypatch.setattr(tables, "_GRID", 11)
    coarse = tables.score_columns(ranking)["win_rate"]
    np.testing.assert_allclose(coarse, exact, atol=0.02)


def test_predictions_follow_the_frequencies(frame: pd.DataFrame, ranking: cs.Ranking) -> None:
    predicted = ranking.predict(frame)
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    for side in ("left", "tie", "right"):
        assert predicted[side].mean() == pytest.approx((frame["winner"] == side).mean(), abs=0.01)
    unknown = pd.DataFrame({"left": ["new", "i1"], "right": ["other", "i2"], "worker": ["nobody", "j1"]})
    p = ranking.predict(unknown).to_numpy()
    assert p[0, 0] > p[0, 2]  # the left side is preferred
    assert np.isfinite(p).all()


def test_predictions_use_lengths_as_the_fit_does() -> None:
    drawn = simulate_comparisons(6, 4, 400, length=1.0, ties=0.5, seed=3).comparisons.to_pandas()
    found = cs.rank(drawn)
    data, p = found.comparisons, found.predict(drawn)
    fitted = found.model.probabilities(data.first, data.second, data.judge, data.side, data.length)
    log_fitted = np.log(fitted[np.arange(400), 1 - data.outcome]).sum()
    log_predicted = np.log([p.loc[n, won] for n, won in enumerate(drawn["winner"])]).sum()
    assert log_predicted == pytest.approx(log_fitted, rel=1e-9)


def test_pairs_have_the_better_item_on_the_left(frame: pd.DataFrame, ranking: cs.Ranking) -> None:
    pairs = ranking.pairs
    score = ranking.scores.set_index("item")["score"]
    assert (score[pairs["left"]].to_numpy() >= score[pairs["right"]].to_numpy()).all()
    assert len(pairs) == len({frozenset(pair) for pair in zip(frame["left"], frame["right"], strict=True)})
    assert pairs["n_comparisons"].sum() == len(frame)
    assert set(pairs["winner"]) <= {"left", "tie", "right"}

    assert (pairs["winner"] == "left").mean() > 0.7


def test_pairs_by_task() -> None:
    frame = pd.DataFrame(
        {
            "left": "a",
            "right": "b",
            "task": [1, 1, 1, 2, 2, 2],
            "worker": [*"xyzxyz"],
            "winner": ["left"] * 3 + ["right"] * 3,
        }
    )
    pairs = cs.rank(frame).pairs
    assert list(pairs["task"]) == [1, 2]
    sides = [row["left"] if row["winner"] == "left" else row["right"] for _, row in pairs.iterrows()]
    assert sides == ["a", "b"]


def test_open_pairs_have_zero_in_their_interval(ranking: cs.Ranking) -> None:
    close = ranking.indistinguishable
    assert ((close["low"] < 0) & (close["high"] > 0)).all()
    assert close["probability"].between(0.5, 0.975).all()
    first = ranking.next_comparisons.iloc[0]
    order = list(ranking.scores["item"])
    assert order.index(first["other"]) == order.index(first["item"]) + 1


def test_ranks_share_ties_and_stay_in_their_group() -> None:
    scores = np.array([1.0, 3.0, 3.0, 0.0, 5.0])
    assert ranks_of(scores, np.zeros(5, np.int64)).tolist() == [4, 2, 2, 5, 1]
    assert ranks_of(scores, np.array([0, 0, 0, 1, 1])).tolist() == [3, 1, 1, 2, 1]


def test_sentences(ranking: cs.Ranking) -> None:
    assert ranking.headline.startswith("All 12 items are connected")
    assert ranking.scores["item"][0] in ranking.best
    assert "12 items, 1500 comparisons, 6 judges" in repr(ranking)
    assert "<table" in ranking._repr_html_()


def test_names_are_escaped_in_notebooks() -> None:
    frame = pd.DataFrame({"left": ["<script>"] * 3, "right": "b", "worker": [*"xyz"], "winner": "left"})
    assert "<script>" not in cs.rank(frame)._repr_html_()


def test_saved_and_loaded(ranking: cs.Ranking, tmp_path: Path) -> None:
    ranking.save(tmp_path / "run")
    again = cs.Ranking.load(tmp_path / "run")
    for name in ("scores", "judges", "win_rates", "pairs", "indistinguishable", "next_comparisons"):
        assert getattr(again, name).equals(getattr(ranking, name)), name
        assert len(pd.read_csv(tmp_path / "run" / f"{name}.csv")) == len(getattr(ranking, name))
    assert again.summary() == json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    np.testing.assert_array_equal(again.model.judges, ranking.model.judges)


def test_damage_is_found(ranking: cs.Ranking, tmp_path: Path) -> None:
    ranking.save(tmp_path / "run", pairs=False)
    assert not (tmp_path / "run" / "pairs.csv").exists()
    place = tmp_path / "run" / "comparisons.parquet"
    place.write_bytes(place.read_bytes()[:-10])
    with pytest.raises(FormatError, match="damaged"):
        cs.Ranking.load(tmp_path / "run")
    with pytest.raises(FormatError, match="not the folder of a ranking"):
        cs.Ranking.load(tmp_path)


def test_other_folders_are_not_replaced(ranking: cs.Ranking, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(FolderError):
        ranking.save(tmp_path)
