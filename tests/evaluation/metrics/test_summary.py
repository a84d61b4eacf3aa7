from __future__ import annotations

import copy
import json
import sys

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, log_loss, recall_score

from anyshot.core.errors import DataError, SettingsError
from anyshot.evaluation.metrics import SHOTS, Metrics, TaskResult, TaskScore, pool_seeds


def results(n: int, seed: int = 0) -> list[TaskResult]:
    random = np.random.default_rng(seed)
    out = []
    for index in range(n):
        way = int(random.integers(2, 12))
        labels = random.permutation(np.repeat(np.arange(way), 15))
        logits = random.normal(size=(len(labels), way)) * 2
        logits[np.arange(len(labels)), labels] += random.uniform(0, 3)
        out.append(
            TaskResult(index, scipy.special.softmax(logits, 1), labels, random.integers(1, 61, way))
        )
    return out


def summary(tasks):
    metrics = Metrics()
    for task in tasks:
        metrics.update(task)
    return metrics.compute()


def test_accuracy_interval_likelihood_and_worst_class_equal_those_of_scipy_and_sklearn():
    tasks = results(40)
    actual = summary(tasks)
    accuracies = [accuracy_score(t.labels, t.probabilities.argmax(1)) for t in tasks]
    assert actual.tasks == 40
    assert actual.queries == sum(len(t.labels) for t in tasks)
    assert actual.accuracy == pytest.approx(np.mean(accuracies), rel=1e-12)
    assert actual.interval == pytest.approx(1.96 * scipy.stats.sem(accuracies), rel=1e-12)
    low, high = scipy.stats.norm.interval(0.95, actual.accuracy, scipy.stats.sem(accuracies))
    assert actual.interval == pytest.approx((high - low) / 2, rel=1e-4)
    losses = [log_loss(t.labels, t.probabilities) for t in tasks]
    assert actual.nll == pytest.approx(np.mean(losses), rel=1e-9)
    assert actual.nll_interval == pytest.approx(1.96 * scipy.stats.sem(losses), rel=1e-9)
    worst = [recall_score(t.labels, t.probabilities.argmax(1), average=None).min() for t in tasks]
    assert actual.worst_class == pytest.approx(np.mean(worst), rel=1e-12)
    assert actual.failed == 0


def honest(n: int) -> list[TaskResult]:
    """Two classes with calibrated probabilities: the errors of all bins are random and matter."""
    random = np.random.default_rng(0)
    out = []
    for index in range(n):
        p = random.uniform(0, 1, 20)
        out.append(
            TaskResult(
                index, np.stack([p, 1 - p], 1), (random.uniform(size=20) > p).astype(int), [1, 1]
            )
        )
    return out


def reliability(tasks: list[TaskResult], bins: int) -> float:
    """The expected calibration error by sklearn's reliability curve."""
    confidence = np.concatenate([t.probabilities.max(1) for t in tasks])
    hit = np.concatenate([t.probabilities.argmax(1) == t.labels for t in tasks])
    right, said = calibration_curve(hit, confidence, n_bins=bins)
    counts = np.histogram(confidence, np.linspace(0, 1, bins + 1))[0]
    return np.sum(np.abs(right - said) * counts[counts > 0]) / len(hit)


@pytest.mark.parametrize("tasks", [results(40), honest(10)], ids=["overconfident", "honest"])
def test_calibration_error_equals_sklearns_reliability_curve(tasks):
    assert summary(tasks).ece == pytest.approx(reliability(tasks, 15), rel=1e-9)


def test_no_other_number_of_bins_would_give_this_calibration_error():
    others = [reliability(honest(10), bins) for bins in range(5, 31) if bins != 15]
    assert min(abs(other - summary(honest(10)).ece) for other in others) > 1e-4


def test_confidence_of_exactly_one_and_of_a_bin_edge_is_counted_once():
    edge = TaskResult(0, [[1.0, 0.0], [0.6, 0.4]], labels=[0, 0], shots=[1, 1])
    assert summary([edge]).ece == pytest.approx((0.0 + 0.4) / 2)


