"""The builder that kernels are written with: it emits instructions on eight channels at a time.

A kernel is a Python function whose first argument is a :class:`Builder`. The function runs once
for each type of numbers, when the kernel is compiled. What it does with vectors, integers and
arrays becomes LLVM instructions. So a Python ``for`` repeats instructions, :meth:`Builder.loop`
emits a loop, and Python numbers become constants.

An array is an :class:`.ArrayView` with a name for each axis. An axis whose name is a number has
that constant length. With ``checked`` (``ANYSHOT_NUMBA=check``) the kernel compares every index
that is not constant with its axis before it accesses memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView, Axis
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Int, Vector


class Builder:
    """Emits a kernel's instructions; ``llvm`` is llvmlite's IR builder."""

    def __init__(self, context: Any, llvm: Any, checked: bool) -> None:
        self.context, self.llvm, self.checked = context, llvm, checked

    def unpack_arguments(
        self, names: Sequence[str], shapes: dict[str, str], signature: Any, arguments: Sequence[Any]
    ) -> list[Any]:
        """The kernel's arguments as views and integers. Axes of one name have equal lengths."""
        floats = [
            t.dtype
            for t in signature.args
            if isinstance(t, types.Array) and isinstance(t.dtype, types.Float)
        ]
        self.code_type = ir.VectorType(ir.IntType(floats[0].bitwidth), LANES)
        unpacked: list[Any] = []
        lengths: dict[str, tuple[str, Any]] = {}
        for name, kind, value in zip(names, signature.args, arguments, strict=True):
            if not isinstance(kind, types.Array):
                unpacked.append(Int(self, value))
                continue
            array = self.context.make_array(kind)(self.context, self.llvm, value)
            sizes = [Int(self, n) for n in cgutils.unpack_tuple(self.llvm, array.shape)]
            axes = self._axes(name, shapes[name].split(), sizes, lengths)
            element_type = self.context.get_data_type(kind.dtype)
            unpacked.append(ArrayView(self, name, element_type, array.data, axes))
        return unpacked

    def _axes(
        self, array: str, names: list[str], sizes: list[Int], lengths: dict[str, tuple[str, Any]]
    ) -> list[Axis]:
        """Name, length and stride of an array's axes, the last varying fastest."""
        if len(names) != len(sizes):
            raise TypeError(f"{array} has {len(sizes)} axes; expected {names}")
        stride: Any = 1
        axes = []
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            length: Any = int(name) if name.isdigit() else size
            if self.checked:
                if name.isdigit():
                    expected, message = length, f"{array}: its axis {name!r} has another length"
                else:
                    other, expected = lengths.setdefault(name, (array, size))
                    message = f"{array}: its axis {name!r} is not as long as that of {other}"
                self.check(size.compare("==", expected), message)
            axes.append((name, length, stride))
            stride = length * stride
        return axes[::-1]

    def index(self, value: Any) -> Any:
        """An integer as an LLVM value."""
        return value.value if isinstance(value, Int) else ir.IntType(64)(value)

    @staticmethod
    def size_of(element_type: Any) -> int:
        """Bytes of a number."""
        return {ir.FloatType(): 4, ir.DoubleType(): 8}[element_type]

    # ------------------------------------------------------------------ control flow and integers
    @contextmanager
    def loop(self, count: Any, step: int = 1) -> Iterator[Int]:
        """``for index in range(0, count, step)``."""
        bounds = (ir.IntType(64)(0), self.index(count), ir.IntType(64)(step))
        with cgutils.for_range_slice(self.llvm, *bounds) as (index, _):
            yield Int(self, index)

    @contextmanager
    def if_then(self, condition: Any) -> Iterator[None]:
        """``if condition``."""
        with self.llvm.if_then(condition):
            yield

    def select(self, condition: Any, left: Any, right: Any) -> Int:
        """``left if condition else right``, for integers."""
        return Int(self, self.llvm.select(condition, self.index(left), self.index(right)))

    def minimum(self, left: Int, right: Any) -> Int:
        """The smaller of two integers."""
        return self.select(left.compare("<", right), left, right)

    def broadcast_int(self, value: Int, like: ArrayView) -> Vector:
        """An integer, repeated eight times, in the type of an array's elements."""
        return self.broadcast(self.llvm.sitofp(value.value, like.element_type))

    def broadcast(self, number: Any) -> Vector:
        """A number, repeated eight times."""
        undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
        lane = self.llvm.insert_element(undefined, number, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return Vector(self, self.llvm.shuffle_vector(lane, undefined, zeros))

    # ---------------------------------------------------------------------- positions of maxima
    def code(self, k: int) -> Any:
        """A code, repeated eight times."""
        return ir.Constant(self.code_type, [k] * LANES)

    def code_equals(self, codes: Any, k: int) -> Any:
        """A mask of the lanes whose code is k."""
        return self.llvm.icmp_signed("==", codes, self.code(k))

    def maximum(self, window: Sequence[Vector]) -> tuple[Vector, Any]:
        """The largest of a window's values and the code of its position, the first if equal."""
        best, code = window[0], self.code(0)
        for k, value in enumerate(window[1:], 1):
            larger = value.greater(best)
            best = value.where(larger, best)
            code = self.llvm.select(larger, self.code(k), code)
        return best, code

    def select_by_code(self, window: Sequence[Vector], code: Any) -> Vector:
        """The value of a window at the position of a code."""
        value = window[0]
        for k, other in enumerate(window[1:], 1):
            value = other.where(self.code_equals(code, k), value)
        return value

    # ---------------------------------------------------------------------- checks and debugging
    def check_index(self, index: Any, length: Any, message: str) -> None:
        """Raise an IndexError in the compiled kernel unless 0 ≤ index < length."""
        self.check(self.llvm.icmp_unsigned("<", self.index(index), self.index(length)), message)

    def check(self, condition: Any, message: str) -> None:
        """Raise an IndexError in the compiled kernel unless the condition holds."""
        with self.llvm.if_then(self.llvm.not_(condition), likely=False):
            self.context.call_conv.return_user_exc(self.llvm, IndexError, (message,))

    def print_values(self, label: str, *values: Int | Vector) -> None:
        """Print integers and vectors each time the kernel reaches this point."""
        for value in values:
            if isinstance(value, Int):
                cgutils.printf(self.llvm, f"{label} %lld\n", value.value)
            else:
                lanes = [
                    self.llvm.extract_element(value.to_double().value, ir.IntType(32)(k))
                    for k in range(LANES)
                ]
                cgutils.printf(self.llvm, label + " %g" * LANES + "\n", *lanes)
