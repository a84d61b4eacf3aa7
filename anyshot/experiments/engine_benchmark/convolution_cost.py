"""The convolutions' share of the engine's time, and the time of direct convolutions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch

from anyshot.core.parallel.threads import map_tasks
from anyshot.experiments.engine_benchmark.cases import QUERY, Case, make_inner_tasks
from anyshot.experiments.engine_benchmark.contestants import CONTESTANTS
from anyshot.inner_loop.engine.backend import choose_backend
from anyshot.inner_loop.engine.torch_ops import CHANNELS_LAST, conv, conv_dW, conv_dx
from anyshot.models.bodies.conv4 import CONV_WEIGHTS, conv4

PASSES = (
    *("first_forward", "first_tangent", "gated_correlation"),
    *("forward", "backward", "tangent", "tangent_backward"),
)  #: of :mod:`anyshot.inner_loop.engine.torch_ops`, those that convolve


def count_convolutions(steps: int) -> tuple[dict[str, int], dict[str, int]]:
    """Convolutions per support image by kind, in layer 1 and in each other layer.

    A step is forward, backward, and the tangents of both, in which each convolution becomes two
    (layer 1 has no input tangent and no input gradient). The first step, from a zero head, is
    forward and backward only. Query images are not included.
    """
    full = max(steps - 1, 0)
    first = {"forward": 2 * full + 1, "weights": 2 * full + 1}
    other = {"forward": 3 * full + 1, "weights": 3 * full + 1, "input": 3 * full + 1}
    return first, other


def time_required_convolutions(case: Case, repeats: int = 5) -> dict[str, float]:
    """Seconds on one core, and arithmetic, of a meta-iteration's convolutions, done directly.

    Each kind is timed hot and alone, on the images of an average task. These operators cannot be
    faster, so the engine can be faster only with less arithmetic.
    """
    n, total = sum(case.supports) // len(case.supports), sum(case.supports)
    queries = QUERY * len(case.supports)
    seconds, flops = 0.0, 0.0
    kinds: dict[str, Callable[..., Any]] = {
        "forward": _forward,
        "weights": conv_dW,
        "input": conv_dx,
    }
    for index, layer in enumerate(conv4((case.size, case.size)).layers):
        side = case.size >> index
        x = torch.rand(n, layer.size[1], side, side).contiguous(memory_format=CHANNELS_LAST)
        W = torch.rand(layer.size).contiguous(memory_format=CHANNELS_LAST)
        y = conv(x, W)
        for kind, times in count_convolutions(case.steps)[index > 0].items():
            images = total * times + queries
            seconds += images / n * _fastest(partial(kinds[kind], y, x, W), repeats)
            flops += images * 2 * W.numel() * side * side
    return {
        "seconds_on_one_core": seconds,
        "gigaflop": flops / 1e9,
        "gigaflop_per_second": flops / seconds / 1e9,
    }


def _forward(_: torch.Tensor, x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    return conv(x, W)


def _fastest(function: Callable[[], Any], repeats: int) -> float:
    def measure(_: int) -> float:
        times = []
        for _ in range(repeats + 1):  # the first warms up
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    return map_tasks(measure, [0], workers=1)[0]  # one thread


def time_shares(case: Case) -> dict[str, float]:
    """Share of the engine's time, on one thread, of each pass with convolutions.

    The passes include what is fused into them: transformations, pooling, statistics, scattering.
    """
    spent: dict[str, float] = defaultdict(float)
    task = make_inner_tasks(Case(case.name, case.size, case.supports[:1], case.order, case.steps))[
        0
    ].with_memory_format(CHANNELS_LAST)

    def measure(_: int) -> float:
        CONTESTANTS["engine"](task, case.order)
        with _measure_functions(
            choose_backend([task.inner.theta[name] for name in CONV_WEIGHTS]), PASSES, spent
        ):
            start = time.perf_counter()
            CONTESTANTS["engine"](task, case.order)
            return time.perf_counter() - start

    total = map_tasks(measure, [0], workers=1)[0]
    return {name: seconds / total for name, seconds in spent.items()}


@contextmanager
def _measure_functions(
    module: ModuleType, names: tuple[str, ...], spent: dict[str, float]
) -> Iterator[None]:
    """Add the seconds spent in some functions of a module to ``spent``."""
    before = {name: getattr(module, name) for name in names}

    def add_timing(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                spent[name] += time.perf_counter() - start

        return wrapper

    for name, function in before.items():
        setattr(module, name, add_timing(function, name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(module, name, function)
