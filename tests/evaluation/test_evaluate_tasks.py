import re

import numpy as np
import pytest
from support import make_imageset, make_method

from anyshot.core.errors import SettingsError
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation import evaluate_tasks
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Metrics, TaskResult

SETTINGS = TaskSettings(way=3, shots="any-shot:1-6", query=4)


def test_the_summary_does_not_depend_on_the_workers():
    method, stream = make_method("taml", alpha=0.1), TaskStream(make_imageset(), "test", SETTINGS)
    actual = [evaluate(method, stream, 7, workers=workers).as_dict() for workers in (1, 2, 3)]
    for summary in actual:
        del summary["tasks_per_second"]
    assert actual[0] == actual[1] == actual[2]


def test_the_summary_equals_that_of_single_predictions():
    method, stream = make_method("maml", alpha=0.1), TaskStream(make_imageset(), "test", SETTINGS)
    metrics, steps = Metrics(), []
    for i in range(4):
        task = stream.task(i)
        metrics.update(
            TaskResult(
                i, method.predict(task).numpy(), task.query_labels.numpy(), task.shots, task.classes
            )
        )
    actual = evaluate(method, stream, 4, advance=steps.append)
    assert actual.accuracy == metrics.compute().accuracy
    np.testing.assert_allclose(actual.nll, metrics.compute().nll, rtol=1e-9)
    assert sum(steps) == 4
    assert actual.tasks_per_second > 0
    assert actual.scores == metrics.compute().scores


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stream": make_imageset()}, "TaskStream, but got ImageSet"),
        ({"stream": None}, "TaskStream, but got NoneType"),
        ({"method": "maml"}, "Method first, but got str"),
        ({"tasks": "5"}, "'5'; expected a positive integer"),
        ({"tasks": 0}, "0; expected a positive integer"),
        ({"prediction": "mean"}, "'mean'; choose mc or naive"),
    ],
)
def test_wrong_arguments_are_named(wrong, words):
    arguments = {
        "method": make_method("maml"),
        "stream": TaskStream(make_imageset(), "test", SETTINGS),
        "tasks": 1,
    }
    with pytest.raises(SettingsError, match=re.escape(words)):
        evaluate(**{**arguments, **wrong})


def test_progress_and_warnings_are_shown_without_a_callback_only(capsys, caplog):
    method, stream = make_method("maml", alpha=0.1), TaskStream(make_imageset(), "test", SETTINGS)
    evaluate(method, stream, 2)  # the first of a process may log why the engine is not used
    capsys.readouterr()
    caplog.clear()
    evaluate(method, stream, 2)
    assert "Testing maml on tiny: 2/2" in capsys.readouterr().err
    assert caplog.messages == []
    greedy = TaskStream(make_imageset(), "test", TaskSettings(way=2, shots="fixed:40"))
    evaluate(method, greedy, 1)
    assert caplog.messages == greedy.size_warnings()
    assert "30 images gives at most 15 support" in caplog.text
    caplog.clear()
    capsys.readouterr()
    evaluate(method, greedy, 1, advance=lambda n: None)
    assert (caplog.messages, capsys.readouterr().err) == ([], "")


def test_the_first_task_is_not_timed(monkeypatch):
    calls, clock = [], iter([10.0, 16.0])
    monkeypatch.setattr(
        evaluate_tasks, "predict_task", lambda method, stream, index: calls.append(index)
    )
    monkeypatch.setattr(evaluate_tasks.time, "perf_counter", lambda: next(clock))
    assert evaluate_tasks.seconds_per_task(None, None, workers=3) == 6.0 / 12
    assert sorted(calls) == [0, *range(12)]
