"""Compiles kernels with Numba (an optional extra), caches the machine code, and checks indices.

A kernel is compiled at its first call, for the type of its arrays, and its machine code is cached
in a file. Numba keeps that file until the kernel's own source file changes. This is not enough
here: kernels use functions and constants of each other's files, and stale machine code for another
memory layout would write out of bounds. So the name under which Numba knows a kernel contains a
fingerprint of all files in this folder.
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

from anyshot.inner_loop.engine.numba_kernels.codegen import Builder

Array = np.ndarray
CHECKED = os.environ.get("ANYSHOT_NUMBA") == "check"  #: kernels check every index


def _hash_sources() -> str:
    """A fingerprint of all files with kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_fingerprint = _hash_sources()


def kernel(**shapes: str) -> Callable[[Callable[..., None]], Any]:
    """Decorator: a kernel from ``function(builder, *arguments)``.

    The arguments are integers, and arrays whose axes ``shapes`` names.
    """
    return lambda function: compile_kernel(function, shapes)


def compile_kernel(
    function: Callable[..., None],
    shapes: dict[str, str],
    checked: bool = CHECKED,
    cache: bool = True,
) -> Any:
    """A kernel that Numba compiles at its first call; only functions in a file can be cached."""
    names = list(inspect.signature(function).parameters)[1:]
    name = f"{function.__name__}_{_fingerprint}" + ("_checked" if checked else "")
    source = f"def {name}({', '.join(names)}):\n    emit({', '.join(names)})\n"
    scope: dict[str, Any] = {
        "__name__": function.__module__,
        "emit": _as_intrinsic(function, names, shapes, checked),
    }
    # The file name decides where Numba caches the machine code.
    exec(compile(source, function.__code__.co_filename, "exec"), scope)
    return numba.njit(nogil=True, cache=cache, error_model="numpy")(scope[name])


def _as_intrinsic(
    function: Callable[..., None], names: Sequence[str], shapes: dict[str, str], checked: bool
) -> Any:
    """A Numba intrinsic whose code is the instructions that the function emits."""

    @functools.wraps(function)  # Numba reads the names of the arguments
    def infer_signature(_: Any, *given: Any) -> Any:
        kinds = [types.intp if isinstance(t, types.Integer) else t for t in given]
        return types.void(*kinds), generate

    def generate(context: Any, llvm: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        builder = Builder(context, llvm, checked)
        function(builder, *builder.unpack_arguments(names, shapes, signature, arguments))
        return context.get_dummy_value()

    return intrinsic(infer_signature)


# ---------------------------------------------------------------------- the cache on disk
def cache_folder(compiled: Any) -> Path | None:
    """Where Numba caches the kernel's machine code; None if this version of Numba does not say."""
    path = getattr(getattr(compiled, "stats", None), "cache_path", None)
    return None if path is None else Path(path)


def is_cached(compiled: Any) -> bool:
    """Whether current machine code of the kernel, for some argument types, is on disk."""
    folder = cache_folder(compiled)
    return folder is not None and any(folder.glob(f"*.{compiled.__name__}-*.nbi"))


def delete_stale_cache(compiled: Any) -> None:
    """Delete machine code of earlier versions of these files from the kernel's cache folder."""
    folder = cache_folder(compiled)
    for path in folder.glob("*_????????????????*-*.nb[ic]") if folder else ():
        if _fingerprint not in path.name:
            with contextlib.suppress(OSError):  # read-only, or deleted by another process
                path.unlink()
