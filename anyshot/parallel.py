"""Several tasks at once: threads with one torch thread each, so that no operator waits at a barrier."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_tasks(
    function: Callable[[Item], Result],
    tasks: Sequence[Item],
    workers: int | None = None,
    size: Callable[[Item], int] = len,  # type: ignore[assignment]
) -> list[Result]:
    """``[function(task) for task in tasks]`` on several cores, the largest task first."""
    workers = workers or min(os.cpu_count() or 1, len(tasks))
    order = sorted(range(len(tasks)), key=lambda i: -size(tasks[i]))
    threads = torch.get_num_threads()

    def job(i: int) -> tuple[int, Result]:
        torch.set_num_threads(1)  # of the calling thread
        return i, function(tasks[i])

    try:
        with ThreadPoolExecutor(workers) as pool:
            done = dict(pool.map(job, order))
    finally:
        torch.set_num_threads(threads)
    return [done[i] for i in range(len(tasks))]
