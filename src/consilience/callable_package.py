"""Packages that can be called like the public function of the same name.

Importing ``consilience.diagnose`` sets the attribute ``diagnose`` of ``consilience``, where users expect the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(self._function)

    @property
    def _function(self) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(import_module(self.__dict__["_home"]), self.__name__.rpartition(".")[2])
        return made


def make_callable(package: str, home: str) -> None:
    """Make an imported package callable: it runs the function of its name in the module ``home``, which may be above.

    It is imported when it is called first.
    """
    module = sys.modules[package]
    module.__dict__["_home"] = home
    module.__class__ = _CallablePackage
