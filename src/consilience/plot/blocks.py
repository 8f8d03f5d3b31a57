"""Co-occurrence of the answers of pairs of annotators, as a matrix of blocks, observed and with gaps filled.

Block (m, j) is ``R[m, j]`` of :mod:`consilience.moments.cooccurrence`; blocks without common items are grey.  They are
filled by a robust factorisation of the observed ones (:func:`consilience.moments.imputation.robust`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.names import shown
from consilience.exceptions import DataError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Bools, Floats
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.moments.imputation import random_factors, robust
from consilience.plot.canvas import GREY, PALE, figure, finish, shades
from consilience.validation import whole

__all__ = ["blocks", "completed", "observed"]

#: Number of random starts of the factorisation; the smallest objective wins.
_STARTS = 4


def blocks(data: Any, where: Any = None, *, most: int = 16, seed: int = 0) -> Any:
    """Draw the co-occurrence blocks of annotators, observed and with gaps filled.

    Parameters
    ----------
    data
        Annotations, a long frame, a matrix, or the path of a file.
    where
        A path to write the picture to.
    most
        How many annotators to draw: those with most labels.  The gaps are filled by all of them.
    seed
        Seed of the random starts.
    """
    whole("most", most, least=2)
    annotations = as_annotations(data)
    pairs = pair_moments(annotations)
    if not len(pairs):
        raise DataError("no two annotators share an item: there are no blocks to draw")
    who = np.argsort(-annotations.labels_per_annotator, kind="stable")[:most]
    K, n = annotations.n_classes, who.size
    before, known = observed(pairs, who)
    after = completed(pairs, who, seed)
    made = figure(9.6, 4.9, where)
    highest = float(max(before.max(), after.max()))
    for ax, matrix, title in zip(
        made.subplots(1, 2), (before, after), ("as observed", "with gaps filled"), strict=True
    ):
        if matrix is before:
            matrix = np.ma.masked_where(~np.kron(known, np.ones((K, K), bool)), matrix)
        colours = shades().with_extremes(bad=PALE)
        drawn = ax.imshow(matrix, cmap=colours, vmin=0.0, vmax=highest, interpolation="nearest")
        edges = np.arange(0, n * K + 1, K) - 0.5
        ax.hlines(edges, -0.5, n * K - 0.5, color="white", linewidth=1.2)
        ax.vlines(edges, -0.5, n * K - 0.5, color="white", linewidth=1.2)
        middle = np.arange(n) * K + (K - 1) / 2
        names = [shown(annotations.annotator_ids[int(m)], 10) for m in who]
        ax.set_xticks(middle, names, rotation=90)
        ax.set_yticks(middle, names if matrix is not after else [""] * n)
        for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
            label.set_parse_math(False)
        ax.tick_params(length=0, labelsize=7.5)
        ax.spines[:].set_visible(False)
        share = 1.0 - known.mean()
        ax.set_title(title + (f": {100 * share:.0f}% missing" if matrix is not after else ""), fontsize=10, loc="left")
    bar = made.colorbar(drawn, ax=made.axes, shrink=0.7, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=GREY)
    bar.set_label("share of the common items", fontsize=9)
    return finish(made, where)


def observed(pairs: CoOccurrences, who: Any) -> tuple[Floats, Bools]:
    """Return the blocks of these annotators as one matrix, (n K, n K), and a mask of observed blocks, (n, n)."""
    n, K = len(who), pairs.n_classes
    matrix, known = np.zeros((n, n, K, K)), np.zeros((n, n), bool)
    place = np.full(pairs.n_annotators, -1)
    place[np.asarray(who)] = np.arange(n)
    one, other = place[pairs.who[:, 0]], place[pairs.who[:, 1]]
    both = (one >= 0) & (other >= 0)
    R = pairs.frequencies[both]
    matrix[one[both], other[both]], matrix[other[both], one[both]] = R, R.transpose(0, 2, 1)
    known[one[both], other[both]] = known[other[both], one[both]] = True
    return matrix.transpose(0, 2, 1, 3).reshape(n * K, n * K), known


def completed(pairs: CoOccurrences, who: Any, seed: int = 0) -> Floats:
    """Return U Uᵀ of these annotators, (n K, n K), for the factors U that fit all observed blocks best."""
    rng = np.random.default_rng(seed)
    starts = (random_factors(rng, pairs.n_annotators, pairs.n_classes) for _ in range(_STARTS))
    found = min((robust(pairs, start) for start in starts), key=lambda fit: fit.history[-1])
    U = found.factors[np.asarray(who)].reshape(-1, pairs.n_classes)
    filled: Floats = np.maximum(U @ U.T, 0.0)
    return filled
