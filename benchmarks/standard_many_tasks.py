"""Test the closed-form rows of the standard protocol on 10,000 tasks, inductively.

    python benchmarks/standard_many_tasks.py OUT standard-64 --from runs/body-64 --json FILE

These methods do not change the body, and with stored statistics an image's features do not depend
on other images. So features are computed once for all test images, and a task is only the fit of a
classifier. The first tasks are also computed by ``Method.predict``, and must have the same
probabilities. The tasks are those of `anyshot reproduce standard-64
--tasks 10000`. Runs are taken from OUT, or trained.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anyshot import TaskStream
from anyshot.core.files import read_json, write_json
from anyshot.core.registry import EXPERIMENTS
from anyshot.evaluation.metrics.summary import confidence_half_width
from anyshot.experiments.experiment import Block, Experiment, Model
from anyshot.experiments.job import run_job
from anyshot.experiments.plan import PlanBuilder
from anyshot.experiments.scale import SHORT
from anyshot.methods.embedding_method import EmbeddingMethod
from anyshot.runs.run import Run

MODELS = ("RFS", "RFS, mirror images", "SimpleShot", "R2D2", "ProtoNet")
CHECKED = 3  #: tasks that are compared with Method.predict
BATCH = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("experiment", choices=("standard", "standard-64"))
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    experiment: Experiment = EXPERIMENTS[arguments.experiment]
    found = read_json(arguments.json) if arguments.json.exists() else {}
    for name in MODELS:
        for block in experiment.blocks:
            row = found.setdefault(name, {})
            column = block.columns[0]
            if row.get(column.label, {}).get("tasks") != arguments.tasks:
                builder = PlanBuilder(experiment, SHORT, arguments.out, arguments.start)
                method, stream = load(builder, block, experiment.model(name))
                accuracies = test(method, stream, arguments.tasks)
                row[column.label] = {
                    "tasks": len(accuracies),
                    "accuracy": 100 * float(np.mean(accuracies)),
                    "interval": 100 * (confidence_half_width(accuracies) or 0),
                    "accuracy of the first 600": 100 * float(np.mean(accuracies[:600])),
                }
                write_json(arguments.json, found)
            print(name, column.label, row[column.label], flush=True)


def load(builder: PlanBuilder, block: Block, model: Model) -> tuple[EmbeddingMethod, TaskStream]:
    """The trained method in its inductive form, and its test tasks."""
    [job] = builder.add(block, model, block.columns[0], "test")
    run_job(replace(job, measurements=()), workers=1)
    run = Run(job.folder)
    measurement = job.measurements[0]
    run.settings = replace(run.settings, method=measurement.method)
    images = run.imageset(measurement.images)
    method = run.load_method()
    assert isinstance(method, EmbeddingMethod)
    return method, TaskStream(images, "test", measurement.task)


@torch.no_grad()
def test(method: EmbeddingMethod, stream: TaskStream, tasks: int) -> list[float]:
    """The accuracy of each task."""
    [images] = stream.imagesets
    used = np.concatenate(
        [np.arange(images.starts[c], images.starts[c + 1]) for c in images.splits["test"]]
    )
    row = np.full(len(images.images), -1)
    row[used] = np.arange(len(used))
    views = embed_views(method, images.images[used])
    accuracies = []
    for index in range(tasks):
        task = stream.sample_indices(index)
        labels, query_labels = (
            torch.repeat_interleave(torch.arange(len(part)), torch.tensor([len(c) for c in part]))
            for part in (task.support, task.query)
        )
        support, query = (
            torch.from_numpy(row[np.concatenate(p)]) for p in (task.support, task.query)
        )
        features = torch.cat([view[support] for view in views])
        score = method.fit(features, labels.repeat(len(views)), len(task.support))
        p = torch.stack([score(view[query]).softmax(1) for view in views]).mean(0)
        if index < CHECKED:
            torch.testing.assert_close(p, method.predict(stream.task(index)), rtol=1e-3, atol=1e-4)
        accuracies.append((p.argmax(1) == query_labels).float().mean().item())
    return accuracies


def embed_views(method: EmbeddingMethod, images: np.ndarray) -> list[Tensor]:
    """Features [images, width] of each view."""
    norm = method.test_norm(method.norm)
    parts = [
        [
            method.embed(view, norm=norm)
            for view in method.views(method.to_input(images[i : i + BATCH]))
        ]
        for i in range(0, len(images), BATCH)
    ]
    return [torch.cat(view) for view in zip(*parts, strict=True)]


if __name__ == "__main__":
    main()
