"""Which annotator ticked which option of which item, and the pass over these ticks that weighs the levels.

A candidate is an option of an item.  Those of item n are ``first[n] … first[n + 1] - 1``; every label of the item says
yes or no to each of them.  The cells of an item, label after label, begin at ``start[n]``.  The equations are in
:mod:`consilience.models.multi`.  The loop is linear in the number of cells: labels × options.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel

__all__ = ["LevelSums", "Ticks", "decision_counts", "level_pass", "ticks_of"]


class Ticks(NamedTuple):
    """Candidates of each item, and who ticked them."""

    indptr: Ints  #: where the labels of each item begin, (N + 1,)
    annotator: Codes  #: of each label, (labels,)
    first: Ints  #: where the candidates of each item begin, (N + 1,)
    option: Codes  #: option of each candidate, (C,)
    kind: Codes  #: which distribution of levels a candidate has: its option, or 0 for all, (C,)
    start: Ints  #: where the cells of each item begin, (N + 1,)
    ticked: Codes  #: 1 if ticked, for each cell, label after label
    n_ticks: Ints  #: how many ticked each candidate, (C,)

    @property
    def item(self) -> Ints:
        """The item of each candidate, (C,)."""
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))


class LevelSums(NamedTuple):
    """Sums of one pass over the ticks."""

    said: Floats  #: expected ticks of each annotator by kind and level, (M, G, J)
    asked: Floats  #: expected candidates, ticked or not, (M, G, J)
    log_likelihood: float


def ticks_of(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    sets: tuple[Ints, Codes],
    n_options: int,
    *,
    shared: bool,
    more: tuple[Ints, Ints] | None = None,
) -> Ticks:
    """Find the candidates and who ticked them.

    Parameters
    ----------
    indptr, annotator, label
        The labels, grouped by item.
    sets
        The options of class k are ``sets[1][sets[0][k]:sets[0][k + 1]]``.
    n_options
        O.
    shared
        Whether all options are candidates for every item; otherwise those that were ticked.
    more
        Further candidates: pairs of item and option.
    """
    N, O = indptr.size - 1, n_options  # noqa: E741 - the symbol
    item = np.repeat(np.arange(N), np.diff(indptr))
    size = np.diff(sets[0])[label]
    of_label = np.repeat(np.arange(label.size), size)
    within = np.arange(of_label.size) - np.repeat(np.cumsum(size) - size, size)
    key = item[of_label] * O + sets[1][sets[0][label][of_label] + within]
    if shared:
        known = np.arange(N * O)
    else:
        extra = np.empty(0, np.int64) if more is None else more[0] * O + more[1]
        known = np.unique(np.concatenate([key, extra]))
    first = np.searchsorted(known, np.arange(N + 1) * O) if O else np.zeros(N + 1, np.int64)
    many = np.diff(first)
    place = np.searchsorted(known, key)  # the candidate of each tick
    start = np.concatenate([[0], np.cumsum(np.diff(indptr) * many)])
    row = np.arange(label.size) - indptr[item]  # the place of a label within its item
    ticked = np.zeros(int(start[-1]), np.uint8)
    ticked[(start[item] + row * many[item])[of_label] + place - first[item[of_label]]] = 1
    option = (known % max(O, 1)).astype(np.int32)
    kind = option if shared else np.zeros_like(option)
    n_ticks = np.bincount(place, minlength=known.size)
    return Ticks(indptr, annotator.astype(np.int32), first, option, kind, start, ticked, n_ticks)


def level_pass(
    ticks: Ticks, log_odds: Floats, log_shares: Floats, above: Floats, pull: Floats | None = None
) -> tuple[Floats, LevelSums]:
    """Run the E-step.

    Parameters
    ----------
    ticks
        Candidates and who ticked them.
    log_odds
        Log-odds that an annotator ticks a candidate of a kind and a level, (M, G, J).
    log_shares
        Logarithm of the share of each level among the candidates of a kind, (G, J).
    above, pull
        Share of a level that counts as true, (G, J), and what is added to the log-odds of being true, (C,).

    Returns
    -------
    Probability of each level for each candidate, (C, J), and the sums.
    """
    M, G, J = log_odds.shape
    yes, no = -np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)
    posterior = np.empty((ticks.option.size, J))
    said, asked, total = np.zeros((M, G, J)), np.zeros((M, G, J)), np.zeros(1)
    run = kernel(
        _level_pass,
        "int64[] int32[] int64[] int32[] int64[] uint8[] float64[,,] float64[,,] float64[,] float64[,] float64[] "
        "float64[,]! float64[,,]! float64[,,]! float64[]!",
    )
    run(
        ticks.indptr,
        ticks.annotator,
        ticks.first,
        ticks.kind,
        ticks.start,
        ticks.ticked,
        yes,
        no,
        np.ascontiguousarray(log_shares),
        np.ascontiguousarray(above),
        np.empty(0) if pull is None else pull,
        posterior,
        said,
        asked,
        total,
    )
    return posterior, LevelSums(said, asked, float(total[0]))


def _level_pass(
    indptr: Any,
    annotator: Any,
    first: Any,
    kind: Any,
    start: Any,
    ticked: Any,
    yes: Any,
    no: Any,
    log_shares: Any,
    above: Any,
    pull: Any,
    posterior: Any,
    said: Any,
    asked: Any,
    total: Any,
) -> None:
    J = log_shares.shape[1]
    for n in range(indptr.size - 1):
        many = first[n + 1] - first[n]
        for c in range(first[n], first[n + 1]):
            g = kind[c]
            weight = posterior[c]
            # log Pr(level j) + Σ_labels log Pr(what annotator m said | level j)
            for j in range(J):
                weight[j] = log_shares[g, j]
            if pull.size:
                scale = 0.0
                for j in range(J):
                    weight[j] += pull[c] * above[g, j]
                    scale += np.exp(weight[j])
                scale = np.log(scale)
                for j in range(J):
                    weight[j] -= scale
            cell = start[n] + c - first[n]
            for i in range(indptr[n], indptr[n + 1]):
                m = annotator[i]
                if ticked[cell]:
                    for j in range(J):
                        weight[j] += yes[m, g, j]
                else:
                    for j in range(J):
                        weight[j] += no[m, g, j]
                cell += many
            top = weight[0]
            for j in range(1, J):
                top = max(top, weight[j])
            scale = 0.0
            for j in range(J):
                weight[j] = np.exp(weight[j] - top)
                scale += weight[j]
            total[0] += top + np.log(scale)
            for j in range(J):
                weight[j] /= scale
            cell = start[n] + c - first[n]
            for i in range(indptr[n], indptr[n + 1]):
                m = annotator[i]
                for j in range(J):
                    asked[m, g, j] += weight[j]
                if ticked[cell]:
                    for j in range(J):
                        said[m, g, j] += weight[j]
                cell += many


def decision_counts(ticks: Ticks, probability: Floats, n_annotators: int) -> Floats:
    """Return how often each annotator said no or yes of false and true options, (M, 2, 2): [m, said, truth]."""
    counts = np.zeros((n_annotators, 2, 2))
    run = kernel(_decision_counts, "int64[] int32[] int64[] int64[] uint8[] float64[] float64[,,]!")
    run(ticks.indptr, ticks.annotator, ticks.first, ticks.start, ticks.ticked, probability, counts)
    return counts


def _decision_counts(
    indptr: Any, annotator: Any, first: Any, start: Any, ticked: Any, probability: Any, counts: Any
) -> None:
    for n in range(indptr.size - 1):
        cell = start[n]
        for i in range(indptr[n], indptr[n + 1]):
            for c in range(first[n], first[n + 1]):
                said = ticked[cell]
                counts[annotator[i], said, 1] += probability[c]
                counts[annotator[i], said, 0] += 1.0 - probability[c]
                cell += 1
