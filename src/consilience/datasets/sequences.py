"""Sequences with a known truth: labels of a crowd for the states of a Markov chain (Traganitis 2019, section 4.4.1).

The truth of a sequence's first token is drawn from ``start``, that of each next one from the column of ``transitions``
that belongs to the truth before it; the labels of each token are drawn from the confusions.

====== ========================== ==========================================
symbol name                       shape
====== ========================== ==========================================
T      ``transitions[i, k]``      (K, K): Pr(next truth is i | truth is k)
π      ``model.prior``            (K,): stationary, T π = π
Γ_m    ``model.confusions``       (M, K, K)
====== ========================== ==========================================

Columns of T and of the Γ_m are drawn from a flat Dirichlet distribution.  ⌊M/2⌋ + 1 annotators are better than random:
each of their columns has its largest entry moved to the diagonal (As2 and the line below it, section 3.2).  They are
chosen at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene, _bernoulli, _fixed_degree
from consilience.models.hidden_markov import stationary_of
from consilience.validation import whole

__all__ = ["SequenceSimulation", "simulate_sequences"]


@dataclass(frozen=True, eq=False, slots=True)
class SequenceSimulation:
    """Simulated sequences and what they were drawn from."""

    annotations: SequenceAnnotations
    truth: Ints  #: class code of every token, (N,)
    start: Floats  #: Pr(truth of a first token), (K,)
    transitions: Floats  #: Pr(next truth is i | truth is k), (K, K), columns sum to one
    model: DawidSkene  #: the annotators, and the stationary distribution of the chain as prior


def simulate_sequences(
    n_sequences: int = 100,
    length: int | tuple[int, int] | Ints = 50,
    n_annotators: int = 10,
    n_classes: int = 4,
    *,
    stickiness: float = 0.0,
    transitions: Any = None,
    start: Sequence[float] | Floats | None = None,
    confusions: Any = None,
    annotators_per_sequence: int | None = None,
    label_probability: float | Sequence[float] = 1.0,
    by_token: bool = False,
    seed: int = 0,
) -> SequenceSimulation:
    """Draw sequences and the labels of a crowd.

    Parameters are drawn before sequences, so that a seed yields the same model for any number of them.

    Parameters
    ----------
    n_sequences, n_annotators, n_classes
        S, M and K.  Sequences, positions and classes are named 0, 1, …; annotators "a0", "a1", ….
    length
        Tokens of a sequence: one number for all, a range (least, most) to draw from, or an array of one for each.
    stickiness
        Share s of the identity in the transitions, s I + (1 - s) T: from 0 up to, not including, 1.
    transitions, start, confusions
        Given instead of drawn.  If the start is not given, it is the stationary distribution.
    annotators_per_sequence
        Every sequence is labelled, as a whole, by this many annotators, drawn at random.
    label_probability
        Instead: every annotator labels a sequence with this probability (one for all, or one for each).
    by_token
        Each token, not each sequence, is given to annotators of its own.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> drawn = simulate_sequences(20, 30, annotators_per_sequence=3)
    >>> drawn.annotations
    <SequenceAnnotations: 1800 labels, 20 sequences, 600 tokens, 10 annotators, 4 classes>
    """
    whole("n_sequences", n_sequences)
    whole("n_annotators", n_annotators)
    whole("n_classes", n_classes, least=2)
    whole("seed", seed, least=0)
    if not 0.0 <= stickiness < 1.0:
        raise ParameterError(f"stickiness must be at least 0 and below 1, not {stickiness!r}")
    if annotators_per_sequence is not None and np.any(np.asarray(label_probability) != 1.0):
        raise ParameterError("give annotators_per_sequence or label_probability, not both")
    K, M = n_classes, n_annotators
    chain_seed, crowd_seed, draw_seed = np.random.SeedSequence(seed).spawn(3)
    T = _chain(np.random.default_rng(chain_seed), K) if transitions is None else _columns(transitions, K)
    T = stickiness * np.eye(K) + (1.0 - stickiness) * T
    stationary = stationary_of(T)
    A = _crowd(np.random.default_rng(crowd_seed), M, K) if confusions is None else confusions
    model = DawidSkene(stationary, A, Ids.range(K), Ids([f"a{m}" for m in range(M)]))
    first = stationary if start is None else _columns(np.asarray(start, np.float64)[:, None], K, 1)[:, 0]

    rng = np.random.default_rng(draw_seed)
    lengths = _lengths(rng, length, n_sequences)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    truth = _walk(rng, first, T, bounds)
    tokens = _draw_labels(rng, model, truth, bounds, annotators_per_sequence, label_probability, by_token)
    position = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
    annotations = SequenceAnnotations(
        tokens, bounds, Ids.range(n_sequences), position.astype(np.int32), Ids.range(int(lengths.max()))
    )
    return SequenceSimulation(annotations, truth, first, T, model)


def _chain(rng: np.random.Generator, K: int) -> Floats:
    return rng.dirichlet(np.ones(K), K).T


def _crowd(rng: np.random.Generator, M: int, K: int) -> Floats:
    """Draw confusions, the largest entry of each column on the diagonal for all but ⌈M/2⌉ - 1 annotators."""
    confusions = rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1).copy()
    better = np.sort(rng.permutation(M)[: M // 2 + 1])
    columns = confusions[better]
    largest = columns.argmax(axis=1)
    m, k = np.ogrid[: better.size, :K]
    columns[m, largest, k], columns[m, k, k] = columns[m, k, k], columns[m, largest, k]
    confusions[better] = columns
    return confusions


def _columns(values: Any, K: int, columns: int | None = None) -> Floats:
    T = np.asarray(values, np.float64)
    if T.shape != (K, columns or K) or not np.all(T >= 0) or not np.allclose(T.sum(axis=0), 1.0, atol=1e-6):
        what = "start must be (K,)" if columns else "transitions must be (K, K) with columns"
        raise ParameterError(f"{what} of probabilities that sum to one, for K = {K} classes; got {values!r}")
    return np.asarray(T / T.sum(axis=0))


def _lengths(rng: np.random.Generator, length: Any, S: int) -> Ints:
    if isinstance(length, tuple):
        if len(length) != 2 or not 1 <= length[0] <= length[1]:
            raise ParameterError(f"length as a range must be (least, most) with 1 ≤ least ≤ most, not {length!r}")
        return rng.integers(length[0], length[1] + 1, S)
    given = np.asarray(length)
    if given.shape not in ((), (S,)) or given.dtype.kind not in "iu" or np.any(given < 1):
        raise ParameterError(f"length must be whole numbers of at least 1: one, or one for each of the {S} sequences")
    return np.array(np.broadcast_to(given, (S,)), np.int64)


def _walk(rng: np.random.Generator, start: Floats, T: Floats, bounds: Ints) -> Ints:
    """Draw the truths, one position of all sequences at a time."""
    lengths = np.diff(bounds)
    # longest sequences first: those that reach position t come first
    begin = bounds[:-1][np.argsort(-lengths, kind="stable")]
    reach = lengths.size - np.searchsorted(np.sort(lengths), np.arange(lengths.max()), side="right")
    u = rng.random(int(bounds[-1]))
    truth = np.empty(u.size, np.int64)
    last = np.cumsum(start)[:-1].searchsorted(u[begin], side="right")
    truth[begin] = last
    cumulative = np.cumsum(T, axis=0)[:-1]
    for t in range(1, reach.size):
        at = begin[: reach[t]] + t
        # the number of steps of the cumulative column that u has passed
        last = (u[at] >= cumulative[:, last[: at.size]]).sum(axis=0)
        truth[at] = last
    return truth


def _draw_labels(
    rng: np.random.Generator,
    model: DawidSkene,
    truth: Ints,
    bounds: Ints,
    per_unit: int | None,
    probability: Any,
    by_token: bool,
) -> Annotations:
    N, M, K = truth.size, len(model.annotators), len(model.classes)
    units = N if by_token else bounds.size - 1
    if per_unit is not None:
        whole("annotators_per_sequence", per_unit)
        unit, annotator = _fixed_degree(rng, units, M, per_unit)
    else:
        p = np.asarray(probability, np.float64)
        if p.shape not in ((), (M,)) or not np.all((p >= 0) & (p <= 1)):
            raise ParameterError(f"label_probability must be one number from 0 to 1, or one for each of {M} annotators")
        unit, annotator = _bernoulli(rng, units, np.broadcast_to(p, (M,)))
    annotator = annotator[np.lexsort((annotator, unit))]
    # the annotators of a unit label all of its tokens
    start = np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=units))])
    of_token = np.arange(N) if by_token else np.repeat(np.arange(units), np.diff(bounds))
    degree = np.diff(start)[of_token]
    indptr = np.concatenate([[0], np.cumsum(degree)])
    who = annotator[np.repeat(start[of_token] - indptr[:-1], degree) + np.arange(indptr[-1])]
    truth_of_label = np.repeat(truth, degree)
    u = rng.random(who.size)
    label = np.zeros(who.size, np.int64)
    cumulative = np.cumsum(model.confusions, axis=1)
    for i in range(K - 1):
        label += u > cumulative[who, i, truth_of_label]
    return Annotations(indptr, who, label, items=Ids.range(N), annotators=model.annotators, classes=model.classes)
