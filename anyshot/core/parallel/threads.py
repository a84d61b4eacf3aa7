"""Run tasks in threads: several tasks at once on one core each, or one task on all cores.

Two tasks at once with one thread each are faster than one task with two threads, because no
operator waits at a barrier. When fewer tasks than threads are left, idle threads help with the
parts of a task::

    map_tasks(tasks)              workers take tasks from one queue, the largest first
      worker 1: task 0 ───────────── map_parts ─┐
      worker 2: task 1 ── queue empty → idle ───┴─ takes parts of task 0 from the back

Importing this module changes nothing in the process and does not load torch. Measurements are in
docs/engine.md.
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

_executor_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_executor_size = 0
_processes_sharing_cores = 1
_thread_state = threading.local()  # .workers: the workers of the map that this thread works for


def cores() -> int:
    """Return the number of cores that this process may use: its share of the available ones."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return max(1, available // _processes_sharing_cores)


def limit_cores(processes: int) -> None:
    """Share the cores with other processes of ours: from now on use 1 / `processes` of them."""
    global _processes_sharing_cores
    _processes_sharing_cores = processes
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
    """Return ``[function(task) for task in tasks]``, computed in threads.

    Every task runs with one torch thread for any number of workers, so results do not depend on it.
    Workers without a task help others with their parts (:func:`map_parts`). Gradient mode and
    context variables are the caller's. Inside a worker, tasks run one after the other in that
    thread.

    Parameters
    ----------
    function : callable
        May build or differentiate a torch graph.
    tasks : sequence
        Its arguments.
    workers : int, optional
        Number of threads. Default: the number of cores.
    size : callable, optional
        Cost of a task in any unit; the most expensive tasks start first.

    Raises
    ------
    BaseException
        The first error in the order of the tasks, after running tasks have ended. Other tasks are
        not started.

    Examples
    --------
    >>> map_tasks(abs, [-3, 2, -1], workers=2)
    [3, 2, 1]
    """
    if not tasks:
        return []
    order = sorted(range(len(tasks)), key=lambda i: -size(tasks[i])) if size else range(len(tasks))
    queue = _Queue(lambda i: function(tasks[i]), order)
    outer = _current_workers()
    threads = workers or cores()
    busy = min(threads, len(tasks))
    current = outer or _Workers(threads, busy)

    def work() -> None:
        with _working_for(current):
            queue.run()
        if outer is None:
            current.idle.release()

    with _restore_thread_count():
        if outer is not None or busy == 1:
            work()
        else:
            _run_in_threads(work, busy, queue)
    return queue.results()