def test_the_first_bin_holds_confidences_up_to_a_fifteenth():
    few = np.full((4, 25), (1 - 0.06) / 24)
    few[:, 0] = 0.06
    more = np.full((4, 25), (1 - 0.1) / 24)
    more[:, 0] = 0.1
    # the first are all wrong, of the others one of four is right: 0.06 too much, 0.15 too little
    task = TaskResult(0, np.concatenate([few, more]), [1, 1, 1, 1, 0, 1, 1, 1], [1] * 25)
    assert summary([task]).ece == pytest.approx((4 * 0.06 + abs(1 - 4 * 0.1)) / 8)


def test_sums_of_probabilities_may_differ_from_1_by_a_thousandth():
    assert summary([TaskResult(0, [[1.0009, 0.0]], [0], [1, 1])]).ece == pytest.approx(0.0009)
    with pytest.raises(DataError, match="Task 0"):
        summary([TaskResult(0, [[1.0011, 0.0]], [0], [1, 1])])


def test_accuracy_by_shots_counts_every_image_in_the_range_of_its_own_class():
    tasks = results(30)
    hits = {name: [] for name in SHOTS}
    for t in tasks:
        for p, label in zip(t.probabilities, t.labels, strict=True):
            n = t.shots[label]
            name = (
                "1"
                if n == 1
                else "2-5"
                if n <= 5
                else "6-15"
                if n <= 15
                else "16-50"
                if n <= 50
                else ">50"
            )
            hits[name].append(p.argmax() == label)
    assert summary(tasks).by_shots == {name: pytest.approx(np.mean(h)) for name, h in hits.items()}
    assert summary(tasks).queries_by_shots == {name: len(h) for name, h in hits.items()}
    assert summary([TaskResult(0, [[0.9, 0.1]], [0], [3, 1])]).by_shots == dict.fromkeys(SHOTS) | {
        "2-5": 1.0
    }


def test_the_summary_holds_every_score_and_the_sizes_that_were_drawn():
    tasks = results(5)
    actual = summary(tasks)
    assert [score.index for score in actual.scores] == list(range(5))
    assert actual.accuracies.tolist() == [
        [accuracy_score(t.labels, t.probabilities.argmax(1)) for t in tasks]
    ]
    assert actual.nlls[0] == pytest.approx(
        [log_loss(t.labels, t.probabilities) for t in tasks], rel=1e-9
    )
    shots = np.concatenate([t.shots for t in tasks])
    assert (actual.support_least, actual.support_most) == (shots.min(), shots.max())
    assert actual.support_mean == pytest.approx(shots.mean())
    assert (actual.query_least, actual.query_most) == (15, 15)
    assert actual.scores[0].as_dict() == {
        "task": 0,
        "way": len(tasks[0].shots),
        "support": sum(tasks[0].shots),
        "queries": len(tasks[0].labels),
        "accuracy": actual.accuracies[0, 0],
        "nll": actual.nlls[0, 0],
        "failed": 0,
        "worst_class": recall_score(
            tasks[0].labels, tasks[0].probabilities.argmax(1), average=None
        ).min(),
        "shots": " ".join(map(str, tasks[0].shots)),
        "queries_by_class": " ".join(["15"] * len(tasks[0].shots)),
        "correct": " ".join(str(n) for n in actual.scores[0].correct),
        "classes": "",
    }
    assert sum(actual.scores[0].correct) == round(actual.accuracies[0, 0] * len(tasks[0].labels))
    uneven = summary([TaskResult(0, [[0.9, 0.1]] * 3, [0, 1, 1], [1, 1])])
    assert (uneven.query_least, uneven.query_most) == (1, 2)


