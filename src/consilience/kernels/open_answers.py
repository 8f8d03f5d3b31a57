"""Candidate answers of every item, and the pass over labels that weighs them.

The candidates of item n are the different answers that it was given (and its known answer, if nobody gave that), in
ascending order of their codes: ``answer[first[n]:first[n + 1]]``.  The equations are in
:mod:`consilience.models.open_answers`.  Both loops are linear in the number of labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel

__all__ = ["Candidates", "OpenSums", "UrnTables", "candidates_of", "open_pass"]


class Candidates(NamedTuple):
    """The different answers to each item."""

    first: Ints  #: where the candidates of each item begin, (N + 1,)
    answer: Codes  #: code of each candidate, (C,)
    size: Codes  #: labels with this answer, (C,)
    slot: Codes  #: the candidate of each label, (labels,)
    known: Codes  #: the candidate that is the known answer of each item, or -1, (N,)

    @property
    def item(self) -> Ints:
        """The item of each candidate, (C,)."""
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))


class UrnTables(NamedTuple):
    """Log-probabilities of wrong answers, by counts: they add up."""

    labels: Floats  #: of w wrong labels, (w + 1,)
    sizes: Floats  #: of one wrong answer given j times, (j + 1,)
    kinds: Floats  #: of c different wrong answers, (c + 1,)


class OpenSums(NamedTuple):
    """Sums of one pass over the labels."""

    right: Floats  #: expected right labels of each annotator, (M,)
    at_node: Floats  #: expected labels of each annotator on items of each ease, (M, X)
    urns: UrnTables  #: expected number of times that each entry of the tables was needed
    log_likelihood: float


def candidates_of(indptr: Ints, label: Codes, gold: Codes | None, n_classes: int) -> Candidates:
    """Find the candidates of every item."""
    N, most = indptr.size - 1, label.size + (0 if gold is None else indptr.size)
    known = np.full(N, -1, np.int32) if gold is None else np.array(gold, np.int32)
    first = np.zeros(N + 1, np.int64)
    answer, size, slot = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(label.size, np.int32)
    run = kernel(_candidates, "int64[] int32[] int32[]! int32[]! int64[]! int32[]! int32[]! int32[]!")
    run(indptr, label.astype(np.int32), known, np.full(n_classes, -1, np.int32), first, answer, size, slot)
    return Candidates(first, answer[: first[-1]].copy(), size[: first[-1]].copy(), slot, known)


def _candidates(indptr: Any, label: Any, known: Any, place: Any, first: Any, answer: Any, size: Any, slot: Any) -> None:
    stop = 0
    for n in range(indptr.size - 1):
        begin = stop
        # an answer is new to this item if its place is that of an earlier item
        for i in range(indptr[n], indptr[n + 1] + 1):
            k = label[i] if i < indptr[n + 1] else known[n]
            if k >= 0 and place[k] < begin:
                place[k] = stop
                at = stop
                while at > begin and answer[at - 1] > k:
                    answer[at] = answer[at - 1]
                    at -= 1
                answer[at] = k
                stop += 1
        for c in range(begin, stop):
            place[answer[c]] = c
            size[c] = 0
        for i in range(indptr[n], indptr[n + 1]):
            slot[i] = place[label[i]]
            size[slot[i]] += 1
        if known[n] >= 0:
            known[n] = place[known[n]]
        first[n + 1] = stop


def open_pass(
    indptr: Ints,
    annotator: Codes,
    candidates: Candidates,
    ability: Floats,
    nodes: Floats,
    log_shares: Floats,
    tables: UrnTables,
) -> tuple[Floats, Floats, OpenSums]:
    """Run the E-step.

    Parameters
    ----------
    indptr, annotator
        The labels of item n are by ``annotator[indptr[n]:indptr[n + 1]]``.
    candidates
        Their candidates.
    ability
        Log-odds that annotators are right about an item of average ease, (M,).
    nodes, log_shares
        What the ease of an item adds to these log-odds, and its log-probability, (X,).
    tables
        Log-probabilities of wrong answers.

    Returns
    -------
    Probability of each candidate, (C,); probability that no candidate is right, (N,); and the sums.
    """
    M, X = ability.size, nodes.size
    odds = ability[:, None] + nodes
    wrong = -np.logaddexp(0.0, odds)
    q, none = np.zeros(candidates.answer.size), np.zeros(indptr.size - 1)
    who = annotator.astype(np.int32)
    codes = "int64 int64 int64[] int32[] int64[] int32[] int32[] int32[]"
    tables_in = "(float64[] float64[] float64[])"
    run = kernel(
        _open_pass,
        f"{codes} float64[] float64[,] float64[] float64[] {tables_in} float64[]! float64[]! float64[]! float64[,]! "
        "(float64[]! float64[]! float64[]!)",
        "float64",
    )
    given = candidates.first, candidates.size, candidates.slot, candidates.known

    def work(start: int, stop: int) -> OpenSums:
        sums = np.zeros(M), np.zeros((M, X)), UrnTables(*(np.zeros(len(table)) for table in tables))
        log_likelihood = run(
            start, stop, indptr, who, *given, ability, wrong, nodes, log_shares, tuple(tables), q, none,
            *sums[:2], tuple(sums[2]),
        )  # fmt: skip
        return OpenSums(*sums, log_likelihood)

    parts = blocks.run(work, blocks.cut(indptr, M * X))
    total = OpenSums(
        np.sum([part.right for part in parts], axis=0),
        np.sum([part.at_node for part in parts], axis=0),
        UrnTables(*(np.sum(each, axis=0) for each in zip(*(part.urns for part in parts), strict=True))),
        float(sum(part.log_likelihood for part in parts)),
    )
    return q, none, total


def _open_pass(
    start: Any,
    stop: Any,
    indptr: Any,
    annotator: Any,
    first: Any,
    size: Any,
    slot: Any,
    known: Any,
    ability: Any,
    wrong: Any,
    nodes: Any,
    log_shares: Any,
    tables: Any,
    q: Any,
    none: Any,
    right: Any,
    at_node: Any,
    used: Any,
) -> Any:
    X = nodes.size
    labels, sizes, kinds = tables
    used_labels, used_sizes, used_kinds = used
    base, at_x = np.empty(X), np.empty(X)
    log_likelihood = 0.0
    for n in range(start, stop):
        low, high = indptr[n], indptr[n + 1]
        begin, end = first[n], first[n + 1]
        if begin == end:
            none[n] = 1.0
            continue
        L = high - low
        # all labels wrong:  log Pr(x) + Σ_m log(1 - p_m(x))
        for x in range(X):
            base[x] = log_shares[x]
            for i in range(low, high):
                base[x] += wrong[annotator[i], x]
        for i in range(low, high):
            q[slot[i]] += ability[annotator[i]]
        given, total = 0, 0.0
        for c in range(begin, end):
            given += size[c] > 0
            total += sizes[size[c]]
        # if c is right, its labels have the odds p / (1 - p) = exp(u + σx), and the others come from the urn
        of_none = total + kinds[given] + labels[L] if known[n] < 0 else -np.inf
        top = -np.inf
        for c in range(begin, end):
            if known[n] >= 0 and c != known[n]:
                q[c] = -np.inf
            q[c] += total - sizes[size[c]] + kinds[given - (size[c] > 0)] + labels[L - size[c]]
            for x in range(X):
                top = max(top, q[c] + size[c] * nodes[x] + base[x])
        for x in range(X):
            top = max(top, of_none + base[x])
        whole = 0.0
        for x in range(X):
            at_x[x] = np.exp(of_none + base[x] - top)
            none[n] += at_x[x]
        for c in range(begin, end):
            value = 0.0
            for x in range(X):
                p = np.exp(q[c] + size[c] * nodes[x] + base[x] - top)
                at_x[x] += p
                value += p
            q[c] = value
        for x in range(X):
            whole += at_x[x]
        log_likelihood += top + np.log(whole)
        none[n] /= whole
        used_labels[L] += none[n]
        used_kinds[given] += none[n]
        for c in range(begin, end):
            q[c] /= whole
            used_labels[L - size[c]] += q[c]
            used_kinds[given - (size[c] > 0)] += q[c]
            used_sizes[size[c]] += 1.0 - q[c]
        for i in range(low, high):
            right[annotator[i]] += q[slot[i]]
            for x in range(X):
                at_node[annotator[i], x] += at_x[x] / whole
    return log_likelihood
