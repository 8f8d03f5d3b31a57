"""Sweeps of minimax conditional entropy: the posterior of every item, and Newton steps for annotators and items.

Both tables are kept as exponentials, ``S = e^σ`` and ``T = e^τ``, so that a label costs no exponential:

    Pr(m says c of n | truth k)  =  p(c)  =  S[m, k, c] T[n, k, c] / Σ_c' S[m, k, c'] T[n, k, c']

Given the posterior q, the rows σ_m[k, :] for fixed τ, and τ_n[k, :] for fixed σ, maximise strictly concave functions of
K numbers each, with the sums over the labels of one annotator, or of one item:

    F(σ)  =  Σ q[n, k] log p(label)  -  ½ λ ‖σ‖²
    ∇F    =  Σ q[n, k] (1{c = label} - p(c))  -  λ σ
    -∇²F  =  Σ q[n, k] (diag p - p pᵀ)  +  λ I

so one loop serves both sides, over labels grouped by annotator and over labels grouped by item.  It takes one Newton
step for each row, halved until F does not fall: further steps before the next posterior save no iteration.

====== ================= =============== =====================
symbol name              shape           memory
====== ================= =============== =====================
e^σ    ``annotators``    (M, K, K)       8 M K² bytes
e^τ    ``items``         (N, K, K)       8 N K² bytes
q      ``posterior``     (N, K)          8 N K bytes
====== ================= =============== =====================

The first index of a table's matrices is the truth, the second what is said.  An annotator or an item is one thread's
work from beginning to end, so the number of threads changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Floats
from consilience.kernels._compile import kernel
from consilience.kernels.both_ways import BothWays, normalise_row

__all__ = ["MinimaxSweeps"]

#: A step is halved so many times at most until the objective does not fall.
_HALVINGS = 40
#: A posterior this small counts for nothing.
_NOTHING = 1e-15
#: Largest change of an entry in one step, so that no exponential overflows.
_LONGEST = 5.0
#: The smallest probability of a label that a logarithm sees.
_FLOOR = 1e-100


class MinimaxSweeps(BothWays):
    """The posterior and the ascent over one set of labels, for repeated use."""

    def posterior(self, prior: Floats, annotators: Floats, items: Floats, q: Floats) -> tuple[Floats, float]:
        """Write the posterior into ``q``; return its sum over items with a label or gold, and the log-likelihood."""
        indptr, annotator, label = self._by_item
        K = prior.size
        codes = f"int64 int64 int64[] {annotator.dtype}[] {label.dtype}[] int32[]"
        run = kernel(
            _posterior, f"{codes} float64[] float64[,,] float64[,,] float64[,]! float64[]!", helpers=(normalise_row,)
        )

        def work(first: int, stop: int) -> Floats:
            sums = np.zeros(K + 1)
            run(first, stop, indptr, annotator, label, self._gold, np.log(prior), annotators, items, q, sums)
            return sums

        sums = np.sum(blocks.run(work, self._blocks[True]), axis=0)
        return sums[:K], float(sums[K])

    def improve_annotators(self, q: Floats, annotators: Floats, items: Floats, weight: float) -> float:
        """Climb in every σ_m, in place, with penalty ``weight`` λ; return ``Σ ‖σ_m‖²``."""
        return self._climb(False, q, annotators, items, weight)

    def improve_items(self, q: Floats, annotators: Floats, items: Floats, weight: float) -> float:
        """Climb in every τ_n, in place, with penalty ``weight`` λ; return ``Σ ‖τ_n‖²``."""
        return self._climb(True, q, items, annotators, weight)

    def _climb(self, of_items: bool, q: Floats, own: Floats, there: Floats, weight: float) -> float:
        indptr, other, label = self._by_item if of_items else self._by_annotator
        codes = f"int64 int64 int64[] {other.dtype}[] {label.dtype}[] float64[,]"
        tables, helpers = "boolean float64[,,] float64[,,]! float64", (_value, _derivatives, _solve)
        run = kernel(_climb, f"{codes} {tables}", "float64", helpers)
        squares = blocks.run(
            lambda first, stop: run(first, stop, indptr, other, label, q, of_items, there, own, float(weight)),
            self._blocks[of_items],
        )
        return float(sum(squares))


def _posterior(
    first: Any,
    stop_item: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
    gold: Any,
    log_prior: Any,
    annotators: Any,
    items: Any,
    q: Any,
    sums: Any,
) -> None:
    K = log_prior.size
    log_likelihood = 0.0
    for n in range(first, stop_item):
        start, stop = indptr[n], indptr[n + 1]
        fixed = gold.size > 0 and gold[n] >= 0
        for k in range(K):
            # log posterior[n, k] = log π_k + Σ log p(label), the logarithm of a product taken when it gets small
            value, running = log_prior[k], 1.0
            if fixed and k != gold[n]:
                value = -np.inf
            else:
                for i in range(start, stop):
                    m = annotator[i]
                    z = 0.0
                    for c in range(K):
                        z += annotators[m, k, c] * items[n, k, c]
                    running *= max(annotators[m, k, label[i]] * items[n, k, label[i]] / z, _FLOOR)
                    if running < 1e-100:
                        value += np.log(running)
                        running = 1.0
                value += np.log(running)
            q[n, k] = value
        log_likelihood += normalise_row(q, n, fixed or stop > start, sums)
    sums[K] = log_likelihood


def _value(of: Any, logs: Any, odds: Any, weight: Any) -> Any:
    """Return the objective F of one row at ``logs``; its exponentials are left in ``odds``.

    Labels are weighted by the posterior of item ``row``, or of their own item if that is negative.
    """
    low, high, other, label, q, row, k, there = of
    K = logs.size
    value = 0.0
    for c in range(K):
        odds[c] = np.exp(logs[c])
        value -= 0.5 * weight * logs[c] * logs[c]
    for i in range(low, high):
        o = other[i]
        w = q[row, k] if row >= 0 else q[o, k]
        if w < _NOTHING:
            continue
        z = 0.0
        for c in range(K):
            z += odds[c] * there[o, k, c]
        value += w * np.log(max(odds[label[i]] * there[o, k, label[i]] / z, _FLOOR))
    return value


def _derivatives(of: Any, logs: Any, odds: Any, weight: Any, p: Any, gradient: Any, hessian: Any) -> None:
    """Fill the gradient of F and the lower half of minus its Hessian; ``odds`` are the exponentials of ``logs``."""
    low, high, other, label, q, row, k, there = of
    K = logs.size
    for c in range(K):
        gradient[c] = -weight * logs[c]
        for d in range(c):
            hessian[c, d] = 0.0
        hessian[c, c] = weight
    for i in range(low, high):
        o = other[i]
        w = q[row, k] if row >= 0 else q[o, k]
        if w < _NOTHING:
            continue
        z = 0.0
        for c in range(K):
            p[c] = odds[c] * there[o, k, c]
            z += p[c]
        gradient[label[i]] += w
        scale = 1.0 / z
        for c in range(K):
            p[c] *= scale
            wp = w * p[c]
            gradient[c] -= wp
            hessian[c, c] += wp
            for d in range(c + 1):
                hessian[c, d] -= wp * p[d]


def _solve(A: Any, b: Any) -> Any:
    """Solve A x = b in place, A being positive definite and given by its lower half; return the largest entry of x."""
    K = b.size
    for i in range(K):
        for j in range(i + 1):
            s = A[i, j]
            for h in range(j):
                s -= A[i, h] * A[j, h]
            A[i, j] = np.sqrt(s) if i == j else s / A[j, j]
        s = b[i]
        for h in range(i):
            s -= A[i, h] * b[h]
        b[i] = s / A[i, i]
    largest = 0.0
    for i in range(K - 1, -1, -1):
        s = b[i]
        for h in range(i + 1, K):
            s -= A[h, i] * b[h]
        b[i] = s / A[i, i]
        largest = max(largest, abs(b[i]))
    return largest


def _climb(
    first: Any,
    stop: Any,
    indptr: Any,
    other: Any,
    label: Any,
    q: Any,
    of_items: Any,
    there: Any,
    own: Any,
    weight: Any,
) -> Any:
    K = own.shape[1]
    logs, new, odds, p, step = np.empty(K), np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    hessian = np.empty((K, K))
    squares = 0.0
    for g in range(first, stop):
        low, high = indptr[g], indptr[g + 1]
        row = g if of_items else -1
        for k in range(K):
            mass = 0.0
            if of_items:
                mass = q[g, k] * (high - low)
            else:
                for i in range(low, high):
                    mass += q[other[i], k]
            if mass <= _NOTHING * weight:
                # the maximum is no farther from zero than mass / λ
                for c in range(K):
                    own[g, k, c] = 1.0
                continue
            for c in range(K):
                logs[c] = np.log(own[g, k, c])
            of = low, high, other, label, q, row, k, there
            value = _value(of, logs, odds, weight)
            _derivatives(of, logs, odds, weight, p, step, hessian)
            length = min(1.0, _LONGEST / max(_solve(hessian, step), 1e-300))
            for _ in range(_HALVINGS):
                for c in range(K):
                    new[c] = logs[c] + length * step[c]
                if _value(of, new, odds, weight) >= value:
                    for c in range(K):
                        logs[c] = new[c]
                        own[g, k, c] = odds[c]
                    break
                length *= 0.5
            for c in range(K):
                squares += logs[c] * logs[c]
    return squares
