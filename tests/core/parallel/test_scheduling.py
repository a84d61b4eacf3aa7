"""Every task is assigned once, close to the optimum, by measured costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scaling_model import assign_round_robin, idle_share

from anyshot.core.parallel.scheduling import MEMORY, CostModel, assign_longest_first

COSTS = st.lists(st.floats(0, 100), min_size=1, max_size=6)


def longest(costs: list[float], assigned: list[list[int]]) -> float:
    return max(sum(costs[i] for i in tasks) for tasks in assigned)


@given(COSTS, st.integers(1, 4))
def test_every_task_is_assigned_once_within_grahams_bound(costs, ranks):
    assigned = assign_longest_first(costs, ranks)
    assert len(assigned) == ranks
    assert sorted(i for tasks in assigned for i in tasks) == list(range(len(costs)))
    ways = itertools.product(range(ranks), repeat=len(costs))
    best = min(
        longest(costs, [[i for i, r in enumerate(way) if r == rank] for rank in range(ranks)])
        for way in ways
    )
    graham = 4 / 3 - 1 / (3 * ranks)  # his bound for the longest first
    assert longest(costs, assigned) <= graham * best + 1e-9


def test_assignment_by_cost_halves_the_idle_time():
    rng = np.random.default_rng(0)
    idle = {"cost": [], "turn": []}
    for _ in range(200):
        costs = rng.integers(5, 250, size=8).tolist()
        for name, assigned in (
            ("cost", assign_longest_first(costs, 3)),
            ("turn", assign_round_robin(8, 3)),
        ):
            idle[name].append(idle_share([sum(costs[i] for i in tasks) for tasks in assigned]))
    assert np.mean(idle["cost"]) < 0.5 * np.mean(idle["turn"])


def test_cost_is_the_least_squares_line_of_the_measurements():
    rng, cost = np.random.default_rng(0), CostModel()
    assert cost.predict([3, 7]) == [3, 7]  # no measurements yet
    sizes = rng.integers(5, 250, size=100)
    seconds = 0.05 + 0.002 * sizes + rng.normal(0, 0.01, 100)
    for size, second in zip(sizes, seconds, strict=True):
        cost.update(int(size), float(second))
    slope, start = np.polyfit(sizes[-MEMORY:], seconds[-MEMORY:], 1)
    assert cost.coefficients() == pytest.approx((start, slope), rel=1e-6)
    assert cost.predict([100]) == pytest.approx([start + 100 * slope], rel=1e-6)


@pytest.mark.parametrize(
    "measurements", [[(10, 1.0), (10, 2.0)], [(10, 2.0), (20, 1.0)], [(10, 1.0), (20, 1.0)]]
)
def test_cost_is_the_size_if_it_does_not_grow_with_the_measurements(measurements):
    cost = CostModel()
    for size, seconds in measurements:
        cost.update(size, seconds)
    assert cost.predict([4.0, 9.0]) == [4.0, 9.0]


def test_small_tasks_never_cost_less_than_nothing():
    cost = CostModel()
    for size, second in ((100, 0.1), (200, 1.0)):
        cost.update(size, second)
    assert cost.coefficients()[0] < 0
    assert [len(tasks) for tasks in assign_longest_first(cost.predict([5, 6, 7, 8]), 2)] == [2, 2]
