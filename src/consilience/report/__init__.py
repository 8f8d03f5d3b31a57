"""One page that shows what happened and whom to trust: a self-contained HTML file."""

from __future__ import annotations

import sys
from inspect import signature
from types import ModuleType
from typing import Any

from consilience.report.page import render, report, save_with_report

__all__ = ["render", "report", "save_with_report"]


class _CallableModule(ModuleType):
    """Lets the package stand for its function.

    Importing ``consilience.report`` sets the attribute of that name, where users look for the function.
    """

    def __call__(self, *data: Any, **options: Any) -> Any:
        return report(*data, **options)


__signature__ = signature(report)
sys.modules[__name__].__class__ = _CallableModule
