"""Excess agreement: how much more often two annotators agree than the truth explains.

For two labels of an item, by annotators m and j, the other labels of the item give a posterior q of its truth, and so
how often the two should agree:

    expected  =  Σ_k q_k Σ_i A_m(i, k) A_j(i, k),      g_m  =  Σ_k q_k (1 - Σ_i A_m(i, k)²).

Over any set of pairs of labels, the correlation of errors is

    ρ  =  Σ ([the two agree] - expected)  /  Σ √(g_m g_j).

It is zero on average for annotators who err independently, whatever their confusions, and one for copies; with two
classes it is the correlation of being right.  :func:`error_correlation` sums over the crowd,
:mod:`consilience.diagnose.dependence` over each pair of annotators.

====== ==================================== ====================
symbol name                                 shape
====== ==================================== ====================
q      posterior without the two labels     (K, pairs of labels)
A      ``confusions``                       (M, K, K)
====== ==================================== ====================

V. E. Johnson and D. Rossell, "On the use of non-local prior densities in Bayesian hypothesis tests", JRSS B 72 (2010).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CORRELATION, CROWD_CELLS, CROWD_PAIRS, INDEPENDENT
from consilience.fitting.m_steps import Parameters
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels.em import FLOOR
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.label_pairs import ItemPairs, item_pairs

__all__ = [
    "LabelPairs",
    "error_correlation",
    "label_pair_agreement",
    "probability_of_dependence",
]

#: Numbers in q that are in memory at a time.
_CELLS = 1 << 23


class LabelPairs(NamedTuple):
    """Pairs of labels of one item by two annotators."""

    one: Ints  #: the annotators of each pair of labels, (P,)
    other: Ints
    agree: Bools
    expected: Floats  #: probability of agreement if the two err independently
    scale: Floats  #: √(g_m g_j)


def label_pair_agreement(
    annotations: Annotations,
    model: DawidSkene | Parameters,
    most_pairs: int,
    *,
    weights: Floats | None = None,
    gold: bool = False,
) -> LabelPairs:
    """Compare pairs of labels with the agreement that the model expects of independent annotators.

    Parameters
    ----------
    annotations
        The labels, in the codes of the model.
    model
        Prior and confusions.
    most_pairs
        Number of pairs beyond which a sample of about this many is used.
    weights
        Weight of each annotator's labels in q, (M,); 1 by default.
    gold
        Whether q is the known truth on items that have gold.
    """
    prior, A = np.maximum(model.prior, FLOOR), np.maximum(model.confusions, FLOOR)
    found = item_pairs(annotations, most_pairs)
    two = found.annotator[found.first] != found.annotator[found.second]  # repeated answers are no agreement
    found = found._replace(first=found.first[two], second=found.second[two])
    gold_of = annotations.gold if gold else None
    step = max(1, _CELLS // prior.size)
    parts = []
    for at in range(0, max(found.first.size, 1), step):
        part = found._replace(first=found.first[at : at + step], second=found.second[at : at + step])
        parts.append(_agreement(part, prior, A, weights, gold_of))
    return LabelPairs(*map(np.concatenate, zip(*parts, strict=True)))


def _agreement(found: ItemPairs, prior: Floats, A: Floats, weights: Floats | None, gold: Codes | None) -> LabelPairs:
    """Compare these pairs of labels with what the parameters expect."""
    items, indptr, annotator, label, first, second = found
    M, K, _ = A.shape
    m, j = annotator[first], annotator[second]
    # log q without the two labels: the sum over all labels of the item, less the terms of these two
    cell, n_labels = annotator * K + label, np.diff(indptr)
    log_q = np.empty((K, first.size))
    for k in range(K):
        each = np.log(A[:, :, k]).ravel()[cell] * (1.0 if weights is None else weights[annotator])
        total = np.add.reduceat(each, indptr[:-1]) if each.size else each
        rest = np.repeat(np.log(prior[k]) + total, n_labels) - each
        np.subtract(rest[first], each[second], out=log_q[k])
    log_q -= log_q.max(axis=0, initial=-np.inf)
    q = np.exp(log_q, out=log_q)
    q /= q.sum(axis=0)
    if gold is not None:
        known = np.repeat(gold[items], n_labels)[first]
        q = np.where(known >= 0, np.arange(K)[:, None] == known, q)
    expected, g_m, g_j = (np.zeros(first.size) for _ in range(3))
    for k in range(K):
        of_k = np.ascontiguousarray(A[:, :, k])
        if first.size >= M * M:  # fewer pairs of annotators than of labels
            expected += q[k] * (of_k @ of_k.T).take(m * M + j)
        else:
            expected += q[k] * np.einsum("pi,pi->p", of_k[m], of_k[j])
        g = np.maximum(1.0 - (of_k * of_k).sum(axis=1), 0.0)
        g_m += q[k] * g[m]
        g_j += q[k] * g[j]
    expected = np.clip(expected, 0.0, 1.0)  # rounding
    return LabelPairs(m, j, label[first] == label[second], expected, np.sqrt(g_m * g_j))


def error_correlation(annotations: Annotations, model: DawidSkene | Parameters) -> tuple[float, float]:
    """Return the correlation of errors in the whole crowd, and its standard error if annotators are independent.

    The correlation is between -1 and 1.  Gold is not used.
    """
    most = max(CROWD_PAIRS, CROWD_CELLS // model.prior.size)
    pairs = label_pair_agreement(annotations, model, most)
    scale = float(pairs.scale.sum())
    if scale <= 0:
        return 0.0, 0.0
    variance = float((pairs.expected * (1.0 - pairs.expected)).sum())
    found = float(np.clip((pairs.agree - pairs.expected).sum() / scale, -1.0, 1.0))
    return found, float(np.sqrt(variance)) / scale


def probability_of_dependence(correlation: float, error: float) -> float:
    r"""Return the probability that annotators err together, given the correlation of errors and its standard error.

    With the correlation r, its error s, and ρ = 0 for a share π of crowds, whose annotators are independent, the others
    have a correlation of their own, which is not next to zero (the moment prior of Johnson and Rossell 2010):

    .. math:: r \sim N(\rho, s^2), \qquad p(\rho) = \frac{\rho^2}{\tau^2} N(\rho; 0, \tau^2).

    Correlations below zero count too: the model does not fit there either.
    """
    if error <= 0:
        return 1.0  # no pairs of labels
    tau, s = CORRELATION, error
    total = s**2 + tau**2
    mean, variance = correlation * tau**2 / total, (s * tau) ** 2 / total  # of ρ under N(ρ; 0, τ²)
    # log of p(r | dependent) / p(r | independent)
    evidence = (
        np.log((mean**2 + variance) / tau**2)
        + 0.5 * np.log(s**2 / total)
        + 0.5 * correlation**2 * (1.0 / s**2 - 1.0 / total)
    )
    return float(expit(evidence + np.log((1.0 - INDEPENDENT) / INDEPENDENT)))
