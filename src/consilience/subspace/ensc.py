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
z      what :func:`elastic_net` gives (N, N), sparse
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

from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.subspace.omp import samples
from consilience.validation import chosen_rows, number, whole

__all__ = ["elastic_net"]

#: Correlations held at once, as many doubles.
_HELD = 1 << 23
#: A condition violated by this share of τ is met.
_SLACK = 1e-7
#: Most sweeps of coordinate descent in a round.
_SWEEPS = 100_000
#: Samples that may join a working set in a round.
_ROOM = 50


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
        Most rounds for a sample.
    normalize
        Scale samples to length one first; the weights are those of the scaled samples.
    rows
        Code these samples alone, against all: their numbers, or a mask of all samples.  None codes all.
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

    from consilience.kernels.elastic_net import net_step

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
    step, unsolved = net_step(), 0
    indices, weights, counts = [], [], [np.zeros(1, np.int64)]
    n_block = max(1, min(_HELD // N, 1024, len(chosen)))
    held = np.empty((n_block, N))
    for first in range(0, len(chosen), n_block):
        own = chosen[first : first + n_block]
        target, live = X[own], np.arange(len(own))
        count = np.zeros(len(own), np.int64)
        support, weight = np.zeros((len(own), 4 * _ROOM), np.int64), np.zeros((len(own), 4 * _ROOM))
        open_, settled = np.ones(len(own), np.bool_), np.ones(len(own), np.bool_)
        oracle, scale = target, np.ones(len(own))
        for _ in range(max_iter):
            correlation = np.matmul(oracle[live], X.T, out=held[: len(live)])
            correlation[np.arange(len(live)), own[live]] = 0.0
            if oracle is target:  # δ = λ x of the empty net, once λ is known
                top = np.maximum(correlation.max(axis=1), -correlation.min(axis=1))
                scale = np.full(len(own), lam) if lam else alpha * tau / np.where(top > 0, top, 1.0)
                correlation *= scale[:, None]
            more = int(count.max()) + _ROOM - support.shape[1]
            if more > 0:
                wider = (0, 0), (0, more + support.shape[1])
                support, weight = np.pad(support, wider), np.pad(weight, wider)
            numbers = tau, _SLACK, tol, _SWEEPS, _ROOM
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
