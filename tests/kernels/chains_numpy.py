"""An independent oracle: the sweep of :mod:`consilience.kernels.chains` and the best path in numpy and in logarithms.

It shares no arithmetic with the compiled kernels.  Sequences are taken side by side, one position after the other; in
order of falling length, those that reach position t are the first ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.chains import ChainStatistics, ChainSweep, Tokens
from consilience.kernels.em import FLOOR


class Chain(NamedTuple):
    start: Floats
    transitions: Floats
    emissions: Floats


class NumpySweep:
    """The calls of a :class:`ChainSweep`, answered by this module."""

    def __init__(self, sweep: ChainSweep) -> None:
        self.tokens = sweep.tokens

    def __call__(self, *model: Floats) -> ChainStatistics:
        return statistics(self.tokens, Chain(*model))

    def posterior(self, *model: Floats) -> tuple[Floats, float]:
        q, _, log_likelihood = _forward_backward(self.tokens, Chain(*model))
        return q, log_likelihood

    def decode(self, *model: Floats) -> Codes:
        return decode(self.tokens, Chain(*model))


def statistics(tokens: Tokens, chain: Chain) -> ChainStatistics:
    """Return the sums that the M-step needs."""
    q, pairs, log_likelihood = _forward_backward(tokens, chain)
    M, R, K = chain.emissions.shape
    token, cell = _places(tokens, R)
    counts = np.empty((M * R, K))
    for k in range(K):
        counts[:, k] = np.bincount(cell, q[token, k], M * R)
    starts = q[tokens.bounds[:-1][np.diff(tokens.bounds) > 0]].sum(axis=0)
    return ChainStatistics(counts.reshape(M, R, K), q.sum(axis=0), starts, pairs, log_likelihood)


def decode(tokens: Tokens, chain: Chain) -> Codes:
    """Return the most probable path (N,)."""
    log_start, log_transitions = _logarithms(chain.start, chain.transitions)
    b = _log_weights(tokens, chain.emissions)
    order = _Order.of(tokens.bounds)
    path, pointer = np.empty(b.shape[0], np.int32), np.zeros(b.shape, np.int32)
    score = np.empty((order.begin.size, b.shape[1]))
    impossible = []
    for t, reach in enumerate(order.reach):
        now = order.begin[:reach] + t
        if t == 0:
            score[:reach] = log_start + b[now]
        else:
            through = log_transitions + score[:reach, None, :]
            pointer[now] = through.argmax(axis=2)
            score[:reach] = through.max(axis=2) + b[now]
        top = score[:reach].max(axis=1)
        impossible += order.sequence[:reach][np.isneginf(top)].tolist()
        score[:reach] -= np.where(np.isneginf(top), 0.0, top)[:, None]
    chosen = score.argmax(axis=1)
    for t in range(len(order.reach) - 1, -1, -1):
        now = order.begin[: order.reach[t]] + t
        path[now] = chosen[: now.size]
        chosen[: now.size] = pointer[now, chosen[: now.size]]
    check(impossible)
    return path


def check(impossible: list[int]) -> None:
    if impossible:
        raise DataError(f"sequence {min(impossible)} is impossible: correct or drop them")


def _logarithms(start: Floats, transitions: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        return np.log(start), np.log(transitions)


class _Order(NamedTuple):
    """Sequences in order of falling length."""

    sequence: Ints
    begin: Ints
    reach: list[int]  #: how many have a token at each position

    @classmethod
    def of(cls, bounds: Ints) -> _Order:
        lengths = np.diff(bounds)
        sequence = np.argsort(-lengths, kind="stable")
        sequence = sequence[lengths[sequence] > 0]
        ends_at = np.bincount(lengths[sequence], minlength=1)
        return cls(sequence, bounds[sequence], (sequence.size - np.cumsum(ends_at)[:-1]).tolist())


def _places(tokens: Tokens, R: int) -> tuple[Ints, Ints]:
    """Token of each label, and its row in the (M·R, K) table of emissions."""
    token = np.repeat(np.arange(tokens.indptr.size - 1), np.diff(tokens.indptr))
    return token, tokens.annotator.astype(np.int64) * R + tokens.symbol


def _log_weights(tokens: Tokens, emissions: Floats) -> Floats:
    """Return log b (N, K): log b_n(k) = Σ log e_m(r, k), -inf where another class is known."""
    N, (_, R, K) = tokens.indptr.size - 1, emissions.shape
    token, cell = _places(tokens, R)
    log_emissions = np.log(np.maximum(emissions, FLOOR)).reshape(-1, K)
    b: Floats = np.stack([np.bincount(token, log_emissions[cell, k], N) for k in range(K)], axis=1).astype(float)
    if tokens.gold.size:
        gold = tokens.gold[:, None]
        b[(gold >= 0) & (gold != tokens.owner)] = -np.inf
    return b


def _log_sum(terms: Floats) -> Floats:
    """Return log Σ exp over the last axis, -inf where all terms are."""
    top = terms.max(axis=-1)
    shift = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        total: Floats = shift + np.log(np.exp(terms - shift[..., None]).sum(axis=-1))
    return total


def _log_product(matrix: Floats, terms: Floats) -> Floats:
    """Return log Σ_k matrix[i, k] exp(terms[:, k]) for each i; with few exponentials where nothing can be lost."""
    top = terms.max(axis=1, keepdims=True)
    terms = terms - np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        if np.any((terms < -300.0) & ~np.isneginf(terms)) or matrix[matrix > 0.0].min(initial=1.0) < 1e-150:
            slow: Floats = _log_sum(np.log(matrix) + terms[:, None, :]) + top
            return slow
        product: Floats = np.log(np.einsum("ik,sk->si", matrix, np.exp(terms))) + top
    return product


def _forward_backward(tokens: Tokens, chain: Chain) -> tuple[Floats, Floats, float]:
    """Return q (N, K), Σ ξ as ``pairs[i, k]`` and the log-likelihood."""
    transitions = chain.transitions
    log_start, log_transitions = _logarithms(chain.start, transitions)
    b = _log_weights(tokens, chain.emissions)
    order = _Order.of(tokens.bounds)
    alpha, q, pairs = np.empty_like(b), np.empty_like(b), np.zeros_like(log_transitions)
    log_likelihood, impossible = 0.0, []
    for t, reach in enumerate(order.reach):
        now = order.begin[:reach] + t
        # (E.4), (E.5), divided by its sum
        onward = log_start if t == 0 else _log_product(transitions, alpha[now - 1])
        alpha[now] = onward + b[now]
        scale = _log_sum(alpha[now])
        impossible += order.sequence[:reach][np.isneginf(scale)].tolist()
        if impossible:
            continue
        alpha[now] -= scale[:, None]
        log_likelihood += float(scale.sum())
    check(impossible)
    beyond: Floats = np.empty((0, b.shape[1]))  # β of the next position
    for t in range(len(order.reach) - 1, -1, -1):
        now = order.begin[: order.reach[t]] + t
        going_on = order.reach[t + 1] if t + 1 < len(order.reach) else 0
        beta = np.zeros((now.size, b.shape[1]))
        if going_on:  # (E.8): β_n(k) = Σ_i T(i, k) b_n+1(i) β_n+1(i)
            beyond += b[now[:going_on] + 1]
            beta[:going_on] = _log_product(transitions.T, beyond)
        joint = alpha[now] + beta
        z = _log_sum(joint)
        q[now] = np.exp(joint - z[:, None])
        if going_on:  # (E.11)
            here, there = alpha[now[:going_on]], beyond - z[:going_on, None]
            if there.max() < 300.0:  # what exp(here) loses is far too small to count
                pairs += transitions * np.einsum("si,sk->ik", np.exp(there), np.exp(here))
            else:
                pairs += np.exp(log_transitions + there[:, :, None] + here[:, None, :]).sum(axis=0)
        beyond = beta - beta.max(axis=1, keepdims=True)
    return q, pairs, log_likelihood
