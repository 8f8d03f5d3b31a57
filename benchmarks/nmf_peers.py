"""The methods that AND is compared with: HALS and ANLS, and MU, CD and LDA through scikit-learn.

    minimise ½ ‖Y - A X‖²  s.t.  A ≥ 0, X ≥ 0

HALS minimises over one column of A or one row of X at a time, in closed form (Cichocki et al. 2007):

    X(d, :) ← max(0, X(d, :) + (Aᵀ Y - Aᵀ A X)(d, :) / (Aᵀ A)(d, d)),       and A alike.

ANLS minimises over the whole of X, then the whole of A (Kim & Park 2008), for all columns at once by block
principal pivoting (Kim & Park 2011): guess which entries are positive, solve for them, exchange the wrong ones.

====== ============================== ============
symbol name                           shape
====== ============================== ============
Y      ``Y``                          (W, n)
A      ``features``                   (W, D)
X      ``weights``                    (D, n)
====== ============================== ============

A. Cichocki, R. Zdunek and S. Amari, "Hierarchical ALS algorithms for nonnegative matrix and 3D tensor factorization",
ICA 2007.  H. Kim and H. Park, SIAM Journal on Matrix Analysis and Applications 30 (2008).  J. Kim and H. Park, "Fast
nonnegative matrix factorization: an active-set-like method and comparisons", SIAM Journal on Scientific Computing 33
(2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from consilience.exceptions import ConvergenceWarning, DataError, ParameterError, warn
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["NonnegativeFit", "anls", "hals", "lda_topics", "nonnegative_least_squares", "sklearn_nmf"]

#: Exchanges of whole blocks without progress before single entries are exchanged (Kim & Park 2011).
_BACKUP = 3
#: Numbers in one batch of linear systems.
_BATCH = 4_000_000

Callback = Callable[[int, Floats], Any]


@dataclass(frozen=True, eq=False)
class NonnegativeFit:
    """Features and weights with Y ≈ features @ weights, and how they were found."""

    features: Floats  #: A, (W, D)
    weights: Floats  #: X, (D, n)
    history: list[float]  #: ½ ‖Y - A X‖² after every iteration
    converged: bool
    n_iter: int


def nonnegative_least_squares(gram: Floats, target: Floats, *, max_iter: int = 200) -> Floats:
    """Return the X ≥ 0, (D, n), that minimises ‖B X - C‖², given ``gram`` Bᵀ B and ``target`` Bᵀ C.

    The optimum has X ≥ 0, Y = Bᵀ B X - Bᵀ C ≥ 0 and X Y = 0 entry by entry.
    """
    D, n = target.shape
    gram = gram + 1e-14 * max(float(np.trace(gram)) / max(D, 1), 1e-300) * np.eye(D)  # dependent columns of B
    length = np.sqrt(np.diag(gram))
    X, dual = np.zeros((D, n)), -target
    positive = np.zeros((D, n), bool)
    # without slack, rounding could exchange the same entry for ever
    slack = 1e-12 * np.maximum(np.abs(target / length[:, None]).max(axis=0, initial=0.0), 1e-300)
    fewest, patience = np.full(n, D + 1), np.full(n, _BACKUP)
    wrong = dual < -slack * length[:, None]
    for _ in range(max_iter):
        number = wrong.sum(axis=0)
        todo: Ints = np.flatnonzero(number)
        if not todo.size:
            break
        better = number[todo] < fewest[todo]
        fewest[todo[better]], patience[todo[better]] = number[todo[better]], _BACKUP
        patience[todo[~better]] -= 1
        exchange = wrong[:, todo]
        # no progress for a while: exchange only the last wrong entry, which cannot cycle
        single = np.flatnonzero(patience[todo] < 0)
        last = D - 1 - np.argmax(exchange[::-1, single], axis=0)
        exchange[:, single] = False
        exchange[last, single] = True
        positive[:, todo] ^= exchange
        X[:, todo] = _solve_where(gram, target[:, todo], positive[:, todo])
        dual[:, todo] = gram @ X[:, todo] - target[:, todo]
        on = positive[:, todo]
        wrong[:, todo] = np.where(
            on, X[:, todo] * length[:, None] < -slack[todo], dual[:, todo] < -slack[todo] * length[:, None]
        )
    left = int(wrong.any(axis=0).sum())
    if left:
        warn(
            f"{left} of {n} columns of nonnegative least squares were not optimal after {max_iter} exchanges; raise "
            "max_iter, or treat them as approximate",
            ConvergenceWarning,
        )
    return np.maximum(X, 0.0)


def hals(
    Y: Any,
    A0: Floats,
    X0: Floats | None = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-8,
    free_features: bool = False,
    callback: Callback | None = None,
) -> NonnegativeFit:
    """Factor ``Y`` by hierarchical alternating least squares from ``A0`` and, if given, ``X0``.

    ``free_features`` lets A have negative entries.  It ends when the objective falls by less than ``tol`` of itself
    (0: run all).  ``callback`` gets the iterations done and A, and stops by returning True.
    """

    def update(A: Floats, X: Floats) -> tuple[Floats, Floats]:
        _coordinates(X, A.T @ A, A.T @ Y, free=False)
        rows = A.T.copy()
        _coordinates(rows, X @ X.T, X @ Y.T, free=free_features)
        return rows.T, X

    return _alternate(Y, A0, X0, update, max_iter, tol, free_features, callback)


def anls(
    Y: Any,
    A0: Floats,
    X0: Floats | None = None,
    *,
    max_iter: int = 100,
    tol: float = 1e-8,
    free_features: bool = False,
    callback: Callback | None = None,
) -> NonnegativeFit:
    """Factor ``Y`` by alternating nonnegative least squares.  Parameters are those of :func:`hals`."""

    def update(A: Floats, X: Floats) -> tuple[Floats, Floats]:
        X = nonnegative_least_squares(A.T @ A, A.T @ Y)
        if free_features:
            return Y @ X.T @ np.linalg.pinv(X @ X.T, hermitian=True), X
        return nonnegative_least_squares(X @ X.T, X @ Y.T).T, X

    return _alternate(Y, A0, X0, update, max_iter, tol, free_features, callback)


def sklearn_nmf(
    Y: Any,
    A0: Floats,
    X0: Floats | None = None,
    *,
    solver: Literal["mu", "cd"] = "mu",
    max_iter: int = 200,
    tol: float = 0.0,
) -> tuple[Floats, Floats]:
    """Return A and X from scikit-learn's NMF: multiplicative updates or coordinate descent."""
    import warnings

    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning as Ran

    Y, A, X = _started(Y, A0, X0, free=False)
    if solver == "mu":  # an entry of zero stays zero under multiplication
        A, X = (np.maximum(M, 1e-6 * M.max()) for M in (A, X))
    model = NMF(A.shape[1], init="custom", solver=solver, max_iter=max_iter, tol=tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Ran)
        A = model.fit_transform(Y, W=np.ascontiguousarray(A), H=np.ascontiguousarray(X))
    return A, model.components_


