"""anyshot's recipe for the paper's data sets: pre-training, then a short meta-training.

The reasons and measurements are in docs/recipe.md. The prototype head and the class-size prior give
classes with few images more weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anyshot.core.settings import PretrainSettings, Settings

#: Twenty inner steps over several views of the images learn more than ten on one view, mostly on
#: out-of-distribution images.
METHOD: dict[str, Any] = {
    "centre": True,
    "alpha": 0.03,
    "alpha_head": 1.0,
    "head": "shrunk-prototypes",
    "head_kappa": 3.0,
    "omega_prior": 1.25,
    "cardinality": "log",
    "gains": (1.0, 0.3, 0.1),
    "test_steps": 20,
    "flips": True,
    "zooms": (0.75, 1.3),
}
#: What a method does differently. An inner learning rate of 0.03 in the body costs Proto-MAML 6
#: points out of distribution, MAML and Meta-SGD none (benchmarks/steps_search.py). ABML's noise
#: must not destroy a pre-trained body. A few hundred iterations do not teach MT-net's ζ that a zero
#: head must move for every class.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "proto-maml": {"alpha": 0.003},
    "abml": {"deviation": 0.003, "deviation_head": 0.1},
    "mt-net": {"zeta": 4.0},
}
#: The body is frozen: training it lost more out of distribution than it gained in distribution.
#: Augmented tasks differ from what the body was pre-trained on, so there is something to learn.
TRAIN: dict[str, Any] = {
    "iterations": 200,
    "decay": "cosine",
    "body_rate": 0.0,
    "augment": ("auto", "crop", "colour"),
    "validate_every": 100,
    "validation_tasks": 100,
    "checkpoint_every": 25,
    "calibrate": True,
}

#: A head on three depths of a frozen body; γ for each depth, from held-out support images.
DEPTHS_METHOD: dict[str, Any] = {
    "body": "conv4-depths",
    "adapt_body": False,
    "start": "he",
    "alpha_head": 0.4,
    "steps": 20,
    "norm_prior": 100.0,
    "balance": ("gamma",),
    "bayesian": False,
    "evidence": True,
    "encoder_rate": 5.0,
}
#: Unfamiliar tasks and letters teach how far to rely on each depth where the body helps little.
DEPTHS_TRAIN: dict[str, Any] = {
    "iterations": 500,
    "rate": 2e-3,
    "augment": ("auto", "crop", "colour", "unfamiliar"),
    "validate_every": 250,
    "validation_tasks": 25,
    "checkpoint_every": 50,
}


def recipe_with_depths(settings: Settings, body: str) -> Settings:
    """Settings of the recipe for a head on several depths of a trained body (weights or a run)."""
    settings = recipe(settings)
    return replace(
        settings,
        images=(*settings.images, "letters"),
        method=settings.method.with_values(DEPTHS_METHOD),
        train=replace(settings.train, **DEPTHS_TRAIN, body_from=body),
        pretrain=None,
    )


def recipe(settings: Settings) -> Settings:
    """Settings of the paper's protocol, trained by the recipe.

    Images, tasks, backbone, seed and meta-batch size stay.
    """
    changes = METHOD | EXCEPTIONS.get(settings.method.name, {})
    return replace(
        settings,
        method=settings.method.with_values(changes, skip_unused=True),
        train=replace(settings.train, **TRAIN),
        pretrain=PretrainSettings(),
    )
