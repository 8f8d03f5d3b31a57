"""Annotators side by side: accuracy, information of a label, and confusions."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.names import count, marked, percent, shown
from consilience.kernels._arrays import Floats, Ints
from consilience.report.svg import confusion, interval
from consilience.report.view import View

__all__ = ["flags_of", "is_serious", "league"]

#: Limits on the annotators of the table, and on the cells of all their small matrices together.
_MOST, _MOST_CELLS = 200, 12_000
#: Limit on the classes of a small matrix.
_MOST_CLASSES = 12
#: Up to so many cells, the matrices are also given in numbers.
_MOST_NUMBERS = 3_000


def league(view: View) -> dict[str, Any]:
    """Return a row for each annotator: those with a problem first, then the most informative ones.

    If there are many, the others are those with most labels.
    """
    consensus = view.consensus
    columns = view.annotators
    M, K = len(consensus.model.annotators), len(consensus.model.classes)
    matrices = K > 1 and not view.is_open
    # the classes of the small matrices: all, or the most frequent ones in their own order
    prior = consensus.model.prior if matrices else np.ones(1)
    classes = np.sort(np.argsort(-prior, kind="stable")[:_MOST_CLASSES])
    most = max(20, min(_MOST, _MOST_CELLS // classes.size**2))
    labels = np.asarray(columns["n_labels"])
    fine = np.asarray([not any(map(is_serious, flags_of(flags))) for flags in columns["flags"]], bool)
    chosen = np.lexsort((-labels, fine))[:most]
    chosen = chosen[np.lexsort((-np.asarray(columns["information"])[chosen], fine[chosen]))]
    numbers = chosen.size * classes.size**2 <= _MOST_NUMBERS
    rows = [_row(view, m, columns, classes if matrices else None, numbers) for m in chosen.tolist()]
    return {
        "rows": rows,
        "of": M,
        "left_out": M - chosen.size,
        "flags": any(row["flags"] for row in rows),
        "flagged": any(row["flagged"] for row in rows),
        "bias": any(row["bias"] for row in rows),
        "names": [marked(consensus.model.classes[k], 16) for k in classes.tolist()],
        "some_classes": f"{classes.size} most frequent of {count(K)} classes" if matrices and classes.size < K else "",
        "matrices": matrices,
    }


def flags_of(text: str | None) -> list[str]:
    """Split the flags of an annotator."""
    return [flag for flag in (text or "").split("; ") if flag]


def is_serious(flag: str) -> bool:
    """Return whether a flag is a problem: to be a specialist, or new, is none."""
    return flag != "few labels" and not flag.startswith("specialist of ")


def _row(view: View, m: int, columns: dict[str, list[Any]], classes: Ints | None, numbers: bool) -> dict[str, Any]:
    model = view.consensus.model
    matrix: Floats | None = None if classes is None else model.confusions[m][np.ix_(classes, classes)]
    accuracy, low, high = (columns[name][m] for name in ("accuracy", "low", "high"))
    name = model.annotators[m]
    said = accuracy is not None
    return {
        "name": marked(name),
        "labels": count(columns["n_labels"][m]),
        "labels_value": columns["n_labels"][m],
        "accuracy": percent(accuracy),
        "accuracy_value": f"{accuracy:.6f}" if said else "",
        "range": f"{100 * low:.0f} to {100 * high:.0f}%" if said else "",
        "interval": interval(accuracy, low, high) if said else "",
        "bias": shown(columns["bias"][m], 90) if columns["bias"][m] else "",
        "flags": [(shown(flag, 60), is_serious(flag)) for flag in flags_of(columns["flags"][m])],
        "flagged": any(is_serious(flag) for flag in flags_of(columns["flags"][m])),
        "matrix": "" if matrix is None else confusion(matrix, f"Confusion matrix of {shown(name)}"),
        "numbers": [[f"{100 * p:.0f}" if p >= 0.005 else "" for p in row] for row in matrix]
        if numbers and matrix is not None
        else None,
    }
