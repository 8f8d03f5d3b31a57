"""The labels of an update, in whatever form they come."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.frames import is_long
from consilience.exceptions import DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.methods.base.registry import keywords

__all__ = ["column_names", "read_update"]


def column_names(given: Mapping[str, Any], before: Origin) -> dict[str, Any]:
    """Add the names of columns to look for: those of earlier updates that nobody would guess."""
    names = dict(given)
    for role in ("item", "annotator", "label"):
        own = getattr(before, role)
        if names.get(role) is None and own.strip().lower() not in _frames.ALIASES[role]:
            names[role] = own
    return names


def read_update(labels: Any, reading: Mapping[str, Any], before: Origin) -> Annotations | None:
    """Read labels; None where there are no rows."""
    if isinstance(labels, Annotations):
        _refuse(reading, set())
        return labels if labels.n_items else None
    options = column_names(reading, before)
    if isinstance(labels, str | os.PathLike):
        from consilience.io import read

        _refuse(reading, keywords(read))
        try:
            return read(labels, **options)
        except DataError as error:
            # a file that has its columns and no rows is no update
            if "has no rows" in str(error):
                return None
            raise
    if not _frames.is_frame(labels) or not (reading or is_long(_frames.columns_of(labels))):
        _refuse(reading, set())
        return as_annotations(labels)
    import narwhals as nw

    _refuse(reading, keywords(Annotations.from_frame))
    if len(nw.from_native(labels, eager_only=True)):
        return Annotations.from_frame(labels, **options)
    for role in ("item", "annotator", "label"):
        _frames.find_column(_frames.columns_of(labels), role, options.get(role), "the frame")
    return None


def _refuse(reading: Mapping[str, Any], known: Iterable[str]) -> None:
    known = set(known) - {"gold"}
    if strange := sorted(set(reading) - known):
        takes = f"takes {', '.join(sorted(known))}" if known else "takes none: they are read already"
        raise ParameterError(f"an update of these labels has no option {strange[0]!r}; it {takes}")
