"""The labels of an update, in whatever form they come."""

from __future__ import annotations

import os
from typing import Any

from consilience import _frames
from consilience.aggregation.aggregate import as_annotations, is_long
from consilience.annotations import Annotations, Origin
from consilience.exceptions import DataError

__all__ = ["column_names", "read_update"]


def column_names(given: dict[str, str | None], before: Origin) -> dict[str, Any]:
    """Give the names of the columns to look for: those given, or those of earlier updates that nobody would guess."""
    names: dict[str, Any] = dict(given)
    for role in ("item", "annotator", "label"):
        own = getattr(before, role)
        if names.get(role) is None and own.strip().lower() not in _frames.ALIASES[role]:
            names[role] = own
    return names


def read_update(labels: Any, given: dict[str, str | None], before: Origin) -> Annotations | None:
    """Read labels by the names of their columns; None where there are no rows."""
    if isinstance(labels, Annotations):
        return labels if labels.n_items else None
    names = column_names(given, before)
    if isinstance(labels, str | os.PathLike):
        from consilience.io import read

        try:
            return read(labels, **names)
        except DataError as error:
            # a file that has its columns and no rows is no update
            if "has no rows" in str(error):
                return None
            raise
    if not _frames.is_frame(labels):
        return as_annotations(labels)
    columns = _frames.columns_of(labels)
    if not (any(names.values()) or is_long(columns)):
        return as_annotations(labels)
    import narwhals as nw

    if len(nw.from_native(labels, eager_only=True)):
        return Annotations.from_frame(labels, **names)
    for role, name in names.items():
        _frames.find_column(columns, role, name, "the frame")
    return None
