from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from anyshot.core.errors import DataError
from anyshot.evaluation.metrics import (
    Metrics,
    Summary,
    TaskResult,
    TaskScore,
    average_sets,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.evaluation.metrics.summary import confidence_half_width

TASKS, WAY = 30, 3


def run(
    seed: int, skill: float = 1.0, tasks: int = TASKS, shots=(1, 4, 60), classes=("a", "b", "c")
) -> Summary:
    """A method of some skill on tasks that are easy or hard for every method."""
    rng, ease = np.random.default_rng(seed), np.random.default_rng(99).normal(0, 1, tasks)
    metrics = Metrics()
    for index in range(tasks):
        labels = np.arange(12) % WAY
        logits = rng.normal(size=(12, WAY))
        logits[np.arange(12), labels] += skill + ease[index]
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        metrics.update(TaskResult(index, p, labels, shots, classes))
    return metrics.compute(seconds=3.0)


def test_a_paired_difference_has_the_interval_of_the_paired_t_test():
    one, two = run(0), run(1, skill=1.5)
    actual = paired_difference(one, two)
    for name, a, b in (
        ("accuracy", one.accuracies[0], two.accuracies[0]),
        ("nll", one.nlls[0], two.nlls[0]),
    ):
        interval = scipy.stats.ttest_rel(b, a).confidence_interval(
            0.95
        )  # its t is 2.05 for 30 tasks, ours 1.96
        assert getattr(actual, name) == pytest.approx((interval.low + interval.high) / 2)
        ratio = 1.96 / scipy.stats.t.ppf(0.975, TASKS - 1)
        half = ratio * (interval.high - interval.low) / 2
        assert getattr(actual, f"{name}_interval") == pytest.approx(half)
    assert actual.tasks == TASKS
    assert actual.accuracy > 0 > actual.nll


def test_a_paired_interval_is_narrower_than_that_of_independent_runs():
    one, two = run(0), run(1, skill=1.5)
    assert paired_difference(one, two).accuracy_interval < np.hypot(one.interval, two.interval)


def test_a_single_task_has_a_difference_without_an_interval():
    actual = paired_difference(run(0, tasks=1), run(1, tasks=1))
    assert actual.accuracy_interval is None
    assert actual.nll_interval is None


@pytest.mark.parametrize(
    "other", [{"tasks": 29}, {"shots": (1, 4, 61)}, {"classes": ("a", "b", "d")}]
)
def test_different_tasks_are_not_compared(other):
    assert same_tasks([run(0), run(1)])
    assert not same_tasks([run(0), run(0, **other)])
    for compare in (lambda a, b: paired_difference(a, b), lambda a, b: pool_seeds([a, b])):
        with pytest.raises(DataError, match="tasks"):
            compare(run(0), run(0, **other))


def test_a_mean_over_image_sets_has_no_tasks_to_compare():
    mean = average_sets([run(0), run(1)])
    with pytest.raises(DataError, match="tasks"):
        paired_difference(mean, mean)


def test_pooled_seeds_have_the_mean_and_an_interval_over_tasks_and_seeds():
    seeds = [run(seed) for seed in range(3)]
    actual = pool_seeds(seeds)
    accuracies = np.concatenate([s.accuracies for s in seeds])
    assert (actual.runs, actual.tasks, actual.queries) == (3, TASKS, TASKS * 12)
    assert actual.accuracies.tolist() == accuracies.tolist()
    for name in ("accuracy", "nll", "ece", "worst_class"):
        assert getattr(actual, name) == pytest.approx(np.mean([getattr(s, name) for s in seeds]))
    assert actual.by_shots["1"] == pytest.approx(np.mean([s.by_shots["1"] for s in seeds]))
    assert (
        actual.queries_by_shots == seeds[0].queries_by_shots
    )  # the same images, asked about three times
    tasks, runs = (scipy.stats.sem(accuracies.mean(axis)) for axis in (0, 1))
    assert actual.interval == pytest.approx(
        confidence_half_width(accuracies.mean(0), accuracies.mean(1))
    )
    assert actual.interval > 1.96 * np.hypot(tasks, runs)
    losses = np.concatenate([s.nlls for s in seeds])
    assert actual.nll_interval == pytest.approx(
        confidence_half_width(losses.mean(0), losses.mean(1))
    )
    assert actual.run_deviation == pytest.approx(np.std([s.accuracy for s in seeds], ddof=1))
    assert pool_seeds(seeds[:1]) == seeds[0]


def test_the_interval_of_pooled_seeds_covers_the_truth_for_new_tasks_and_new_seeds():
    rng, base, tasks, seeds, inside = np.random.default_rng(0), run(0), 20, 3, []
    for _ in range(400):
        skill, ease = rng.normal(0.6, 0.05, (seeds, 1)), rng.normal(0, 0.1, (1, tasks))
        runs = []
        for hits in rng.binomial(20, np.clip(skill + ease, 0, 1)).tolist():
            scores = tuple(
                TaskScore(i, ("a",), (1,), (20,), (right,), 0.0, False)
                for i, right in enumerate(hits)
            )
            runs.append(replace(base, tasks=tasks, accuracy=np.mean(hits) / 20, scores=scores))
        actual = pool_seeds(runs)
        inside.append(abs(actual.accuracy - 0.6) < actual.interval)
    assert 0.93 < np.mean(inside) < 0.98  # with 1.96 instead of Student's quantile: 0.92


def test_the_interval_of_two_independent_means_is_welchs():
    a, b = np.random.default_rng(1).normal(size=(2, 30))
    for one, two in ((a, 3 * b[:3]), (a[:2], b[:4])):
        interval = scipy.stats.ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
        assert confidence_half_width(one.tolist(), two.tolist()) == pytest.approx(
            (interval.high - interval.low) / 2
        )


def test_the_interval_of_pooled_methods_includes_the_seeds_of_both():
    ones, twos = [run(seed) for seed in range(2)], [run(seed, skill=1.5) for seed in range(2, 5)]
    actual = paired_difference(pool_seeds(ones), pool_seeds(twos))
    a, b = (np.concatenate([s.accuracies for s in some]) for some in (ones, twos))
    assert actual.accuracy == pytest.approx(b.mean() - a.mean())
    assert actual.accuracy_interval == pytest.approx(
        confidence_half_width(b.mean(0) - a.mean(0), a.mean(1), b.mean(1))
    )


def test_the_average_gives_image_sets_equal_weights():
    some = [
        replace(
            run(0, tasks=5, shots=(2, 4, 60)),
            failed=2,
            query_least=3,
            query_most=5,
            run_deviation=0.1,
        ),
        replace(run(1, tasks=50, shots=(1, 4, 70)), failed=1, query_least=4, query_most=6),
    ]
    mean = average_sets(some)
    assert mean.failed == 3
    assert (mean.query_least, mean.query_most) == (3, 6)
    assert mean.support_mean == pytest.approx((22 + 25) / 2)
    assert mean.run_deviation is None
    assert mean.accuracy == pytest.approx((some[0].accuracy + some[1].accuracy) / 2)
    assert mean.nll == pytest.approx((some[0].nll + some[1].nll) / 2)
    assert mean.interval == pytest.approx(np.hypot(some[0].interval, some[1].interval) / 2)
    assert mean.nll_interval == pytest.approx(
        np.hypot(some[0].nll_interval, some[1].nll_interval) / 2
    )
    assert (mean.tasks, mean.queries) == (55, 55 * 12)
    assert mean.by_shots["6-15"] is None
    assert mean.by_shots["1"] == some[1].by_shots["1"]  # the other has no class of one image
    assert mean.by_shots[">50"] == pytest.approx(
        (some[0].by_shots[">50"] + some[1].by_shots[">50"]) / 2
    )
    assert mean.queries_by_shots[">50"] == 55 * 4
    assert (mean.support_least, mean.support_most) == (1, 70)
    assert mean.tasks_per_second == pytest.approx((5 / 3 + 50 / 3) / 2)
    assert average_sets([run(0, tasks=1), run(1)]).interval is None
