r"""One pass over numeric answers: the value of every item, and sums for every annotator.

Answer y of annotator m to item n, in standard units, with x = t_n - μ:

    y  =  μ + b_m + s_m x + e,        e ~ Normal(0, 1 / (λ_m η_n w)),        w ~ Gamma(ν/2, ν/2) for every answer,

so that e has Student's t distribution with ν degrees of freedom.  A pass updates t_n, w and η_n given the annotators,
each in closed form (mean-field), and adds up what the next update of the annotators needs.

====== ======================================== ==========
symbol name                                     shape
====== ======================================== ==========
t, v   ``value``, ``variance`` of items         (N,)
η      ``ease``: precision of answers to n      (N,)
w      ``weight`` of answers                    (labels,)
b, s   ``bias``, ``scale``, and their           (M,)
       ``covariance`` as columns bb, ss, bs     (M, 3)
λ      ``precision`` of annotators              (M,)
====== ======================================== ==========
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels._compile import kernel

__all__ = ["AnnotatorSums", "Items", "Numbers", "numeric_pass"]

#: Columns of the sums: Σp, Σpx, Σp(x² + v), Σpz, Σpzx and Σpe², where p = ηw and z = y - μ.
_SUMS = 6


class Items(NamedTuple):
    """What a pass updates, in place."""

    value: Floats
    variance: Floats
    ease: Floats
    weight: Floats


class Numbers(NamedTuple):
    """What all items share."""

    centre: float  #: μ
    spread: float  #: variance of values between items
    rounding: float  #: added to every squared residual
    freedom: float  #: ν
    ease: float  #: shape g of the prior of η, Gamma(g, g); 0: all items are equally easy


class AnnotatorSums(NamedTuple):
    """Results of a pass."""

    by_annotator: Floats  #: (M, 6): Σp, Σpx, Σp(x² + v), Σpz, Σpzx, Σpe²
    log_rate: float  #: Σ log of the rates of q(w), over answers
    weight: float  #: Σ w
    log_ease_rate: float  #: Σ log of the rates of q(η), over items with answers
    ease: float  #: Σ η, over the same
    log_density: float  #: of all answers, up to constants of ν
    change: float  #: largest change of a value


def _numeric_pass(
    indptr: Ints,
    annotator: Codes,
    y: Floats,
    known: Bools,
    bias: Floats,
    scale: Floats,
    covariance: Floats,
    precision: Floats,
    numbers: Floats,
    value: Floats,
    variance: Floats,
    ease: Floats,
    weight: Floats,
    sums: Floats,
    totals: Floats,
) -> None:
    centre, spread, rounding, freedom, shape = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for n in range(indptr.size - 1):
        first, last = indptr[n], indptr[n + 1]
        if first == last:
            continue
        if not known[n]:
            # v⁻¹ = 1/τ² + Σ p E[s²],   (t - μ) / v = Σ p (E[s] (y - μ - E[b]) - cov(b, s)),   p = ληw
            inverse, linear = 1.0 / spread, 0.0
            for at in range(first, last):
                m = annotator[at]
                p = precision[m] * ease[n] * weight[at]
                inverse += p * (scale[m] * scale[m] + covariance[m, 1])
                linear += p * (scale[m] * (y[at] - centre - bias[m]) - covariance[m, 2])
            fresh = centre + linear / inverse
            totals[5] = max(totals[5], abs(fresh - value[n]))
            value[n], variance[n] = fresh, 1.0 / inverse
        x, v = value[n] - centre, variance[n]
        rate = shape
        for at in range(first, last):
            m = annotator[at]
            r = y[at] - centre - bias[m] - scale[m] * x
            error = r * r + covariance[m, 0] + 2.0 * covariance[m, 2] * x + covariance[m, 1] * x * x
            error += v * (scale[m] * scale[m] + covariance[m, 1]) + rounding
            u = precision[m] * error
            weight[at] = (freedom + 1.0) / (freedom + ease[n] * u)
            rate += 0.5 * weight[at] * u
            totals[0] += np.log(freedom + ease[n] * u)
            totals[1] += weight[at]
        totals[4] += 0.5 * (last - first) * np.log(ease[n])
        if shape > 0.0:
            ease[n] = (shape + 0.5 * (last - first)) / rate
            totals[2] += np.log(rate)
            totals[3] += ease[n]
        for at in range(first, last):
            m = annotator[at]
            p, z = ease[n] * weight[at], y[at] - centre
            r = z - bias[m] - scale[m] * x
            error = r * r + covariance[m, 0] + 2.0 * covariance[m, 2] * x + covariance[m, 1] * x * x
            error += v * (scale[m] * scale[m] + covariance[m, 1]) + rounding
            sums[m, 0] += p
            sums[m, 1] += p * x
            sums[m, 2] += p * (x * x + v)
            sums[m, 3] += p * z
            sums[m, 4] += p * z * x
            sums[m, 5] += p * error


def numeric_pass(
    indptr: Ints,
    annotator: Codes,
    y: Floats,
    known: Bools,
    annotators: tuple[Floats, Floats, Floats, Floats],
    numbers: Numbers,
    items: Items,
) -> AnnotatorSums:
    """Update the items in place; ``annotators`` are bias, scale, covariance and precision.

    The values of ``known`` items stay as they are.
    """
    sums, totals = np.zeros((annotators[0].size, _SUMS)), np.zeros(6)
    floats = "float64[] " * 2 + "float64[,] " + "float64[] " * 2
    run = kernel(
        _numeric_pass, "int64[] uint32[] float64[] bool[] " + floats + "float64[]! " * 4 + "float64[,]! float64[]!"
    )
    run(
        indptr, annotator.astype(np.uint32), y, known, *annotators, np.asarray(numbers, float), *items, sums, totals
    )  # fmt: skip
    # log of Student's density: log(λη) / 2 - (ν + 1) / 2 · log(1 + ηu / ν);  rates of q(w) are (ν + ηu) / 2
    L, nu, logs = y.size, numbers.freedom, float(totals[0])
    log_precision = np.log(annotators[3]) @ np.bincount(annotator, minlength=annotators[3].size)
    totals[4] += 0.5 * float(log_precision) - 0.5 * (nu + 1.0) * (logs - L * np.log(nu))
    totals[0] -= L * np.log(2.0)
    return AnnotatorSums(sums, *totals.tolist())
