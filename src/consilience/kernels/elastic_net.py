"""Elastic nets of a block of samples on their working sets: pick the atoms that violate, descend by coordinates.

    min τ‖c‖₁ + (1-τ)/2 ‖c‖² + λ/2 ‖x - c X‖²

An atom outside the working set is optimal at zero while |⟨x_i, δ⟩| ≤ τ with δ = λ (x - c X) (the oracle point of You
et al. 2016); the correlations of all δ with all atoms come from one matrix product outside.  Within the set, one
coordinate at a time with g = X_S x - G c, the correlations of what is left,

    c_i ← T_τ(λ (g_i + G_ii c_i)) / (λ G_ii + 1 - τ),     T the soft threshold (B.6), G = X_S X_Sᵀ

and now and then a jump: with the signs as they are the solution is that of a linear system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["net_step"]


def _violators(row: Any, bar: Any, value: Any, index: Any) -> Any:
    """Keep the atoms that exceed ``bar`` most, as many as fit, in a heap with the least on top; give their number."""
    size, room = 0, value.size
    for i in range(row.size):
        size_of = abs(row[i])
        if size_of <= bar:
            continue
        if size < room:
            at = size
            value[at], index[at] = size_of, i
            while at > 0 and value[(at - 1) // 2] > value[at]:
                up = (at - 1) // 2
                value[at], value[up] = value[up], value[at]
                index[at], index[up] = index[up], index[at]
                at = up
            size += 1
        elif size_of > value[0]:
            value[0], index[0] = size_of, i
            at, child = 0, 1
            while child < size:
                if child + 1 < size and value[child + 1] < value[child]:
                    child += 1
                if value[at] <= value[child]:
                    break
                value[at], value[child] = value[child], value[at]
                index[at], index[child] = index[child], index[at]
                at, child = child, 2 * child + 1
    return size


def _jump(G: Any, start: Any, c: Any, lam: Any, tau: Any) -> Any:
    """Solve for the coordinates that are not zero, with their signs; accept where every condition then holds.

    (λ G_SS + (1-τ) I) c_S = λ (X_S x) - τ sign(c_S), by Cholesky.  Gives whether c, now exact, is the solution.
    """
    m = c.size
    place = np.flatnonzero(c)
    s = place.size
    L, y = np.empty((s, s)), np.empty(s)
    for i in range(s):
        for j in range(i + 1):
            total = lam * G[place[i], place[j]]
            if i == j:
                total += 1.0 - tau
            pivot = total
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if total <= 1e-12 * pivot:
                    return False
                L[i, i] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
        y[i] = lam * start[place[i]] - tau * np.sign(c[place[i]])
        for k in range(i):
            y[i] -= L[i, k] * y[k]
        y[i] /= L[i, i]
    for i in range(s - 1, -1, -1):
        for k in range(i + 1, s):
            y[i] -= L[k, i] * y[k]
        y[i] /= L[i, i]
        if y[i] * c[place[i]] <= 0.0:
            return False
    left = start.copy()
    for i in range(s):
        for j in range(m):
            left[j] -= y[i] * G[place[i], j]
    for j in range(m):
        if c[j] == 0.0 and lam * abs(left[j]) > tau * (1.0 + 1e-9):
            return False
    c[place] = y
    return True


def _descend(G: Any, start: Any, c: Any, lam: Any, tau: Any, tol: Any, max_sweeps: Any) -> Any:
    """Cycle through the coordinates; give whether none moved by more than ``tol`` at last."""
    m = c.size
    g = start.copy()
    for i in range(m):
        if c[i] != 0.0:
            for j in range(m):
                g[j] -= c[i] * G[i, j]
    full = True
    for sweep in range(max_sweeps):
        moved = 0.0
        for i in range(m):
            if (not full and c[i] == 0.0) or G[i, i] <= 0.0:
                continue
            pull = lam * (g[i] + G[i, i] * c[i])
            new = 0.0
            if pull > tau:
                new = (pull - tau) / (lam * G[i, i] + 1.0 - tau)
            elif pull < -tau:
                new = (pull + tau) / (lam * G[i, i] + 1.0 - tau)
            change = new - c[i]
            if change != 0.0:
                c[i] = new
                for j in range(m):
                    g[j] -= change * G[i, j]
                moved = max(moved, abs(change))
        if moved <= tol:
            if full:
                return True
            full = True
        else:
            full = sweep % 4 == 3  # the zeros are looked at every fourth time
    return False


def _step(
    X: Any,
    target: Any,
    correlation: Any,
    live: Any,
    lam: Any,
    tau: Any,
    slack: Any,
    tol: Any,
    max_sweeps: Any,
    room: Any,
    support: Any,
    weight: Any,
    count: Any,
    open_: Any,
    settled: Any,
) -> None:
    """Let violators join the working set of every live sample and solve there; a sample without any is closed."""
    D = X.shape[1]
    value, index = np.empty(room), np.empty(room, np.int64)
    for r in range(live.size):
        b, row = live[r], correlation[r]
        old = count[b]
        for i in range(old):
            row[support[b, i]] = 0.0
        new = _violators(row, tau * (1.0 + slack), value, index)
        if new == 0:
            open_[b] = False
            continue
        m = old + new
        c = np.zeros(m)
        atoms = np.empty((D, m))
        place = np.empty(m, np.int64)
        for i in range(m):
            place[i] = support[b, i] if i < old else index[i - old]
            if i < old:
                c[i] = weight[b, i]
            for d in range(D):
                atoms[d, i] = X[place[i], d]
        # By hand: BLAS would start its threads for every one of these small products.
        G, start = np.zeros((m, m)), np.zeros(m)
        for d in range(D):
            for i in range(m):
                for j in range(m):
                    G[i, j] += atoms[d, i] * atoms[d, j]
                start[i] += atoms[d, i] * target[b, d]
        settled[b] = False
        done, sweeps = 0, 4
        while not settled[b] and done < max_sweeps:
            settled[b] = _descend(G, start, c, lam[b], tau, tol, sweeps) or _jump(G, start, c, lam[b], tau)
            done += sweeps
            sweeps = min(2 * sweeps, 256)
        kept = 0
        for i in range(m):
            if c[i] != 0.0:
                support[b, kept], weight[b, kept] = place[i], c[i]
                kept += 1
        count[b] = kept


@lru_cache(maxsize=1)
def net_step() -> Callable[..., None]:
    """Give the compiled step over a block; the names and shapes of its arguments are those of ``_step``.

    ``correlation`` has a row for each of ``live``, places in the block.  ``support`` and ``weight`` need ``room``
    columns more than the largest ``count``.  An atom of correlation 0 never joins, which is how a sample is barred from
    representing itself.
    """
    from numba import types

    from consilience.kernels._compile import array, compiled

    real, flags = types.float64, array("bool", readonly=False)
    return compiled(
        _step,
        types.void(
            array("float64", 2),
            array("float64", 2),
            array("float64", 2, readonly=False),
            array("int64"),
            array("float64"),
            real,
            real,
            real,
            types.int64,
            types.int64,
            array("int64", 2, readonly=False),
            array("float64", 2, readonly=False),
            array("int64", readonly=False),
            flags,
            flags,
        ),
        helpers=(_violators, _jump, _descend),
    )
