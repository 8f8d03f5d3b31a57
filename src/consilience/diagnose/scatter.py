"""Class specialists, and the sufficiently scattered condition.

A row of ``H`` (Ibrahim & Fu 2022, eq. (6)) shows for which classes annotator m says label i.  A row that is a multiple
of the unit vector e_k belongs to a class specialist: whenever they say i, the truth is k.

The symmetric factorisation is unique when H is sufficiently scattered (Definition 1): the cone of its rows contains

    C = {x : 1ᵀx ≥ √(K - 1) ‖x‖}.

Cut both by the plane 1ᵀx = 1.  C becomes the ball around c = 1/K with radius r = 1/√(K (K - 1)), which touches the
sides of the simplex from within; the cone becomes the convex hull of the rows z_i, each divided by its sum.  So (i) of
the definition holds when the largest ball around c in the hull,

    ρ = min over unit vectors u ⟂ 1 of max_i uᵀ(z_i - c),

has ρ ≥ r, and the ``shortfall`` is 1 - ρ/r, cut to [0, 1]: 0 when the condition holds, 1 when the hull does not
surround c at all.  (Part (ii) of the definition rules out ties, such as rows that only just touch the ball.)

* K = 2: the ball is the whole simplex, so both classes need a specialist.  Exact.
* K = 3: the ball is a disc, and ρ the distance of c from the nearest edge of the hull.  Exact.
* K > 3: 1/ρ = max ‖w‖ over the polytope {w ⟂ 1 : wᵀ(z_i - c) ≤ 1 for all i}, which is not a convex problem.  From
  many directions, linear programs climb to a corner that is a local maximum: a lower bound of the shortfall.

====== ============ ==========================================
symbol name         shape
====== ============ ==========================================
H      ``H``        (J, K), nonnegative
z      ``rows``     (J, K), rows of H that sum to one
====== ============ ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.diagnose.constants import FAR_CORNER, SCATTER_SIDES, SCATTER_STARTS
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Scatter", "in_plane", "scatter", "shortfall_by_programs"]

#: Points whose reach is computed at a time.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class Scatter:
    """Distances of the rows of H from the unit vectors, and from being sufficiently scattered."""

    row: Ints  #: row of H nearest to each unit vector, (K,)
    distance: Floats  #: ‖z - e_k‖ of that row, 0 for a perfect specialist, (K,)
    angle: Floats  #: the angle between them, in degrees, (K,)
    shortfall: float  #: 0 when the sufficiently scattered condition holds, 1 when the hull does not surround c
    exact: bool  #: whether the shortfall is exact; otherwise it is a lower bound


def scatter(H: Floats, *, seed: int = 0, search: bool = True) -> Scatter:
    """Measure how scattered the rows of a nonnegative matrix (J, K) are; rows of zeros do not count.

    For K > 3 and without ``search``, the shortfall is 0, which is a lower bound.
    """
    used = np.flatnonzero(H.sum(axis=1) > 0)
    K = H.shape[1]
    rows = H[used] / H[used].sum(axis=1, keepdims=True)
    if not used.size:
        return Scatter(np.full(K, -1), np.full(K, np.sqrt(2.0)), np.full(K, 90.0), 1.0, True)
    # ‖z - e_k‖² = ‖z‖² - 2 z_k + 1
    squares = (rows * rows).sum(axis=1, keepdims=True)
    apart = np.maximum(squares - 2 * rows + 1.0, 0.0)
    nearest = apart.argmin(axis=0)
    near = rows[nearest]
    cosine = near[np.arange(K), np.arange(K)] / np.linalg.norm(near, axis=1)
    return Scatter(
        row=used[nearest],
        distance=np.sqrt(apart[nearest, np.arange(K)]),
        angle=np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0))),
        shortfall=_shortfall(rows, seed) if search or K <= 3 else 0.0,
        exact=K <= 3,
    )


def _shortfall(rows: Floats, seed: int) -> float:
    K = rows.shape[1]
    if K == 1:
        return 0.0
    if K == 2:  # u = ±(1, -1)/√2 are the only directions, and r = 1/√2
        return _as_shortfall(float(rows.max(axis=0).min() - 0.5) * np.sqrt(2.0), K)
    if K == 3:
        return _as_shortfall(_inner_disc(in_plane(rows)), K)
    return shortfall_by_programs(rows, seed=seed)


def _as_shortfall(radius: float, K: int) -> float:
    return float(np.clip(1.0 - radius * np.sqrt(K * (K - 1)), 0.0, 1.0))


def in_plane(rows: Floats) -> Floats:
    """Return coordinates within the plane 1ᵀx = 1, with the centre 1/K as origin: (J, K - 1)."""
    K = rows.shape[1]
    # an orthonormal basis whose first vector is 1/√K; the others span the plane
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0][:, 1:]
    plane: Floats = rows @ basis
    return plane


def _inner_disc(points: Floats) -> float:
    """Return the distance of the origin from the nearest edge of the points' hull; negative when it lies outside."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return 0.0  # fewer than three points, or all on one line: a hull without an inside
    return float(-hull.equations[:, -1].max())


