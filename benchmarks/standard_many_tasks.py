"""Test rows of the standard protocol that leave the body as it is on 10,000 tasks, inductively.

    python benchmarks/standard_many_tasks.py OUT standard-64 --from runs/body-64 --json FILE

With stored statistics, an image's features do not depend on other images. So features are computed
once for all images of the split and all views, and a task looks them up. Rows with the same body
and statistics share them. The first tasks are also computed without this table, and must have the
same probabilities. Tasks and settings are those of
`anyshot reproduce standard-64 --tasks 10000`. Runs are taken from OUT, or trained. After
`--tasks 600`, `anyshot reproduce --out OUT` finds these measurements and does not repeat them.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot import TaskStream
from anyshot.core.files import read_json, write_json
from anyshot.core.registry import EXPERIMENTS
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Summary
from anyshot.experiments.experiment import Block, Experiment, Model
from anyshot.experiments.job import run_job
from anyshot.experiments.measurement import Measurement, values_of, write_cached
from anyshot.experiments.plan import PlanBuilder
from anyshot.experiments.scale import SHORT
from anyshot.inner_loop.dispatch import features
from anyshot.methods import Method
from anyshot.methods.test_time_augmentation import average_features, with_averaged_features
from anyshot.models.bodies import conv4
from anyshot.models.network import Norm, Parameters
from anyshot.runs.run import Run

MODELS = "RFS;RFS, mirror images;SimpleShot;R2D2;ProtoNet"
EXPERIMENT_NAMES = ("standard", "standard-64", "standard-miniimagenet")
CHECKED = 2  #: tasks that are also computed without the table
BATCH = 500  #: images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("experiment", choices=EXPERIMENT_NAMES)
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--shots", default="1,5")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    experiment: Experiment = EXPERIMENTS[arguments.experiment]
    found = read_json(arguments.json) if arguments.json.exists() else {}
    for name in arguments.models.split(";"):
        for block in select_blocks(experiment, arguments.shots):
            row, label = found.setdefault(name, {}), block.columns[0].name
            if row.get(label, {}).get("tasks") != arguments.tasks:
                builder = PlanBuilder(experiment, SHORT, arguments.out, arguments.start)
                run, measurement = train_model(builder, block, experiment.model(name))
                summary = test_run(run, measurement.method, "test", 0, arguments.tasks)
                row[label] = describe(summary)
                if summary.tasks == measurement.tasks:
                    values = values_of(summary, summary.tasks / summary.tasks_per_second)
                    write_cached(run.folder, measurement, values)
                write_json(arguments.json, found)
            print(name, label, row[label], flush=True)


def select_blocks(experiment: Experiment, shots: str) -> list[Block]:
    """The blocks with these numbers of images a class."""
    names = [f"-{one}shot" for one in shots.split(",")]
    return [block for block in experiment.blocks if block.preset.endswith(tuple(names))]


def train_model(builder: PlanBuilder, block: Block, model: Model) -> tuple[Run, Measurement]:
    """The run of a model, trained if it is missing, and the measurement of its inductive test."""
    [job] = builder.add(block, model, block.columns[0], "test")
    run_job(replace(job, measurements=()), workers=1)
    return Run(job.folder), job.measurements[0]


def describe(summary: Summary) -> dict[str, Any]:
    """Accuracy in % with its interval, and that of the first tasks."""
    found: dict[str, Any] = {
        "tasks": summary.tasks,
        "accuracy": 100 * summary.accuracy,
        "interval": 100 * (summary.interval or 0),
    }
    if summary.tasks > 600:
        first = [score.accuracy for score in summary.scores[:600]]
        found["accuracy of the first 600"] = 100 * float(np.mean(first))
    return found


@torch.no_grad()
def test_run(run: Run, settings: MethodSettings, split: str, seed: int, tasks: int) -> Summary:
    """Test the first tasks of a split."""
    run.settings = replace(run.settings, method=settings)
    images = run.imageset(run.settings.images[0])
    stream = TaskStream(images, split, run.settings.task, seed)
    method, table = run.load_method(), FeatureTable(run.load_method(), stream)
    for index in range(CHECKED):
        task = stream.task(index)
        p = table.method.predict(task)
        torch.testing.assert_close(p, method.predict(task), rtol=1e-3, atol=1e-4)
    return evaluate(table.method, stream, tasks, workers=1)


#: Features [n, width] of a view, by body and statistics, split and view
KEPT: dict[tuple[str, str, int, int], Tensor] = {}


def digest_body(method: Method) -> str:
    """A digest of the body's parameters and of the stored statistics."""
    stored = {k: v for k, v in method.named_buffers() if k.startswith("stored_")}
    sha = hashlib.sha256()
    for name, value in sorted({**dict(method.theta), **stored}.items()):
        sha.update(name.encode() + value.detach().numpy().tobytes())
    return sha.hexdigest()