def map_parts(function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Return ``[function(part) for part in parts]`` for the parts of one task.

    The parts run on this thread and on threads of :func:`map_tasks` that have no task now.
    `function` must not call torch, and should release Python's global lock most of the time.

    >>> map_parts(abs, [-3, 2, -1])
    [3, 2, 1]
    """
    workers = _current_workers()
    helpers = workers.reserve_idle(len(parts) - 1) if workers is not None else 0
    if workers is None or not helpers:
        return [function(part) for part in parts]
    queue = _Queue(lambda i: function(parts[i]), range(len(parts)))
    # This thread starts at the front and helpers at the back, so that each keeps to the same parts
    # in every call and finds their data in its cache.
    futures = [_submit(queue.run, workers.size, True) for _ in range(helpers)]
    try:
        queue.run()
    finally:
        for future in futures:
            if not future.cancel():  # a helper that has not started has nothing left to do
                future.result()
            workers.idle.release()
    return queue.results()


@contextmanager
def single_task_threads() -> Iterator[None]:
    """Run a task outside :func:`map_tasks`: one torch thread, and torch's thread count for parts.

    Inside :func:`map_tasks` nothing changes.
    """
    import torch

    if _current_workers() is not None:
        yield
        return
    with _restore_thread_count(), _working_for(_Workers(torch.get_num_threads(), busy=1)):
        yield


class _Queue(Generic[R]):
    """Calls ``function(i)`` for each index, in as many threads as call :meth:`run`."""

    def __init__(self, function: Callable[[int], R], order: Iterable[int]) -> None:
        self.function = function
        self.waiting = deque(order)
        self.finished: dict[int, R] = {}
        self.errors: dict[int, BaseException] = {}

    def run(self, from_back: bool = False) -> None:
        """Take indices until none is left or a call has failed."""
        while not self.errors:
            try:
                i = self.waiting.pop() if from_back else self.waiting.popleft()
            except IndexError:
                return
            try:
                self.finished[i] = self.function(i)
            except BaseException as error:  # results() raises it in the caller's thread
                self.errors[i] = error

    def results(self) -> list[R]:
        """Return the results in the order of the indices, or raise the first error."""
        if self.errors:
            raise self.errors[min(self.errors)]
        return [self.finished[i] for i in sorted(self.finished)]


class _Workers:
    """The threads of one call of :func:`map_tasks`: how many, and how many are idle."""

    def __init__(self, size: int, busy: int) -> None:
        self.size = size
        self.idle = threading.Semaphore(size - busy)

    def reserve_idle(self, limit: int) -> int:
        """Reserve at most `limit` idle threads and return their number."""
        reserved = 0
        while reserved < limit and self.idle.acquire(blocking=False):
            reserved += 1
        return reserved


def _current_workers() -> _Workers | None:
    return getattr(_thread_state, "workers", None)


def _run_in_threads(work: Callable[[], None], threads: int, queue: _Queue[Any]) -> None:
    import torch

    grad = torch.is_grad_enabled()
    inference = torch.is_inference_mode_enabled()

    def run() -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad and not inference):
            work()

    futures = [_submit(contextvars.copy_context().run, threads, run) for _ in range(threads)]
    try:
        for future in futures:
            future.result()
    except BaseException as error:  # Ctrl-C in the caller: start no further task
        queue.errors[-1] = error
        raise


@contextmanager
def _working_for(workers: _Workers) -> Iterator[None]:
    """Mark this thread as a worker and give it one torch thread.

    OpenMP counts threads for each calling thread, MKL for the process, so the count is set for each
    task and not once when a thread starts.
    """
    import torch

    before = _current_workers()
    _thread_state.workers = workers
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _thread_state.workers = before


@contextmanager
def _restore_thread_count() -> Iterator[None]:
    import torch

    count = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(count)


def _submit(function: Callable[..., Any], threads: int, *arguments: Any) -> Future[Any]:
    """Start a call in the executor of the process, which grows to `threads` threads."""
    global _executor, _executor_size
    with _executor_lock:
        if _executor is None or _executor_size < threads:
            if _executor is not None:
                _executor.shutdown(wait=False)  # its threads end with their last call
            _executor = ThreadPoolExecutor(threads, thread_name_prefix="anyshot")
            _executor_size = threads
        return _executor.submit(function, *arguments)


def _forget_executor() -> None:
    global _executor, _executor_size, _executor_lock
    _executor = None
    _executor_size = 0
    _executor_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_executor)  # threads do not survive a fork


def tune_process() -> list[str]:
    """Tune the whole process for the engine; for programs that own their process, such as the CLI.

    1. ``OMP_WAIT_POLICY=PASSIVE``, unless it is set: OpenMP threads sleep at a barrier instead of
       spinning. Two spinning threads on one core stall each other for whole time slices. OpenMP
       reads the variable when torch is loaded, so this has no effect later.
    2. glibc's allocator keeps large blocks instead of returning them to the kernel, which avoids
       page faults for every activation.

    Returns
    -------
    list of str
        What was changed, for the log.
    """
    changes = []
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        changes.append("OpenMP threads sleep at barriers")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "gnu_get_libc_version"):
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-8, 1)  # M_ARENA_MAX
        changes.append("the allocator keeps large blocks")
    return changes
