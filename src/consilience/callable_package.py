"""Packages that can be called like the public function of the same name.

Importing ``consilience.diagnose`` sets the attribute ``diagnose`` of ``consilience``, where users expect the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.__dict__["_function"](*arguments, **options)


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Make an imported package callable: it runs ``function`` and has its signature."""
    module = sys.modules[package]
    module.__dict__.update(_function=function, __signature__=signature(function))
    module.__class__ = _CallablePackage
