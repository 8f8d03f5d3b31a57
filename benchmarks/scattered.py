"""Figure 1 of Ibrahim & Fu (2022): rows of a nonnegative matrix that are sufficiently scattered, and rows that are not.

Rows of H, scaled to the simplex of three classes, with the cone C = {x : 1ᵀ x ≥ √2 ‖x‖} of Definition 1, whose
section with the simplex is the circle that touches its sides.  The condition holds if the convex hull of the rows
contains the circle.  ``scatter`` of ``consilience.diagnose`` measures the same for a fitted crowd.
"""

from __future__ import annotations

import numpy as np

from benchmarks.figures import Figure
from benchmarks.pictures import blank, save
from consilience.kernels._arrays import Floats

#: Corners of the simplex in the plane.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def contained(rows: Floats) -> float:
    """Return the share of the circle that the convex hull of the rows (on the simplex) contains."""
    from scipy.spatial import Delaunay

    centre, radius = CORNERS.mean(axis=0), np.sqrt(3) / 6
    angle = np.linspace(0.0, 2.0 * np.pi, 3600, endpoint=False)
    circle = centre + (radius - 1e-9) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return float(np.mean(Delaunay(rows @ CORNERS).find_simplex(circle) >= 0))


def crowds() -> dict[str, Floats]:
    """Return rows of annotators who include specialists, and rows of annotators who do not."""
    rng = np.random.default_rng(0)
    between = rng.dirichlet(np.full(3, 4.0), 60)
    specialists = np.eye(3)[rng.integers(0, 3, 12)]
    return {"satisfied": np.concatenate([between, specialists]), "violated": between}


def run() -> list[Figure]:
    figures, picture = [], blank(9.0, 4.2)
    panels = crowds()
    for i, (name, rows) in enumerate(panels.items()):
        share = contained(rows)
        figures.append(
            Figure(f"Fig. 1, {name}: share of the circle inside the hull", share, 1.0, up=True)
            if name == "satisfied"
            else Figure(f"Fig. 1, {name}: share of the circle inside the hull", share, 0.999)
        )
        if picture is None:
            continue
        from scipy.spatial import ConvexHull

        axes = picture.add_subplot(1, 2, i + 1, aspect="equal")
        points = rows @ CORNERS
        hull = points[ConvexHull(points).vertices]
        axes.fill(*hull.T, color="#60a5fa", alpha=0.5)
        axes.plot(*points.T, ".", color="#111827", markersize=4)
        axes.plot(*np.concatenate([CORNERS, CORNERS[:1]]).T, color="#9ca3af")
        turn = np.linspace(0, 2 * np.pi, 200)
        centre = CORNERS.mean(axis=0)[:, None] + np.sqrt(3) / 6 * np.stack([np.cos(turn), np.sin(turn)])
        axes.plot(*centre, color="#c2410c")
        axes.set_title(f"sufficiently scattered: {name}")
        axes.set_axis_off()
    if picture is not None:
        save(picture, "scattered.png")
    print(*figures, sep="\n", flush=True)
    return figures
