"""Kinds of sketch: Fig. 2.1 of Traganitis (2019), accuracy of Sketch-LSR against n for four random matrices.

The thesis shows curves: on Extended Yale B all kinds are comparable, on COIL-100 (not public here; a simulated union
and 5,000 digits take its place) the Rademacher sketch is the most consistent.  λ and k of Yale B are the thesis'.  The
time of drawing and applying each sketch to 10^5 samples of 100 features is printed too.
"""

from __future__ import annotations

import warnings
from typing import Any, get_args

import numpy as np

from benchmarks.figures import Figure, best_of
from benchmarks.pictures import blank, save
from benchmarks.sketched_clustering import COLOURS, SKETCHES, problems, say, sketched
from consilience.exceptions import ConsilienceWarning
from consilience.subspace.sketches import SketchKind, make_sketch

KINDS: tuple[SketchKind, ...] = get_args(SketchKind)


def run() -> list[Figure]:
    figures: list[Figure] = []
    picture = blank(13.0, 3.7)
    chosen = problems()
    panels: Any = picture.subplots(1, len(chosen), sharey=True) if picture is not None else [None] * len(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for problem, ax in zip(chosen, panels, strict=True):
            curves = {}
            for kind in KINDS:
                curves[kind] = [sketched(problem, n, sketch=kind) for n in SKETCHES]
                for n, found in zip(SKETCHES, curves[kind], strict=True):
                    say(problem.name, f"{kind}, n = {n}", found)
            at70 = {kind: curve[SKETCHES.index(70)].accuracy for kind, curve in curves.items()}
            spread = max(at70.values()) - min(at70.values())
            figures.append(Figure(f"{problem.name}: accuracy of the Rademacher sketch, n = 70", at70["rademacher"]))
            figures.append(Figure(f"{problem.name}: spread of accuracy over kinds, n = 70", spread))
            if ax is not None:
                for (kind, curve), colour, marker in zip(curves.items(), COLOURS, "osD^", strict=False):
                    values = [found.accuracy for found in curve]
                    ax.plot(SKETCHES, values, marker=marker, fillstyle="none", color=colour, label=kind)
                ax.set(title=problem.name, xlabel="size of the sketch n", xticks=SKETCHES, ylim=(0.0, 1.02))
                ax.grid(color="0.9", linewidth=0.6)
                ax.spines[["top", "right"]].set_visible(False)
    if picture is not None:
        panels[0].set_ylabel("accuracy")
        panels[0].legend(frameon=False, fontsize=9, loc="lower right")
        save(picture, "sketch_kinds.png")
    X = np.random.default_rng(0).standard_normal((100_000, 100))
    for kind in KINDS:
        seconds = best_of(3, lambda kind=kind: make_sketch(kind, len(X), 70, 0).apply(X))  # type: ignore[misc]
        figures.append(Figure(f"{kind}: drawing and applying, 10^5 × 100 to 70", seconds, unit="s"))
    return figures
