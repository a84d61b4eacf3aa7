"""Vector instructions written out: formulas on eight channels at once, for loops that LLVM does not vectorise itself.

A function decorated with :func:`written_out` is a formula on :class:`Vector`. Numba calls it while it compiles a loop
and puts its instructions in the place of the call; the formula is not run again for each pixel. Numbers given as
literals become part of the instructions' addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 8  #: channels in a vector; a double vector takes two registers


class Vector:
    """Eight numbers. A product may be fused with the sum it goes into."""

    def __init__(self, pen: Pen, value: Any) -> None:
        self.pen, self.value = pen, value

    def _with(self, other: Vector | float, operation: str) -> Vector:
        right = other.value if isinstance(other, Vector) else self.pen.constant(other).value
        return Vector(self.pen, getattr(self.pen.build, operation)(self.value, right, flags=["contract"]))

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(other, "fadd")

    def __sub__(self, other: Vector | float) -> Vector:
        return self._with(other, "fsub")

    def __mul__(self, other: Vector | float) -> Vector:
        return self._with(other, "fmul")

    def above(self, other: Vector | float) -> Any:
        """In which lanes it is greater."""
        right = other.value if isinstance(other, Vector) else self.pen.constant(other).value
        return self.pen.build.fcmp_ordered(">", self.value, right)

    def where(self, mask: Any, otherwise: Vector | float = 0.0) -> Vector:
        """Its numbers in these lanes, the other's elsewhere."""
        other = otherwise if isinstance(otherwise, Vector) else self.pen.constant(otherwise)
        return Vector(self.pen, self.pen.build.select(mask, self.value, other.value))


