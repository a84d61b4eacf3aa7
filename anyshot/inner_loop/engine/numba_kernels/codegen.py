"""What the loops are written with: a pen that writes instructions on eight channels at once.

A loop here is a formula, a function whose first argument is a :class:`Pen`. It runs once for each type of numbers, when
the loop is compiled, and what it does with vectors, whole numbers and arrays becomes instructions. So Python's ``for``
repeats instructions, :meth:`Pen.loop` makes a loop of them, and Python's numbers become part of the instructions.

An array is a :class:`View`, with names for its axes; one of them may be a number that is known beforehand. Where
``checked`` is set (``ANYSHOT_LOOPS=check``), every index that is not known beforehand is compared with its axis before
memory is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

LANES = 8  #: channels in a vector; a double vector takes two registers


class Whole:
    """A whole number that is not known before the loop runs."""

    def __init__(self, pen: Pen, value: Any) -> None:
        self.pen, self.value = pen, value

    def _with(self, operation: str, left: Any, right: Any) -> Whole:
        return Whole(
            self.pen,
            getattr(self.pen.build, operation)(self.pen.index(left), self.pen.index(right)),
        )

    def __add__(self, other: Any) -> Whole:
        return self if isinstance(other, int) and other == 0 else self._with("add", self, other)

    def __sub__(self, other: Any) -> Whole:
        return self._with("sub", self, other)

    def __rsub__(self, other: Any) -> Whole:
        return self._with("sub", other, self)

    def __mul__(self, other: Any) -> Whole:
        return self if isinstance(other, int) and other == 1 else self._with("mul", self, other)

    def __floordiv__(self, other: Any) -> Whole:
        return self._with("udiv", self, other)  # nothing divided here is negative

    def __rfloordiv__(self, other: Any) -> Whole:
        return self._with("udiv", other, self)

    def __mod__(self, other: Any) -> Whole:
        return self._with("urem", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def compare(self, sign: str, other: Any) -> Any:
        """A condition, for :meth:`Pen.when` and :meth:`Pen.choose`."""
        return self.pen.build.icmp_signed(sign, self.value, self.pen.index(other))


class Vector:
    """Eight numbers. A product may be fused with the sum it goes into."""

    def __init__(self, pen: Pen, value: Any) -> None:
        self.pen, self.value = pen, value

    def like(self, other: Vector | float) -> Any:
        """The other's value; a number eight times, in the type of this vector."""
        return (
            other.value
            if isinstance(other, Vector)
            else ir.Constant(self.value.type, [float(other)] * LANES)
        )

    def _with(self, other: Vector | float, operation: str) -> Vector:
        return Vector(
            self.pen,
            getattr(self.pen.build, operation)(self.value, self.like(other), flags=["contract"]),
        )

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(other, "fadd")

    def __sub__(self, other: Vector | float) -> Vector:
        return self._with(other, "fsub")

    def __mul__(self, other: Vector | float) -> Vector:
        return self._with(other, "fmul")

    def __truediv__(self, other: Vector | float) -> Vector:
        return self._with(other, "fdiv")

    def above(self, other: Vector | float) -> Any:
        """In which lanes it is greater."""
        return self.pen.build.fcmp_ordered(">", self.value, self.like(other))

    def where(self, mask: Any, otherwise: Vector | float = 0.0) -> Vector:
        """Its numbers in these lanes, the other's elsewhere."""
        return Vector(self.pen, self.pen.build.select(mask, self.value, self.like(otherwise)))

    def wide(self) -> Vector:
        """The same in double precision."""
        double = ir.VectorType(ir.DoubleType(), LANES)
        return (
            self
            if self.value.type == double
            else Vector(self.pen, self.pen.build.fpext(self.value, double))
        )


