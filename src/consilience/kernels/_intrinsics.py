"""Instructions that numba has no name for: prefetching, unaligned words, counting bits, comparing 64 bytes at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["count_ones", "equal_bytes", "load64", "prefetch", "store64", "trailing_zeros"]

_i32, _i64 = ir.IntType(32), ir.IntType(64)


def _address(context: Any, builder: Any, signature: Any, args: Any, kind: Any, by_row: bool = False) -> Any:
    """Return the address of byte (or row) ``args[1]`` of the array ``args[0]``, as a pointer to ``kind``."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    offset = builder.mul(args[1], builder.extract_value(array.strides, 0)) if by_row else args[1]
    start = builder.ptrtoint(array.data, _i64)
    return builder.inttoptr(builder.add(start, offset), kind.as_pointer())


@intrinsic
def _prefetch(_typing: Any, table: Any, row: Any) -> Any:
    """Ask for the cache line where row ``row`` of ``table`` (one or two axes) begins, ahead of its use."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args, ir.IntType(8), by_row=True)
        kind = ir.FunctionType(ir.VoidType(), [address.type, _i32, _i32, _i32])
        name = "llvm.prefetch.p0i8"
        call = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(call, [address, *(ir.Constant(_i32, flag) for flag in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(table, row), codegen


@intrinsic
def _load64(_typing: Any, data: Any, index: Any) -> Any:
    """Read eight bytes from ``data[index]`` on, little end first, at any alignment; there must be eight."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature, args, _i64), align=1)

    return types.uint64(data, index), codegen


@intrinsic
def _store64(_typing: Any, data: Any, index: Any, word: Any) -> Any:
    """Write eight bytes from ``data[index]`` on, little end first, at any alignment; there must be room."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature, args, _i64), align=1)
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
    """Compare 64 bytes from ``data[index]`` on with one byte; bit i of the result is set where byte i is equal.

    LLVM compiles it to the widest comparison that the processor has.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = ir.VectorType(ir.IntType(8), 64)
        address = _address(context, builder, signature, args, block)
        undefined = ir.Constant(block, ir.Undefined)
        first = builder.insert_element(undefined, args[2], ir.Constant(_i32, 0))
        copies = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_i32, 64), None))
        same = builder.icmp_unsigned("==", builder.load(address, align=1), copies)
        return builder.bitcast(same, _i64)

    return types.uint64(data, index, types.uint8), codegen


# Seen by numba as intrinsics, by type checkers as anything.
prefetch: Any = _prefetch
load64: Any = _load64
store64: Any = _store64
trailing_zeros: Any = _trailing_zeros
count_ones: Any = _count_ones
equal_bytes: Any = _equal_bytes