def compute_features(method: Method, images: Tensor) -> Tensor:
    """Features [n, width] of Conv4 as in inductive tests, by the engine."""
    norm = method.test_norm(method.norm)  # type: ignore[attr-defined]
    return features(dict(method.theta), norm, images, engine=method.engine, body=conv4.features)


def tabulate_views(method: Method, split: str, images: np.ndarray) -> list[Tensor]:
    """The features [n, width] of each view of uint8 images."""
    body, shift = digest_body(method), method.settings.shift
    assert method.settings.flips or not shift, "the keys of views take shifts with mirror images"
    batches = np.array_split(images, len(images) // BATCH + 1)
    views = len(list(method.views(method.to_input(images[:1]))))
    keys = [(body, split, shift if i > 1 else 0, i) for i in range(views)]
    if missing := {i: key for i, key in enumerate(keys) if key not in KEPT}:
        parts: dict[int, list[Tensor]] = {i: [] for i in missing}
        for batch in batches:
            for i, view in enumerate(method.views(method.to_input(batch))):
                if i in missing:
                    parts[i].append(compute_features(method, view))
        KEPT.update({key: torch.cat(parts[i]) for i, key in missing.items()})
    tables = [KEPT[key] for key in keys]
    if method.settings.body == "conv4-unit":
        return [F.normalize(f) * f.shape[1] ** 0.5 for f in tables]
    return tables


class FeatureTable:
    """The features of all images of a split in all views, and a method that looks them up.

    A view of n images is the tensor [n, 1, 1, 1] of their positions in the table.
    """

    def __init__(self, method: Method, stream: TaskStream) -> None:
        [images] = stream.imagesets
        classes = [np.arange(*images.starts[c : c + 2]) for c in images.splits[stream.split]]
        used = np.concatenate(classes)
        self.position = np.full(len(images.images), -1)
        self.position[used] = np.arange(len(used))
        views = tabulate_views(method, stream.split, images.images[used])
        if method.settings.average_views == "features":
            views, method = [average_features(views)], with_averaged_features(method)
        self.stream, self.method, self.count = stream, method, len(used)
        compute = method.body.features
        table, self.views = torch.cat(views), len(views)

        def look_up(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
            if x.shape[1:] == (1, 1, 1):
                return table[x.flatten().long()]
            return compute(theta, norm, x)

        method.body = replace(method.body, features=look_up)
        method.views = self.index_views  # type: ignore[method-assign]

        self.predict_images, method.predict = method.predict, self.predict  # type: ignore[method-assign]

    def predict(self, task: Task, *arguments: object, **options: object) -> Tensor:
        """Probabilities [M, way] of a task of the stream."""
        indices = self.stream.sample_indices(int(task.seed[-1]))
        self.positions: Mapping[int, np.ndarray] = {
            sum(map(len, part)): self.position[np.concatenate(part)]
            for part in (indices.support, indices.query)
        }
        assert len(self.positions) == 2, "support and query set must have different sizes"
        return self.predict_images(task)

    def index_views(self, images: Tensor) -> Iterator[Tensor]:
        """The views of the support or query set, whichever has this size."""
        at = torch.from_numpy(self.positions[len(images)]).float().view(-1, 1, 1, 1)
        return (at + view * self.count for view in range(self.views))


if __name__ == "__main__":
    main()
