"""Unpickle numbers, strings, lists, dictionaries and integer arrays from untrusted files.

Python's unpickler calls any function that a file names, allocates any memory that it announces, and
overflows its stack on nested keys. This one interprets the operations that `pickletools` finds. It
knows those below and no others. A file can name six things, each replaced by a function here that
checks its arguments. A restricted `pickle.Unpickler` is not enough: its C code hashes keys of any
depth, allocates a memo of any length, and changes objects of any type.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


class UnsafePickle(Exception):
    """The reason why a pickle is refused."""


def unpickle(file: BinaryIO) -> Any:
    """Return the object in a pickle; a malformed one raises almost anything, but runs nothing."""
    machine = _Machine()
    for operation, argument, _ in pickletools.genops(file):
        if operation.name in PUSHED:
            machine.push(argument)
        elif operation.name in STEPS:
            STEPS[operation.name](machine, argument)
        elif operation.name not in ("PROTO", "FRAME", "STOP"):
            raise UnsafePickle(f"it uses the operation {operation.name}")
    return machine.stack.pop()


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []  # objects since the last mark
        self.below: list[list[Any]] = []  # the stacks before each mark
        self.memo: dict[int, Any] = {}

    def push(self, item: Any) -> None:
        """Put an object on the stack."""
        self.stack.append(item)

    def mark(self) -> None:
        """Start a new stack."""
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        """Remove and return the objects since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def top(self, count: int) -> list[Any]:
        """Remove and return the last `count` objects."""
        items = self.stack[-count:]
        if len(items) < count:
            raise UnsafePickle("it removes more objects than there are")
        del self.stack[-count:]
        return items

    def dictionary(self) -> None:
        """Push a dictionary of the keys and values since the last mark."""
        items = self.since_mark()
        self.stack.append({})
        self.update(items)

    def extend(self, items: list[Any]) -> None:
        """Append to the list on top of the stack."""
        if not isinstance(self.stack[-1], list):
            raise UnsafePickle("it appends to an object that is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        """Add alternating keys and values to the dictionary on top; keys cannot be nested."""
        if not isinstance(self.stack[-1], dict) or not all(
            isinstance(key, str | bytes | int) for key in items[::2]
        ):
            raise UnsafePickle("it has keys that are neither strings nor numbers")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def name(self, module: str, name: str) -> None:
        """Push one of the objects that a file may name."""
        module = module.replace("numpy._core", "numpy.core")
        if (module, name) not in NAMED:
            raise UnsafePickle(f"it names {module}.{name}")
        self.stack.append(NAMED[module, name])

    def call(self) -> None:
        """Call the named object with the arguments above it."""
        function, arguments = self.top(2)
        if not isinstance(function, _Named) or not isinstance(arguments, tuple):
            raise UnsafePickle("it calls an object that is not callable")
        self.stack.append(function.make(*arguments))

    def build(self) -> None:
        """Set the state of an array or of its type."""
        (state,) = self.top(1)
        target = self.stack[-1]
        if isinstance(target, _Type):
            target.order = _order(state)
        elif isinstance(target, np.ndarray) and target.base is None and target.shape == (0,):
            _, shape, kind, fortran, data = state
            content = (1, _shape(shape), kind.dtype(), bool(fortran), _bytes(data))
            target.__setstate__(content)  # type: ignore[arg-type]
        else:
            raise UnsafePickle("it changes an object that is not an array")


# ---------------------------------------------------------------------- what a pickle can name
class _Named:
    """An object that a pickle may name; it can be called if it has a `make` function."""

    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        self._make = make

    def make(self, *arguments: Any) -> Any:
        """Return the result of a call."""
        if self._make is None:
            raise UnsafePickle("it calls an object that is not callable")
        return self._make(*arguments)


class _Type:
    """An array type: integers of one, two, four or eight bytes, in either byte order."""

    def __init__(self, code: str, *_: Any) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[<>|=]?[biu][1248]", code):
            raise UnsafePickle(f"it has an array of type {code!r}")
        self.code = code.lstrip("<>|=")
        self.order = code[0] if code[0] in "<>|=" else "="

    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy type."""
        return np.dtype(self.order + self.code)


def _order(state: Any) -> str:
    """Return the byte order from the state of a type; other states are refused."""
    _, order, *rest = state
    if order not in ("<", ">", "|", "=") or rest[:5] != [None, None, None, -1, -1]:
        raise UnsafePickle("it has an array of a structured type")
    return str(order)


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise UnsafePickle("it has an array of an impossible shape")
    return shape


def _bytes(data: Any) -> bytes:
    """Return bytes; Python 2 pickled them as text."""
    return data.encode("latin1") if isinstance(data, str) else bytes(memoryview(data))


def _empty_array(*_: Any) -> NDArray[Any]:
    return np.ndarray((0,), "b")  # `build` sets shape and content


def _scalar(kind: _Type, data: Any) -> Any:
    return np.frombuffer(_bytes(data), kind.dtype(), 1)[0]


def _from_buffer(data: Any, kind: _Type, shape: Any, order: Any) -> NDArray[Any]:
    return np.frombuffer(_bytes(data), kind.dtype()).reshape(
        _shape(shape), order="F" if order == "F" else "C"
    )


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise UnsafePickle(f"it uses the codec {encoding!r}")
    return text.encode("latin1")


NAMED = {
    ("numpy.core.multiarray", "_reconstruct"): _Named(_empty_array),
    ("numpy.core.multiarray", "scalar"): _Named(_scalar),
    ("numpy.core.numeric", "_frombuffer"): _Named(_from_buffer),
    ("numpy", "ndarray"): _Named(),
    ("numpy", "dtype"): _Named(_Type),
    ("_codecs", "encode"): _Named(_encode),
}

# ---------------------------------------------------------------------- operations
PUSHED = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *(
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
    ),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "MARK": lambda m, _: m.mark(),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.push(tuple(m.top(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.top(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.top(3))),
    "DICT": lambda m, _: m.dictionary(),
    "APPEND": lambda m, _: m.extend(m.top(1)),
    "APPENDS": lambda m, _: m.extend(m.since_mark()),
    "SETITEM": lambda m, _: m.update(m.top(2)),
    "SETITEMS": lambda m, _: m.update(m.since_mark()),
    "MEMOIZE": lambda m, _: m.memo.setdefault(len(m.memo), m.stack[-1]),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, n: m.memo.update({n: m.stack[-1]})),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, n: m.push(m.memo[n])),
    "GLOBAL": lambda m, name: m.name(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*m.top(2)),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}
