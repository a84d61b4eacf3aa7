"""The work of the ranks in tests/core/parallel/test_ranks.py, with torchrun or without it."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from support import make_imageset

from anyshot.core.files import write_json
from anyshot.core.parallel.ranks import process_group, rank
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.runs.run import Run
from anyshot.training.stages import pretrain, train

TASK = TaskSettings(way=2, shots="any-shot:1-8", query=3)


def meta_settings(iterations: int, **options) -> Settings:
    method = MethodSettings(
        name="taml",
        start="he",
        channels=4,
        steps=1,
        test_steps=1,
        alpha=0.05,
        options={"samples": 1},
    )
    chosen = {
        "meta_batch": 4,
        "validate_every": 4,
        "validation_tasks": 5,
        "checkpoint_every": 5,
    }
    return Settings(
        ("tiny",),
        (),
        task=TASK,
        method=method,
        train=TrainSettings(iterations, **{**chosen, **options}),
    )


def pretraining_settings(epochs: int) -> Settings:
    method, warm = (
        MethodSettings(name="protonet", channels=4),
        PretrainSettings(epochs, batch=30, parts=3, check_tasks=7),
    )
    train = TrainSettings(iterations=0)
    return Settings(("tiny",), (), task=TASK, method=method, train=train, pretrain=warm)


def work(folder: Path, iterations: int, shared: Path, part: int) -> None:
    """Train a complete run, a run that others continue, a pre-trained one, and test."""
    images = [make_imageset()]
    whole = train(
        meta_settings(iterations, calibrate=True), folder / "whole", imagesets=images, ood=[]
    )
    train(meta_settings(part), shared, imagesets=images, ood=[])
    warm = pretrain(pretraining_settings(1), folder / "warm", imagesets=images, ood=[])
    start = meta_settings(2, body_from=str(warm.folder), meta_batch=1)
    train(start, folder / "from", imagesets=images, ood=[])
    method = Run(whole.folder).load_method()
    summary = evaluate(method, TaskStream(images, "test", TASK), tasks=11, metrics=("brier",))
    if rank() == 0:
        write_json(folder / "test.json", {**summary.as_dict(), "tasks_per_second": None})


if __name__ == "__main__":
    with process_group(torch.device("cpu")):
        work(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
