"""One sweep over chains of tokens: forward, backward, and the sums that the M-step of Baum-Welch needs.

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

A symbol is a label, or a label in a context (R may differ from K).

A pass works with scaled probabilities (:mod:`consilience.kernels.chains_scaled`).  Sequences for which these leave the
range of floating-point numbers are repeated in logarithms (:mod:`consilience.kernels.chains_log`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels import blocks, chains_log, chains_scaled, em
from consilience.kernels._arrays import Codes, Floats, Ints, aligned, code_dtype

__all__ = ["ChainStatistics", "ChainSweep", "Tokens"]

#: Products of larger weights may overflow: all sequences are then done in logarithms.
HEAVIEST = 1.0 + 1e-6


class Tokens(NamedTuple):
    """The labels of every token, and the tokens of every sequence."""

    bounds: Ints  #: the tokens of sequence s are ``bounds[s]`` up to ``bounds[s + 1]``
    indptr: Ints  #: the labels of token n are ``indptr[n]`` up to ``indptr[n + 1]``
    annotator: Codes
    symbol: Codes
    gold: Codes  #: known class of each token, -1 where unknown; empty where none is
    owner: Codes  #: the class that each hidden state belongs to, as ``gold`` names it, (K,)


class ChainStatistics(NamedTuple):
    """The sums of one sweep; those of disjoint sets of sequences add up."""

    counts: Floats  #: expected number of times that annotator m gave symbol r on a token of class k, (M, R, K)
    class_counts: Floats  #: expected number of tokens of each class, (K,)
    starts: Floats  #: expected number of first tokens of each class, (K,)
    pairs: Floats  #: ``pairs[i, k]``: expected number of neighbours of which the first is k and the second i, (K, K)
    log_likelihood: float  #: log-probability of all labels (and of the gold) under the parameters


class ChainSweep:
    """Forward-backward over one set of sequences, with the memory that every pass reuses.

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
        The blocks of sequences to pass over, if other processes have the rest, and the number of the first sequence.
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
        self._prefetch = 16 * cells > em._CACHE
        self._lengths = np.diff(bounds)
        self._spare = blocks.Spare(self._memory)

    def _memory(self) -> tuple[Floats, Floats, Floats]:
        """Allocate what a thread needs for a block: weights and counts, α, b."""
        (M, R, K), longest = self.shape, int(self._lengths.max(initial=0))
        return aligned(M * R, 2 * K), np.empty((longest, K)), np.empty((longest, K))

    def portion(self, first: int, stop: int) -> dict[str, Any]:
        """Return the arguments that make the same pass over some of its blocks, with only their part of the arrays."""
        cut = self.share.blocks[first:stop]
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
        """Run the E-step under these parameters and return the sums that the M-step needs.

        ``start`` and the columns of ``transitions`` sum to one and may hold zeros; weights above one make it slow.
        """
        return blocks.total(self.parts(start, transitions, emissions), (0, self.share.n))

    def parts(self, start: Floats, transitions: Floats, emissions: Floats) -> dict[blocks.Node, ChainStatistics]:
        """Return the sums over this share of the blocks, to be added to those of others."""
        return self._sweep(start, transitions, emissions, np.empty((0, 0)))

    def posterior(self, start: Floats, transitions: Floats, emissions: Floats) -> tuple[Floats, float]:
        """Return the posterior of every token (N, K) and the log-likelihood under these parameters."""
        out = np.zeros((self.tokens.indptr.size - 1, self.shape[2]))
        parts = self._sweep(start, transitions, emissions, out)
        return out, blocks.total(parts, (0, self.share.n)).log_likelihood

    def decode(self, start: Floats, transitions: Floats, emissions: Floats) -> Codes:
        """Return the most probable path through each sequence (N,), ties towards the lower class."""
        K, pointer = self.shape[2], code_dtype(self.shape[2])
        kernel = chains_log.decode_kernel(self._types(), pointer.name)
        model = *_logarithms(start, transitions), np.log(np.maximum(emissions, em.FLOOR)).reshape(-1, K)
        path = np.empty(self.tokens.indptr.size - 1, np.int32)

        def work(first: int, stop: int) -> int:
            longest = int(self._lengths[first:stop].max(initial=0))
            return int(kernel(first, stop, self._labels(), model, np.empty((longest, K), pointer), path))

        for impossible in blocks.run(work, self.share.blocks):
            _check(impossible, self.offset)
        return path

    def _labels(self) -> tuple[Any, ...]:
        """Return the arrays that every kernel takes."""
        bounds, indptr, annotator, symbol, gold, owner = self.tokens
        return bounds, indptr, annotator, symbol, np.uint64(self.shape[1]), gold, owner

    def _types(self) -> str:
        """Return the types of these arrays."""
        annotator, symbol = self.tokens.annotator.dtype.name, self.tokens.symbol.dtype.name
        return f"(int64[] int64[] {annotator}[] {symbol}[] uint64 int32[] int32[])"

    def _sweep(
        self, start: Floats, transitions: Floats, emissions: Floats, out: Floats
    ) -> dict[blocks.Node, ChainStatistics]:
        M, R, K = self.shape
        run = chains_scaled.kernel(K, self._types(), self._prefetch)
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
                if not redo[first:stop].all():
                    model = start, onward, transitions, doubtful
                    run(first, stop, self._labels(), *model, table, alpha, b, out, pairs, sums, redo)
                pairs = np.multiply(transitions, pairs.T, out=np.zeros((K, K)), where=transitions > 0.0)
                if redo[first:stop].any():
                    again = first + np.flatnonzero(redo[first:stop])
                    in_logarithms = chains_log.sweep_kernel(self._types())
                    logs = *_logarithms(start, transitions), np.log(table[:, :K])
                    _check(in_logarithms(again, self._labels(), logs, table, alpha, b, out, pairs, sums), self.offset)
                counts = table[:, K:].copy()
            likelihood = float(sums[2 * K])
            return ChainStatistics(counts.reshape(self.shape), sums[:K], sums[K : 2 * K], pairs, likelihood)

        return blocks.fold(leaf, self.share)


def _logarithms(start: Floats, transitions: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):  # log 0 is -inf
        return np.log(np.ascontiguousarray(start)), np.log(np.ascontiguousarray(transitions))


def _check(impossible: int, offset: int) -> None:
    """Raise if every path through a sequence, given by its number, has probability zero; -1 is none."""
    if impossible >= 0:
        raise DataError(
            f"sequence {offset + impossible} (counted from 0) is impossible: every course of its truths has "
            "probability zero. Its known truths contradict the zeros of start and transitions: correct or drop them, "
            "or allow those transitions"
        )
