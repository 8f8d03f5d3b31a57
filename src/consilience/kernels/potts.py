"""Sweeps over a graph of items: mean field, iterated conditional modes, and the local energies behind both.

The Potts field (Traganitis 2019, section 4.3) with evidence e, edges of strength s and a scale c for each class is

    log Pr(y, labels)  =  Σ_n e[n, y_n]  +  Σ_edges s_e c[y_n] [y_n = y_n']  +  constant.

Where c is a symmetric matrix, a pair of neighbouring classes has the potential s_e c[y_n, y_n'].

========== ================================================== ==================
symbol     name                                               shape
========== ================================================== ==================
e          ``evidence``, -inf where a class is ruled out      (N, K)
..         ``indptr``, ``neighbour``: n's are                 (N + 1,), (2 E,)
           ``neighbour[indptr[n]:indptr[n + 1]]``
s          ``strength``, the same in both directions          (2 E,)
c          ``scale``                                          (K,) or (K, K)
q          ``q``, the mean field                              (N, K)
y          ``state``, one labelling                           (N,)
========== ================================================== ==================

A sweep updates items in order, each from the new values of those before it (Gauss-Seidel), in one thread: the result
does not depend on the number of threads, and no update lowers the objective.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel
from consilience.kernels.em import FLOOR

__all__ = ["conditional_log_likelihood", "icm_sweep", "label_evidence", "mean_field_sweep", "support"]

#: Types of indptr, neighbour and strength.
_GRAPH = "int64[] int32[] float64[]"


def label_evidence(indptr: Ints, annotator: Codes, label: Codes, confusions: Floats) -> Floats:
    """Return ``Σ log confusions[m, i, k]`` over the labels (m, i) of every item, (N, K)."""
    M, K, _ = confusions.shape
    table = np.log(np.maximum(confusions, FLOOR)).reshape(M * K, K)
    out = np.zeros((indptr.size - 1, K))
    codes = f"{annotator.dtype.name}[] {label.dtype.name}[]"
    run = kernel(_evidence, f"int64 int64 int64[] {codes} float64[,] float64[,]!")
    blocks.run(lambda first, stop: run(first, stop, indptr, annotator, label, table, out), blocks.cut(indptr, 1))
    return out


def mean_field_sweep(
    indptr: Ints, neighbour: Codes, strength: Floats, evidence: Floats, scale: Floats, q: Floats
) -> float:
    """Update the mean field in place, item by item, and return the largest change of a probability."""
    sweep = kernel(_mean_field, f"{_GRAPH} float64[,] float64[,] float64[,]!", "float64", (_neighbours, _potentials))
    return float(sweep(indptr, neighbour, strength, evidence, _columns(scale), q))


def icm_sweep(indptr: Ints, neighbour: Codes, strength: Floats, evidence: Floats, scale: Floats, state: Ints) -> int:
    """Set every item to its best class given its neighbours (4.20), in place, and return how many changed.

    An item changes only if the other class is strictly better.
    """
    sweep = kernel(_icm, f"{_GRAPH} float64[,] float64[,] int64[]!", "int64")
    return int(sweep(indptr, neighbour, strength, evidence, _columns(scale), state))


def support(indptr: Ints, neighbour: Codes, strength: Floats, q: Floats, rows: Ints | None = None) -> Floats:
    """Return ``Σ_n' s q[n', k]`` over the neighbours of each item (or of each of ``rows``), (rows, K).

    Minus ``c[k]`` times it is the local energy U_n(k) of (4.15), up to a constant.
    """
    chosen = np.arange(indptr.size - 1) if rows is None else np.ascontiguousarray(rows, np.int64)
    out = np.empty((chosen.size, q.shape[1]))
    run = kernel(_support, f"{_GRAPH} float64[,] int64[] float64[,]!", "void", (_neighbours,))
    run(indptr, neighbour, strength, q, chosen, out)
    return out


def conditional_log_likelihood(
    indptr: Ints, neighbour: Codes, strength: Floats, evidence: Floats, field: Floats, scale: Floats, q: Floats
) -> float:
    """Return ``Σ_n log Pr(labels of n | the mean field of its neighbours)``; ``evidence`` includes ``field`` (K,)."""
    model = "float64[,] float64[] float64[,] float64[,]"
    run = kernel(_conditional, f"{_GRAPH} {model}", "float64", (_neighbours, _potentials))
    return float(run(indptr, neighbour, strength, evidence, field, _columns(scale), q))


def _columns(scale: Floats) -> Floats:
    """Return the scale with two axes: one row for agreement alone, K for pairs of classes."""
    return np.ascontiguousarray(np.atleast_2d(scale))


def _evidence(first: Any, stop: Any, indptr: Any, annotator: Any, label: Any, log_confusions: Any, out: Any) -> None:
    K = out.shape[1]
    for n in range(first, stop):
        for i in range(indptr[n], indptr[n + 1]):
            r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
            for k in range(K):
                out[n, k] += log_confusions[r, k]


def _neighbours(n: Any, indptr: Any, neighbour: Any, strength: Any, q: Any, out: Any) -> None:
    """Write ``Σ_n' s q[n', k]`` over the neighbours of n."""
    for k in range(out.size):
        out[k] = 0.0
    for j in range(indptr[n], indptr[n + 1]):
        other, s = np.uint64(neighbour[j]), strength[j]
        for k in range(out.size):
            out[k] += s * q[other, k]


def _potentials(scale: Any, said: Any, out: Any) -> None:
    """Write ``c[k] said[k]``, or ``Σ_k' c[k, k'] said[k']``; ``said`` and ``out`` may not overlap."""
    K = out.size
    if scale.shape[0] == 1:
        for k in range(K):
            out[k] = scale[0, k] * said[k]
        return
    for k in range(K):
        out[k] = 0.0
        for j in range(K):
            out[k] += scale[k, j] * said[j]


def _mean_field(indptr: Any, neighbour: Any, strength: Any, evidence: Any, scale: Any, q: Any) -> Any:
    N, K = q.shape
    t, said = np.empty(K), np.empty(K)
    largest = 0.0
    for n in range(N):
        _neighbours(n, indptr, neighbour, strength, q, said)
        _potentials(scale, said, t)
        # q_n(k) ∝ exp(e[n, k] + c_k Σ_n' s q_n'(k))
        top = -np.inf
        for k in range(K):
            t[k] += evidence[n, k]
            top = max(top, t[k])
        total = 0.0
        for k in range(K):
            t[k] = np.exp(t[k] - top)
            total += t[k]
        for k in range(K):
            new = t[k] / total
            largest = max(largest, abs(new - q[n, k]))
            q[n, k] = new
    return largest


def _icm(indptr: Any, neighbour: Any, strength: Any, evidence: Any, scale: Any, state: Any) -> Any:
    N, K = evidence.shape
    t = np.empty(K)
    changed = 0
    for n in range(N):
        for k in range(K):
            t[k] = evidence[n, k]
        for j in range(indptr[n], indptr[n + 1]):
            other = state[neighbour[j]]
            if scale.shape[0] == 1:
                t[other] += scale[0, other] * strength[j]
            else:
                for k in range(K):
                    t[k] += scale[k, other] * strength[j]
        # y_n = argmax_k e[n, k] - U_n(k)                                            (4.20)
        best = state[n]
        for k in range(K):
            if t[k] > t[best]:
                best = k
        if best != state[n]:
            state[n] = best
            changed += 1
    return changed


def _support(indptr: Any, neighbour: Any, strength: Any, q: Any, rows: Any, out: Any) -> None:
    for r in range(rows.size):
        _neighbours(rows[r], indptr, neighbour, strength, q, out[r])


def _conditional(indptr: Any, neighbour: Any, strength: Any, evidence: Any, field: Any, scale: Any, q: Any) -> Any:
    N, K = q.shape
    t, said = np.empty(K), np.empty(K)
    total = 0.0
    for n in range(N):
        _neighbours(n, indptr, neighbour, strength, q, said)
        _potentials(scale, said, t)
        # log Σ_k exp(e + c s) - log Σ_k exp(h + c s)
        top_joint = top_prior = -np.inf
        for k in range(K):
            top_joint = max(top_joint, evidence[n, k] + t[k])
            top_prior = max(top_prior, field[k] + t[k])
        joint = prior = 0.0
        for k in range(K):
            joint += np.exp(evidence[n, k] + t[k] - top_joint)
            prior += np.exp(field[k] + t[k] - top_prior)
        total += top_joint + np.log(joint) - top_prior - np.log(prior)
    return total
