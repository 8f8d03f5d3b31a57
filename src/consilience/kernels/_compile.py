"""How the loops are compiled: numba without the interpreter lock, cached on disk, SLP vectoriser on.

Signatures are given, so a kernel is compiled (or loaded from the cache) when its maker is called and never
in the middle of a timed pass.  The SLP vectoriser is what turns K scalar multiplications in a row into one
vector instruction (1.3-1.8 times faster here); numba leaves it off, so it is switched on for our kernels alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "array",
    "compiled",
    "count_ones",
    "equal_bytes",
    "from_source",
    "inlined",
    "load64",
    "prefetch",
    "store64",
    "trailing_zeros",
]

_compiling = threading.RLock()


@contextmanager
def _slp_vectoriser() -> Iterator[None]:
    with _compiling:
        settings: Any = numba.config
        before = settings.SLP_VECTORIZE
        settings.SLP_VECTORIZE = 1
        try:
            yield
        finally:
            settings.SLP_VECTORIZE = before


def compiled(
    function: Callable[..., Any], signature: Any, helpers: tuple[Callable[..., Any], ...] = ()
) -> Callable[..., Any]:
    """Compile ``function`` for one signature, or load it from the cache beside its file.

    ``helpers`` are the functions of its module that it calls.
    """
    if helpers:  # a copy that sees them compiled: numba would not cache a closure
        scope = {**function.__globals__, **{helper.__name__: inlined(helper) for helper in helpers}}
        function = FunctionType(function.__code__, scope, function.__name__)
    with _slp_vectoriser():
        kernel: Callable[..., Any] = numba.njit(signature, nogil=True, cache=True, error_model="numpy")(function)
    return kernel


def from_source(source: str, name: str, module: str, file: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Make the function ``name`` out of generated source.

    The code claims to come from ``module`` and ``file``, which generate it: numba then caches it beside that
    file and forgets it when that file changes.
    """
    scope = {"__name__": module, **names}
    exec(compile(source, file, "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


def array(dtype: str, ndim: int = 1, *, readonly: bool = True) -> Any:
    """Give numba's type of a C-contiguous array; a read-only one also takes writable arrays."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C", readonly=readonly)


@intrinsic
def _prefetch(_typing: Any, table: Any, row: Any) -> Any:
    """Ask for the cache line where row ``row`` of ``table`` (one or two axes) begins, ahead of its use."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        stride = builder.extract_value(array.strides, 0)
        byte = ir.IntType(8).as_pointer()
        start = builder.ptrtoint(array.data, ir.IntType(64))
        address = builder.inttoptr(builder.add(start, builder.mul(args[1], stride)), byte)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        name = "llvm.prefetch.p0i8"
        call = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(call, [address, ir.Constant(i32, 1), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(table, row), codegen


@intrinsic
def _load64(_typing: Any, data: Any, index: Any) -> Any:
    """Read eight bytes from ``data[index]`` on, little end first, wherever they lie; there must be eight."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        start = builder.ptrtoint(array.data, ir.IntType(64))
        address = builder.inttoptr(builder.add(start, args[1]), ir.IntType(64).as_pointer())
        return builder.load(address, align=1)

    return types.uint64(data, index), codegen


@intrinsic
def _store64(_typing: Any, data: Any, index: Any, word: Any) -> Any:
    """Write eight bytes from ``data[index]`` on, little end first, wherever they lie; there must be room."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        start = builder.ptrtoint(array.data, ir.IntType(64))
        address = builder.inttoptr(builder.add(start, args[1]), ir.IntType(64).as_pointer())
        builder.store(args[2], address, align=1)
        return context.get_dummy_value()

    return types.void(data, index, word), codegen


@intrinsic
def _trailing_zeros(_typing: Any, word: Any) -> Any:
    """Count the zero bits below the lowest one bit of a nonzero 64-bit word."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def _count_ones(_typing: Any, word: Any) -> Any:
    """Count the one bits of a 64-bit word."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _equal_bytes(_typing: Any, data: Any, index: Any, byte: Any) -> Any:
    """Compare 64 bytes from ``data[index]`` on with one; bit i of the word tells whether byte i is it.

    LLVM makes of it what the processor has: one instruction, two or a few.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        start = builder.ptrtoint(array.data, ir.IntType(64))
        block, i32 = ir.VectorType(ir.IntType(8), 64), ir.IntType(32)
        address = builder.inttoptr(builder.add(start, args[1]), block.as_pointer())
        none = ir.Constant(block, ir.Undefined)
        first = builder.insert_element(none, args[2], ir.Constant(i32, 0))
        copies = builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(i32, 64), None))
        same = builder.icmp_unsigned("==", builder.load(address, align=1), copies)
        return builder.bitcast(same, ir.IntType(64))

    return types.uint64(data, index, types.uint8), codegen


#: Seen by numba as intrinsics, by type checkers as anything.
prefetch: Any = _prefetch
load64: Any = _load64
store64: Any = _store64
trailing_zeros: Any = _trailing_zeros
count_ones: Any = _count_ones
equal_bytes: Any = _equal_bytes
_njit: Any = numba.njit(nogil=True, error_model="numpy")


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small function that kernels call."""
    helper: Callable[..., Any] = _njit(function)
    return helper