def shortfall_by_programs(rows: Floats, *, starts: int = SCATTER_STARTS, seed: int = 0) -> float:
    """Return a lower bound on the shortfall of rows (J, K) that sum to one, for any K, by linear programs."""
    K = rows.shape[1]
    points = in_plane(rows)
    rng = np.random.default_rng(seed)
    # The ball touches the simplex in the middle of its sides: there the hull most easily falls short.
    sides = -in_plane(np.eye(K))
    if K > SCATTER_SIDES:
        sides = sides[rng.choice(K, SCATTER_SIDES, replace=False)]
    directions = np.concatenate([sides, rng.standard_normal((starts, K - 1))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    farthest = 0.0
    active = np.unique(_farthest(points, np.concatenate([directions, -directions])))
    limit = FAR_CORNER * np.sqrt(K * (K - 1))
    for direction in directions:
        goal, length = direction, 0.0
        while True:
            corner, active = _corner(points, active, goal, limit)
            reached = float(np.linalg.norm(corner))
            # ‖w‖² ≥ 2 gᵀw - ‖g‖²: the best corner for the goal g is no nearer than g itself
            if reached <= length * (1 + 1e-9):
                break
            goal, length = corner, reached
        farthest = max(farthest, length)
        if farthest >= limit:
            return 1.0
    return _as_shortfall(1.0 / farthest, K)


def _farthest(points: Floats, directions: Floats) -> Ints:
    """Return the point that reaches farthest in each direction, the first of equals; block by block, to save memory."""
    farthest, reach = np.zeros(len(directions), np.int64), np.full(len(directions), -np.inf)
    for first in range(0, len(points), _BLOCK):
        reached = directions @ points[first : first + _BLOCK].T
        best = reached.argmax(axis=1)
        most = reached[np.arange(len(best)), best]
        farther = most > reach
        farthest[farther], reach[farther] = first + best[farther], most[farther]
    return farthest


def _corner(points: Floats, active: Ints, goal: Floats, limit: float) -> tuple[Floats, Ints]:
    """Maximise goalᵀw over {w : points w ≤ 1} by constraint generation; ``active`` are the constraints in use."""
    from scipy.optimize import linprog

    while True:
        found = linprog(
            -goal / np.linalg.norm(goal),
            A_ub=points[active],
            b_ub=np.ones(active.size),
            bounds=(-limit, limit),
            method="highs",
        )
        corner: Floats = found.x
        reach = points @ corner
        worst = int(reach.argmax())
        if reach[worst] <= 1 + 1e-7 or worst in active:
            return corner, active
        # the worst few rows at once: fewer programs
        active = np.union1d(active, np.argpartition(-reach, min(8, reach.size - 1))[:8])
