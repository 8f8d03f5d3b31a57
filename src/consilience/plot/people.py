"""Pictures of annotators: their confusion matrices, and a map of accuracy and information."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.data.names import shown
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.plot.canvas import ACCENT, BAD, GREY, PALE, axes_of, figure, finish, name_ticks, plain, shades
from consilience.runs.consensus import Consensus
from consilience.validation import whole

__all__ = ["annotator_map", "confusions"]

#: Limit on the names of the map.
_MOST_NAMES = 40
#: Width of a name, in accuracy, and its height as a share of the picture.
_WIDE, _HIGH = 0.06, 0.035
#: Up to so many classes, cells have numbers.
_MOST_NUMBERS = 6


def confusions(
    model: Consensus | DawidSkene, where: Any = None, *, annotators: Sequence[Any] | None = None, most: int = 12
) -> Any:
    """Draw confusion matrices in percent: columns are the truth, rows are the answers.

    Parameters
    ----------
    model
        A consensus, or its model.
    where
        A path to write the picture to.
    annotators
        Names; by default those with most labels.
    most
        How many, if no names are given.
    """
    parameters = model.model if isinstance(model, Consensus) else model
    people = _chosen(model, annotators, most)
    K = len(parameters.classes)
    columns = min(len(people), 4)
    lines = -(-len(people) // columns)
    side = 1.5 + 0.16 * min(K, 12)
    made = figure(0.4 + side * columns, 0.3 + (side + 0.3) * lines, where)
    panels = made.subplots(lines, columns, squeeze=False)
    colours = shades()
    for at, ax in enumerate(panels.flat):
        if at >= len(people):
            ax.set_axis_off()
            continue
        matrix = parameters.confusions[people[at]]
        ax.imshow(matrix, cmap=colours, vmin=0.0, vmax=1.0)
        ax.set_title(shown(parameters.annotators[int(people[at])], 24), fontsize=9.5, parse_math=False)
        bottom, left = at + columns >= len(people), at % columns == 0
        name_ticks(ax, list(parameters.classes), x=bottom, y=left)
        for i, k in np.ndindex(K, K) if K <= _MOST_NUMBERS else ():
            ink = "white" if matrix[i, k] > 0.55 else BAD if i != k and matrix[i, k] >= 0.2 else GREY
            if matrix[i, k] >= 0.005:
                ax.text(k, i, f"{100 * matrix[i, k]:.0f}", ha="center", va="center", fontsize=8, color=ink)
        ax.spines[:].set_color(PALE)
    made.supxlabel("true class", fontsize=9.5)
    made.supylabel("answer", fontsize=9.5)
    return finish(made, where)


def _chosen(model: Consensus | DawidSkene, names: Sequence[Any] | None, most: int) -> Ints:
    parameters = model.model if isinstance(model, Consensus) else model
    if names is None:
        whole("most", most)
        counts = model.counts.sum(axis=(1, 2)) if isinstance(model, Consensus) else np.zeros(len(parameters.annotators))
        return np.argsort(-counts, kind="stable")[:most]
    if not len(names):
        raise ParameterError("annotators must name at least one annotator")
    codes = parameters.annotators.codes_of(list(names))
    if (codes < 0).any():
        unknown = names[int(np.argmin(codes))]
        raise ParameterError(f"there is no annotator {unknown!r}; there are {list(parameters.annotators[:5])} …")
    return codes


def annotator_map(consensus: Consensus, where: Any = None) -> Any:
    """Draw accuracy, with its 95 % interval, against the information of a label in bits.

    Accurate annotators are informative; so is an adversary, at the left, whose mistakes follow a rule.  Dots grow with
    the number of labels; those of flagged annotators are red.
    """
    ax, made = axes_of(6.2, 4.6, where)
    columns = {name: column.to_pylist() for name, column in consensus.annotator_columns.items()}
    labels = np.asarray(columns["n_labels"], float)
    there = np.flatnonzero(labels > 0)
    nan = float("nan")
    accuracy, low, high = (
        np.asarray([nan if v is None else v for v in columns[name]], float) for name in ("accuracy", "low", "high")
    )
    bits = np.asarray(columns["information"], float)
    flagged = np.asarray([bool(flags) for flags in columns["flags"]])
    prior = consensus.model.prior
    entropy = -float(np.sum(prior * np.log2(np.maximum(prior, 1e-300))))
    plain(ax, "accuracy, with its 95 % interval", "information of a label about the truth, in bits")
    ax.axhline(entropy, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.text(0.0, entropy, " a perfect annotator", va="bottom", fontsize=8, color=GREY)
    size = 18 + 120 * np.sqrt(labels / max(float(labels.max()), 1.0))
    for some, colour in ((there[~flagged[there]], ACCENT), (there[flagged[there]], BAD)):
        ax.hlines(bits[some], low[some], high[some], color=colour, alpha=0.35, linewidth=1.3)
        ax.scatter(accuracy[some], bits[some], size[some], color=colour, alpha=0.85, linewidth=0, zorder=3)
    named = there[np.lexsort((-labels[there], ~flagged[there]))][:_MOST_NAMES]
    top = 1.12 * max(entropy, float(bits.max(initial=0.0)), 0.1)
    taken: list[tuple[float, float]] = []
    for m in named.tolist():
        x, y = float(accuracy[m]), float(bits[m])
        # a name that would cover another is left out
        if all(abs(x - a) > _WIDE or abs(y - b) > _HIGH * top for a, b in taken):
            taken.append((x, y))
            place = {"xytext": (6, 4), "textcoords": "offset points", "fontsize": 8, "color": "#1f2328"}
            ax.annotate(shown(consensus.model.annotators[m], 16), (x, y), parse_math=False, **place)
    ax.set_xlim(-0.02, 1.05)
    ax.set_ylim(-0.03 * top, top)
    return finish(made, where)
