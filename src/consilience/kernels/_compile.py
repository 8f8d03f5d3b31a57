"""Compilation of the loops: numba without the interpreter lock, cached on disk, with the SLP vectoriser.

Signatures are given, so a kernel is compiled (or loaded from the cache) when it is asked for, never in the middle of a
timed pass.  The SLP vectoriser turns K scalar multiplications in a row into one vector instruction (1.3-1.8 times
faster here).  numba leaves it off, so it is switched on for these kernels only.  numba is imported with the first one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

__all__ = ["from_source", "inlined", "kernel", "listeners"]

#: Called after a kernel had to be compiled, as in the first run after installation, which takes some seconds longer.
listeners: list[Callable[[], None]] = []

_compiling = threading.RLock()
_kernels: dict[Any, Callable[..., Any]] = {}


@contextmanager
def _slp_vectoriser() -> Iterator[None]:
    import numba

    with _compiling:
        settings: Any = numba.config
        before = settings.SLP_VECTORIZE
        settings.SLP_VECTORIZE = 1
        try:
            yield
        finally:
            settings.SLP_VECTORIZE = before


def kernel(
    function: Callable[..., Any], arguments: str, returns: str = "void", helpers: tuple[Callable[..., Any], ...] = ()
) -> Callable[..., Any]:
    """Compile ``function``, or load it from the cache beside its file.

    ``arguments`` are written as ``"int64 float64[,] int32[]! (int64[] int64[])"``.
    Arrays are C-contiguous, and read-only unless marked with ``!``; parentheses hold a tuple.  ``helpers`` are the
    functions of its module that it calls.
    """
    key = function, arguments, returns, helpers
    with _compiling:  # so that threads do not compile the same loop twice
        if key in _kernels:
            return _kernels[key]
        import numba

        if helpers:  # a copy that sees them compiled: numba would not cache a closure
            scope = dict(function.__globals__)
            for helper in helpers:
                scope[helper.__name__] = inlined(helper)
            function = FunctionType(function.__code__, scope, function.__name__)
        signature = _types(returns)[0](*_types(arguments))
        with _slp_vectoriser():
            _skip_blas_check()
            made: Any = numba.njit(signature, nogil=True, cache=True, error_model="numpy")(function)
        _kernels[key] = made
        if made.stats.cache_misses:
            for tell in listeners:
                tell()
        return made  # type: ignore[no-any-return]


def _types(words: str) -> list[Any]:
    import numba

    types: Any = numba.types
    made: list[Any] = []
    for word, inner in re.findall(r"(\((.*?)\)|\S+)", words):
        name, bracket, axes = word.partition("[")
        if inner:
            made.append(types.Tuple(_types(inner)))
        elif bracket:
            item = numba.from_dtype(np.dtype(name))
            made.append(types.Array(item, 1 + axes.count(","), "C", readonly=not word.endswith("!")))
        else:
            made.append(getattr(types, name))
    return made


@lru_cache(maxsize=1)
def _skip_blas_check() -> None:
    """Load numba's array functions without importing scipy.linalg (60 ms) to see whether BLAS is there.

    numba checks again when a function uses BLAS.
    """
    from numba.np import linalg

    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = check


def from_source(source: str, name: str, module: str, file: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Make the function ``name`` out of generated source.

    The code claims to come from ``module`` and ``file``, which generate it: numba then caches it beside that
    file and drops it when that file changes.
    """
    scope = {"__name__": module, **names}
    exec(compile(source, file, "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small function that kernels call."""
    import numba

    helper: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy")(function)
    return helper
