"""Runs that train in a second on the tiny image set of support.py."""

from __future__ import annotations

from support import make_imageset

from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.runs.run import Run
from anyshot.training.stages import pretrain, train


def tiny(method: str = "taml", **options) -> Settings:
    defaults = {
        "iterations": 4,
        "meta_batch": 2,
        "validate_every": 2,
        "validation_tasks": 3,
        "checkpoint_every": 2,
    }
    return Settings(
        images=("tiny",),
        task=TaskSettings(way=2, shots="any-shot:1-4", query=3),
        method=MethodSettings(name=method, start="he", steps=2, test_steps=2, alpha=0.05),
        train=TrainSettings(**{**defaults, **options}),
    )


def train_tiny(settings: Settings, folder, **options) -> Run:
    return train(settings, folder, imagesets=[make_imageset()], ood=[], **options)


def tiny_pretraining(**options) -> Settings:
    return Settings(
        images=("tiny",),
        task=TaskSettings(way=2, shots="any-shot:1-4", query=3),
        method=MethodSettings(name="protonet"),
        train=TrainSettings(iterations=0),
        pretrain=PretrainSettings(
            **{"epochs": 3, "batch": 20, "check_every": 2, "check_tasks": 4, **options}
        ),
    )


def pretrain_tiny(settings: Settings, folder, sets=None, **options) -> Run:
    return pretrain(settings, folder, imagesets=sets or [make_imageset()], ood=[], **options)
