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

from typing import Any, NamedTuple

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
    share, offset
        The blocks of sequences to pass over, where others have the rest, and the number of the first; all by default.
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
        *,
        share: blocks.Share | None = None,
        offset: int = 0,
    ) -> None:
        bounds = np.ascontiguousarray(bounds, np.int64)
        gold = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
        owner = np.arange(n_classes, dtype=np.int32) if owner is None else np.ascontiguousarray(owner, np.int32)
        self.tokens = Tokens(bounds, indptr, annotator, symbol, gold, owner)
        self.shape = (n_annotators, n_symbols, n_classes)
        cells = n_annotators * n_symbols * n_classes
        self.share, self.offset = share or blocks.Share.all_of(blocks.cut(indptr[bounds], cells)), offset
        self._blocks = self.share.blocks
        self._prefetch = 16 * cells > em._CACHE
        self._lengths = np.diff(bounds)
        self._spare = blocks.Spare(self._memory)

    def _memory(self) -> tuple[Floats, Floats, Floats]:
        """Make what a thread needs for a block."""
        (M, R, K), longest = self.shape, int(self._lengths.max(initial=0))
        return aligned(M * R, 2 * K), np.empty((longest, K)), np.empty((longest, K))

    def portion(self, first: int, stop: int) -> dict[str, Any]:
        """Give the arguments that make the same pass over some of its blocks, with their own arrays alone."""
        cut = self._blocks[first:stop]
        bounds, indptr, annotator, symbol, gold, owner = self.tokens
        low, high = cut[0][0], cut[-1][1]
        tokens = slice(bounds[low], bounds[high])
        labels = slice(indptr[tokens.start], indptr[tokens.stop])
        return {
            "bounds": bounds[low : high + 1] - tokens.start,
            "indptr": indptr[tokens.start : tokens.stop + 1] - labels.start,
            "annotator": annotator[labels],
            "symbol": symbol[labels],
            "gold": gold[tokens] if gold.size else None,
            "owner": owner,
            **dict(zip(("n_annotators", "n_symbols", "n_classes"), self.shape, strict=True)),
            "share": blocks.Share([(a - low, b - low) for a, b in cut], self.share.first + first, self.share.n),
            "offset": self.offset + low,
        }

    def __call__(self, start: Floats, transitions: Floats, emissions: Floats) -> ChainStatistics:
        """Run the E-step under these parameters and give the sums that the M-step needs.

        Columns of ``transitions`` and ``start`` sum to one and may hold zeros; weights above one make the pass slow.
        """
        return blocks.total(self.parts(start, transitions, emissions), (0, self.share.n))

    def parts(self, start: Floats, transitions: Floats, emissions: Floats) -> dict[blocks.Node, ChainStatistics]:
        """Give the sums over this share of the blocks, to be added to those of others."""
        if self._in_numpy():
            from consilience.kernels import chains_numpy

            return {(0, 1): chains_numpy.statistics(self.tokens, Chain(start, transitions, emissions))}
        return self._sweep(start, transitions, emissions, np.empty((0, 0)))

    def posterior(self, start: Floats, transitions: Floats, emissions: Floats) -> tuple[Floats, float]:
        """Give the posterior of every token (N, K) and the log-likelihood under these parameters."""
        if self._in_numpy():
            from consilience.kernels import chains_numpy

            return chains_numpy.posterior(self.tokens, Chain(start, transitions, emissions))
        out = np.zeros((self.tokens.indptr.size - 1, self.shape[2]))
        parts = self._sweep(start, transitions, emissions, out)
        return out, blocks.total(parts, (0, self.share.n)).log_likelihood

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
            raise impossible_sequence(self.offset + impossible)
        return path

    def _in_numpy(self) -> bool:
        K, S = self.shape[2], self._lengths.size
        small = max(self.tokens.symbol.size, self.tokens.indptr.size - 1) < em.SMALL and S * K * K <= _LARGEST_STEP
        return bool(small and self.share.n == 1 and self._lengths.max(initial=0) <= LONGEST_IN_NUMPY)

    def _sweep(
        self, start: Floats, transitions: Floats, emissions: Floats, out: Floats
    ) -> dict[blocks.Node, ChainStatistics]:
        from consilience.kernels import chains_scaled

        M, R, K = self.shape
        bounds, indptr, annotator, symbol, gold, owner = self.tokens
        run = chains_scaled.kernel(K, annotator.dtype.name, symbol.dtype.name, self._prefetch)
        start, transitions = np.ascontiguousarray(start, float), np.ascontiguousarray(transitions, float)
        emissions, onward = emissions.reshape(M * R, K), np.ascontiguousarray(transitions.T)
        possible = np.r_[start[start > 0], transitions[transitions > 0]]
        doubtful = bool(possible.min(initial=1.0) < chains_scaled.LEAST_TRANSITION)
        redo = np.zeros(self._lengths.size, np.uint8)
        if emissions.max(initial=0.0) > HEAVIEST:
            redo[:] = 1

        def leaf(first: int, stop: int) -> ChainStatistics:
            with self._spare.one() as (table, alpha, b):
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
                if redo[first:stop].any():
                    from consilience.kernels.chains_log import sweep

                    again = first + np.flatnonzero(redo[first:stop])
                    impossible = sweep(again, self.tokens, R, start, transitions, table, alpha, b, out, pairs, sums)
                    if impossible >= 0:
                        raise impossible_sequence(self.offset + impossible)
                counts = table[:, K:].copy()
            likelihood = float(sums[2 * K])
            return ChainStatistics(counts.reshape(self.shape), sums[:K], sums[K : 2 * K], pairs, likelihood)

        return blocks.fold(leaf, self.share)


def impossible_sequence(sequence: int) -> DataError:
    """Say that every path through a sequence has probability zero, and what to do."""
    return DataError(
        f"sequence {sequence} (counted from 0) is impossible: every course of its truths has probability zero. Its "
        "known truths contradict the zeros of start and transitions: correct or drop them, or allow those transitions"
    )
