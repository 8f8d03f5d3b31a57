"""Labelling functions for names in text, whose silence is O: simulated ones, where the model was chosen, and NCBI.

Other simulated sets (seeds 0 to 99) chose between votes, a chain, and their mean; the truth of NCBI-Disease
(``ws_ner_ncbi``) did not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure
from consilience import SequenceAnnotations, read_sequence_truth, read_sequences
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.datasets import path
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.spans import span_scores
from consilience.structured.chain_fit import forbidden
from consilience.structured.sequence_consensus import aggregate_sequences

#: Sets that are scored; the choice was made on those with the seeds 0 to 99.
SETS, FIRST = 60, 1000


class Lexicon(NamedTuple):
    """Phrases: names of several types and kinds, then phrases that are no names (type -1)."""

    type: Ints
    kind: Ints
    size: Ints  #: tokens
    frequency: Floats


def draw(seed: int) -> tuple[SequenceAnnotations, Ints]:
    """Return functions that look names up in dictionaries, and the true class of every token.

    A dictionary holds some names, of some kinds (abbreviations, long phrases, …) more than of others, some of them with
    wrong boundaries, and some phrases that are no names.  A function uses one dictionary or two, and overlooks some.
    """
    rng = np.random.default_rng(seed)
    types = int(rng.choice([1, 1, 2, 3]))
    lexicon = _lexicon(rng, types)
    S, length = int(rng.integers(60, 250)), int(rng.integers(20, 150))
    at, phrase = _mentions(rng, lexicon, S, length)
    classes = ["O", *(f"{role}-T{t}" for t in range(types) for role in "BI")]
    truth = np.zeros(S * length, np.int64)
    named = lexicon.type[phrase] >= 0
    _write(truth, at[named], lexicon.size[phrase[named]], lexicon.type[phrase[named]])
    dictionaries = [_dictionary(rng, lexicon, types) for _ in range(int(rng.integers(3, 9)))]
    said = []
    for _ in range(int(rng.integers(4, 13))):
        mine, heed = np.zeros(S * length, np.int64), rng.beta(8, 1)
        for d in rng.choice(len(dictionaries), int(rng.integers(1, 3)), replace=False):
            held, begin, size, called = (column[phrase] for column in dictionaries[d])
            seen = held & (rng.random(at.size) < heed)
            inside = np.minimum(size, length - (at + begin) % length)
            _write(mine, (at + begin)[seen], inside[seen], called[seen])
        said.append(mine)
    labels = np.stack(said, axis=1)
    token, function = np.nonzero(labels)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(token, minlength=truth.size))])
    tokens = Annotations(
        indptr,
        function,
        labels[token, function],
        items=Ids.range(truth.size),
        annotators=Ids.range(len(said)),
        classes=Ids(classes),
    )
    position = np.tile(np.arange(length, dtype=np.int32), S)
    bounds = np.arange(S + 1) * length
    return SequenceAnnotations(tokens, bounds, Ids.range(S), position, Ids.range(length), silence=0), truth


def _lexicon(rng: np.random.Generator, types: int) -> Lexicon:
    kinds, each, others = int(rng.integers(1, 5)), int(rng.integers(20, 120)), types * int(rng.integers(30, 200))
    kind = np.tile(np.repeat(np.arange(kinds), each), types)
    type_ = np.repeat(np.arange(types), kinds * each)
    size = np.minimum(rng.geometric(rng.uniform(0.3, 0.95, kinds)[kind]), 6)
    names = _zipf(rng, kind.size) * rng.dirichlet(np.full(kinds, 3.0))[kind]
    names *= rng.uniform(0.01, 0.08) / names.sum()
    distractions = _zipf(rng, others) * rng.uniform(0.01, 0.08)
    return Lexicon(
        np.append(type_, np.full(others, -1)),
        np.append(kind, np.zeros(others, np.int64)),
        np.append(size, np.minimum(rng.geometric(0.6, others), 4)),
        np.append(names, distractions),
    )


def _zipf(rng: np.random.Generator, n: int) -> Floats:
    weight = rng.permutation(1.0 / np.arange(1, n + 1) ** rng.uniform(0.5, 1.2))
    return np.asarray(weight / weight.sum())


def _mentions(rng: np.random.Generator, lexicon: Lexicon, S: int, length: int) -> tuple[Ints, Ints]:
    """Return where phrases begin, and which; they do not overlap and do not cross the end of a document."""
    n = rng.poisson(S * length * lexicon.frequency.sum())
    at = np.sort(rng.choice(S * length, min(int(n), S * length), replace=False))
    phrase = rng.choice(lexicon.size.size, at.size, p=lexicon.frequency / lexicon.frequency.sum())
    free, kept = 0, []
    for i, (place, size) in enumerate(zip(at.tolist(), lexicon.size[phrase].tolist(), strict=True)):
        if place >= free and place % length + size <= length:
            kept.append(i)
            free = place + size
    return at[kept], phrase[kept]


def _dictionary(rng: np.random.Generator, lexicon: Lexicon, types: int) -> tuple[Bools, Ints, Ints, Ints]:
    """Return what a dictionary holds, where its entries begin, their sizes, and what it calls them."""
    n, named = lexicon.size.size, lexicon.type >= 0
    known = rng.beta(0.6, 0.9, lexicon.kind.max() + 1)[lexicon.kind] * (rng.random(types) < 0.8)[lexicon.type]
    held = rng.random(n) < np.where(named, known, rng.beta(1.0, 10.0))
    wrong = ~named | (rng.random(n) < rng.beta(1, 20))
    called = np.where(wrong, rng.integers(0, types, n), lexicon.type)
    shorter = (rng.random(n) < rng.beta(1, 4)) & (lexicon.size > 1)
    longer = (rng.random(n) < rng.beta(1, 12)) & ~shorter
    begin = shorter & (rng.random(n) < rng.uniform(0.2, 0.9))
    return held, begin.astype(np.int64), lexicon.size - shorter + longer, called


def _write(tags: Ints, at: Ints, size: Ints, type_: Ints) -> None:
    for place, n, t in zip(at.tolist(), size.tolist(), type_.tolist(), strict=True):
        tags[place : place + n] = 2 + 2 * t
        tags[place] = 1 + 2 * t


def f1(sequences: SequenceAnnotations, best: Codes, truth: Ints) -> float:
    """Return the F1 of the spans."""
    return 100.0 * span_scores(best, truth, sequences.indptr, sequences.tokens.class_ids).f1


def run() -> list[Figure]:
    figures: dict[str, list[float]] = {"votes of those who speak": [], "a chain alone": [], "both": []}
    for seed in range(FIRST, FIRST + SETS):
        sequences, truth = draw(seed)
        found = aggregate_sequences(sequences)
        alone, never = replace(found.chains, votes=False), forbidden(sequences)
        chain = alone.decode(sequences, alone.posterior(sequences), never)
        labels = sequences.vote_shares().argmax(axis=1), chain, found.choice.best
        for scores, best in zip(figures.values(), labels, strict=True):
            scores.append(f1(sequences, best, truth))
    votes = np.array(figures["votes of those who speak"])
    made = [
        Figure(f"{SETS} simulated sets of functions for names, {name}: F1", float(np.mean(scores)), unit="%")
        for name, scores in figures.items()
    ]
    made += [
        Figure(f"the same, {name}: least difference from votes", float((figures[name] - votes).min()), unit="points")
        for name in ("a chain alone", "both")
    ]
    return [*made, *_diseases()]


def _diseases() -> list[Figure]:
    """Return the figures of NCBI-Disease; tokens that no function labelled count as O."""
    folder = path("ws_ner_ncbi")
    sequences = read_sequences(folder / "labels.csv.gz")
    truth = read_sequence_truth(folder / "truth.csv.gz", like=sequences)
    found = aggregate_sequences(sequences, silence="O")
    score = 100.0 * found.span_scores(truth).f1
    best = found.sequences.vote_shares().argmax(axis=1).astype(np.int32)
    votes = 100.0 * replace(found, choice=found.choice._replace(best=best)).span_scores(truth).f1
    return [
        Figure("ws_ner_ncbi, votes of those who speak, ties to the first tag: F1", votes, unit="%"),
        Figure("ws_ner_ncbi, silence as O: F1", score, 70.0, True, "%"),
    ]
