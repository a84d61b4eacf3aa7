"""Meta-test: a method's answers to many tasks, in numbers that do not depend on how the tasks were spread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from anyshot.core.parallel import collectives
from anyshot.core.parallel.ranks import world_size
from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.core.progress import progress
from anyshot.core.registry import METRICS
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.methods import Method

log = logging.getLogger(__name__)

CHUNK = 64  #: tasks whose answers are held in memory at once


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
    """Accuracy, calibration and the rest over the stream's first ``tasks`` tasks.

    ``metrics`` names others to be had besides (``Summary.more``); ``prediction`` "naive" or "mc" overrides the method's
    own. ``advance(n)`` is told of tasks, from any thread; without it, progress is shown, and what the stream's
    classes do not allow is said first.
    """
    if advance is None:
        for sentence in stream.size_warnings():
            log.warning("%s", sentence)
        names = ", ".join(imageset.name for imageset in stream.imagesets)
        with progress(f"Testing {method.name} on {names}", tasks) as shown:
            return evaluate(
                method,
                stream,
                tasks,
                prediction=prediction,
                workers=workers,
                advance=shown,
                metrics=metrics,
            )
    total, start = Metrics(METRICS.resolve(metrics)), time.perf_counter()

    def one(index: int) -> TaskResult:
        result = predict_task(method, stream, index, prediction)
        advance(collectives.progress_increment(index, tasks))
        return result

    own = collectives.my_indices(tasks)
    for first in range(0, len(own), CHUNK):
        for result in map_tasks(one, own[first : first + CHUNK], workers):
            total.update(result)
    for other in collectives.gather_from_others(total):
        total.merge(other)
    return total.compute(time.perf_counter() - start)


def predict_task(
    method: Method, stream: TaskStream, index: int, prediction: str | None = None
) -> TaskResult:
    """The method's answer to one task of the stream."""
    task = stream.task(index)
    probabilities = method.predict(task, prediction=prediction).cpu().numpy()
    return TaskResult(index, probabilities, task.query_labels.numpy(), task.shots, task.classes)


def seconds_per_task(method: Method, stream: TaskStream, workers: int | None = None) -> float:
    """How long a task takes when many are tested: the stream's first few, after one that loads and compiles."""
    few = range(4 * (workers or cores()))
    predict_task(method, stream, 0)
    start = time.perf_counter()
    map_tasks(lambda index: predict_task(method, stream, index), few, workers)
    return (time.perf_counter() - start) / len(few) / world_size()
