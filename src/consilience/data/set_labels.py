"""Labels as sets of options: blank answers count, and different ways to write one set are the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations
from consilience.data.building import NO_LABEL
from consilience.data.ids import Ids
from consilience.data.option_sets import joined_options, option_sets
from consilience.exceptions import DataWarning, warn

__all__ = ["as_sets", "quiet_about_blanks", "renamed", "spelling_of", "warn_of_blanks", "with_blanks"]


def as_sets(annotations: Annotations) -> Annotations:
    """Return labels whose classes are different sets, the empty one among them if somebody ticked nothing."""
    a = with_blanks(annotations)
    spelling = spelling_of(a)
    written = [spelling[text] for text in joined_options(*option_sets(a.class_ids)).to_pylist()]
    return a if len(spelling) == len(written) else renamed(a, written)


def renamed(annotations: Annotations, names: Sequence[str]) -> Annotations:
    """Return labels with these names of their classes, (K,), of which some may be the same, and one may be empty."""
    a, classes = annotations, sorted(set(names))
    code = np.searchsorted(classes, names)
    return a._with(
        label=code[a.label],
        gold=None if a.gold is None else np.append(code, -1)[a.gold],
        classes=Ids(pa.array(classes, pa.string())),
    )


def spelling_of(annotations: Annotations) -> dict[str, str]:
    """Return how each set of options is written in the labels: the most frequent way, keyed by the sorted options."""
    sets = option_sets(annotations.class_ids)
    texts = joined_options(*sets).to_pylist()
    times = np.bincount(annotations.label, minlength=annotations.n_classes)
    order = np.lexsort((np.arange(times.size), -times))
    found: dict[str, str] = {}
    for k in order.tolist():
        found.setdefault(texts[k], str(annotations.class_ids[k]))
    return found


def with_blanks(annotations: Annotations) -> Annotations:
    """Return the same labels with an empty one for each answer that names nothing.

    If an annotator also gave a label to the item, that one counts.
    """
    a = annotations
    names = pc.cast(a.class_ids.to_arrow(), pa.string())
    if a.blank is None:
        return a
    M, item = a.n_annotators, a.item_of_label()
    new = np.setdiff1d(a.blank[0].astype(np.int64) * M + a.blank[1], item * M + a.annotator)
    order = np.argsort(np.concatenate([item, new // M]), kind="stable")
    classes = Ids(pa.concat_arrays([pa.array([""], pa.string()), names]))
    notes = tuple(note for note in a.origin.notes if not note.endswith(NO_LABEL))
    return Annotations(
        np.concatenate([[0], np.cumsum(a.labels_per_item + np.bincount(new // M, minlength=a.n_items))]),
        np.concatenate([a.annotator.astype(np.int64), new % M])[order],
        np.concatenate([a.label.astype(np.int64) + 1, np.zeros(new.size, np.int64)])[order],
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=classes,
        gold=None if a.gold is None else np.where(a.gold >= 0, a.gold + 1, -1),
        origin=replace(a.origin, notes=notes),
    )


@contextmanager
def quiet_about_blanks() -> Iterator[None]:
    """Read labels without the warning that rows without a label are left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f".*{NO_LABEL}", DataWarning)
        yield


def warn_of_blanks(annotations: Annotations) -> None:
    """Warn of rows without a label, which were left out after all."""
    for note in annotations.origin.notes:
        if note.endswith(NO_LABEL):
            warn(f"the data: {note}", DataWarning)