class Pen:
    """Writes instructions. Arrays are given as they are, places in them as numbers of elements from their start."""

    def __init__(self, context: Any, build: Any, signature: Any, arguments: Sequence[Any]) -> None:
        self.build, arrays = build, [t for t in signature.args if isinstance(t, types.Array)]
        self.index = context.get_value_type(types.intp)
        element = next(t.dtype for t in arrays if isinstance(t.dtype, types.Float))
        self.bytes = element.bitwidth // 8
        self.number = context.get_value_type(element)
        self.vector = ir.VectorType(self.number, LANES)
        self.integers = ir.VectorType(ir.IntType(element.bitwidth), LANES)
        self.arguments = [
            context.make_array(t)(context, build, value).data if isinstance(t, types.Array) else value
            for t, value in zip(signature.args, arguments, strict=True)
        ]

    def place(self, start: Any, *steps: tuple[Any, Any]) -> Any:
        """start + Σ times · stride."""
        for times, stride in steps:
            start = self.build.add(start, self.build.mul(self._whole(times), self._whole(stride)))
        return start

    def _whole(self, value: Any) -> Any:
        return self.index(value) if isinstance(value, int) else value

    def _at(self, array: Any, place: Any, kind: Any) -> Any:
        return self.build.bitcast(self.build.gep(array, [self._whole(place)]), kind.as_pointer())

    def load(self, array: Any, place: Any) -> Vector:
        """Eight numbers of an array."""
        value = self.build.load(self._at(array, place, self.vector))
        value.align = self.bytes
        return Vector(self, value)

    def store(self, value: Vector, array: Any, place: Any) -> None:
        """Eight numbers into an array."""
        self.build.store(value.value, self._at(array, place, self.vector)).align = self.bytes

    def fetch(self, array: Any, place: Any) -> None:
        """Ask for the line of the cache that has this place, to be read later."""
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        prefetch = self.build.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        pointer = self.build.bitcast(self.build.gep(array, [place]), byte)
        self.build.call(prefetch, [pointer, whole(0), whole(2), whole(1)])  # to read, into the second-level cache, data

    def broadcast(self, array: Any, place: Any) -> Vector:
        """One number of an array, eight times."""
        undefined, zero = ir.Constant(self.vector, ir.Undefined), ir.IntType(32)(0)
        lane = self.build.insert_element(undefined, self.build.load(self.build.gep(array, [place])), zero)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return Vector(self, self.build.shuffle_vector(lane, undefined, zeros))

    def whole(self, array: Any, place: Any) -> Any:
        """One whole number of an array of bytes or of indices."""
        value = self.build.load(self.build.gep(array, [place]))
        return value if value.type == self.index else self.build.zext(value, self.index)

    def constant(self, value: float) -> Vector:
        """A number, eight times."""
        return Vector(self, ir.Constant(self.vector, [float(value)] * LANES))

    def variable(self, start: Vector) -> Variable:
        """A vector that a loop may change; LLVM keeps it in a register."""
        return Variable(self, start)

    @contextmanager
    def loop(self, count: Any, step: int = 1) -> Any:
        """``for index in range(0, count, step)``."""
        with cgutils.for_range_slice(self.build, self.index(0), self._whole(count), self.index(step)) as (index, _):
            yield index

    # ------------------------------------------------------------------------------------------ places of maxima
    def load_codes(self, array: Any, place: Any) -> Any:
        """Eight one-byte codes, as integers as wide as the numbers."""
        kind = ir.VectorType(ir.IntType(8), LANES)
        value = self.build.load(self._at(array, place, kind))
        value.align = 1
        return self.build.zext(value, self.integers)

    def store_codes(self, codes: Any, array: Any, place: Any) -> None:
        """The reverse of :meth:`load_codes`."""
        kind = ir.VectorType(ir.IntType(8), LANES)
        self.build.store(self.build.trunc(codes, kind), self._at(array, place, kind)).align = 1

    def codes(self, k: int) -> Any:
        """A code, eight times."""
        return ir.Constant(self.integers, [k] * LANES)

    def equal(self, codes: Any, k: int) -> Any:
        """In which lanes the code is k."""
        return self.build.icmp_signed("==", codes, self.codes(k))

    def below(self, place: int, limit: Any) -> Any:
        """All lanes or none: place < limit, both whole numbers."""
        return self.build.icmp_signed("<", self.index(place), limit)

    def maximum(self, window: Sequence[Vector]) -> tuple[Vector, Any]:
        """The largest of a window's four values and the code of its place; the first of equal values wins."""
        best, code = window[0], self.codes(0)
        for k, value in enumerate(window[1:], 1):
            larger = value.above(best)
            best, code = value.where(larger, best), self.build.select(larger, self.codes(k), code)
        return best, code

    def chosen(self, window: Sequence[Vector], code: Any) -> Vector:
        """The value of a window at the place of a code."""
        value = window[0]
        for k, other in enumerate(window[1:], 1):
            value = other.where(self.equal(code, k), value)
        return value


class Variable:
    """A vector in a register, for sums in a loop."""

    def __init__(self, pen: Pen, start: Vector) -> None:
        self.pen, self.slot = pen, cgutils.alloca_once(pen.build, pen.vector)
        pen.build.store(start.value, self.slot)

    @property
    def now(self) -> Vector:
        """Its value at this point of the program."""
        return Vector(self.pen, self.pen.build.load(self.slot))

    def add(self, value: Vector) -> None:
        """Add to it."""
        self.pen.build.store((self.now + value).value, self.slot)


def written_out(formula: Callable[..., None]) -> Callable[..., Any]:
    """Make a function for compiled loops of ``formula(pen, *arguments)``: arrays, and whole numbers for places."""

    @functools.wraps(formula)
    def typed(_: Any, *given: Any) -> Any:
        kinds = [types.intp if isinstance(t, types.Integer) else t for t in given]
        return types.void(*kinds), generate

    def generate(context: Any, build: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        pen = Pen(context, build, signature, arguments)
        formula(pen, *pen.arguments)
        return context.get_dummy_value()

    return intrinsic(typed)