class Variable:
    """A vector in a register, for sums in a loop."""

    def __init__(self, start: Vector) -> None:
        self.pen, self.slot = start.pen, cgutils.alloca_once(start.pen.build, start.value.type)
        self.pen.build.store(start.value, self.slot)

    @property
    def now(self) -> Vector:
        """Its value at this point of the program."""
        return Vector(self.pen, self.pen.build.load(self.slot))

    def add(self, value: Vector) -> None:
        """Add to it."""
        self.pen.build.store((self.now + value).value, self.slot)


class View:
    """An array, or a part of one: where it begins, and the name, length and stride of each axis."""

    def __init__(
        self, pen: Pen, name: str, number: Any, pointer: Any, axes: Sequence[tuple[str, Any, Any]]
    ) -> None:
        self.pen, self.name, self.number, self.pointer, self.axes = (
            pen,
            name,
            number,
            pointer,
            list(axes),
        )

    def length(self, axis: str) -> Any:
        """Of an axis, by its name."""
        return {name: length for name, length, _ in self.axes}[axis]

    def _inside(self, axis: int, start: Any, count: Any = 1) -> None:
        """Refuse what is beyond the axis: now if it is known, in the compiled loop if asked to, never otherwise."""
        name, length, _ = self.axes[axis]
        last = start + (count - 1)
        if isinstance(last, int) and isinstance(length, int):
            if not 0 <= start <= last < length:
                raise IndexError(
                    f"{self.name}: {start} … {last} is not inside the {length} of its axis {name!r}"
                )
        elif self.pen.checked:
            for place in {start, last}:
                self.pen.refuse(place, length, f"{self.name}: a place beyond its axis {name!r}")

    def _at(self, places: Sequence[Any]) -> Any:
        offset: Any = 0
        for place, (_, _, stride) in zip(places, self.axes, strict=False):
            offset = offset + place * stride
        return self.pen.build.gep(self.pointer, [self.pen.index(offset)])

    def __getitem__(self, places: Any) -> View:
        """The part at these places of the first axes."""
        places = places if isinstance(places, tuple) else (places,)
        for axis, place in enumerate(places):
            self._inside(axis, place)
        return self._part(places, self.axes[len(places) :])

    def window(self, *starts: Any, size: Sequence[Any]) -> View:
        """So many places, a number for each of the first axes, from these on."""
        for axis, (start, count) in enumerate(zip(starts, size, strict=True)):
            self._inside(axis, start, count)
        axes = [
            (name, count, stride) for count, (name, _, stride) in zip(size, self.axes, strict=False)
        ]
        return self._part(starts, axes + self.axes[len(size) :])

    def seen_as(self, axes: Sequence[tuple[str, Any, Any]]) -> View:
        """The same memory with other axes."""
        return View(self.pen, self.name, self.number, self.pointer, axes)

    def _part(self, places: Sequence[Any], axes: Sequence[tuple[str, Any, Any]]) -> View:
        return View(self.pen, self.name, self.number, self._at(places), axes)

    def _element(self, places: Sequence[Any], kind: Any = None, count: int = 1) -> Any:
        if len(places) < len(self.axes):  # the eight lanes of the last axis
            places = (*places, 0)
        if len(places) != len(self.axes) or (kind is not None and self.axes[-1][2] != 1):
            raise IndexError(
                f"{self.name}: {len(places)} places for the axes {[name for name, _, _ in self.axes]}"
            )
        for axis, place in enumerate(places):
            self._inside(axis, place, count if axis == len(places) - 1 else 1)
        pointer = self._at(places)
        return pointer if kind is None else self.pen.build.bitcast(pointer, kind.as_pointer())

    def load(self, *places: Any) -> Vector:
        """Eight numbers along the last axis."""
        value = self.pen.build.load(self._element(places, ir.VectorType(self.number, LANES), LANES))
        value.align = self.pen.bytes(self.number)
        return Vector(self.pen, value)

    def store(self, value: Vector, *places: Any) -> None:
        """Eight numbers along the last axis."""
        pointer = self._element(places, value.value.type, LANES)
        self.pen.build.store(value.value, pointer).align = self.pen.bytes(self.number)

    def broadcast(self, *places: Any) -> Vector:
        """One number, eight times."""
        return self.pen.eight(self.get(*places))

    def get(self, *places: Any) -> Any:
        """One element, as it is."""
        return self.pen.build.load(self._element(places))

    def put(self, value: Any, *places: Any) -> None:
        """One element; a number in single precision may go where doubles are."""
        value, pointer = value.value if isinstance(value, Whole) else value, self._element(places)
        self.pen.build.store(
            value if value.type == self.number else self.pen.build.fpext(value, self.number),
            pointer,
        )

    def whole(self, *places: Any) -> Whole:
        """One element of an array of whole numbers."""
        value = self.get(*places)
        return Whole(
            self.pen,
            value if value.type == ir.IntType(64) else self.pen.build.zext(value, ir.IntType(64)),
        )

    def zero(self) -> Vector:
        """Eight zeros of its type."""
        return Vector(self.pen, ir.Constant(ir.VectorType(self.number, LANES), [0.0] * LANES))

    def fetch(self, *places: Any) -> None:
        """Ask for the line of the cache at these places, to be read later; they may be anywhere."""
        if self.pen.checked:
            return
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        prefetch = self.pen.build.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        pointer = self.pen.build.bitcast(self._at(places), byte)
        self.pen.build.call(
            prefetch, [pointer, whole(0), whole(2), whole(1)]
        )  # to read, second-level cache, data

    # ------------------------------------------------------------------------------------------ places of maxima
    def load_codes(self, *places: Any) -> Any:
        """Eight one-byte codes, as integers as wide as the loop's numbers: so they are compared fastest."""
        value = self.pen.build.load(
            self._element(places, ir.VectorType(ir.IntType(8), LANES), LANES)
        )
        value.align = 1
        return self.pen.build.zext(value, self.pen.codes)

    def store_codes(self, codes: Any, *places: Any) -> None:
        """The reverse of :meth:`load_codes`."""
        kind = ir.VectorType(ir.IntType(8), LANES)
        self.pen.build.store(
            self.pen.build.trunc(codes, kind), self._element(places, kind, LANES)
        ).align = 1