def lda_topics(
    Y: Any,
    n_components: int,
    *,
    max_iter: int = 10,
    batch_size: int | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Floats:
    """Return the topics (columns that sum to one) of scikit-learn's online variational latent Dirichlet allocation.

    ``callback`` is called after every ``batch_size`` documents (None: all of them) of ``max_iter`` passes.
    """
    from sklearn.decomposition import LatentDirichletAllocation

    documents = Y.T.tocsr() if hasattr(Y, "tocsr") else np.asarray(Y).T
    n = documents.shape[0]
    # ``total_samples`` is left at a million, scikit-learn's own: with the true number small data end further off
    model = LatentDirichletAllocation(n_components, learning_method="online", random_state=random_state)
    step = batch_size or n
    for i in range(max_iter):
        for first in range(0, n, step):
            model.partial_fit(documents[first : first + step])
            topics: Floats = (model.components_ / model.components_.sum(axis=1, keepdims=True)).T
            if callback is not None and callback(i + 1, topics) is True:
                return topics
    return topics


def _coordinates(X: Floats, gram: Floats, target: Floats, *, free: bool) -> None:
    """Minimise over each row of X in turn, in place."""
    scale = np.diag(gram)
    for d in np.flatnonzero(scale > 1e-14 * max(float(scale.max()), 1e-300)):
        row = X[d] + (target[d] - gram[d] @ X) / scale[d]
        X[d] = row if free else np.maximum(row, 0.0)


def _solve_where(gram: Floats, target: Floats, positive: Bools) -> Floats:
    """Solve gram x = target over each column's positive entries; the others are zero.

    Columns with a similar number of unknowns are solved together, padded with the equations x = 0.
    """
    D, n = target.shape
    X = np.zeros((D, n))
    size = positive.sum(axis=0)
    order = np.argsort(size, kind="stable")
    first = int(np.searchsorted(size[order], 1))
    while first < n:
        p = int(size[order[first]])
        # a batch holds systems up to a quarter larger than its smallest
        stop = min(first + max(1, _BATCH // (D * D)), int(np.searchsorted(size[order], p + p // 4 + 4, side="right")))
        columns = order[first:stop]
        p = int(size[order[stop - 1]])
        on = positive[:, columns].T
        unknowns = np.argsort(~on, axis=1, kind="stable")[:, :p]
        real = np.take_along_axis(on, unknowns, axis=1)
        systems = gram[unknowns[:, :, None], unknowns[:, None, :]] * (real[:, :, None] & real[:, None, :])
        systems[:, np.arange(p), np.arange(p)] += ~real
        right = np.take_along_axis(target[:, columns].T, unknowns, axis=1) * real
        solved = np.linalg.solve(systems, right[:, :, None])[:, :, 0]
        filled = np.zeros((columns.size, D))
        np.put_along_axis(filled, unknowns, np.where(real, solved, 0.0), axis=1)
        X[:, columns] = filled.T
        first = stop
    return X


def _started(Y: Any, A0: Floats, X0: Floats | None, *, free: bool) -> tuple[Any, Floats, Floats]:
    Y = np.asarray(Y, np.float64)
    if Y.ndim != 2 or not np.isfinite(Y).all():
        raise DataError(f"expected a matrix of finite numbers, one sample a column; it has shape {Y.shape}")
    A = np.array(A0, np.float64)
    if A.ndim != 2 or len(A) != len(Y) or not np.isfinite(A).all():
        raise ParameterError(f"A0 must be finite, with {len(Y)} rows as Y has, not of shape {A.shape}")
    A = A if free else np.maximum(A, 0.0)
    X = np.maximum(np.linalg.lstsq(A, Y)[0], 0.0) if X0 is None else np.array(X0, np.float64)
    if X.shape != (A.shape[1], Y.shape[1]) or not (X >= 0).all():
        raise ParameterError(f"X0 must be ≥ 0 and have shape {(A.shape[1], Y.shape[1])}, not {X.shape}")
    return Y, A, X


def _alternate(
    Y: Any,
    A0: Floats,
    X0: Floats | None,
    update: Callable[[Floats, Floats], tuple[Floats, Floats]],
    max_iter: int,
    tol: float,
    free: bool,
    callback: Callback | None,
) -> NonnegativeFit:
    Y, A, X = _started(Y, A0, X0, free=free)
    history: list[float] = []
    converged = False
    for i in range(max_iter):
        A, X = update(A, X)
        rest = Y - A @ X
        history.append(0.5 * float(np.vdot(rest, rest)))
        converged = i > 0 and history[-2] - history[-1] <= tol * history[-2] and tol > 0
        if converged or (callback is not None and callback(i + 1, A) is True):
            break
    return NonnegativeFit(A, X, history, converged, len(history))
