"""The tree of errors and warnings.

::

    ConsilienceError
    ├── DataError            the data cannot be used (command line: exit status 1)
    │   ├── FormatError      a file could not be read or recognised
    │   ├── ColumnError      a column is missing or ambiguous (also a KeyError)
    │   └── IdError          an item, annotator or label value cannot be used as an id
    ├── EngineError          the engine of a run is gone or cannot be reached
    ├── FolderError          a folder was not written by consilience and is not replaced
    ├── MethodError          a method cannot handle the data
    └── ParameterError       an argument has an invalid value

    ConsilienceWarning
    ├── DataWarning          something in the data was dropped, merged or left out
    ├── ConvergenceWarning   max_iter was reached before the tolerance was met
    ├── EngineWarning        a run was computed by another engine than requested
    ├── FewLabelsWarning     there is too little data for what was asked
    └── VerdictWarning       the labels do not show who is right, or whether votes would be better
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "ColumnError",
    "ConsilienceError",
    "ConsilienceWarning",
    "ConvergenceWarning",
    "DataError",
    "DataWarning",
    "EngineError",
    "EngineWarning",
    "FewLabelsWarning",
    "FolderError",
    "FormatError",
    "IdError",
    "MethodError",
    "ParameterError",
    "VerdictWarning",
]

_PACKAGE = str(Path(__file__).parent)


class ConsilienceError(Exception):
    """Base class of all errors of this library."""


class DataError(ConsilienceError, ValueError):
    """The data cannot be used; the message says where the problem is and what to do."""


class FormatError(DataError):
    """A file could not be read, or its format was not recognised."""


class ColumnError(DataError, KeyError):
    """A required column is missing or ambiguous; also a KeyError, as frames raise for a missing column."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class IdError(DataError):
    """A value cannot serve as an item, an annotator or a label."""


class EngineError(ConsilienceError, RuntimeError):
    """The engine of a run is gone or cannot be reached."""


class FolderError(ConsilienceError, FileExistsError):
    """A folder was not written by consilience and is not replaced."""


class MethodError(ConsilienceError, ValueError):
    """A method cannot handle the data."""


class ParameterError(ConsilienceError, ValueError):
    """An argument has an invalid value."""


class ConsilienceWarning(UserWarning):
    """Base class of all warnings of this library."""


class DataWarning(ConsilienceWarning):
    """Something in the data was dropped, merged or left out."""


class ConvergenceWarning(ConsilienceWarning):
    """``max_iter`` was reached before the tolerance was met."""


class EngineWarning(ConsilienceWarning):
    """A run was computed by another engine than requested, or keeps less than requested."""


class FewLabelsWarning(ConsilienceWarning):
    """There is too little data for what was asked."""


class VerdictWarning(ConsilienceWarning):
    """The labels do not show who is right, or annotators err together, so that votes may be better."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line outside this package that led here."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def did_you_mean(name: object, known: Iterable[object], otherwise: str) -> str:
    """Return the end of a sentence about an unknown name: the known one spelt most like it, or ``otherwise``."""
    from difflib import get_close_matches

    spelt = {str(each).strip().casefold(): each for each in known}
    close = get_close_matches(str(name).strip().casefold(), spelt, n=1)
    return f"; did you mean {spelt[close[0]]!r}?" if close else f". {otherwise}"
