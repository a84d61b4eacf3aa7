"""One task on one core and on all cores, against as many independent tasks in parallel."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, Task, make_inner_tasks
from anyshot.experiments.engine_benchmark.contestants import CONTESTANTS
from anyshot.inner_loop.engine.torch_ops import CHANNELS_LAST

CASES = (Case("32×32, one task", 32, (100,)), Case("84×84, one task", 84, (30,)))


def time_single_task(case: Case, rounds: int = 7) -> dict[str, Any]:
    """Seconds of the case's first task on one thread and on all cores, and the speed-up.

    ``same`` says whether the results have the same bits. ``possible`` is the speed-up of as many
    independent tasks in parallel, an upper bound.
    """
    task = make_inner_tasks(case)[0].with_memory_format(CHANNELS_LAST)
    many = cores()
    modes = {"one": (1, 1), "all": (1, many), "parallel": (many, many)}  # tasks, threads
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    results: dict[str, list[Any]] = {}
    for _ in range(rounds + 1):  # the first round is a warm-up
        for mode, (tasks, threads) in modes.items():
            start = time.perf_counter()
            results[mode] = _gradients([task] * tasks, case.order, threads)
            seconds[mode].append(time.perf_counter() - start)
    one, all_cores, parallel = (values[1:] for values in seconds.values())
    return {
        "images": case.supports[0],
        "cores": many,
        "seconds_on_one": one,
        "seconds_on_all": all_cores,
        "speedup": median(one) / median(all_cores),
        "speedup_of_minima": min(one) / min(all_cores),
        "possible": many * median(one) / median(parallel),
        "possible_of_minima": many * min(one) / min(parallel),
        "same": all(a.equal(b) for a, b in zip(results["one"], results["all"], strict=True)),
    }


def _gradients(tasks: list[Task], order: int, threads: int) -> list[Any]:
    loss, gradients = map_tasks(lambda task: CONTESTANTS["engine"](task, order), tasks, threads)[0]
    return [loss, *gradients]
