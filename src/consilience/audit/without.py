"""The consensus without each judge: which labels change, and what that does to the error on known answers."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes, Floats
from consilience.runs.consensus import Consensus

__all__ = ["Without", "without_each"]


class Without(NamedTuple):
    """One entry for each judge."""

    changed: Floats  #: share of the labels that change
    more_errors: Floats  #: change of the error on known answers; NaN without any
    low: Floats  #: its 95 % interval, from the differences item by item
    high: Floats


def without_each(consensus: Consensus, truth: Codes) -> Without:
    """Fit the consensus again without each judge, by the same method and seed.

    Parameters
    ----------
    consensus
        A consensus that has seen no known answers.
    truth
        Codes of the known answers, -1 where unknown, (N,).
    """
    from consilience.api import aggregate

    a = consensus.annotations
    assert a is not None
    made = np.full((4, a.n_annotators), np.nan)
    for m in range(a.n_annotators if a.n_annotators > 1 else 0):
        rest = a.select_annotators(np.delete(np.arange(a.n_annotators), m))
        there = rest.labels_per_item > 0
        with warnings.catch_warnings():  # about a panel that nobody uses
            warnings.simplefilter("ignore", ConsilienceWarning)
            run = aggregate(rest, consensus.run["method"], seed=consensus.run["seed"], answers="nominal")
        now, before = run.choice.best[there], consensus.choice.best[there]
        made[0, m] = np.mean(now != before)
        known = truth[there] >= 0
        if known.sum() > 1:
            answer = truth[there][known]
            more = (now[known] != answer).astype(np.float64) - (before[known] != answer)
            step = 1.96 * more.std(ddof=1) / np.sqrt(more.size)
            made[1:, m] = more.mean(), more.mean() - step, more.mean() + step
    return Without(*made)
