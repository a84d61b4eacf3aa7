"""One task on one core and on all of them."""

from __future__ import annotations

from anyshot.experiments.engine_benchmark.cases import Case
from anyshot.experiments.engine_benchmark.single_task import CASES, time_single_task


def test_one_task_is_timed_on_one_core_and_on_all_with_the_same_result():
    found = time_single_task(Case("tiny", 16, (6,), steps=1), rounds=2)
    assert found["same"]
    assert len(found["seconds_on_one"]) == len(found["seconds_on_all"]) == 2
    assert found["speedup_of_minima"] == min(found["seconds_on_one"]) / min(found["seconds_on_all"])
    assert found["possible"] > 0
    assert found["possible_of_minima"] > 0
    assert [(case.size, case.supports) for case in CASES] == [(32, (100,)), (84, (30,))]
