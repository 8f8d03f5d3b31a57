"""A test for a change of an annotator's quality at an unknown time.

For a label i of annotator m on item n, compare the posterior probability that it is right with the one that the model
expects of m:

    x_i  =  q_n(i) - Σ_k q_n(k) A_m(k, k)   less the mean of the same over the other labels of the item,

so that items which are harder for everybody cancel out.  In the order of time, with S_t = x_1 + … + x_t,

    D  =  max_t |S_t - (t / n) S_n| / (s √n),      s² the variance of x,

has, for a steady annotator, the distribution of the maximum of a Brownian bridge (Kolmogorov's); it is a little smaller
for small n (Brown, Durbin & Evans 1975).  An annotator who is found to change is left out of the means of the others,
and these are tested again.

The level is ``CHANGE_LEVEL`` for the whole crowd (Bonferroni).

R. Brown, J. Durbin and J. Evans, "Techniques for testing the constancy of regression relationships over time" (1975).
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.times import Times
from consilience.diagnose.constants import CHANGE_LABELS, CHANGE_LEVEL, CHANGE_ROUNDS
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.annotator_table import Change

__all__ = ["find_changes"]


def find_changes(annotations: Annotations, model: DawidSkene, posterior: Floats) -> tuple[Change, ...]:
    """Find annotators whose quality changes over time; none where the labels have no times.

    Parameters
    ----------
    annotations
        The labels with their times, in the codes of the model.
    model
        Prior and confusions.
    posterior
        Posterior of the run, (N, K).
    """
    a = annotations
    if a.time is None:
        return ()
    item = a.item_of_label()
    known = ~np.isnat(a.time) if a.time.dtype.kind == "M" else ~np.isnan(a.time)
    known &= (a.labels_per_item > 1)[item]
    item, who, said, time = item[known], a.annotator[known].astype(np.int64), a.label[known], a.time[known]
    right = posterior[item, said]
    x = right - np.einsum("ik,ik->i", posterior[item], np.einsum("mkk->mk", model.confusions)[who])
    M = a.n_annotators
    order = np.lexsort((np.arange(time.size), time, who))
    tested = np.bincount(who, minlength=M) >= CHANGE_LABELS
    steady = np.ones(M, bool)
    found: list[Change] = []
    for _ in range(min(CHANGE_ROUNDS, int(tested.sum()))):
        beside = _less_others(x, item, steady[who], a.n_items)
        chance, place = _bridge(beside[order], who[order], time[order], M)
        chance = np.where(tested & steady, chance, 1.0)
        m = int(chance.argmin())
        if chance[m] > CHANGE_LEVEL / tested.sum():
            break
        steady[m] = False
        mine = order[who[order] == m]
        cut = int(place[m])
        before, after = right[mine[:cut]], right[mine[cut:]]
        found.append(Change(m, str(time[mine[cut]]), float(before.mean()), float(after.mean()), float(chance[m])))
    return tuple(sorted(found))


def _less_others(x: Floats, item: Ints, counts: Bools, n_items: int) -> Floats:
    """Subtract from each x the mean over the other labels of its item that count; NaN where there are none."""
    total, number = np.bincount(item, x * counts, n_items), np.bincount(item, counts, n_items)
    others = number[item] - counts
    mean: Floats = np.divide(total[item] - x * counts, others, out=np.full(x.size, np.nan), where=others > 0.5)
    beside: Floats = x - mean
    return beside


def _bridge(x: Floats, who: Ints, time: Times, M: int) -> tuple[Floats, Ints]:
    """Return each annotator's p-value, and the number of labels before the largest deviation.

    Rows are sorted by annotator, then by time.  Labels of the same time are one step.
    """
    from scipy.special import kolmogorov

    present = ~np.isnan(x)
    value = np.where(present, x, 0.0)
    n = np.bincount(who, present, M)
    mean = np.bincount(who, value, M) / np.maximum(n, 1.0)
    centred = np.where(present, value - mean[who], 0.0)
    spread = np.sqrt(np.bincount(who, centred * centred, M))  # s √n
    start = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=M))])
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    deviation = np.abs(sums[1:] - sums[start[who]])
    last = np.append((who[1:] != who[:-1]) | (time[1:] != time[:-1]), True) if who.size else np.empty(0, bool)
    deviation = np.where(last, deviation, 0.0)
    farthest, place = np.zeros(M), np.zeros(M, np.int64)
    there = np.flatnonzero(np.diff(start) > 0)
    if there.size:
        farthest[there] = np.maximum.reduceat(deviation, start[there])
        at = np.flatnonzero(deviation == farthest[who])
        # the first of them
        place[who[at[::-1]]] = at[::-1] - start[who[at[::-1]]] + 1
    D = np.divide(farthest, spread, out=np.zeros(M), where=(spread > 1e-9) & (n >= CHANGE_LABELS))
    return kolmogorov(D), np.minimum(place, np.maximum(np.diff(start) - 1, 0))
