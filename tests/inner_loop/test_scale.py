"""The engine on large problems: many sizes and steps, flat memory, linear time."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest
import torch

from anyshot.core.parallel.threads import map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, make_tasks
from anyshot.experiments.engine_benchmark.measure import (
    Mode,
    _peak_memory_mb,
    _reset_peak,
    measure_peak_memory,
    run_iteration,
)
from anyshot.inner_loop import query_loss

MODE = Mode("channels-last", 1)
SIZES = [(32, 32), (84, 84), (28, 28), (33, 47)]
SHOTS = [[1, 50], [5] * 5, [50, 1, 20, 3, 9], [1] * 20]


def worst(case, differences):
    losses = [
        query_loss(case.inner, case.images, case.labels, engine=way)[0]
        for way in ("engine", "autograd")
    ]
    return max(differences(*(case.gradients(loss) for loss in losses)).values())


@pytest.mark.slow
@pytest.mark.parametrize(("size", "shots"), [*itertools.product(SIZES, SHOTS)])
def test_the_grid_of_sizes_ways_and_shots_agrees_with_autograd(make_case, differences, size, shots):
    steps = {84: 1, 33: 2}.get(size[0], 5)
    assert worst(make_case(shots, size, steps, query=20, seed=7), differences) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(1, 11))
def test_one_to_ten_steps_agree_with_autograd(make_case, differences, steps):
    case = make_case([3, 1, 5, 2, 4], (32, 32), steps, query=15, seed=steps)
    assert worst(case, differences) < 1e-10


@pytest.mark.slow
def test_fifty_steps_run_and_agree(make_case, differences):
    case = make_case([2, 3], (16, 16), 50)
    gentle = {
        name: (0.1 * rate).detach().requires_grad_() for name, rate in case.inner.rates.items()
    }
    leaves = case.leaves | {"rate " + name: rate for name, rate in gentle.items()}
    assert (
        worst(replace(case, inner=replace(case.inner, rates=gentle), leaves=leaves), differences)
        < 1e-9
    )


@pytest.mark.slow
def test_memory_is_flat_over_two_hundred_iterations():
    tasks = [
        task.with_memory_format(torch.channels_last)
        for task in make_tasks(Case("flat", 32, (20, 30), steps=3))
    ]

    def peak(iterations):
        _reset_peak()
        for _ in range(iterations):
            run_iteration("engine", tasks, 2, Mode("channels-last", 2))
        return _peak_memory_mb()

    peak(20)
    first = peak(40)
    assert peak(200) - first < 20  # MB


def seconds(*cases):
    """Least CPU time of each case over interleaved rounds."""
    tasks, times = (
        [make_tasks(case)[0].with_memory_format(torch.channels_last) for case in cases],
        [[] for _ in cases],
    )

    def run(_):
        for _ in range(7):
            for task, spent in zip(tasks, times, strict=True):
                start = time.process_time()
                run_iteration("engine", [task], 2, MODE)
                spent.append(time.process_time() - start)

    map_tasks(run, [0], workers=1)
    return [min(spent) for spent in times]


@pytest.mark.slow
def test_time_is_linear_in_images_and_in_steps():
    few, many = seconds(*(Case("time", 32, (n,), steps=3) for n in (100, 400)))
    assert many / few == pytest.approx(4, rel=0.25)
    short, long = seconds(*(Case("time", 32, (100,), steps=k) for k in (3, 12)))
    assert long / short == pytest.approx(
        4.3, rel=0.25
    )  # the first step, from a zero head, is cheaper


@pytest.mark.slow
def test_two_thousand_images_fit_in_four_gib():
    assert measure_peak_memory("engine", Case("large", 32, (2000,)), MODE) < 4096
