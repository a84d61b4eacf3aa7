"""Several tasks at once, each on one core, or one task on all of them; what a process may tune before torch is loaded.

Importing this file changes nothing, and does not load torch. Two tasks at once with one thread each beat one task with
two threads: there are no barriers inside operators. A task that is alone can still split its work into parts. Numbers
and reasons are in docs/engine.md.
"""

from __future__ import annotations

import contextvars
import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_sharing = 1  # processes that have this machine's cores between them
_here = threading.local()  # .crew: that of the task which this thread works on now


def cores() -> int:
    """Cores this process may use: its share of them, where several processes of ours are at work."""
    there = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, there // _sharing)


def limit_cores(processes: int) -> None:
    """From now on this process is one of several that share the cores, and has no more threads than its share."""
    global _sharing
    _sharing = processes
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(min(torch.get_num_threads(), cores()))
    else:
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))


def map_tasks(
    function: Callable[[T], R],
    tasks: Sequence[T],
    workers: int | None = None,
    size: Callable[[T], Any] | None = None,
) -> list[R]:
    """``[function(task) for task in tasks]``, several at once in threads, those of the largest ``size`` first.

    Every task runs with one torch thread, whatever the number of workers (1 included), so that a result does not depend
    on it; workers that have no task help the others with their parts (:func:`map_parts`). ``workers`` defaults to the
    cores. Gradient mode and context variables are the caller's; a graph may be built or walked inside a task. Called
    inside a worker it runs there, one task after another. The caller's thread count is restored. The first error (in
    the order of the tasks) is raised once the running tasks have ended; tasks not yet begun are dropped then.

    >>> map_tasks(abs, [-3, 2, -1], workers=2)
    [3, 2, 1]
    """
    if not tasks:
        return []
    todo = sorted(range(len(tasks)), key=lambda i: -size(tasks[i])) if size else range(len(tasks))
    work = _Queue(lambda i: function(tasks[i]), todo)
    inside, hands = _crew(), workers or cores()
    busy = min(hands, len(tasks))
    crew = inside or _Workers(hands, busy)

    def drain() -> None:
        with _working(crew):
            work.drain()
        if inside is None:
            crew.spare.release()

    with _restored_threads():
        if inside is not None or busy == 1:
            drain()
        else:
            _run_together(drain, busy, work)
    return work.results()


def map_parts(function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """``[function(part) for part in parts]`` for parts of one task, on this thread and on those of :func:`map_tasks`
    that have no task at the moment; for functions that leave torch alone and rarely hold Python's lock.

    >>> map_parts(abs, [-3, 2, -1])
    [3, 2, 1]
    """
    crew = _crew()
    hands = crew.borrow(len(parts) - 1) if crew is not None else 0
    if crew is None or not hands:
        return [function(part) for part in parts]
    work = _Queue(lambda i: function(parts[i]), range(len(parts)))
    # this thread comes from the front and a helper from the back: each keeps to its images, which its cache may have
    helpers = [_submit(work.drain, crew.size, True) for _ in range(hands)]
    try:
        work.drain()
    finally:
        for helper in helpers:
            if (
                not helper.cancel()
            ):  # if it has not begun, its thread is busy elsewhere and everything is done
                helper.result()
            crew.spare.release()
    return work.results()


@contextmanager
def single_task_threads() -> Iterator[None]:
    """A task that nobody maps: one torch thread for it, and for its parts as many as torch had here.

    Inside :func:`map_tasks` nothing changes.
    """
    import torch

    if _crew() is not None:
        yield
        return
    with _restored_threads(), _working(_Workers(torch.get_num_threads(), busy=1)):
        yield


class _Queue(Generic[R]):
    """``function(i)`` of each index, done by as many threads as call :meth:`drain`."""

    def __init__(self, function: Callable[[int], R], order: Iterable[int]) -> None:
        self.function, self.todo = function, deque(order)
        self.found: dict[int, R] = {}
        self.errors: dict[int, BaseException] = {}

    def drain(self, last_first: bool = False) -> None:
        """Work until nothing is left, or something has gone wrong."""
        while not self.errors:
            try:
                i = self.todo.pop() if last_first else self.todo.popleft()
            except IndexError:
                return
            try:
                self.found[i] = self.function(i)
            except BaseException as error:  # raised in the caller's thread
                self.errors[i] = error

    def results(self) -> list[R]:
        """In the order of the indices; or the first error."""
        if self.errors:
            raise self.errors[min(self.errors)]
        return [self.found[i] for i in sorted(self.found)]


class _Workers:
    """The threads of one map of tasks."""

    def __init__(self, size: int, busy: int) -> None:
        self.size, self.spare = size, threading.Semaphore(size - busy)

    def borrow(self, most: int) -> int:
        """How many threads, ``most`` or fewer, have nothing to do now; give them back by ``spare.release()``."""
        found = 0
        while found < most and self.spare.acquire(blocking=False):
            found += 1
        return found


def _crew() -> _Workers | None:
    return getattr(_here, "crew", None)


def _run_together(drain: Callable[[], None], workers: int, work: _Queue[Any]) -> None:
    import torch

    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def job() -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad and not inference):
            drain()

    futures = [_submit(contextvars.copy_context().run, workers, job) for _ in range(workers)]
    try:
        for future in futures:
            future.result()
    except BaseException as error:  # Ctrl-C in the caller: no new task is begun
        work.errors[-1] = error
        raise


@contextmanager
def _working(crew: _Workers) -> Iterator[None]:
    """This thread works on a task, with one torch thread. torch's count is OpenMP's, one for each calling thread; MKL's
    is the process's, which is why it is set at each task and not once when the pool starts."""
    import torch

    before, _here.crew = _crew(), crew
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _here.crew = before


@contextmanager
def _restored_threads() -> Iterator[None]:
    import torch

    count = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(count)


def _submit(job: Callable[..., Any], threads: int, *arguments: Any) -> Future[Any]:
    """Begin a job in the one pool, which is grown when more threads are asked for."""
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < threads:
            if _pool is not None:
                _pool.shutdown(wait=False)  # its threads end with their last job
            _pool, _pool_size = ThreadPoolExecutor(threads, thread_name_prefix="anyshot"), threads
        return _pool.submit(job, *arguments)


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
