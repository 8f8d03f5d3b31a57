"""How much annotators err together, over all pairs of labels.

For two labels of an item, the other labels tell what the truth may be, and so how often the two should agree.  With q
the posterior of the item without both labels,

    excess  =  Σ over pairs of labels  [the two agree] - Σ_k q_k Σ_i A_m(i, k) A_j(i, k),

which is zero on average when annotators are independent, whatever their confusions.  Divided by the sum over the same
pairs of √(v_m v_j), v the variance of being right, it is the correlation of errors.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Parameters
from consilience.kernels.em import FLOOR
from consilience.moments.label_pairs import label_pairs, labels_of_some

__all__ = ["CHANCE", "CLEAR", "TYPICAL", "error_correlation"]

#: ρ, the correlation of errors that tempers a posterior.
TYPICAL = 0.25
#: A measured correlation below the first may be chance; above the second it shows a crowd whose errors go together.
CHANCE, CLEAR = 0.02, 0.05
#: Pairs of labels to look at, about.
_PAIRS = 50_000


def error_correlation(annotations: Annotations, parameters: Parameters) -> float:
    """Give the correlation of errors that the labels show beyond the model; near 0 for independent annotators."""
    _, indptr, annotator, label = labels_of_some(annotations, _PAIRS)
    first, second = label_pairs(indptr)
    if not first.size:
        return 0.0
    prior, A = np.maximum(parameters.prior, FLOOR), np.maximum(parameters.confusions, FLOOR)
    M, K, _ = A.shape
    n_labels = np.diff(indptr)
    m, j = annotator.take(first), annotator.take(second)
    # log q without the two labels: what all labels say, less what these two do
    cell = annotator * K + label
    log_q = np.empty((K, first.size))
    for k in range(K):
        log_each = np.log(A[:, :, k]).ravel().take(cell)
        log_all = np.add.reduceat(log_each, indptr[:-1])
        log_rest = np.repeat(np.log(prior[k]) + log_all, n_labels) - log_each
        np.subtract(log_rest.take(first), log_each.take(second), out=log_q[k])
    log_q -= log_q.max(axis=0)
    q = np.exp(log_q, out=log_q)
    q /= q.sum(axis=0)
    # Σ_k q_k Σ_i A_m(i, k) A_j(i, k), and v = Σ_k q_k A_m(k, k) (1 - A_m(k, k))
    agree, v_m, v_j = (np.zeros(first.size) for _ in range(3))
    for k in range(K):
        of_k = np.ascontiguousarray(A[:, :, k])
        if first.size >= M * M:  # fewer pairs of annotators than of labels
            agree += q[k] * (of_k @ of_k.T).take(m * M + j)
        else:
            agree += q[k] * np.einsum("pi,pi->p", of_k.take(m, axis=0), of_k.take(j, axis=0))
        variance = of_k[:, k] * (1.0 - of_k[:, k])
        v_m += q[k] * variance.take(m)
        v_j += q[k] * variance.take(j)
    scale = float(np.sqrt(v_m * v_j).sum())
    excess = float(np.count_nonzero(label.take(first) == label.take(second)) - agree.sum())
    return excess / scale if scale > 0 else 0.0
