"""One task by itself: what a second core gives it."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from anyshot.bench.cases import Case, Task, inner_tasks
from anyshot.bench.contestants import CONTESTANTS
from anyshot.inner.ops import CL
from anyshot.parallel import cores, map_tasks

CASES = (Case("32×32, one task", 32, (100,)), Case("84×84, one task", 84, (30,)))


def alone(case: Case, rounds: int = 7) -> dict[str, Any]:
    """Seconds of the case's first task on one thread and on all cores, in turn, and how many times faster these are.

    The results must be the same to the last bit, which ``same`` says.
    """
    task = inner_tasks(case)[0].laid_out(CL)
    threads = (1, cores())
    seconds: dict[int, list[float]] = {count: [] for count in threads}
    found: dict[int, list[Any]] = {}
    for _ in range(rounds + 1):  # the first warms up
        for count in threads:
            start = time.perf_counter()
            found[count] = _gradients(task, case.order, count)
            seconds[count].append(time.perf_counter() - start)
    one, all_cores = ([*seconds[count][1:]] for count in threads)
    return {
        "images": case.supports[0],
        "cores": threads[1],
        "seconds_on_one": one,
        "seconds_on_all": all_cores,
        "speedup": median(one) / median(all_cores),
        "speedup_of_minima": min(one) / min(all_cores),
        "same": all(a.equal(b) for a, b in zip(*found.values(), strict=True)),
    }


def _gradients(task: Task, order: int, threads: int) -> list[Any]:
    loss, gradients = map_tasks(lambda task: CONTESTANTS["engine"](task, order), [task], threads)[0]
    return [loss, *gradients]
