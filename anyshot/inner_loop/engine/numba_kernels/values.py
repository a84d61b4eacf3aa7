"""Values in a kernel that is being compiled: integers, vectors of eight numbers, accumulators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils

if TYPE_CHECKING:
    from anyshot.inner_loop.engine.numba_kernels.codegen import Builder

LANES = 8  #: channels in a vector; a vector of doubles takes two registers


class Int:
    """An integer that is known only when the kernel runs."""

    def __init__(self, builder: Builder, value: Any) -> None:
        self.builder, self.value = builder, value

    def _apply(self, operation: str, left: Any, right: Any) -> Int:
        instruction = getattr(self.builder.llvm, operation)
        return Int(self.builder, instruction(self.builder.index(left), self.builder.index(right)))

    def __add__(self, other: Any) -> Int:
        return self if isinstance(other, int) and other == 0 else self._apply("add", self, other)

    def __sub__(self, other: Any) -> Int:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Any) -> Int:
        return self._apply("sub", other, self)

    def __mul__(self, other: Any) -> Int:
        return self if isinstance(other, int) and other == 1 else self._apply("mul", self, other)

    def __floordiv__(self, other: Any) -> Int:
        return self._apply("udiv", self, other)  # kernels divide non-negative integers only

    def __rfloordiv__(self, other: Any) -> Int:
        return self._apply("udiv", other, self)

    def __mod__(self, other: Any) -> Int:
        return self._apply("urem", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def compare(self, sign: str, other: Any) -> Any:
        """A condition, for :meth:`.Builder.if_then` and :meth:`.Builder.select`."""
        return self.builder.llvm.icmp_signed(sign, self.value, self.builder.index(other))


class Vector:
    """Eight numbers. The compiler may fuse a product with the sum that it is added to."""

    def __init__(self, builder: Builder, value: Any) -> None:
        self.builder, self.value = builder, value

    def _operand(self, other: Vector | float) -> Any:
        """The other vector's value; a number is repeated eight times in this vector's type."""
        if isinstance(other, Vector):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * LANES)

    def _apply(self, operation: str, other: Vector | float) -> Vector:
        instruction = getattr(self.builder.llvm, operation)
        return Vector(
            self.builder, instruction(self.value, self._operand(other), flags=["contract"])
        )

    def __add__(self, other: Vector | float) -> Vector:
        return self._apply("fadd", other)

    def __sub__(self, other: Vector | float) -> Vector:
        return self._apply("fsub", other)

    def __mul__(self, other: Vector | float) -> Vector:
        return self._apply("fmul", other)

    def __truediv__(self, other: Vector | float) -> Vector:
        return self._apply("fdiv", other)

    def greater(self, other: Vector | float) -> Any:
        """A mask of the lanes in which this vector is greater."""
        return self.builder.llvm.fcmp_ordered(">", self.value, self._operand(other))

    def where(self, mask: Any, otherwise: Vector | float = 0.0) -> Vector:
        """This vector's numbers in the lanes of the mask, the other's elsewhere."""
        value = self.builder.llvm.select(mask, self.value, self._operand(otherwise))
        return Vector(self.builder, value)

    def to_double(self) -> Vector:
        """The same numbers in double precision."""
        double = ir.VectorType(ir.DoubleType(), LANES)
        if self.value.type == double:
            return self
        return Vector(self.builder, self.builder.llvm.fpext(self.value, double))


class Accumulator:
    """A vector in a register, for sums over a loop."""

    def __init__(self, start: Vector) -> None:
        self.builder = start.builder
        self.slot = cgutils.alloca_once(self.builder.llvm, start.value.type)
        self.builder.llvm.store(start.value, self.slot)

    @property
    def current(self) -> Vector:
        """Its value at this point of the kernel."""
        return Vector(self.builder, self.builder.llvm.load(self.slot))

    def add(self, value: Vector) -> None:
        """Add a vector."""
        self.builder.llvm.store((self.current + value).value, self.slot)
