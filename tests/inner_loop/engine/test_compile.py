"""How kernels are compiled, cached, checked and debugged."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba")

from first_use import first_use

from anyshot.inner_loop.engine.numba_kernels import compile as compile_module
from anyshot.inner_loop.engine.numba_kernels.compile import (
    cache_folder,
    compile_kernel,
    delete_stale_cache,
    is_cached,
)

LOOP = """
from anyshot.inner_loop.engine.numba_kernels.compile import kernel

@kernel(x="n 8")
def loop(builder, x):
    with builder.loop(x.length("n")) as i:
        x.store(x.load(i) + 1, i)
"""


def test_cached_machine_code_is_ignored_when_any_kernel_file_changes(tmp_path, monkeypatch):
    """Numba itself compares only the file of the kernel."""
    source, hits = tmp_path / "loop.py", []
    source.write_text(LOOP)
    for stamp in ("0123456789abcdef", "0123456789abcdef", "fedcba9876543210"):
        monkeypatch.setattr(compile_module, "_fingerprint", stamp)
        spec = importlib.util.spec_from_file_location("loop", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x = np.zeros((3, 8))
        module.loop(x)
        assert (x == 1).all()
        hits.append(sum(module.loop.stats.cache_hits.values()))
        assert is_cached(module.loop)
    assert hits == [0, 1, 0]
    before = sorted(path.name for path in cache_folder(module.loop).glob("*.nb?"))
    delete_stale_cache(module.loop)
    after = sorted(path.name for path in cache_folder(module.loop).glob("*.nb?"))
    assert after == [name for name in before if "fedcba9876543210" in name] != before


def test_a_numba_without_a_known_cache_folder_works():
    for loop in (SimpleNamespace(), SimpleNamespace(stats=SimpleNamespace(cache_hits={}))):
        assert cache_folder(loop) is None
        assert not is_cached(loop)
        delete_stale_cache(loop)


def shifted(by):
    """A kernel that reads ``by`` rows further down."""

    def read_rows(builder, x, y, count):
        with builder.loop(count) as i:
            y.store(x.load(i + by), i)

    return read_rows


SHAPES = {"x": "row 8", "y": "row 8"}


def test_checked_kernels_catch_an_index_outside_an_array():
    x, y = np.arange(24.0).reshape(3, 8), np.zeros((3, 8))
    compile_kernel(shifted(0), SHAPES, checked=True, cache=False)(x, y, 3)
    assert (x == y).all()
    with pytest.raises(IndexError, match="x: an index outside its axis 'row'"):
        compile_kernel(shifted(1), SHAPES, checked=True, cache=False)(x, y, 3)
    with pytest.raises(IndexError, match="x: an index outside its axis 'row'"):
        compile_kernel(shifted(-1), SHAPES, checked=True, cache=False)(x, y, 3)


def test_checked_kernels_catch_arrays_of_different_lengths():
    loop = compile_kernel(shifted(0), SHAPES, checked=True, cache=False)
    with pytest.raises(IndexError, match="y: its axis 'row' is not as long as that of x"):
        loop(np.zeros((3, 8)), np.zeros((4, 8)), 3)
    with pytest.raises(IndexError, match="y: its axis '8' has another length"):
        loop(np.zeros((3, 8)), np.zeros((3, 9)), 3)


def test_constant_indices_outside_an_array_are_errors_at_compile_time():
    def read_rows(builder, x):
        x.store(x.window(0, size=(2,)).load(2), 0)

    with pytest.raises(IndexError, match="2 … 2 is outside its axis 'row' of length 2"):
        compile_kernel(read_rows, {"x": "row 8"}, cache=False)(np.zeros((3, 8)))


def test_the_kernel_in_the_docs_runs():
    page = (Path(__file__).parents[3] / "docs" / "engine.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {"__name__": "docs"})


@pytest.mark.skipif(os.name != "posix", reason="flushes the C library's buffer")
def test_a_kernel_can_print_values(capfd):
    def read_rows(builder, x):
        with builder.loop(x.length("row")) as i:
            builder.print_values("row", i, x.load(i))

    compile_kernel(read_rows, {"x": "row 8"}, cache=False)(np.arange(8.0)[None])
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out.splitlines() == ["row 0", "row 0 1 2 3 4 5 6 7"]


def test_every_kernel_stays_inside_its_arrays():
    """``ANYSHOT_NUMBA=check``: whole tiles, cut ones, less than one; layer 1 and the others."""
    tests = [
        "forward_and_normalisation",
        "backward",
        "tangent",
        "pooled_normalisation",
        "layer_one",
    ]
    file = Path(__file__).with_name("test_numba_ops.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(file),
        "-k",
        " or ".join(tests),
    ]
    environment = os.environ | {"ANYSHOT_NUMBA": "check"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_adaptation_compiles_only_its_kernels_and_logs_it_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_NUMBA", "1")
    for said in (1, 0):  # the second time everything is on disk
        found = first_use(str(tmp_path))
        assert found["kernels"] == [
            "conv_layers.backward",
            "conv_layers.forward",
            "conv_layers.transform_filters",
            "conv_layers.transform_filters_backward",
            "first_layer.forward",
            "first_layer.gated_patch_sums",
            "first_layer.patch_sums",
            "pooled_norm.affine_relu",
            "pooled_norm.gated_sums",
        ]
        assert [line.startswith("Compiling the engine's kernels") for line in found["log"]] == [
            True
        ] * said
