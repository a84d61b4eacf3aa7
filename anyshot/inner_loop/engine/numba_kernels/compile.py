"""How the loops are compiled (Numba, an optional extra), kept on disk, and checked.

A loop is compiled when it is first called, for the type of its arrays, and its machine code kept in a file. Numba keeps
it as long as the file that the loop stands in does not change, which is not enough: loops take formulas and constants
from each other's files, and old machine code for another layout of memory would write where it should not. So the name
under which Numba knows a loop has a fingerprint of all files in this folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from anyshot.inner_loop.engine.numba_kernels.codegen import Pen

Array = np.ndarray
CHECKED = (
    os.environ.get("ANYSHOT_LOOPS") == "check"
)  #: every place is compared with its array before it is used


def _sources() -> str:
    """A fingerprint of all files with compiled loops."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


_stamp = _sources()


def compiled(**shapes: str) -> Callable[[Callable[..., None]], Any]:
    """Make a loop of ``formula(pen, *arguments)``: whole numbers, and arrays with the axes that ``shapes`` says."""
    return lambda formula: made(formula, shapes)


def made(
    formula: Callable[..., None], shapes: dict[str, str], checked: bool = CHECKED, keep: bool = True
) -> Any:
    """The loop of a formula, for Numba to compile when it is called. ``keep`` is for formulas that stand in a file."""
    names = list(inspect.signature(formula).parameters)[1:]
    name = f"{formula.__name__}_{_stamp}" + ("_checked" if checked else "")
    source = f"def {name}({', '.join(names)}):\n    formula({', '.join(names)})\n"
    scope: dict[str, Any] = {
        "__name__": formula.__module__,
        "formula": _written(formula, names, shapes, checked),
    }
    exec(
        compile(source, formula.__code__.co_filename, "exec"), scope
    )  # Numba keeps machine code beside that file
    return numba.njit(nogil=True, cache=keep, error_model="numpy")(scope[name])


def _written(
    formula: Callable[..., None], names: Sequence[str], shapes: dict[str, str], checked: bool
) -> Any:
    """A function for Numba whose code are the instructions that the formula writes."""

    @functools.wraps(formula)  # for Numba, which looks at the names of the arguments
    def typed(_: Any, *given: Any) -> Any:
        kinds = [types.intp if isinstance(t, types.Integer) else t for t in given]
        return types.void(*kinds), generate

    def generate(context: Any, build: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        pen = Pen(context, build, checked)
        formula(pen, *pen.take(names, shapes, signature, arguments))
        return context.get_dummy_value()

    return intrinsic(typed)


# ---------------------------------------------------------------------------------------------- what is on disk
def folder(loop: Any) -> Path | None:
    """Where Numba keeps the loop's machine code; None if this Numba does not say."""
    path = getattr(getattr(loop, "stats", None), "cache_path", None)
    return None if path is None else Path(path)


def kept(loop: Any) -> bool:
    """Whether machine code of the loop, for some kind of arguments, is on disk and up to date."""
    place = folder(loop)
    return place is not None and any(place.glob(f"*.{loop.__name__}-*.nbi"))


def forget_old(loop: Any) -> None:
    """Delete what is kept beside the loop's machine code of other states of these files."""
    place = folder(loop)
    for path in place.glob("*_????????????????*-*.nb[ic]") if place else ():
        if _stamp not in path.name:
            with contextlib.suppress(OSError):  # not ours to delete, or somebody else did
                path.unlink()
