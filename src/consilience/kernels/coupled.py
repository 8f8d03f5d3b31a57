"""One pass over the pairs of annotators: the log-likelihood of their joint labels, and the sums of the M-step.

A pair of labels (a, b) of annotators m and j is an item with two labels: the posterior of its class is

    q(k) = λ_k A_m(a, k) A_j(b, k) / R̂(a, b),      R̂ = A_m diag(λ) A_jᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes, Floats
from consilience.kernels._compile import kernel
from consilience.kernels.em import Statistics

__all__ = ["sweep_pairs"]


def sweep_pairs(who: Codes, counts: Codes, prior: Floats, confusions: Floats) -> Statistics:
    """Return ``Σ counts log R̂`` and the expected number of labels i that m gave to items of class k.

    A pair of labels counts once for the class and once for each annotator.  ``who`` is (P, 2), ``counts`` (P, K, K).
    """
    sums, class_sums = np.zeros_like(confusions), np.zeros_like(prior)
    model = "float64[] float64[,,] float64[,,]! float64[]!"
    sweep = kernel(_sweep, f"int32[,] {counts.dtype.name}[,,] {model}", "float64")
    objective = sweep(who, counts, prior, confusions, sums, class_sums)
    return Statistics(sums, class_sums, float(objective))


def _sweep(who: Any, counts: Any, prior: Any, confusions: Any, sums: Any, class_sums: Any) -> Any:
    K = prior.size
    joint = np.empty(K)
    objective = 0.0
    for p in range(who.shape[0]):
        m, j = who[p, 0], who[p, 1]
        for a in range(K):
            for b in range(K):
                if counts[p, a, b] == 0:
                    continue
                c = np.float64(counts[p, a, b])
                total = 0.0
                for k in range(K):
                    joint[k] = prior[k] * confusions[m, a, k] * confusions[j, b, k]
                    total += joint[k]
                # the product may underflow to zero
                total = max(total, 1e-300)
                objective += c * np.log(total)
                share = c / total
                for k in range(K):
                    q = share * joint[k]
                    sums[m, a, k] += q
                    sums[j, b, k] += q
                    class_sums[k] += q
    return objective
