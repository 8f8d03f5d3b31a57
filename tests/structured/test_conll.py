"""The crowd of CoNLL named entities: chains in context find more names than votes, single tokens and plain chains."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import consilience as cs
from consilience import SequenceAnnotations
from consilience.exceptions import DataWarning
from consilience.kernels._arrays import Codes
from consilience.spans import span_scores


@pytest.fixture
def crowd(data_folder: Path) -> tuple[SequenceAnnotations, Codes]:
    """The first half of the sentences, in which some names are already seen to be harder than others."""
    folder = data_folder / "conll_ner_amt"
    sequences = cs.read_sequences(folder / "labels.csv.gz", annotator="worker")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # some sentences have a truth and no label
        truth = sequences.codes_of_truth(pyarrow.csv.read_csv(folder / "truth.csv.gz"))
    half = sequences.n_sequences // 2
    return sequences.select_sequences(slice(half)), truth[: sequences.indptr[half]]


def f1(labels: Codes, crowd: tuple[SequenceAnnotations, Codes]) -> float:
    sequences, truth = crowd
    return 100 * span_scores(labels, truth, sequences.indptr, sequences.tokens.class_ids).f1


def test_auto_is_above_votes_single_tokens_and_the_plain_chain(crowd: tuple[SequenceAnnotations, Codes]) -> None:
    sequences, truth = crowd
    chosen = cs.aggregate(sequences)
    best = f1(chosen.choice.best, crowd)
    assert best > 79.0  # measured 79.6
    assert chosen.run["gain_of_hard_tokens"] > 0
    assert best > f1(cs.aggregate(sequences.tokens, "majority").choice.best, crowd) + 8
    alone = cs.aggregate(sequences.tokens, "ds-em").choice.best
    assert best > f1(alone, crowd) + 3
    assert best > f1(cs.aggregate(sequences, "ds-em+hmm+em").choice.best, crowd) + 3
    assert np.mean(chosen.choice.best != truth) < np.mean(alone != truth) - 0.005
