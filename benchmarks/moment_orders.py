"""Do moments above order three help?  Asymptotic variances, exactly, without drawing labels.

For annotators who label everything, the frequencies of all answers of all subsets of at most q annotators are a linear
map of the frequencies of the K^M joint answers, T p.  A moment estimator with weights W has the asymptotic covariance
(GᵀWG)⁻¹ GᵀW C W G (GᵀWG)⁻¹ with G the Jacobian of T p and C = T (diag p - p pᵀ) Tᵀ; W = C⁺ is the best, W = I is that
of the thesis (3.25).  Maximum likelihood, and so EM, has the inverse Fisher information.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

from benchmarks.figures import Figure
from consilience.kernels._arrays import Floats

CROWDS = ((5, 2), (7, 2), (5, 3))
DRAWS = 10


def run() -> list[Figure]:
    """Print medians over crowds of the sum of variances, relative to maximum likelihood."""
    figures = []
    for M, K in CROWDS:
        drawn = [variances(M, K, seed) for seed in range(DRAWS)]
        medians = {name: float(np.median([each[name] for each in drawn])) for name in drawn[0]}
        print(f"  {M} annotators, {K} classes: " + ", ".join(f"{name} {v:.3f}" for name, v in medians.items()))
        gain = medians["3, equal weights"] - medians["4, equal weights"]
        figures.append(Figure(f"{M} annotators, {K} classes: variance saved by order four", gain))
    return figures


def variances(M: int, K: int, seed: int) -> Mapping[str, float]:
    """Return the sum of variances of each estimator over that of maximum likelihood."""
    rng = np.random.default_rng(seed)
    prior, A = rng.dirichlet(np.full(K, 5.0)), np.empty((M, K, K))
    for m, k in product(range(M), range(K)):
        right = rng.uniform(0.5, 0.9)
        A[m, :, k] = np.insert(rng.dirichlet(np.ones(K - 1)) * (1 - right), k, right)
    cells = np.array(list(product(range(K), repeat=M)))

    def joint(at: Floats) -> Floats:
        share, free = at[: K - 1], at[K - 1 :].reshape(M, K - 1, K)
        confusions = np.concatenate([free, 1 - free.sum(axis=1, keepdims=True)], axis=1)
        each = np.prod([confusions[m][cells[:, m]] for m in range(M)], axis=0)
        made: Floats = each @ np.append(share, 1 - share.sum())
        return made

    at = np.concatenate([prior[:-1], A[:, :-1].ravel()])
    p, step = joint(at), 1e-6
    J = np.column_stack([(joint(at + step * e) - joint(at - step * e)) / (2 * step) for e in np.eye(at.size)])
    likelihood = float(np.trace(np.linalg.inv(J.T @ (J / p[:, None]))))
    found = {}
    for q in (3, 4):
        subsets = [who for size in range(1, q + 1) for who in combinations(range(M), size)]
        T = np.array(
            [(cells[:, who] == said).all(axis=1) for who in subsets for said in product(range(K), repeat=len(who))],
            np.float64,
        )
        G, C = T @ J, T @ (np.diag(p) - np.outer(p, p)) @ T.T
        best = np.linalg.pinv(G.T @ np.linalg.pinv(C, hermitian=True, rcond=1e-9) @ G)
        H = np.linalg.inv(G.T @ G) @ G.T
        found[f"{q}, best weights"] = float(np.trace(best)) / likelihood
        found[f"{q}, equal weights"] = float(np.trace(H @ C @ H.T)) / likelihood
    return found
