"""Arrays in a kernel that is being compiled: named axes, parts and bounds checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from anyshot.inner_loop.engine.numba_kernels.values import LANES, Int, Vector

if TYPE_CHECKING:
    from anyshot.inner_loop.engine.numba_kernels.codegen import Builder

Axis = tuple[str, Any, Any]  #: name, length, stride


class ArrayView:
    """An array, or a part of one: a pointer, and the name, length and stride of each axis."""

    def __init__(
        self, builder: Builder, name: str, element_type: Any, pointer: Any, axes: Sequence[Axis]
    ) -> None:
        self.builder = builder
        self.name = name
        self.element_type = element_type
        self.pointer = pointer
        self.axes = list(axes)

    def length(self, axis: str) -> Any:
        """Length of an axis, by its name."""
        return {name: length for name, length, _ in self.axes}[axis]

    def _check_bounds(self, axis: int, start: Any, count: Any = 1) -> None:
        """Raise an error for indices outside the axis.

        Constant indices are checked now, others in the compiled kernel if it is built with checks.
        """
        name, length, _ = self.axes[axis]
        last = start + (count - 1)
        if isinstance(last, int) and isinstance(length, int):
            if not 0 <= start <= last < length:
                raise IndexError(
                    f"{self.name}: {start} … {last} is outside its axis {name!r} of length {length}"
                )
        elif self.builder.checked:
            for index in {start, last}:
                self.builder.check_index(
                    index, length, f"{self.name}: an index outside its axis {name!r}"
                )

    def _pointer_to(self, indices: Sequence[Any]) -> Any:
        offset: Any = 0
        for index, (_, _, stride) in zip(indices, self.axes, strict=False):
            offset = offset + index * stride
        return self.builder.llvm.gep(self.pointer, [self.builder.index(offset)])

    def __getitem__(self, indices: Any) -> ArrayView:
        """The part at these indices of the first axes."""
        indices = indices if isinstance(indices, tuple) else (indices,)
        for axis, index in enumerate(indices):
            self._check_bounds(axis, index)
        return self._part(indices, self.axes[len(indices) :])

    def window(self, *starts: Any, size: Sequence[Any]) -> ArrayView:
        """The part of this size that begins at ``starts`` in the first axes."""
        for axis, (start, count) in enumerate(zip(starts, size, strict=True)):
            self._check_bounds(axis, start, count)
        axes = [
            (name, count, stride) for count, (name, _, stride) in zip(size, self.axes, strict=False)
        ]
        return self._part(starts, axes + self.axes[len(size) :])

    def with_axes(self, axes: Sequence[Axis]) -> ArrayView:
        """The same memory with other axes."""
        return ArrayView(self.builder, self.name, self.element_type, self.pointer, axes)

    def _part(self, indices: Sequence[Any], axes: Sequence[Axis]) -> ArrayView:
        pointer = self._pointer_to(indices)
        return ArrayView(self.builder, self.name, self.element_type, pointer, axes)

    def _element(self, indices: Sequence[Any], kind: Any = None, count: int = 1) -> Any:
        """A pointer to an element, or to ``count`` elements of the last axis as one ``kind``."""
        if len(indices) < len(self.axes):  # the eight lanes of the last axis
            indices = (*indices, 0)
        if len(indices) != len(self.axes) or (kind is not None and self.axes[-1][2] != 1):
            names = [name for name, _, _ in self.axes]
            raise IndexError(f"{self.name}: {len(indices)} indices for the axes {names}")
        for axis, index in enumerate(indices):
            self._check_bounds(axis, index, count if axis == len(indices) - 1 else 1)
        pointer = self._pointer_to(indices)
        return pointer if kind is None else self.builder.llvm.bitcast(pointer, kind.as_pointer())

    # ---------------------------------------------------------------------- vectors and elements
    def load(self, *indices: Any) -> Vector:
        """Eight numbers along the last axis."""
        kind = ir.VectorType(self.element_type, LANES)
        value = self.builder.llvm.load(self._element(indices, kind, LANES))
        value.align = self.builder.size_of(self.element_type)
        return Vector(self.builder, value)

    def store(self, value: Vector, *indices: Any) -> None:
        """Write eight numbers along the last axis."""
        pointer = self._element(indices, value.value.type, LANES)
        instruction = self.builder.llvm.store(value.value, pointer)
        instruction.align = self.builder.size_of(self.element_type)

    def broadcast(self, *indices: Any) -> Vector:
        """One element, repeated eight times."""
        return self.builder.broadcast(self.get(*indices))

    def get(self, *indices: Any) -> Any:
        """One element, as an LLVM value."""
        return self.builder.llvm.load(self._element(indices))

    def put(self, value: Any, *indices: Any) -> None:
        """Write one element; a single-precision number may be written to an array of doubles."""
        value = value.value if isinstance(value, Int) else value
        pointer = self._element(indices)
        if value.type != self.element_type:
            value = self.builder.llvm.fpext(value, self.element_type)
        self.builder.llvm.store(value, pointer)

    def get_int(self, *indices: Any) -> Int:
        """One element of an array of integers."""
        value = self.get(*indices)
        if value.type != ir.IntType(64):
            value = self.builder.llvm.zext(value, ir.IntType(64))
        return Int(self.builder, value)

    def zero(self) -> Vector:
        """Eight zeros of its type."""
        kind = ir.VectorType(self.element_type, LANES)
        return Vector(self.builder, ir.Constant(kind, [0.0] * LANES))

    def prefetch(self, *indices: Any) -> None:
        """Request the cache line at these indices for a later read; they may be out of bounds."""
        if self.builder.checked:
            return
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        intrinsic = self.builder.llvm.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        pointer = self.builder.llvm.bitcast(self._pointer_to(indices), byte)
        # for reading, into the second-level cache, data
        self.builder.llvm.call(intrinsic, [pointer, flag(0), flag(2), flag(1)])

    # ---------------------------------------------------------------------- positions of maxima
    def load_codes(self, *indices: Any) -> Any:
        """Eight one-byte codes, as integers as wide as the kernel's numbers: fastest to compare."""
        kind = ir.VectorType(ir.IntType(8), LANES)
        value = self.builder.llvm.load(self._element(indices, kind, LANES))
        value.align = 1
        return self.builder.llvm.zext(value, self.builder.code_type)

    def store_codes(self, codes: Any, *indices: Any) -> None:
        """The inverse of :meth:`load_codes`."""
        kind = ir.VectorType(ir.IntType(8), LANES)
        pointer = self._element(indices, kind, LANES)
        self.builder.llvm.store(self.builder.llvm.trunc(codes, kind), pointer).align = 1
