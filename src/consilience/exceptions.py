"""Everything that consilience raises or warns about, in one tree.

::

    ConsilienceError
    ├── DataError            the data cannot be used (command line: exit status 1)
    │   ├── FormatError      a file could not be read, or not recognised
    │   ├── ColumnError      a column is missing, or more than one could be meant
    │   └── IdError          an item, annotator or label value cannot be used as an id
    ├── EngineError          where a run was to be computed is gone, or cannot be reached
    ├── FolderError          a folder is somebody else's and will not be replaced
    ├── MethodError          a method refuses data that it cannot handle
    └── ParameterError       an argument has a value that makes no sense

    ConsilienceWarning
    ├── DataWarning          something in the data was dropped, merged or left out
    ├── ConvergenceWarning   the passes ran out before the tolerance was met
    ├── EngineWarning        a run was computed elsewhere than asked for
    └── FewLabelsWarning     there is too little data for what was asked
"""

from __future__ import annotations

import sys
import warnings
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
]

_PACKAGE = str(Path(__file__).parent)


class ConsilienceError(Exception):
    """The root of all errors of this library."""


class DataError(ConsilienceError, ValueError):
    """The data cannot be used; the message says where and what to do."""


class FormatError(DataError):
    """A file could not be read, or its format was not recognised."""


class ColumnError(DataError):
    """A needed column is missing, or several could be meant."""


class IdError(DataError):
    """A value cannot serve as an item, an annotator or a label."""


class EngineError(ConsilienceError, RuntimeError):
    """Where a run was to be computed is gone, or cannot be reached."""


class FolderError(ConsilienceError, FileExistsError):
    """A folder is not ours to replace."""


class MethodError(ConsilienceError, ValueError):
    """A method refuses data that it cannot handle."""


class ParameterError(ConsilienceError, ValueError):
    """An argument has a value that makes no sense."""


class ConsilienceWarning(UserWarning):
    """The root of all warnings of this library."""


class DataWarning(ConsilienceWarning):
    """Something in the data was dropped, merged or left out."""


class ConvergenceWarning(ConsilienceWarning):
    """The passes over the data ran out before the tolerance was met."""


class EngineWarning(ConsilienceWarning):
    """A run was computed elsewhere than asked for, or keeps less than asked for."""


class FewLabelsWarning(ConsilienceWarning):
    """There is too little data for what was asked."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn, naming the line outside this package that led here."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
