"""Several tasks at once, each on one core; and what a whole process may tune before torch is loaded.

Importing this file changes nothing, and does not load torch. Two tasks at once with one thread each beat one task with
two threads: there are no barriers inside operators. Numbers and reasons are in docs/engine.md.
"""

from __future__ import annotations

import contextvars
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_here = threading.local()  # .working: this thread is a worker now


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_tasks(
    function: Callable[[T], R], tasks: Sequence[T], workers: int | None = None, size: Callable[[T], Any] | None = None
) -> list[R]:
    """``[function(task) for task in tasks]``, several at once in threads, those of the largest ``size`` first.

    Every task runs with one torch thread, whatever the number of workers (1 included), so that a result does not depend
    on it. ``workers`` defaults to the cores, at most one a task. Gradient mode and context variables are the caller's;
    a graph may be built or walked inside a task. Called inside a worker it runs there, one task after another. The
    caller's thread count is restored. The first error (in the order of the tasks) is raised once the running tasks have
    ended; tasks not yet begun are dropped then.

    >>> map_tasks(abs, [-3, 2, -1], workers=2)
    [3, 2, 1]
    """
    tasks = list(tasks)
    if not tasks:
        return []
    order = iter(sorted(range(len(tasks)), key=lambda i: -size(tasks[i])) if size else range(len(tasks)))
    workers = min(workers or cores(), len(tasks))
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def drain() -> None:
        with _one_thread():
            while not errors:
                with _lock:
                    i = next(order, None)
                if i is None:
                    return
                try:
                    results[i] = function(tasks[i])
                except BaseException as error:  # raised below, in the caller's thread
                    errors[i] = error

    if workers == 1 or getattr(_here, "working", False):
        with _restored_threads():
            drain()
    else:
        _drain_together(drain, workers, errors)
    if errors:
        raise errors[min(errors)]
    return [results[i] for i in range(len(tasks))]


def _drain_together(drain: Callable[[], None], workers: int, errors: dict[int, BaseException]) -> None:
    import torch

    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def job() -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad and not inference):
            drain()

    with _restored_threads():
        futures = [_workers(workers).submit(contextvars.copy_context().run, job) for _ in range(workers)]
        try:
            for future in futures:
                future.result()
        except BaseException as error:  # Ctrl-C in the caller: no new task is begun
            errors[-1] = error
            raise


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread in this thread. torch's count is OpenMP's, one for each calling thread; MKL's is the process's,
    which is why it is set at each task and not once when the pool starts."""
    import torch

    before, _here.working = getattr(_here, "working", False), True
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _here.working = before


@contextmanager
def _restored_threads() -> Iterator[None]:
    import torch

    count = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(count)


def _workers(count: int) -> ThreadPoolExecutor:
    """The one pool, grown when more workers are asked for."""
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < count:
            if _pool is not None:
                _pool.shutdown(wait=False)  # its threads end with their last job
            _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix="anyshot"), count
        return _pool


def _forget_pool() -> None:
    global _pool, _pool_size, _lock
    _pool, _pool_size, _lock = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork


def tune_process() -> list[str]:
    """Tune this whole process for the engine; for programs that own their process (our command line), never on import.

    1. ``OMP_WAIT_POLICY=PASSIVE``, unless the user has set it: OpenMP's threads sleep at a barrier instead of spinning;
       two that land on one core otherwise stall each other for whole time slices. OpenMP reads it when torch is loaded,
       so this must be called before, and has no effect after.
    2. glibc's allocator keeps big blocks instead of returning each to the kernel: no page faults on every activation.

    Returns what was done, for the log.
    """
    done = []
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        done.append("OpenMP threads sleep at barriers")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "gnu_get_libc_version"):
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-8, 1)  # M_ARENA_MAX
        done.append("the allocator keeps big blocks")
    return done
