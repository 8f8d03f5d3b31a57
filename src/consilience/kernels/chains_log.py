"""Forward-backward in logarithms, where nothing underflows, and the most probable path (Viterbi).

The equations are those of :mod:`consilience.kernels.chains`.  log α_n is kept less the logarithm of its sum, log β_n
less its maximum, so that numbers stay near zero however long the sequence is; q_n and ξ_n are normalised by

    z_n  =  Σ_k α_n(k) β_n(k)                                                           (E.9)

The path maximises the joint probability of truths and labels:

    δ_1(k)  =  log start(k) + log b_1(k),    δ_n+1(i)  =  log b_n+1(i) + max_k (log T(i, k) + δ_n(k))

and of equally good classes the lower is taken.  Both kernels return the first impossible sequence, or -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels._compile import kernel

__all__ = ["decode_kernel", "sweep_kernel"]

#: Types of the logarithms of start, transitions and emissions.
_MODEL = "(float64[] float64[,] float64[,])"


def _log_weights(n: Any, labels: Any, log_table: Any, weights: Any) -> None:
    """Write log b_n; all classes but a known one are impossible."""
    _, indptr, annotator, symbol, n_symbols, gold, owner = labels
    K = weights.size
    for k in range(K):
        weights[k] = 0.0
    for label in range(indptr[n], indptr[n + 1]):
        r = np.uint64(annotator[label]) * n_symbols + np.uint64(symbol[label])
        for k in range(K):
            weights[k] += log_table[r, k]
    if gold.size > 0 and gold[n] >= 0:
        for k in range(K):
            if owner[k] != gold[n]:
                weights[k] = -np.inf


def _log_sum(terms: Any) -> Any:
    """Return log Σ exp(terms), -inf if all terms are."""
    top = terms.max()
    if top == -np.inf:
        return top
    total = 0.0
    for term in terms:
        total += np.exp(term - top)
    return top + np.log(total)


def _log_chains(
    sequences: Any, labels: Any, model: Any, table: Any, alpha: Any, b: Any, out: Any, pairs: Any, sums: Any
) -> Any:
    bounds, indptr, annotator, symbol, n_symbols, _, _ = labels
    log_start, log_transitions, log_table = model
    K = log_start.size
    beta, ahead, terms = np.empty(K), np.empty(K), np.empty(K)
    for sequence in sequences:
        begin, length = bounds[sequence], bounds[sequence + 1] - bounds[sequence]
        for row in range(length):
            _log_weights(begin + row, labels, log_table, b[row])
            for i in range(K):
                if row == 0:
                    alpha[row, i] = log_start[i] + b[row, i]
                else:
                    for k in range(K):
                        terms[k] = log_transitions[i, k] + alpha[row - 1, k]
                    alpha[row, i] = _log_sum(terms) + b[row, i]
            scale = _log_sum(alpha[row])
            if not scale > -np.inf:
                return sequence
            sums[2 * K] += scale
            for k in range(K):
                alpha[row, k] -= scale
        for row in range(length - 1, -1, -1):
            for k in range(K):
                beta[k] = 0.0
                if row < length - 1:
                    for i in range(K):
                        terms[i] = log_transitions[i, k] + ahead[i]
                    beta[k] = _log_sum(terms)
            for k in range(K):
                terms[k] = alpha[row, k] + beta[k]
            z = _log_sum(terms)
            if row < length - 1:
                for i in range(K):
                    for k in range(K):
                        pairs[i, k] += np.exp(alpha[row, k] + log_transitions[i, k] + ahead[i] - z)
            for k in range(K):
                terms[k] = np.exp(terms[k] - z)
                sums[k] += terms[k]
                if row == 0:
                    sums[K + k] += terms[k]
                if out.size > 0:
                    out[begin + row, k] = terms[k]
            for label in range(indptr[begin + row], indptr[begin + row + 1]):
                r = np.uint64(annotator[label]) * n_symbols + np.uint64(symbol[label])
                for k in range(K):
                    table[r, K + k] += terms[k]
            top = beta.max()
            for k in range(K):
                ahead[k] = beta[k] - top + b[row, k]
    return -1


def _log_paths(first: Any, stop: Any, labels: Any, model: Any, pointer: Any, path: Any) -> Any:
    bounds = labels[0]
    log_start, log_transitions, log_table = model
    K = log_start.size
    score, before, weights = np.empty(K), np.empty(K), np.empty(K)
    for sequence in range(first, stop):
        begin, length = bounds[sequence], bounds[sequence + 1] - bounds[sequence]
        for row in range(length):
            _log_weights(begin + row, labels, log_table, weights)
            for i in range(K):
                best, chosen = log_start[i], 0
                if row > 0:
                    best = log_transitions[i, 0] + before[0]
                    for k in range(1, K):
                        if log_transitions[i, k] + before[k] > best:
                            best, chosen = log_transitions[i, k] + before[k], k
                score[i] = best + weights[i]
                pointer[row, i] = chosen
            top = score.max()
            if not top > -np.inf:
                return sequence
            for k in range(K):
                before[k] = score[k] - top
        if length > 0:
            path[begin + length - 1] = before.argmax()
        for row in range(length - 1, 0, -1):
            path[begin + row - 1] = pointer[row, path[begin + row]]
    return -1


def sweep_kernel(labels: str) -> Callable[..., Any]:
    """Compile the sweep; it adds to ``table[:, K:]``, ``pairs[i, k]`` and ``sums``, and writes ``out`` unless empty.

    ``alpha`` and ``b`` are scratch as long as the longest of the sequences; ``labels`` is the type of the labels.
    """
    sums = "float64[,]! float64[,]! float64[,]! float64[,]! float64[,]! float64[]!"
    return kernel(_log_chains, f"int64[] {labels} {_MODEL} {sums}", "int64", (_log_weights, _log_sum))


def decode_kernel(labels: str, pointer: str) -> Callable[..., Any]:
    """Compile the search for the best path, which is written to ``path``."""
    results = f"{pointer}[,]! int32[]!"
    return kernel(_log_paths, f"int64 int64 {labels} {_MODEL} {results}", "int64", (_log_weights,))
