"""Tasks in threads: order, errors, thread counts of torch, gradients."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from anyshot.core.parallel import threads
from anyshot.core.parallel.threads import (
    cores,
    limit_cores,
    map_parts,
    map_tasks,
    single_task_threads,
    tune_process,
)


@pytest.mark.parametrize("workers", [None, 1, 2, 5])
def test_results_have_the_order_of_the_tasks_and_the_thread_count_is_restored(workers):
    before = torch.get_num_threads()
    counts = map_tasks(lambda n: (n, torch.get_num_threads()), [3, 1, 2], workers, size=lambda n: n)
    assert counts == [(3, 1), (1, 1), (2, 1)]
    assert torch.get_num_threads() == before


def test_largest_task_starts_first():
    started = []
    map_tasks(started.append, ["aa", "a", "aaa"], workers=1, size=len)
    assert started == ["aaa", "aa", "a"]


def test_tasks_run_at_the_same_time():
    barrier = threading.Barrier(2, timeout=20)
    assert sorted(map_tasks(lambda _: barrier.wait(), [0, 1], workers=2)) == [0, 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_first_error_in_the_order_of_tasks_is_raised_and_later_tasks_do_not_start(workers):
    started = []

    def job(n):
        started.append(n)
        time.sleep(0.02)
        if n < 2:
            raise ValueError(f"task {n}")

    with pytest.raises(ValueError, match="task 0"):
        map_tasks(job, list(range(20)), workers)
    assert len(started) < 20
    assert map_tasks(abs, [-1], workers) == [1]


def test_no_tasks_give_no_results():
    assert map_tasks(abs, []) == []


def test_map_inside_a_map_runs_in_its_worker():
    def outer(n):
        return {threading.get_ident()} == set(
            map_tasks(lambda _: threading.get_ident(), [0, 1, 2], workers=2)
        )

    assert map_tasks(outer, [0, 1], workers=2) == [True, True]


@pytest.mark.parametrize("workers", [1, 2])
def test_gradients_are_computed_inside_a_worker_with_one_thread(workers):
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, d):
            seen.append((threading.get_ident(), torch.get_num_threads()))
            return 2 * d * ctx.saved_tensors[0]

    def job(n):
        x = torch.tensor(float(n), requires_grad=True)
        return threading.get_ident(), torch.autograd.grad(Square.apply(x), x)[0].item()

    found = map_tasks(job, [1, 2, 3], workers)
    assert [value for _, value in found] == [2, 4, 6]
    assert {(thread, 1) for thread, _ in found} == set(seen)


def test_gradient_mode_is_that_of_the_caller():
    assert map_tasks(lambda _: torch.is_grad_enabled(), [0, 1], workers=2) == [True, True]
    with torch.no_grad():
        assert map_tasks(lambda _: torch.is_grad_enabled(), [0, 1], workers=2) == [False, False]
    with torch.inference_mode():
        assert map_tasks(lambda _: torch.is_inference_mode_enabled(), [0, 1], workers=2) == [
            True,
            True,
        ]


def test_results_do_not_depend_on_the_number_of_workers():
    x = torch.randn(64, 8, 40, 40, generator=torch.Generator().manual_seed(0))

    def job(n):
        return torch.nn.functional.conv2d(x, x[:8, :, :3, :3] * n).sum((0, 2, 3))

    one, two = (map_tasks(job, [1, 2, 3, 4], workers) for workers in (1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def meet(barrier):
    """Whether another thread comes to the barrier, too."""
    try:
        barrier.wait()
    except threading.BrokenBarrierError:
        return False
    return True


def meets(timeout):
    """Two parts that wait for each other; whether they met."""
    barrier = threading.Barrier(2, timeout=timeout)
    return all(map_parts(meet, [barrier, barrier]))


def test_parts_of_a_single_task_run_at_the_same_time():
    assert map_tasks(lambda _: meets(20), [0], workers=2) == [True]


@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (2, 2)])
def test_parts_run_one_after_the_other_without_idle_threads(tasks, workers):
    both = threading.Barrier(tasks, timeout=20)

    def task(_):
        both.wait()  # every worker has a task
        met = meets(0.05)
        both.wait()
        return met

    assert not any(map_tasks(task, range(tasks), workers))


def test_idle_worker_helps_with_the_parts_of_another_task():
    done = threading.Event()

    def task(n):
        if n == 0:
            done.wait(20)
            time.sleep(0.05)  # until the other worker has found the queue empty
            return meets(20)
        done.set()
        return True

    assert map_tasks(task, [0, 1], workers=2) == [True, True]


def test_results_of_parts_are_in_order_and_the_first_error_is_raised():
    def task(_):
        with pytest.raises(ZeroDivisionError):
            map_parts(lambda n: 1 // n, [1, 0, 1])
        return map_parts(abs, range(-9, 0))

    assert map_tasks(task, [0], workers=2) == [list(range(9, 0, -1))]
    assert map_parts(abs, range(-9, 0)) == list(range(9, 0, -1))


def test_task_outside_a_map_has_one_torch_thread_and_several_for_its_parts():
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with single_task_threads():
                assert torch.get_num_threads() == 1
                assert meets(20 if threads == 2 else 0.05) == (threads == 2)
                with single_task_threads():
                    assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_gets_its_own_threads():
    map_tasks(abs, [1, 2], workers=2)
    code = """
import os
from anyshot.core.parallel.threads import map_tasks
map_tasks(abs, [1, 2], workers=2)
pid = os.fork()
if pid == 0:
    os._exit(map_tasks(abs, [-3, -4], workers=2) != [3, 4])
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_import_changes_nothing_and_tuning_reports_its_changes():
    code = """
import os, sys
from anyshot.core.parallel.threads import tune_process
assert "torch" not in sys.modules
assert "OMP_WAIT_POLICY" not in os.environ
print(tune_process())
assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
"""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "sleep at barriers" in done.stdout
    active = environment | {"OMP_WAIT_POLICY": "ACTIVE"}
    code = """
import os
from anyshot.core.parallel.threads import tune_process
print(tune_process(), os.environ["OMP_WAIT_POLICY"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=active, capture_output=True, text=True, check=True
    )
    assert "sleep" not in done.stdout
    assert "ACTIVE" in done.stdout


def test_tuning_openmp_is_not_reported_after_torch_is_loaded():
    assert "OpenMP threads sleep at barriers" not in tune_process()
    assert cores() >= 1


def test_processes_that_share_cores_use_their_share_of_threads(monkeypatch):
    before, there = torch.get_num_threads(), cores()
    monkeypatch.setattr(threads, "_processes_sharing_cores", 1)
    try:
        for processes in (1, 2, 100):
            limit_cores(processes)
            assert cores() == max(1, there // processes)
            assert torch.get_num_threads() <= cores()
    finally:
        torch.set_num_threads(before)
