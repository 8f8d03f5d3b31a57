"""Known answers in sequences and networks: frames of them, their tags, and whom they make us believe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience import SequenceAnnotations
from consilience.datasets import SequenceSimulation, simulate_sequences
from consilience.structured.chain_fit import forbidden


def misled(seed: int, sequences: int, length: int) -> SequenceSimulation:
    """Six of nine annotators call class 0 class 1, and the other way round."""
    rng = np.random.default_rng(seed)
    accuracy = rng.uniform(0.6, 0.9, 9)
    confusions = np.where(np.eye(3, dtype=bool), accuracy[:, None, None], (1 - accuracy[:, None, None]) / 2)
    confusions[:6] = confusions[:6][:, [1, 0, 2]]
    return simulate_sequences(sequences, length, 9, 3, stickiness=0.6, confusions=confusions, seed=seed)


def some(truth: Any, share: float) -> Any:
    return np.where(np.random.default_rng(0).random(truth.size) < share, truth, -1)


def frame_of(crowd: SequenceSimulation) -> pd.DataFrame:
    columns = {name: np.asarray(column) for name, column in crowd.annotations.token_columns().items()}
    return pd.DataFrame({**columns, "label": crowd.annotations.tokens.classes[crowd.truth]})


@pytest.mark.parametrize(("method", "share"), [("auto", 0.03), ("ds-em+hmm", 0.3), ("ds-em+hmm+em", 0.3)])
def test_known_tokens_show_which_class_is_which(method: str, share: float) -> None:
    crowd = misled(0, 80, 25)
    gold = some(crowd.truth, share)
    wrong = [
        (quietly(crowd.annotations, method, gold=known).choice.best != crowd.truth)[gold < 0].mean()
        for known in (None, gold)
    ]
    assert wrong[0] > 0.4
    assert wrong[1] < 0.03


def test_known_items_on_a_graph_show_which_class_is_which() -> None:
    crowd = misled(1, 1, 2000)
    gold, edges = some(crowd.truth, 0.3), np.stack([np.arange(1999), np.arange(1, 2000)], axis=1)
    found = quietly(crowd.annotations.tokens, graph=edges, gold=gold)
    assert (found.choice.best != crowd.truth)[gold < 0].mean() < 0.03


def test_frames_of_truths_name_the_tokens_of_simulated_sequences() -> None:
    crowd = simulate_sequences(30, 12, 5, 3, seed=0)
    frame = frame_of(crowd)
    shuffled = frame.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(crowd.annotations.codes_of_truth(shuffled), crowd.truth)
    run = quietly(crowd.annotations, gold=shuffled[::3])
    tokens = run.annotations
    assert tokens is not None
    assert tokens.gold is not None
    assert (tokens.gold >= 0).sum() == len(shuffled[::3])
    assert run.error_rate(shuffled) == pytest.approx(run.error_rate(crowd.truth))


def test_gold_that_breaks_the_rules_of_tags_is_held() -> None:
    rows = [("s", n, w, tag) for n, tag in enumerate(["O", "B-x", "I-x", "O"]) for w in "abc"]
    sequences = SequenceAnnotations.from_frame(pd.DataFrame(rows, columns=["sequence", "position", "worker", "label"]))
    never = forbidden(sequences)
    assert never is not None
    o, i = (list(sequences.tokens.classes).index(tag) for tag in ("O", "I-x"))
    assert never.pair[i, o]
    known = sequences.with_gold(["O", "I-x", "I-x", None])
    allowed = forbidden(known)
    assert allowed is not None
    assert not allowed.pair[i, o]
    assert (allowed.pair != never.pair).sum() == 1
    run = quietly(known)
    assert list(run.labels["label"])[:3] == ["O", "I-x", "I-x"]
    first = quietly(sequences.with_gold(["I-x", None, None, None]))
    assert first.labels["label"].iloc[0] == "I-x"


@pytest.mark.filterwarnings("ignore:on your .* known answers")
def test_gold_of_functions_changes_what_their_silence_is_worth() -> None:
    from benchmarks.span_functions import draw, f1

    gained = []
    for seed in range(200, 206):
        sequences, truth = draw(seed)
        gold = np.where(np.repeat(np.arange(sequences.n_sequences) % 3 == 0, sequences.lengths), truth, -1)
        unknown = sequences.select_sequences(np.arange(sequences.n_sequences) % 3 != 0)
        names = np.array([None if code < 0 else sequences.tokens.classes[code] for code in gold], object)
        scores = [
            f1(unknown, cs.aggregate(sequences, gold=known).choice.best[gold < 0], truth[gold < 0])
            for known in (None, names)
        ]
        gained.append(scores[1] - scores[0])
    assert np.mean(gained) > -0.5
