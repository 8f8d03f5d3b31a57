"""Annotations from any input: annotations, a file, a long frame or a matrix."""

from __future__ import annotations

import os
from typing import Any

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import DataError

__all__ = ["as_annotations"]


def as_annotations(data: Any, **reading: Any) -> Annotations:
    """Return annotations as they are; read files (with the options ``reading``), long frames and matrices."""
    if isinstance(data, str | os.PathLike):
        from consilience.io import read

        data = read(data, **reading)
    if isinstance(data, Annotations):
        return data
    if isinstance(data, SequenceAnnotations):
        raise DataError("these are labels of tokens in order; expected labels of independent items")
    if frames.is_frame(data) and frames.is_long(frames.columns_of(data)):
        return Annotations.from_frame(data)
    return Annotations.from_matrix(data)
