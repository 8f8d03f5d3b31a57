"""Loops of block imputation: reweighted least squares over observed pairs, and paths through designated annotators.

Blocks are read as counts, in the type that they are stored in; R[m, j] = counts / S[m, j] is not stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks as threads
from consilience.kernels._arrays import Codes, Floats, Ints, even_parts
from consilience.kernels._compile import inlined, kernel

__all__ = ["follow_paths", "reweigh", "sweep_factors"]

#: Newton steps to find the multiplier of the norm bound; three are usual.
_NEWTON = 50


def sweep_factors(
    indptr: Ints,
    neighbour: Ints,
    pair: Ints,
    counts: Codes,
    totals: Floats,
    weight: Floats,
    factors: Floats,
    radius: float,
    ridge: float,
) -> None:
    """Update every factor U_m in place, given its neighbours' newest ones.

    ``min Σ_j w_mj ‖R_mj - U_m U_jᵀ‖²  s.t. ‖U_m‖_F ≤ radius`` has the closed form
    ``U_m = (Σ_j w_mj R_mj U_j) (Σ_j w_mj U_jᵀ U_j + μ I)⁻¹``, with μ = 0 if that lies within the radius, else the
    μ that puts it there.
    """
    data = f"(int64[] int64[] int64[]) {counts.dtype}[,,] float64[] float64[]"
    sweep = kernel(_sweep, f"{data} float64[,,]! float64 float64")
    sweep((indptr, neighbour, pair), counts, totals, weight, factors, radius, ridge)


def reweigh(
    who: Codes, counts: Codes, totals: Floats, scale: Floats, factors: Floats, xi: float, robust: bool, weight: Floats
) -> float:
    """Set the weights for the current factors, and return the objective.

    With the scaled residual ``e_p = scale_p ‖R_p - U_m U_jᵀ‖²``: robust, the objective is ``Σ √(e_p + ξ)`` and
    ``w_p = scale_p / √(e_p + ξ)``; else ``Σ e_p`` and ``w_p = scale_p``.
    """
    data = f"int32[,] {counts.dtype}[,,] float64[] float64[] float64[,,]"
    loop = kernel(_reweigh, f"{data} float64 boolean float64[]!", "float64")
    return float(loop(who, counts, totals, scale, factors, xi, robust, weight))


def follow_paths(
    reach: tuple[Ints, Ints, Ints],
    reach_blocks: Floats,
    reach_noise: Floats,
    around: tuple[Ints, Ints, Ints],
    blocks: Floats,
    noise: Floats,
    inverse: Floats,
    links: Ints,
    wanted: Any,
) -> tuple[Floats, Floats]:
    """Sum, for every wanted (m, n), the estimates of R[m, n] along paths m - r - l - n.

    The first step is one of ``reach``, the others of ``around``; ``links[r]`` lists the steps from r to l.  Blocks
    belong to pairs, with the smaller annotator's label as the row.  Returns weighted sums and weights.
    """
    M, K = wanted.shape[0], blocks.shape[1]
    sums, weights = np.zeros((M, M, K, K)), np.zeros((M, M))
    graph = "(int64[] int64[] int64[]) float64[,,] float64[]"
    paths = kernel(_paths, f"int64 int64 {graph} {graph} (float64[,,] int64[,] bool[,]) float64[,,,]! float64[,]!")

    first_step, other_steps = (tuple(reach), reach_blocks, reach_noise), (tuple(around), blocks, noise)
    guide = inverse, links, wanted
    threads.run(
        lambda a, b: paths(a, b, *first_step, *other_steps, guide, sums, weights),
        even_parts(M, min(M, 4 * threads.thread_count())),
    )
    return sums, weights


@inlined
def _cholesky(A: Any, mu: Any, L: Any) -> Any:
    """Factorise A + μ I = L Lᵀ; False when it is not positive definite."""
    K = A.shape[0]
    for i in range(K):
        for j in range(i + 1):
            s = A[i, j]
            if i == j:
                s += mu
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                if s <= 0.0:
                    return False
                L[i, i] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return True


@inlined
def _bounded_solution(B: Any, C: Any, radius: Any, ridge: Any, L: Any, U: Any) -> None:
    """Solve U (C + μ I) = B with the smallest μ ≥ 0 for which ‖U‖_F ≤ radius (Newton on 1/‖U‖, as in trust regions)."""
    K = B.shape[0]
    trace = 0.0
    for k in range(K):
        trace += C[k, k]
    mu = ridge * trace + 1e-300
    for _ in range(_NEWTON):
        while not _cholesky(C, mu, L):
            mu = 4.0 * mu + 1e-15 * trace
        norm, bend = 0.0, 0.0
        for i in range(K):
            # forward: y = L⁻¹ bᵢ, backward: u = L⁻ᵀ y; then ‖L⁻¹ u‖² for the derivative
            for j in range(K):
                s = B[i, j]
                for k in range(j):
                    s -= L[j, k] * U[i, k]
                U[i, j] = s / L[j, j]
            for j in range(K - 1, -1, -1):
                s = U[i, j]
                for k in range(j + 1, K):
                    s -= L[k, j] * U[i, k]
                U[i, j] = s / L[j, j]
            for j in range(K):
                norm += U[i, j] * U[i, j]
        norm = np.sqrt(norm)
        if norm <= radius * (1.0 + 1e-10):
            return
        for i in range(K):
            y = np.empty(K)
            for j in range(K):
                s = U[i, j]
                for k in range(j):
                    s -= L[j, k] * y[k]
                y[j] = s / L[j, j]
                bend += y[j] * y[j]
        mu += (norm / radius - 1.0) * norm * norm / bend


def _sweep(graph: Any, counts: Any, totals: Any, weight: Any, factors: Any, radius: Any, ridge: Any) -> None:
    indptr, neighbour, pair = graph
    M, K, _ = factors.shape
    gram = np.empty((M, K, K))
    for m in range(M):
        for a in range(K):
            for b in range(K):
                s = 0.0
                for i in range(K):
                    s += factors[m, i, a] * factors[m, i, b]
                gram[m, a, b] = s
    B, C, L, U = np.empty((K, K)), np.empty((K, K)), np.zeros((K, K)), np.empty((K, K))
    for m in range(M):
        if indptr[m] == indptr[m + 1]:
            continue
        B[:] = 0.0
        C[:] = 0.0
        for e in range(indptr[m], indptr[m + 1]):
            j, p = neighbour[e], pair[e]
            w = weight[p]
            for a in range(K):
                for b in range(K):
                    c = counts[p, a, b] if m < j else counts[p, b, a]
                    if c:
                        x = w * c / totals[p]
                        for k in range(K):
                            B[a, k] += x * factors[j, b, k]
            for a in range(K):
                for b in range(a + 1):
                    C[a, b] += w * gram[j, a, b]
        _bounded_solution(B, C, radius, ridge, L, U)
        for a in range(K):
            for b in range(K):
                factors[m, a, b] = U[a, b]
        for a in range(K):
            for b in range(K):
                s = 0.0
                for i in range(K):
                    s += U[i, a] * U[i, b]
                gram[m, a, b] = s


def _reweigh(who: Any, counts: Any, totals: Any, scale: Any, factors: Any, xi: Any, robust: Any, weight: Any) -> Any:
    K = factors.shape[1]
    objective = 0.0
    for p in range(who.shape[0]):
        m, j = who[p, 0], who[p, 1]
        error = 0.0
        for a in range(K):
            for b in range(K):
                s = counts[p, a, b] / totals[p]
                for k in range(K):
                    s -= factors[m, a, k] * factors[j, b, k]
                error += s * s
        error *= scale[p]
        if robust:
            root = np.sqrt(error + xi)
            weight[p] = scale[p] / root
            objective += root
        else:
            weight[p] = scale[p]
            objective += error
    return objective


def _paths(
    first: Any,
    stop: Any,
    reach: Any,
    reach_blocks: Any,
    reach_noise: Any,
    around: Any,
    blocks: Any,
    noise: Any,
    guide: Any,
    sums: Any,
    weights: Any,
) -> None:
    reach_indptr, reach_neighbour, reach_pair = reach
    indptr, neighbour, pair = around
    inverse, links, wanted = guide
    K = blocks.shape[1]
    A, G, E = np.empty((K, K)), np.empty((K, K)), np.empty((K, K))
    for m in range(first, stop):
        if not wanted[m].any():
            continue
        for e in range(reach_indptr[m], reach_indptr[m + 1]):
            r, p = reach_neighbour[e], reach_pair[e]
            for q in range(links.shape[1]):
                f = links[r, q]
                if f < 0:
                    break
                via, inner = neighbour[f], pair[f]
                if via == m:
                    continue
                # G = R[l, r]⁻¹ and A = R[m, r] G
                left = 0.0
                for a in range(K):
                    for b in range(K):
                        G[a, b] = inverse[inner, a, b] if via < r else inverse[inner, b, a]
                for a in range(K):
                    for c in range(K):
                        s = 0.0
                        for b in range(K):
                            s += (reach_blocks[p, a, b] if m < r else reach_blocks[p, b, a]) * G[b, c]
                        A[a, c] = s
                        left += s * s
                for g in range(indptr[via], indptr[via + 1]):
                    n, last = neighbour[g], pair[g]
                    if n == r or not wanted[m, n]:
                        continue
                    right = 0.0
                    for a in range(K):
                        for c in range(K):
                            s, t = 0.0, 0.0
                            for b in range(K):
                                x = blocks[last, b, c] if via < n else blocks[last, c, b]
                                s += A[a, b] * x
                                t += G[a, b] * x
                            E[a, c] = s
                            right += t * t
                    # to first order δR[m, n] = δR[m, r] G R[l, n] + A δR[l, n] - A δR[l, r] G R[l, n]
                    error = right * reach_noise[p] + left * noise[last] + left * right * noise[inner]
                    w = 1.0 / (error * error + 1e-30)
                    weights[m, n] += w
                    for a in range(K):
                        for c in range(K):
                            sums[m, n, a, c] += w * E[a, c]
