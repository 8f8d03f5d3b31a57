"""Sweeps of GLAD: the posterior of every item, and Newton steps for one annotator or one item at a time.

With ``x = α_m e^(b_n)`` an annotator is right with probability ``s(x) = 1 / (1 + e^-x)``, and any of the K - 1 other
classes has ``(1 - s(x)) / (K - 1)``.  Since ``log s(x) - log(1 - s(x)) = x``, a label is worth ``x + log(K - 1)`` to
its class, and the E-step adds these up:

    log posterior[n, k]  =  log π_k  +  Σ over labels k of n (x + log(K - 1))  +  const

The M-step maximises ``Σ w x - log(1 + e^x)``, w being the posterior of the class that was said, plus the log-density of
the priors.  For fixed b it falls apart into one concave function for each α_m, for fixed α into one function for each
b_n: both are climbed by the same loop, over labels grouped by annotator and over labels grouped by item.

============ =================================================== ===============
symbol       name                                                shape
============ =================================================== ===============
α            ``ability``                                         (M,)
b            ``ease``, the logarithm of 1 / difficulty           (N,)
q            ``posterior``                                       (N, K)
============ =================================================== ===============

Nothing of size labels × K is made.  Beside the labels grouped by item there is a copy of them grouped by annotator
(the item's code and the label's: five bytes or so for each).  An annotator or an item is one thread's work from
beginning to end, so the number of threads changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel
from consilience.kernels.both_ways import BothWays, normalise_row

__all__ = ["PRIOR_MEAN", "GladSweeps"]

#: Abilities and eases have normal priors with this mean and variance one.
PRIOR_MEAN = 1.0
#: Newton steps for each ability and ease in one M-step.  EM needs no exact maximum: more only cost time.
_STEPS = 2
#: A step is cut to this length, and halved so many times at most until the objective does not fall.
_LONGEST, _HALVINGS = 2.0, 40


class GladSweeps(BothWays):
    """The E-step and the M-steps over one set of labels, for repeated use."""

    def __init__(
        self, indptr: Ints, annotator: Codes, label: Codes, gold: Codes | None, n_annotators: int, n_classes: int
    ) -> None:
        super().__init__(indptr, annotator, label, gold, n_annotators, n_classes)
        self._q = np.empty((indptr.size - 1, n_classes))

    def posterior(self, prior: Floats, ability: Floats, ease: Floats) -> tuple[Floats, Floats, float]:
        """Run the E-step: the posterior, its sum over items that have a label or gold, and the log-likelihood.

        The posterior (N, K) is written into the same memory every time.
        """
        indptr, annotator, label = self._by_item
        K = prior.size
        log_prior, factor = np.log(prior), np.exp(ease)
        codes = f"int64 int64 int64[] {annotator.dtype}[] {label.dtype}[] int32[]"
        run = kernel(
            _posterior, f"{codes} float64[] float64[] float64[] float64[,]! float64[]!", helpers=(normalise_row,)
        )

        def work(first: int, stop: int) -> Floats:
            sums = np.zeros(K + 1)
            run(first, stop, indptr, annotator, label, self._gold, log_prior, ability, factor, self._q, sums)
            return sums

        sums = np.sum(blocks.run(work, self._blocks[True]), axis=0)
        return self._q, sums[:K], float(sums[K])

    def improve_ability(self, q: Floats, ability: Floats, ease: Floats) -> None:
        """Climb in every α_m, in place, given the posterior and the eases."""
        self._climb(False, q, np.exp(ease), ability)

    def improve_ease(self, q: Floats, ability: Floats, ease: Floats) -> None:
        """Climb in every b_n, in place, given the posterior and the abilities."""
        self._climb(True, q, ability, ease)

    def _climb(self, of_items: bool, q: Floats, factor: Floats, own: Floats) -> None:
        indptr, other, label = self._by_item if of_items else self._by_annotator
        codes = f"int64 int64 int64[] {other.dtype}[] {label.dtype}[] float64[,]"
        run = kernel(_climb, f"{codes} boolean float64[] float64[]!", helpers=(_evaluate,))
        blocks.run(
            lambda first, stop: run(first, stop, indptr, other, label, q, of_items, factor, own),
            self._blocks[of_items],
        )


def _posterior(
    first: Any,
    stop_item: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
    gold: Any,
    log_prior: Any,
    ability: Any,
    factor: Any,
    q: Any,
    sums: Any,
) -> None:
    K = log_prior.size
    log_others = np.log(max(K - 1, 1))
    log_likelihood = 0.0
    for n in range(first, stop_item):
        start, stop = indptr[n], indptr[n + 1]
        fixed = gold.size > 0 and gold[n] >= 0
        for k in range(K):
            q[n, k] = log_prior[k]
        running = 1.0
        for i in range(start, stop):
            x = ability[annotator[i]] * factor[n]
            q[n, label[i]] += x + log_others
            # log of a wrong answer: -log(1 + e^x) - log(K - 1), the logarithm of a product taken when it gets large
            log_likelihood -= max(x, 0.0) + log_others
            running *= 1.0 + np.exp(-abs(x))
            if running > 1e100:
                log_likelihood -= np.log(running)
                running = 1.0
        log_likelihood -= np.log(running)
        if fixed:
            for k in range(K):
                if k != gold[n]:
                    q[n, k] = -np.inf
        log_likelihood += normalise_row(q, n, fixed or stop > start, sums)
    sums[K] = log_likelihood


def _evaluate(t: Any, low: Any, high: Any, other: Any, label: Any, q: Any, row: Any, factor: Any) -> Any:
    """Return ``Σ w x - log(1 + e^x)`` at ``x = t f``, its derivative in t and minus its second derivative.

    w is the posterior of the class said: of item ``row``, or of the item that the label is of if that is negative.
    """
    value, slope, bend, running = 0.0, 0.0, 0.0, 1.0
    for i in range(low, high):
        f = factor[other[i]]
        w = q[row, label[i]] if row >= 0 else q[other[i], label[i]]
        x = t * f
        e = np.exp(-abs(x))
        s = 1.0 / (1.0 + e)
        away = e * s  # the smaller of s(x) and 1 - s(x)
        value += w * x - max(x, 0.0)
        running *= 1.0 + e
        if running > 1e100:
            value -= np.log(running)
            running = 1.0
        slope += (w - (s if x >= 0.0 else away)) * f
        bend += s * away * f * f
    return value - np.log(running), slope, bend


def _climb(
    first: Any, stop: Any, indptr: Any, other: Any, label: Any, q: Any, of_items: Any, factor: Any, own: Any
) -> None:
    for g in range(first, stop):
        low, high = indptr[g], indptr[g + 1]
        if low == high:
            own[g] = PRIOR_MEAN
            continue
        row = g if of_items else -1
        u = own[g]
        t = np.exp(u) if of_items else u
        value, slope, bend = _evaluate(t, low, high, other, label, q, row, factor)
        objective = value - 0.5 * (u - PRIOR_MEAN) ** 2
        for _ in range(_STEPS):
            gradient, curvature = slope, bend + 1.0
            if of_items:
                # x = e^b α is convex in b: the curvature may vanish, and is then replaced by its positive part
                gradient = t * slope
                convex = t * t * bend + 1.0
                curvature = max(convex - gradient, 0.5 * convex)
            step = (gradient - (u - PRIOR_MEAN)) / curvature
            step = min(max(step, -_LONGEST), _LONGEST)
            better = False
            for _ in range(_HALVINGS):
                new = u + step
                new_t = np.exp(new) if of_items else new
                value, slope, bend = _evaluate(new_t, low, high, other, label, q, row, factor)
                reached = value - 0.5 * (new - PRIOR_MEAN) ** 2
                if reached >= objective:
                    u, t, objective, better = new, new_t, reached, True
                    break
                step *= 0.5
            if not better or abs(step) < 1e-4:
                break
        own[g] = u
