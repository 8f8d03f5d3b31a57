"""What the data can tell: identifiability, agreement, and what to collect next."""

from __future__ import annotations

import sys
from inspect import signature
from types import ModuleType
from typing import Any

from consilience.diagnose.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]


class _CallableModule(ModuleType):
    """Lets the package stand for its function.

    Importing ``consilience.diagnose`` sets the attribute of that name, where users look for the function.
    """

    def __call__(self, *data: Any, **options: Any) -> Diagnosis:
        return diagnose(*data, **options)


__signature__ = signature(diagnose)
sys.modules[__name__].__class__ = _CallableModule
