"""The labels of an update, in any form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.exceptions import DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.validation import keywords

__all__ = ["read_update"]

_ROLES = ("item", "annotator", "label")


def read_update(labels: Any, reading: Mapping[str, Any], before: Origin) -> Annotations | None:
    """Read labels; return None if there are no rows."""
    if isinstance(labels, Annotations):
        _check_options(reading, ())
        return labels if labels.n_items else None
    # columns with unusual names are looked for under the names that they had in earlier updates
    own = {role: getattr(before, role) for role in _ROLES if reading.get(role) is None}
    unusual = {role: name for role, name in own.items() if name.strip().lower() not in _frames.ALIASES[role]}
    options = {**reading, **unusual}
    if isinstance(labels, str | os.PathLike):
        from consilience.io import read

        _check_options(reading, keywords(read))
        try:
            return read(labels, **options)
        except DataError as error:
            # a file with columns but no rows is an empty update
            if "has no rows" in str(error):
                return None
            raise
    if not _frames.is_frame(labels) or not (reading or _frames.is_long(_frames.columns_of(labels))):
        _check_options(reading, ())
        return as_annotations(labels)
    import narwhals as nw

    _check_options(reading, keywords(Annotations.from_frame))
    if len(nw.from_native(labels, eager_only=True)):
        return Annotations.from_frame(labels, **options)
    for role in _ROLES:
        _frames.find_column(_frames.columns_of(labels), role, options.get(role), "the frame")
    return None


def _check_options(reading: Mapping[str, Any], known: Iterable[str]) -> None:
    known = set(known) - {"gold"}
    if unknown := sorted(set(reading) - known):
        takes = f"takes {', '.join(sorted(known))}" if known else "takes none: they are read already"
        raise ParameterError(f"an update of these labels has no option {unknown[0]!r}; it {takes}")
