"""Vote counts, vote shares, and the M-step sums of taking vote shares for the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel
from consilience.kernels.em import Statistics

__all__ = ["said_counts", "share_parts", "vote_counts", "vote_shares", "vote_statistics"]


def vote_counts(indptr: Ints, label: Codes, n_classes: int) -> Floats:
    """Return the number of votes for each class on each item, (N, K)."""
    counts = np.zeros((indptr.size - 1, n_classes))
    kernel(_count, f"int64[] {label.dtype}[] float64[,]!")(indptr, label, counts)
    return counts


def vote_shares(indptr: Ints, label: Codes, gold: Codes | None, n_classes: int) -> Floats:
    """Return the vote shares of each item, (N, K); gold items at their gold, unlabelled ones uniform."""
    votes = vote_counts(indptr, label, n_classes)
    if gold is not None:
        known = gold >= 0
        votes[known] = np.arange(n_classes) == gold[known, None]
    total = votes.sum(axis=1, keepdims=True)
    votes[total[:, 0] == 0] = 1.0
    votes /= np.where(total == 0, n_classes, total)
    return votes


def vote_statistics(indptr: Ints, annotator: Codes, label: Codes, q: Floats, n_annotators: int) -> Statistics:
    """Return ``counts[m, i, k] = Σ_n q[n, k]`` over m's labels i: the M-step sums of a given posterior q.

    Their log-likelihood is unknown: NaN.
    """
    K = q.shape[1]
    counts = np.zeros((n_annotators * K, K))
    scatter = kernel(_scatter, f"int64[] {annotator.dtype}[] {label.dtype}[] float64[,] float64[,]!")
    scatter(indptr, annotator, label, q, counts)
    unlabelled = np.flatnonzero(np.diff(indptr) == 0)
    class_counts = q.sum(axis=0) - q[unlabelled].sum(axis=0)
    return Statistics(counts.reshape(n_annotators, K, K), class_counts, float("nan"))


def share_parts(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    gold: Codes | None,
    n_annotators: int,
    n_classes: int,
    *,
    share: blocks.Share,
    done: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> dict[blocks.Node, Statistics]:
    """Return the M-step sums of taking vote shares (gold where known) for the posterior, over a share of the blocks.

    The same as :func:`vote_statistics` of :func:`vote_shares`, without an array of items × classes; the parameters are
    those of :class:`~consilience.kernels.em.Sweep`.
    """
    K = n_classes
    known = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
    codes = f"{annotator.dtype}[] {label.dtype}[] int32[]"
    count = kernel(_share, f"int64 int64 int64[] {codes} float64[,]! float64[]!")

    def leaf(first: int, stop: int) -> Statistics:
        counts, class_counts = np.zeros((n_annotators * K, K)), np.zeros(K)
        count(first, stop, indptr, annotator, label, known, counts, class_counts)
        if done:
            done(first, stop)
        return Statistics(counts.reshape(n_annotators, K, K), class_counts, float("nan"))

    return blocks.fold(leaf, share, threads)


def _share(
    first: Any,
    last: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
    gold: Any,
    counts: Any,
    class_counts: Any,
) -> None:
    K = class_counts.size
    q = np.zeros(K)
    for n in range(first, last):
        start, stop = np.uint64(indptr[n]), np.uint64(indptr[n + 1])
        if start == stop:
            continue
        if gold.size > 0 and gold[n] >= 0:
            q[gold[n]] = 1.0
        else:
            one = 1.0 / (stop - start)
            for i in range(start, stop):
                q[label[i]] += one
        for i in range(start, stop):
            r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
            for k in range(K):
                counts[r, k] += q[k]
        for k in range(K):
            class_counts[k] += q[k]
            q[k] = 0.0


def said_counts(annotator: Codes, label: Codes, n_annotators: int, n_classes: int) -> Ints:
    """Return how often each annotator gave each label, (M, K)."""
    M, K = n_annotators, n_classes
    said = np.zeros(M * K, np.int64)
    kernel(_said, f"{annotator.dtype}[] {label.dtype}[] int64 int64[]!")(annotator, label, K, said)
    return said.reshape(M, K)


def _said(annotator: Any, label: Any, K: Any, said: Any) -> None:
    for i in range(label.size):
        said[np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])] += 1


def _count(indptr: Any, label: Any, counts: Any) -> None:
    for n in range(indptr.size - 1):
        for i in range(indptr[n], indptr[n + 1]):
            counts[n, label[i]] += 1.0


def _scatter(indptr: Any, annotator: Any, label: Any, q: Any, counts: Any) -> None:
    K = q.shape[1]
    for n in range(indptr.size - 1):
        for i in range(indptr[n], indptr[n + 1]):
            r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
            for k in range(K):
                counts[r, k] += q[n, k]
