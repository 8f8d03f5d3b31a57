"""Bradley-Terry with crowd-kit's names: scores near the maximum of the likelihood, workers, tuples as items."""

from __future__ import annotations

import choix
import numpy as np
import pandas as pd
import pytest

from consilience.crowdkit import BradleyTerry, NoisyBradleyTerry
from consilience.datasets import simulate_comparisons


def comparisons(seed: int, **options: float) -> tuple[pd.DataFrame, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    drawn = simulate_comparisons(8, 6, 4000, seed=seed, **options)  # type: ignore[arg-type]
    frame = drawn.comparisons.to_pandas()
    label = np.where(frame["winner"] == "left", frame["left"], frame["right"])
    return frame.assign(label=label)[["worker", "left", "right", "label"]], drawn.scores


def test_plain_scores_are_those_of_choix() -> None:
    frame, _ = comparisons(1, reliability_spread=0.0)
    found = BradleyTerry(n_iter=100).fit_predict(frame)
    assert found.sum() == pytest.approx(1.0)
    code = {name: n for n, name in enumerate(found.index)}
    loser = np.where(frame["label"] == frame["left"], frame["right"], frame["left"])
    pairs = [(code[w], code[b]) for w, b in zip(frame["label"], loser, strict=True)]
    expected = choix.ilsr_pairwise(8, pairs)
    ours = np.log(found.to_numpy())
    assert ours - ours.mean() == pytest.approx(expected - expected.mean(), abs=0.05)


def test_skills_and_tuples_as_items() -> None:
    frame, scores = comparisons(2, guessers=0.17)
    grouped = frame.copy()
    for column in ("left", "right", "label"):
        grouped[column] = [("q1", name) for name in frame[column]]
    found = NoisyBradleyTerry().fit(grouped)
    assert found.scores_.index[0][0] == "q1"
    order = [int(name[1:]) for _, name in found.scores_.sort_values().index]
    assert np.corrcoef(np.argsort(np.argsort(scores))[order], np.arange(8))[0, 1] > 0.9
    assert found.skills_.min() < 0.6 < found.skills_.drop(found.skills_.idxmin()).min()
    assert found.biases_.between(0.3, 0.7).all()
    with pytest.raises(Exception, match="is neither side"):
        NoisyBradleyTerry().fit(frame.assign(label="nobody"))


def test_no_rows() -> None:
    empty = pd.DataFrame(columns=["worker", "left", "right", "label"])
    assert NoisyBradleyTerry().fit_predict(empty).empty
    assert BradleyTerry(n_iter=5).fit_predict(empty).empty
