"""Meta-test: a method's answers to many tasks, in numbers that do not depend on how the tasks were spread."""

from __future__ import annotations

import time
from collections.abc import Callable

from anyshot.methods import Method
from anyshot.metrics import Metrics, Summary, TaskResult
from anyshot.parallel import map_tasks
from anyshot.tasks import TaskStream

CHUNK = 64  #: tasks drawn and held in memory at once


def evaluate(
    method: Method,
    stream: TaskStream,
    tasks: int,
    *,
    prediction: str | None = None,
    workers: int | None = None,
    advance: Callable[..., None] | None = None,
) -> Summary:
    """Accuracy, calibration and the rest over the stream's first ``tasks`` tasks.

    ``prediction`` "naive" or "mc" overrides the method's own; ``advance(1)`` is told of each task, from any thread.
    """
    metrics, start = Metrics(), time.perf_counter()

    def answer(index: int) -> TaskResult:
        task = stream.task(index)
        probabilities = method.predict(task, prediction=prediction).cpu().numpy()
        if advance:
            advance(1)
        return TaskResult(index, probabilities, task.query_labels.numpy(), task.shots)

    for first in range(0, tasks, CHUNK):
        indices = range(first, min(first + CHUNK, tasks))
        for result in map_tasks(answer, indices, workers):
            metrics.update(result)
    return metrics.compute(time.perf_counter() - start)
