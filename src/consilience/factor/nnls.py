"""Nonnegative least squares for many right-hand sides at once, by block principal pivoting.

    X = argmin ‖B X - C‖²  s.t.  X ≥ 0

Guess which entries are positive, solve for them, exchange the entries that came out wrong, and repeat.

====== ============ ================================
symbol name         shape
====== ============ ================================
Bᵀ B   ``gram``     (D, D)
Bᵀ C   ``target``   (D, n)
====== ============ ================================

J. Kim and H. Park, "Fast nonnegative matrix factorization: an active-set-like method and comparisons", SIAM Journal on
Scientific Computing 33 (2011).
"""

from __future__ import annotations

import numpy as np

from consilience.exceptions import ConvergenceWarning, warn
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["nonnegative_least_squares"]

#: Exchanges of whole blocks without progress before single entries are exchanged (Kim & Park 2011).
_BACKUP = 3
#: Numbers in one batch of linear systems.
_BATCH = 4_000_000


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
