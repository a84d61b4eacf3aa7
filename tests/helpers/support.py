"""Shared by many tests: a learnable image set of 16×16 pixels, tasks from it, small methods."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from anyshot.cli.main import main
from anyshot.core.random import torch_rng
from anyshot.core.settings import MethodSettings, TaskSettings
from anyshot.data import ImageSet
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods import Method, create_method
from anyshot.runs.log_file import LogFile
from anyshot.runs.run import Run


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Limit files to `size` bytes, to simulate a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_command(*arguments: object) -> int:
    """Run the command ``anyshot`` and return its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    """Assert that two dicts have the same tensors, bit for bit."""
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []


def assert_kills_change_nothing(
    folder: Path, imports: str, call: str, clock: str, end: int
) -> None:
    """Kill a training twice; it must end with the tensors and log of an uninterrupted one.

    ``call`` trains in the folder ``run``; ``clock`` is a key of its checkpoints that ends at
    ``end``. What is not killed runs in this process, which has loaded torch already.
    """
    path = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})"
    program = f"{path}; run = sys.argv[1]; {imports}; {call}"
    whole, killed = folder / "whole", folder / "killed"
    log = LogFile(killed / "log.jsonl")
    for lines in (4, 12):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(killed)], stderr=subprocess.DEVNULL
        )
        while process.poll() is None and log.count_lines() < lines:
            time.sleep(0.005)
        process.kill()
        process.wait()
    assert Run(killed).latest_checkpoint().state[clock] < end
    for run in (killed, whole):
        exec(f"{imports}; {call}", {"run": str(run)})
    assert_equal(Run(killed).latest_checkpoint().tensors, Run(whole).latest_checkpoint().tensors)
    assert_equal(Run(killed).best().tensors, Run(whole).best().tensors)
    assert list(Run(killed).records()) == list(Run(whole).records())


@functools.cache
def make_imageset(
    size: int = 16, classes: int = 12, images: int = 30, name: str = "tiny"
) -> ImageSet:
    """Classes differ in a coarse random pattern; images of a class in noise and brightness."""
    rng = np.random.default_rng(0)
    arrays = {}
    for c in range(classes):
        pattern = np.kron(rng.uniform(0, 255, (4, 4, 3)), np.ones((size // 4, size // 4, 1)))
        noisy = pattern * rng.uniform(0.6, 1, (images, 1, 1, 1)) + rng.normal(
            0, 25, (images, size, size, 3)
        )
        arrays[f"class {c}"] = noisy.clip(0, 255).astype(np.uint8)
    names, third = list(arrays), classes // 3
    splits = {
        "train": names[:third],
        "validation": names[third : 2 * third],
        "test": names[2 * third :],
    }
    return ImageSet.from_arrays(name, arrays, splits)


def colours(pixels: np.ndarray) -> np.ndarray:
    """A backbone without weights: mean and deviation of each channel of [n, side, side, 3]."""
    x = pixels.astype(np.float32)
    return np.concatenate([x.mean((1, 2)), x.std((1, 2))], 1)


def wide_colours(pixels: np.ndarray) -> np.ndarray:
    """The same features repeated to the width of EfficientNet-Lite."""
    return np.resize(colours(pixels).T, (1280, len(pixels))).T


def noise_png(channel: int, seed: int, side: int = 8) -> bytes:
    """A PNG file of noise that is brighter in one channel, so that `colours` separates classes."""
    x = np.random.default_rng([channel, seed]).integers(0, 120, (side, side, 3), np.uint8)
    x[..., channel] += np.uint8(100)
    file = io.BytesIO()
    Image.fromarray(x).save(file, "PNG")
    return file.getvalue()


def make_task(
    index: int = 0,
    way: int = 3,
    shots: str = "class-imbalance:1-6",
    query: int = 4,
    split: str = "test",
) -> Task:
    """Sample a small task."""
    return TaskStream(make_imageset(), split, TaskSettings(way=way, shots=shots, query=query)).task(
        index
    )


def make_method(
    name: str, dtype: torch.dtype = torch.float64, seed: int = 0, **options: object
) -> Method:
    """Create a small method (4 channels, 16×16) with perturbed parameters: none is at 0 or 1."""
    base = MethodSettings(name=name, start="he", channels=4)
    settings = base.with_values({"samples": 3, **options}, skip_unused=True)
    method = create_method(settings, (16, 16), seed).to(dtype)
    generator = torch_rng(seed, "elsewhere")
    with torch.no_grad():
        for parameter_name, parameter in method.named_parameters():
            if not parameter_name.startswith(("theta", "rho", "rate")):
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator).to(parameter)
            if parameter_name.startswith("rate"):
                parameter *= 1 + 0.3 * torch.randn(parameter.shape, generator=generator).to(
                    parameter
                )
    return method
