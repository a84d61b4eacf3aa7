"""Meta-testing: predict many tasks, on any number of workers, with the same numbers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from anyshot.core.errors import SettingsError
from anyshot.core.parallel import collectives
from anyshot.core.parallel.ranks import world_size
from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.core.progress import progress
from anyshot.core.registry import METRICS
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.methods import Method

log = logging.getLogger(__name__)

CHUNK = 64  #: tasks whose predictions are in memory at once


def evaluate(
    method: Method,
    stream: TaskStream,
    tasks: int,
    *,
    prediction: str | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    metrics: Sequence[str] = (),
) -> Summary:
    """Test a method on the first tasks of a stream.

    Parameters
    ----------
    method : Method
        A trained method.
    stream : TaskStream
        Where the tasks come from.
    tasks : int
        Number of tasks.
    prediction : {"naive", "mc"}, optional
        How to predict; default: as the method's settings say.
    workers : int, optional
        Tasks at the same time; default: one for each core. Does not change the result.
    advance : callable, optional
        Called with the number of finished tasks, from any thread. Without it, progress is shown,
        and warnings about classes that are too small for the tasks are logged first.
    metrics : sequence of str, optional
        Names of additional metrics (:data:`anyshot.METRICS`), which become ``Summary.extra``.

    Returns
    -------
    Summary
        Accuracy, NLL, calibration error and more, with 95 % intervals and the score of each task.

    Raises
    ------
    SettingsError
        If ``method`` is not a method, ``stream`` is not a stream of tasks (an image set, for
        example), or ``tasks`` is not a positive integer.

    Examples
    --------
    >>> import anyshot
    >>> method = anyshot.create_method(anyshot.MethodSettings(name="protonet"))
    >>> settings = anyshot.TaskSettings(way=2, shots="fixed:1", query=2)
    >>> stream = anyshot.TaskStream(anyshot.open_images("digits"), "test", settings)
    >>> summary = anyshot.evaluate(method, stream, tasks=3, metrics=["brier"])
    >>> summary.tasks, summary.queries, list(summary.extra)
    (3, 12, ['brier'])
    """
    _check_arguments(method, stream, tasks)
    if advance is None:
        for warning in stream.size_warnings():
            log.warning("%s", warning)
        names = ", ".join(imageset.name for imageset in stream.imagesets)
        with progress(f"Testing {method.name} on {names}", tasks) as advance_bar:
            return evaluate(
                method,
                stream,
                tasks,
                prediction=prediction,
                workers=workers,
                advance=advance_bar,
                metrics=metrics,
            )
    total = Metrics(METRICS.resolve(metrics))
    start = time.perf_counter()

    def predict(index: int) -> TaskResult:
        result = predict_task(method, stream, index, prediction)
        advance(collectives.progress_increment(index, tasks))
        return result

    indices = collectives.my_indices(tasks)
    for first in range(0, len(indices), CHUNK):
        for result in map_tasks(predict, indices[first : first + CHUNK], workers):
            total.update(result)
    for other in collectives.gather_from_others(total):
        total.merge(other)
    return total.compute(time.perf_counter() - start)


def _check_arguments(method: object, stream: object, tasks: object) -> None:
    if not isinstance(method, Method):
        raise SettingsError(
            f"evaluate needs a Method first, but got {type(method).__name__}; write for example "
            "evaluate(anyshot.load('glyphs'), stream, tasks=100)."
        )
    if not isinstance(stream, TaskStream):
        raise SettingsError(
            f"evaluate needs a TaskStream, but got {type(stream).__name__}; write for example "
            "evaluate(method, anyshot.TaskStream(images, 'test', anyshot.TaskSettings()), 100)."
        )
    if not isinstance(tasks, int) or tasks < 1:
        raise SettingsError(f"The number of tasks is {tasks!r}; expected a positive integer.")


def predict_task(
    method: Method, stream: TaskStream, index: int, prediction: str | None = None
) -> TaskResult:
    """The method's predictions for one task of the stream."""
    task = stream.task(index)
    probabilities = method.predict(task, prediction=prediction).cpu().numpy()
    return TaskResult(index, probabilities, task.query_labels.numpy(), task.shots, task.classes)


def seconds_per_task(method: Method, stream: TaskStream, workers: int | None = None) -> float:
    """Measure the time of a task on the first tasks of the stream.

    One task is predicted before, because the first one loads images and compiles kernels.
    """
    indices = range(4 * (workers or cores()))
    predict_task(method, stream, 0)
    start = time.perf_counter()
    map_tasks(lambda index: predict_task(method, stream, index), indices, workers)
    return (time.perf_counter() - start) / len(indices) / world_size()
