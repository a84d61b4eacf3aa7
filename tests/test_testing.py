import numpy as np
from support import make_imageset, make_method

from anyshot.metrics import Metrics, TaskResult
from anyshot.settings import TaskSettings
from anyshot.tasks import TaskStream
from anyshot.testing import evaluate

SETTINGS = TaskSettings(way=3, shots="any-shot:1-6", query=4)


def test_the_summary_does_not_depend_on_the_workers():
    method, stream = make_method("taml", alpha=0.1), TaskStream(make_imageset(), "test", SETTINGS)
    found = [evaluate(method, stream, 7, workers=workers).as_dict() for workers in (1, 2, 3)]
    for summary in found:
        del summary["tasks_per_second"]
    assert found[0] == found[1] == found[2]


def test_the_summary_is_that_of_each_tasks_own_prediction():
    method, stream = make_method("maml", alpha=0.1), TaskStream(make_imageset(), "test", SETTINGS)
    metrics, told = Metrics(), []
    for i in range(4):
        task = stream.task(i)
        metrics.update(TaskResult(i, method.predict(task).numpy(), task.query_labels.numpy(), task.shots))
    found = evaluate(method, stream, 4, advance=told.append)
    assert found.accuracy == metrics.compute().accuracy
    np.testing.assert_allclose(found.nll, metrics.compute().nll, rtol=1e-9)
    assert sum(told) == 4
    assert found.tasks_per_second > 0
