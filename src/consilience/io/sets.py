"""Labels from any input as sets of options."""

from __future__ import annotations

from typing import Any

from consilience.data.annotations import Annotations
from consilience.data.set_labels import as_sets, quiet_about_blanks
from consilience.io.coercion import as_annotations

__all__ = ["read_sets"]


def read_sets(data: Any, **reading: Any) -> Annotations:
    """Return labels as sets of options, where a row without a label is an answer: nothing was ticked."""
    with quiet_about_blanks():
        return as_sets(as_annotations(data, **reading))
