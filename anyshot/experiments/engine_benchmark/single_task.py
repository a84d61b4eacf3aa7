"""One task by itself: what more cores give it, beside what they give to as many tasks that share nothing."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, Task, inner_tasks
from anyshot.experiments.engine_benchmark.contestants import CONTESTANTS
from anyshot.inner_loop.engine.torch_ops import CL

CASES = (Case("32×32, one task", 32, (100,)), Case("84×84, one task", 84, (30,)))


def alone(case: Case, rounds: int = 7) -> dict[str, Any]:
    """Seconds of the case's first task on one thread and on all cores, in turn, and how many times faster these are.

    The results must be the same to the last bit, which ``same`` says. ``possible`` is what the cores give to as many
    tasks side by side, which share nothing but memory and clock: no task can be faster by more.
    """
    task, many = inner_tasks(case)[0].laid_out(CL), cores()
    modes = {"one": (1, 1), "all": (1, many), "beside": (many, many)}  # tasks, threads
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    found: dict[str, list[Any]] = {}
    for _ in range(rounds + 1):  # the first warms up
        for mode, (tasks, threads) in modes.items():
            start = time.perf_counter()
            found[mode] = _gradients([task] * tasks, case.order, threads)
            seconds[mode].append(time.perf_counter() - start)
    one, all_cores, beside = (values[1:] for values in seconds.values())
    return {
        "images": case.supports[0],
        "cores": many,
        "seconds_on_one": one,
        "seconds_on_all": all_cores,
        "speedup": median(one) / median(all_cores),
        "speedup_of_minima": min(one) / min(all_cores),
        "possible": many * median(one) / median(beside),
        "possible_of_minima": many * min(one) / min(beside),
        "same": all(a.equal(b) for a, b in zip(found["one"], found["all"], strict=True)),
    }


def _gradients(tasks: list[Task], order: int, threads: int) -> list[Any]:
    loss, gradients = map_tasks(lambda task: CONTESTANTS["engine"](task, order), tasks, threads)[0]
    return [loss, *gradients]
