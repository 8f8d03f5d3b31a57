"""One sweep over chains of tokens: forward, backward, and the sums that the M-step of Baum and Welch needs.

The truths of one sequence are a Markov chain and every label depends on the truth of its own token alone (thesis,
ch. 4 and Appendix E, with the errata of (E.5), (E.8) and (E.11)).  With ``T(i, k) = Pr(next is i | now is k)``:

    b_n(k)       =  ∏ e_m(r, k)  over the labels (m, r) of token n                      (E.1)
    α_1(k)       =  start(k) b_1(k),    α_n+1(i)  =  b_n+1(i) Σ_k T(i, k) α_n(k)        (E.4), (E.5)
    β_N(k)       =  1,                  β_n(k)    =  Σ_i T(i, k) b_n+1(i) β_n+1(i)      (E.7), (E.8)
    q_n(k)       ∝  α_n(k) β_n(k)                                                       (E.10)
    ξ_n(k, i)    ∝  α_n(k) T(i, k) b_n+1(i) β_n+1(i)                                    (E.11)

========== =================================================== ================
symbol     name                                                shape
========== =================================================== ================
..         ``start``                                           (K,)
T          ``transitions``, columns sum to one                 (K, K)
e_m        ``emissions[m]``, weight of symbol r under truth k  (M, R, K)
Σ q        ``counts``, ``class_counts``, ``starts``            (M, R, K), (K,)
Σ ξ        ``pairs[i, k]``: now k, next i                      (K, K)
========== =================================================== ================

A symbol is a label, or whatever else the caller's annotators emit (R may differ from K).

The pass works with scaled probabilities (:mod:`consilience.kernels.chains_scaled`).  A sequence in which a number that
matters would leave their range is done again in logarithms (:mod:`consilience.kernels.chains_log`), and data so small
that loading numba would take longer than the fit in numpy (:mod:`consilience.kernels.chains_numpy`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels import blocks, em
from consilience.kernels._arrays import Codes, Floats, Ints, aligned

__all__ = ["Chain", "ChainStatistics", "ChainSweep", "Tokens"]

#: A numpy sweep takes one step for each position of the longest sequence; longer ones are worth compiling for.
LONGEST_IN_NUMPY = 256
#: Numbers in such a step, one for each sequence and pair of classes.
_LARGEST_STEP = 1 << 22
#: Products of heavier weights may overflow: all sequences are done in logarithms.
HEAVIEST = 1.0 + 1e-6


class Tokens(NamedTuple):
    """The labels of every token, and the tokens of every sequence."""

    bounds: Ints  #: the tokens of sequence s are ``bounds[s]`` up to ``bounds[s + 1]``
    indptr: Ints  #: the labels of token n are ``indptr[n]`` up to ``indptr[n + 1]``
    annotator: Codes
    symbol: Codes
    gold: Codes  #: known class of each token, -1 where unknown; empty where none is
    owner: Codes  #: the class that each hidden state belongs to, as ``gold`` names it, (K,)


class Chain(NamedTuple):
    """The parameters of a sweep."""

    start: Floats  #: (K,)
    transitions: Floats  #: (K, K), columns sum to one
    emissions: Floats  #: (M, R, K)


class ChainStatistics(NamedTuple):
    """What one sweep leaves behind; statistics of disjoint sets of sequences add up."""

    counts: Floats  #: expected number of times that annotator m gave symbol r on a token of class k, (M, R, K)
    class_counts: Floats  #: expected number of tokens of each class, (K,)
    starts: Floats  #: expected number of first tokens of each class, (K,)
    pairs: Floats  #: ``pairs[i, k]``: expected number of neighbours of which the first is k and the second i, (K, K)
    log_likelihood: float  #: log-probability of all labels (and of the gold) under the parameters


class ChainSweep:
    """Forward-backward over one set of sequences, ready to be run again and again.

    Holds the memory that every pass needs.

    Parameters
    ----------
    bounds
        The tokens of sequence s are ``bounds[s]`` up to ``bounds[s + 1]``.
    indptr, annotator, symbol
        The labels of token n are ``annotator[indptr[n]:indptr[n + 1]]`` and likewise ``symbol``.
    gold
        Known class of each token, -1 where unknown; None where none is known.
    n_annotators, n_symbols, n_classes
        M, R and K.
    owner
        Where K counts hidden states: the class that each belongs to, as ``gold`` names it, (K,).
    """

    def __init__(
        self,
        bounds: Ints,
        indptr: Ints,
        annotator: Codes,
        symbol: Codes,
        gold: Codes | None,
        n_annotators: int,
        n_symbols: int,
        n_classes: int,
        owner: Codes | None = None,
    ) -> None:
        bounds = np.ascontiguousarray(bounds, np.int64)
        gold = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
        owner = np.arange(n_classes, dtype=np.int32) if owner is None else np.ascontiguousarray(owner, np.int32)
        self.tokens = Tokens(bounds, indptr, annotator, symbol, gold, owner)
        self.shape = (n_annotators, n_symbols, n_classes)
        cells = n_annotators * n_symbols * n_classes
        self._blocks = blocks.cut(indptr[bounds], cells)
        self._prefetch = 16 * cells > em._CACHE
        self._lengths = np.diff(bounds)
        self._memory: list[tuple[Floats, Floats, Floats]] = []

    def __call__(self, start: Floats, transitions: Floats, emissions: Floats) -> ChainStatistics:
        """Run the E-step under these parameters and give the sums that the M-step needs.

        Columns of ``transitions`` and ``start`` sum to one and may hold zeros; weights above one make the pass slow.
        """
        if self._in_numpy():
            from consilience.kernels import chains_numpy

            return chains_numpy.statistics(self.tokens, Chain(start, transitions, emissions))
        return self._sweep(start, transitions, emissions, np.empty((0, 0)))

    def posterior(self, start: Floats, transitions: Floats, emissions: Floats) -> tuple[Floats, float]:
        """Give the posterior of every token (N, K) and the log-likelihood under these parameters."""
        if self._in_numpy():
            from consilience.kernels import chains_numpy

            return chains_numpy.posterior(self.tokens, Chain(start, transitions, emissions))
        out = np.zeros((self.tokens.indptr.size - 1, self.shape[2]))
        return out, self._sweep(start, transitions, emissions, out).log_likelihood

    def decode(self, start: Floats, transitions: Floats, emissions: Floats) -> Codes:
        """Give the most probable classes of each sequence as a whole (N,), ties towards the lower class."""
        chain = Chain(start, transitions, emissions)
        if self._in_numpy():
            from consilience.kernels import chains_numpy

            path, impossible = chains_numpy.decode(self.tokens, chain)
        else:
            from consilience.kernels.chains_log import decode

            path, impossible = decode(self.tokens, chain, self._blocks)
        if impossible >= 0:
            raise impossible_sequence(impossible)
        return path

    def _in_numpy(self) -> bool:
        K, S = self.shape[2], self._lengths.size
        small = max(self.tokens.symbol.size, self.tokens.indptr.size - 1) < em.SMALL and S * K * K <= _LARGEST_STEP
        return bool(small and self._lengths.max(initial=0) <= LONGEST_IN_NUMPY)

    def _sweep(self, start: Floats, transitions: Floats, emissions: Floats, out: Floats) -> ChainStatistics:
        from consilience.kernels import chains_scaled

        M, R, K = self.shape
        bounds, indptr, annotator, symbol, gold, owner = self.tokens
        run = chains_scaled.kernel(K, annotator.dtype.name, symbol.dtype.name, self._prefetch)
        if not self._memory:
            longest = [int(self._lengths[first:stop].max(initial=0)) for first, stop in self._blocks]
            self._memory = [(aligned(M * R, 2 * K), np.empty((L, K)), np.empty((L, K))) for L in longest]
        start, transitions = np.ascontiguousarray(start, float), np.ascontiguousarray(transitions, float)
        emissions, onward = emissions.reshape(M * R, K), np.ascontiguousarray(transitions.T)
        possible = np.r_[start[start > 0], transitions[transitions > 0]]
        doubtful = bool(possible.min(initial=1.0) < chains_scaled.LEAST_TRANSITION)
        redo = np.zeros(self._lengths.size, np.uint8)
        if emissions.max(initial=0.0) > HEAVIEST:
            redo[:] = 1

        def work(job: int, _: int) -> tuple[Floats, Floats, int]:
            first, stop = self._blocks[job]
            table, alpha, b = self._memory[job]
            np.maximum(emissions, em.FLOOR, out=table[:, :K])
            table[:, K:] = 0.0
            sums, pairs = np.zeros(2 * K + 1), np.zeros((K, K))
            labels = annotator, symbol, np.uint64(R), gold, owner
            if not redo[first:stop].all():
                run(
                    first, stop, bounds, indptr, *labels, start, onward, transitions, doubtful, table,
                    alpha, b, out, pairs, sums, redo,
                )  # fmt: skip
            pairs = np.multiply(transitions, pairs.T, out=np.zeros((K, K)), where=transitions > 0.0)
            impossible = -1
            if redo[first:stop].any():
                from consilience.kernels.chains_log import sweep

                again = first + np.flatnonzero(redo[first:stop])
                impossible = sweep(again, self.tokens, R, start, transitions, table, alpha, b, out, pairs, sums)
            return sums, pairs, impossible

        results = blocks.run(work, [(job, job + 1) for job in range(len(self._blocks))])
        for _, _, impossible in results:
            if impossible >= 0:
                raise impossible_sequence(impossible)
        sums = np.sum([result[0] for result in results], axis=0)
        pairs = np.sum([result[1] for result in results], axis=0)
        counts = self._memory[0][0][:, K:].copy()
        for table, _, _ in self._memory[1:]:
            counts += table[:, K:]
        return ChainStatistics(counts.reshape(self.shape), sums[:K], sums[K : 2 * K], pairs, float(sums[2 * K]))


def impossible_sequence(sequence: int) -> DataError:
    """Say that every path through a sequence has probability zero, and what to do."""
    return DataError(
        f"sequence {sequence} (counted from 0) is impossible: every course of its truths has probability zero. Its "
        "known truths contradict the zeros of start and transitions: correct or drop them, or allow those transitions"
    )
