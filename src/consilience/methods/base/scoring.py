"""Accuracy of predicted labels, for scikit-learn's model selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.data.ids import encode, to_column
from consilience.data.truth import arrow_or_values, truth_columns
from consilience.exceptions import DataError

__all__ = ["accuracy"]


def accuracy(X: Any, annotations: Annotations, labels: Any, truth: Any, *, long: bool) -> float:
    """Return the share of right labels, over the items that have a truth.

    Parameters
    ----------
    X, annotations
        The data in the form that the user gave, and as annotations.
    labels
        The predicted label of every item, in the order of the annotations.
    truth
        For a matrix, one class for each row.  For a long frame or annotations, any form that
        :meth:`consilience.Annotations.with_gold` takes, or one class for each row of the frame.  Missing values are
        unknown truths, and so is -1 unless it is a label.
    long
        Whether X is a long frame.
    """
    items, column = annotations.item_ids, annotations.origin.item
    if long and _of_rows(truth, X, len(items)):
        import narwhals as nw

        rows = nw.from_native(X, eager_only=True)
        names, values = to_column(arrow_or_values(rows[column]), column), to_column(np.asarray(truth), "y")
    else:
        if not (long or isinstance(X, Annotations)):
            truth = np.asarray(truth)  # by position: cross-validation splits rows, whatever their index
        names, values = truth_columns(truth, items, column, "y")
    said, classes = encode(to_column(labels, "labels"))
    code, answers = encode(values)
    item = items.codes_of(names)
    known = (code >= 0) & (item >= 0)
    if classes.codes_of(pa.array([-1]))[0] < 0:
        known &= np.append(answers.codes_of(pa.array([-1])) != np.arange(len(answers)), False)[code]
    if not known.any():
        raise DataError("no item has both a truth in y and a label")
    right = np.append(classes.codes_of(answers.to_arrow()), -1)[code[known]] == said[item[known]]
    return float(right.mean())


def _of_rows(truth: Any, X: Any, n_items: int) -> bool:
    """Return whether truths are given for the rows of a long frame, instead of for its items."""
    if isinstance(truth, Mapping) or frames.is_frame(truth) or len(truth) != len(X):
        return False
    if hasattr(truth, "index") and hasattr(X, "index"):
        return bool(truth.index.equals(X.index))
    return len(X) != n_items