class Pen:
    """Writes instructions."""

    def __init__(self, context: Any, build: Any, checked: bool) -> None:
        self.context, self.build, self.checked = context, build, checked

    def take(
        self, names: Sequence[str], shapes: dict[str, str], signature: Any, arguments: Sequence[Any]
    ) -> list[Any]:
        """The arguments of a loop: views of arrays and whole numbers. Axes of one name must be equally long."""
        kinds = [
            t.dtype
            for t in signature.args
            if isinstance(t, types.Array) and isinstance(t.dtype, types.Float)
        ]
        self.codes = ir.VectorType(ir.IntType(kinds[0].bitwidth), LANES)
        taken: list[Any] = []
        lengths: dict[str, tuple[str, Any]] = {}
        for name, kind, value in zip(names, signature.args, arguments, strict=True):
            if not isinstance(kind, types.Array):
                taken.append(Whole(self, value))
                continue
            array = self.context.make_array(kind)(self.context, self.build, value)
            found = [Whole(self, n) for n in cgutils.unpack_tuple(self.build, array.shape)]
            axes = self._axes(name, shapes[name].split(), found, lengths)
            taken.append(View(self, name, self.context.get_data_type(kind.dtype), array.data, axes))
        return taken

    def _axes(
        self, array: str, names: list[str], found: list[Whole], lengths: dict[str, tuple[str, Any]]
    ) -> list[tuple[str, Any, Any]]:
        """Name, length and stride of an array's axes, the last varying fastest."""
        if len(names) != len(found):
            raise TypeError(f"{array} has {len(found)} axes, not {names}")
        stride: Any = 1
        axes = []
        for name, length in reversed(list(zip(names, found, strict=True))):
            known: Any = int(name) if name.isdigit() else length
            if self.checked:
                other, expected = (
                    ("it", known) if name.isdigit() else lengths.setdefault(name, (array, length))
                )
                message = f"{array}: its axis {name!r} is not as long as that of {other}"
                self.refuse_unless(length.compare("==", expected), message)
            axes.append((name, known, stride))
            stride = known * stride
        return axes[::-1]

    def index(self, value: Any) -> Any:
        """A whole number as LLVM has it."""
        return value.value if isinstance(value, Whole) else ir.IntType(64)(value)

    @staticmethod
    def bytes(number: Any) -> int:
        """How many bytes a number takes."""
        return {ir.FloatType(): 4, ir.DoubleType(): 8}[number]

    @contextmanager
    def loop(self, count: Any, step: int = 1) -> Iterator[Whole]:
        """``for index in range(0, count, step)``."""
        bounds = (ir.IntType(64)(0), self.index(count), ir.IntType(64)(step))
        with cgutils.for_range_slice(self.build, *bounds) as (index, _):
            yield Whole(self, index)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """``if condition``."""
        with self.build.if_then(condition):
            yield

    def choose(self, condition: Any, left: Any, right: Any) -> Whole:
        """``left if condition else right``, of whole numbers."""
        return Whole(self, self.build.select(condition, self.index(left), self.index(right)))

    def least(self, left: Whole, right: Any) -> Whole:
        """The smaller one."""
        return self.choose(left.compare("<", right), left, right)

    def number(self, whole: Whole, like: View) -> Vector:
        """A whole number, eight times, in the type of an array."""
        return self.eight(self.build.sitofp(whole.value, like.number))

    def eight(self, number: Any) -> Vector:
        """A number, eight times."""
        undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
        lane = self.build.insert_element(undefined, number, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return Vector(self, self.build.shuffle_vector(lane, undefined, zeros))

    # ------------------------------------------------------------------------------------------ places of maxima
    def code(self, k: int) -> Any:
        """A code, eight times."""
        return ir.Constant(self.codes, [k] * LANES)

    def equal(self, codes: Any, k: int) -> Any:
        """In which lanes the code is k."""
        return self.build.icmp_signed("==", codes, self.code(k))

    def maximum(self, window: Sequence[Vector]) -> tuple[Vector, Any]:
        """The largest of a window's four values and the code of its place; the first of equal values wins."""
        best, code = window[0], self.code(0)
        for k, value in enumerate(window[1:], 1):
            larger = value.above(best)
            best, code = value.where(larger, best), self.build.select(larger, self.code(k), code)
        return best, code

    def chosen(self, window: Sequence[Vector], code: Any) -> Vector:
        """The value of a window at the place of a code."""
        value = window[0]
        for k, other in enumerate(window[1:], 1):
            value = other.where(self.equal(code, k), value)
        return value

    # ------------------------------------------------------------------------------------------ checks, and a look
    def refuse(self, place: Any, length: Any, message: str) -> None:
        """An IndexError in the compiled loop unless 0 ≤ place < length."""
        inside = self.build.icmp_unsigned("<", self.index(place), self.index(length))
        self.refuse_unless(inside, message)

    def refuse_unless(self, condition: Any, message: str) -> None:
        """An IndexError in the compiled loop."""
        with self.build.if_then(self.build.not_(condition), likely=False):
            self.context.call_conv.return_user_exc(self.build, IndexError, (message,))

    def show(self, label: str, *values: Whole | Vector) -> None:
        """Print what these are when the loop comes by; for a look while a pass is being changed."""
        for value in values:
            if isinstance(value, Whole):
                cgutils.printf(self.build, f"{label} %lld\n", value.value)
            else:
                lanes = [
                    self.build.extract_element(value.wide().value, ir.IntType(32)(k))
                    for k in range(LANES)
                ]
                cgutils.printf(self.build, label + " %g" * LANES + "\n", *lanes)