def test_a_class_without_query_images_is_not_the_worst():
    assert summary([TaskResult(0, [[0.9, 0.1, 0.0]], [0], [1, 1, 1])]).worst_class == 1.0


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_neither_order_nor_spread_over_workers_changes_a_bit(random, workers):
    tasks = results(12)
    expected = summary(tasks)
    random.shuffle(tasks)
    parts = [Metrics() for _ in range(workers)]
    for task in tasks:
        random.choice(parts).update(task)
    whole = Metrics()
    for part in parts:
        whole.merge(part)
    assert whole.compute() == expected


def test_one_task_has_no_interval_and_speed_is_tasks_over_seconds():
    metrics = Metrics()
    metrics.update(results(1)[0])
    assert metrics.compute().interval is None
    assert metrics.compute().tasks_per_second is None
    assert metrics.compute(seconds=0.5).tasks_per_second == 2.0
    assert json.loads(json.dumps(metrics.compute().as_dict()))["tasks"] == 1


def test_predictions_that_are_not_finite_count_as_wrong():
    task = TaskResult(0, [[np.nan, np.nan], [1.0, 0.0], [np.inf, 0.0]], [0, 0, 0], [1, 1])
    actual = summary([task])
    assert actual.failed == 1
    assert actual.accuracy == pytest.approx(1 / 3)
    assert actual.nll == pytest.approx(2 * np.log(2) / 3)


def test_the_loss_of_a_zero_probability_is_finite():
    assert 80 < summary([TaskResult(0, [[1.0, 0.0]], [1], [1, 1])]).nll < 90


def test_no_task_and_a_repeated_task_are_errors():
    metrics = Metrics()
    with pytest.raises(DataError, match="0 tasks"):
        metrics.compute()
    metrics.update(results(1)[0])
    with pytest.raises(DataError, match="Task 0"):
        metrics.merge(copy.deepcopy(metrics))
    assert len(metrics) == 1


@pytest.mark.parametrize(
    ("task", "values"),
    [
        (
            TaskResult(7, [[0.5, 0.5]], [0, 1], [1, 1]),
            r"Task 7: .*\(1, 2\).*\(2,\)",
        ),
        (TaskResult(7, [[0.5, 0.5]], [0], [1]), r"\(1,\)"),
        (TaskResult(7, np.zeros((0, 2)), [], [1, 1]), r"\(0, 2\)"),
        (TaskResult(7, [[0.5, 0.5]], [2], [1, 1]), "2 to 2.*0 to 1"),
        (TaskResult(7, [[0.5, 0.5]], [0], [1, 0]), "has 0"),
        (TaskResult(7, [[2.0, 0.5]], [0], [1, 1]), "Task 7"),
        (TaskResult(7, [[-0.5, 1.5]], [0], [1, 1]), "Task 7"),
    ],
)
def test_impossible_results_are_refused(task, values):
    with pytest.raises(DataError, match=values):
        summary([task])


def test_a_data_frame_has_one_row_for_each_task_of_each_run():
    runs = [summary(results(4, seed)) for seed in (0, 0)]
    frame = pool_seeds(runs).to_frame()
    assert list(frame["run"]) == [0] * 4 + [1] * 4
    assert list(frame["task"]) == [0, 1, 2, 3] * 2
    assert frame["accuracy"].mean() == pytest.approx(runs[0].accuracy)
    assert frame["shots"][0] == tuple(results(1)[0].shots)
    correct = frame["correct"].map(sum) / frame["queries_by_class"].map(sum)
    assert list(correct) == list(frame["accuracy"])


def test_a_data_frame_without_pandas_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingsError, match=r"anyshot\[pandas\]"):
        summary(results(1)).to_frame()


def test_scores_are_read_from_files_of_this_version_and_of_earlier_ones():
    (score,) = summary(results(1)).scores
    stored = json.loads(json.dumps(score.to_json()))
    assert TaskScore.from_json(stored) == score
    renamed = {"queries": "asked", "correct": "hits", "extra": "more"}
    old = {renamed.get(key, key): value for key, value in stored.items()}
    assert old.keys() != stored.keys()
    assert TaskScore.from_json(old) == score
