"""Silence as an answer: the labels of everybody who gave none, listed one by one, for data of moderate size."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import ParameterError

__all__ = ["MEANINGS", "MOST_FILLED", "filled", "is_label"]

#: What ``silence`` may be besides a label.
MEANINGS = ("auto", "random", "informative")
#: Items × annotators up to which silence is listed label by label; every method takes that.
MOST_FILLED = 2_000_000


def is_label(silence: Any, classes: Ids) -> bool:
    """Return whether ``silence`` is a label, and not one of :data:`MEANINGS`; a misspelt one is an error."""
    if silence is None or (isinstance(silence, str) and silence in MEANINGS):
        return False
    close = get_close_matches(str(silence), MEANINGS, n=1, cutoff=0.75)
    if close and classes.codes_of([silence])[0] < 0:
        raise ParameterError(f"silence={silence!r} is not a label that anybody used; did you mean {close[0]!r}?")
    return True


def filled(annotations: Annotations, label: Any) -> Annotations:
    """Return the same labels, and ``label`` by every annotator about every item that they gave none."""
    a = annotations.with_class(label)
    N, M = a.n_items, a.n_annotators
    if N * M > MOST_FILLED:
        raise ParameterError(
            f"silence={label!r} makes {N * M} labels of {N} items and {M} annotators, more than the {MOST_FILLED} "
            "that are listed one by one; use the method 'auto', which counts silence without listing it"
        )
    code, item = int(a.class_ids.codes_of([label])[0]), a.item_of_label()
    silent = np.ones((N, M), np.bool_)
    silent[item, a.annotator] = False
    silent_item, silent_who = np.nonzero(silent)
    items, who = np.concatenate([item, silent_item]), np.concatenate([a.annotator, silent_who])
    order = np.lexsort((who, items))
    return a._with(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(items, minlength=N))]),
        annotator=who[order],
        label=np.concatenate([a.label, np.full(silent_who.size, code)])[order],
        time=None,
    )
