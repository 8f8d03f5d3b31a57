"""Self-representation by elastic nets with an active set: EnSC (ORGEN), a batch peer of the sketched methods.

    min τ‖z_n‖₁ + (1-τ)/2 ‖z_n‖² + λ_n/2 ‖x_n - z_n X‖²   subject to   z_nn = 0        for every sample n

With τ = 1 this is sparse subspace clustering (2.9) without the affine constraint.  A round solves every net on a small
working set, then one product of a block of oracle points δ_n = λ_n (x_n - z_n X) with all samples finds those outside
that violate |⟨x_j, δ_n⟩| ≤ τ; they join and the next round begins.  When there is none the net is solved on all
samples.  A round costs O(N² D) time; memory is O(N) beside the result.

====== ============================== ============
symbol name                           shape
====== ============================== ============
x      ``X``, samples                 (N, D)
z      result of :func:`elastic_net`  (N, N), sparse
λ      ``lam``, or from ``alpha``     (N,)
τ      ``tau``                        scalar
====== ============================== ============

C. You, C.-G. Li, D. P. Robinson and R. Vidal, "Oracle based active set algorithm for scalable elastic net subspace
clustering", CVPR 2016, Algorithm 1; reference [157] of Traganitis (2019), Section 2.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.subspace_codes import HELD, chosen_rows, samples
from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.kernels._compile import kernel
from consilience.validation import number, whole

__all__ = ["ROOM", "elastic_net"]

#: A condition violated by at most this share of τ counts as met.
_SLACK = 1e-7
#: Largest number of sweeps of coordinate descent in a round.
_SWEEPS = 100_000
#: Samples that may join a working set in a round.
ROOM = 50


def elastic_net(
    X: Any,
    lam: float | None = None,
    tau: float = 0.9,
    *,
    alpha: float = 50.0,
    tol: float = 1e-8,
    max_iter: int = 100,
    normalize: bool = True,
    rows: Any = None,
    block: int | None = None,
    callback: Callable[[int], None] | None = None,
) -> Any:
    """Represent every sample by an elastic net of the others.

    Parameters
    ----------
    X
        Samples, (N, D).
    lam
        λ, the same for all samples.  None takes ``alpha`` times the smallest λ whose net is not zero,
        ``λ_n = α τ / max_j |⟨x_n, x_j⟩|``.
    tau
        τ, above 0 and at most 1: the share of the l1 norm.
    alpha
        α; above 1.
    tol
        Coordinate descent stops when no weight moves by more than this.
    max_iter
        Largest number of rounds for a sample.
    normalize
        Scale samples to length one first; the weights are those of the scaled samples.
    rows
        Code only these samples, against all: their indices, or a mask of all samples.  None codes all.
    block
        Samples coded together.  None: as many as keep 64 MB of correlations.
    callback
        Called with the number of samples done, after every block.

    Returns
    -------
    scipy.sparse.csr_array
        Z, (N or ``rows``, N), with zero diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> Z = elastic_net(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -3.0]]), 9.0, 1.0)
    >>> Z.toarray()[:2].round(6).tolist()
    [[0.0, 0.888889, 0.0, 0.0], [0.888889, 0.0, 0.0, 0.0]]
    """
    from scipy.sparse import csr_array

    X = samples(X, normalize=normalize)
    number("lam", lam, none=True)
    number("tol", tol, zero=True)
    whole("max_iter", max_iter)
    if not 0 < tau <= 1:
        raise ParameterError(f"tau must be above 0 and at most 1, not {tau!r}; for tau = 0 use lsr")
    if not alpha > 1:
        raise ParameterError(f"alpha must be a number > 1, not {alpha!r}: below, every weight is zero")
    N = len(X)
    chosen = chosen_rows(rows, N)
    step = kernel(
        _step,
        "float64[,] float64[,] float64[,]! int64[] float64[] float64 float64 float64 int64 int64 "
        "int64[,]! float64[,]! int64[]! bool[]! bool[]!",
        helpers=(_violators, _jump, _descend),
    )
    unsolved = 0
    indices, weights, counts = [], [], [np.zeros(1, np.int64)]
    n_block = max(1, min(block or HELD // N, 1024, len(chosen)))
    held = np.empty((n_block, N))
    for first in range(0, len(chosen), n_block):
        own = chosen[first : first + n_block]
        target, live = X[own], np.arange(len(own))
        count = np.zeros(len(own), np.int64)
        support, weight = np.zeros((len(own), 4 * ROOM), np.int64), np.zeros((len(own), 4 * ROOM))
        open_, settled = np.ones(len(own), np.bool_), np.ones(len(own), np.bool_)
        oracle, scale = target, np.ones(len(own))
        for _ in range(max_iter):
            correlation = np.matmul(oracle[live], X.T, out=held[: len(live)])
            correlation[np.arange(len(live)), own[live]] = 0.0
            if oracle is target:  # δ = λ x of the empty net, once λ is known
                top = np.maximum(correlation.max(axis=1), -correlation.min(axis=1))
                scale = np.full(len(own), lam) if lam else alpha * tau / np.where(top > 0, top, 1.0)
                correlation *= scale[:, None]
            more = int(count.max()) + ROOM - support.shape[1]
            if more > 0:
                wider = (0, 0), (0, more + support.shape[1])
                support, weight = np.pad(support, wider), np.pad(weight, wider)
            numbers = tau, _SLACK, tol, _SWEEPS, ROOM
            step(X, target, correlation, live, scale, *numbers, support, weight, count, open_, settled)
            live = np.flatnonzero(open_)
            if not live.size:
                break
            used = np.arange(support.shape[1]) < count[:, None]
            indptr = np.concatenate([[0], np.cumsum(count)])
            Z = csr_array((weight[used], support[used], indptr), shape=(len(own), N))
            oracle = scale[:, None] * (target - Z @ X)
        unsolved += int((open_ | ~settled).sum())
        used = np.arange(support.shape[1]) < count[:, None]
        indices.append(support[used])
        weights.append(weight[used])
        counts.append(count)
        if callback is not None:
            callback(first + len(own))
    if unsolved:
        warn(f"elastic nets of {unsolved} samples are not solved after {max_iter} rounds", ConvergenceWarning)
    parts = np.concatenate(weights), np.concatenate(indices), np.cumsum(np.concatenate(counts))
    result = csr_array(parts, shape=(len(chosen), N))
    result.sort_indices()
    return result


def _violators(row: Any, bar: Any, value: Any, index: Any) -> Any:
    """Keep the atoms that exceed ``bar`` most, as many as fit, in a heap with the least on top; return their number."""
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

    (λ G_SS + (1-τ) I) c_S = λ (X_S x) - τ sign(c_S), by Cholesky.  Returns whether c, now exact, is the solution.
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
    """Cycle through the coordinates; return whether none moved by more than ``tol`` in the last sweep.

    With g = X_S x - G c, the correlations of the residual, and G = X_S X_Sᵀ

        c_i ← T_τ(λ (g_i + G_ii c_i)) / (λ G_ii + 1 - τ),     T the soft threshold (B.6).
    """
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
            full = sweep % 4 == 3  # zeros are updated in every fourth sweep only
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
    """Add violators to the working set of every live sample and solve there; a sample without any is closed.

    ``correlation`` has a row for each of ``live``, positions in the block.  ``support`` and ``weight`` need ``room``
    columns more than the largest ``count``.  An atom of correlation 0 never joins, which keeps a sample out of its own
    representation.
    """
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
