"""anyshot's own way to train on a real image set, in place of the paper's: reasons and figures are in docs/recipe.md.

A warm start tells all training classes apart; on its body a few hundred iterations of meta-learning follow, whose head
starts at the class means and whose loss counts a class of few images for more than its share.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from anyshot.core.parallel.collectives import broadcast_from_rank_zero
from anyshot.core.settings import Settings
from anyshot.runs.run import Run
from anyshot.training.meta_training import train
from anyshot.training.presets import pretraining_settings
from anyshot.training.pretraining import pretrain

RECIPES = ("anyshot", "paper")
PAPERS = (
    "cifar-fs",
    "miniimagenet",
    "multi",
)  #: presets of the paper's; the others are anyshot's own already

#: Twenty steps, each on another view of the images, teach more than ten on one, above all of unfamiliar images.
METHOD: dict[str, Any] = {
    "centre": True, "alpha": 0.03, "alpha_head": 1.0, "head": "shrunk-prototypes", "head_kappa": 3.0,
    "omega_prior": 1.25, "cardinality": "log", "gains": (1.0, 0.3, 0.1),
    "test_steps": 20, "flips": True, "zooms": (0.75, 1.3),
}  # fmt: skip
#: What a method does differently: steps of Proto-MAML's body by 0.03 cost 6 points on unfamiliar images, those of MAML
#: and Meta-SGD none (benchmarks/steps_search.py); ABML's noise must spare a trained body; a few hundred iterations do
#: not teach MT-net's ζ that a head at zero must move for every class.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "proto-maml": {"alpha": 0.003},
    "abml": {"deviation": 0.003, "deviation_head": 0.1},
    "mt-net": {"zeta": 4.0},
}
#: The body stays as it is: to learn it, too, lost more on unfamiliar images than it gained elsewhere. Altered images
#: are less familiar to it than those it was trained on, so that tasks of them have something to teach.
TRAIN: dict[str, Any] = {
    "iterations": 200, "decay": "cosine", "body_rate": 0.0, "augment": ("auto", "crop", "colour"),
    "validate_every": 100, "validation_tasks": 100, "checkpoint_every": 25, "calibrate": True,
}  # fmt: skip


def recipe(settings: Settings) -> Settings:
    """A preset of the paper's by anyshot's recipe: the same images, tasks, body, seeds and size of a meta-batch.

    >>> from anyshot.training.presets import preset
    >>> recipe(preset("cifar-fs")).method.head
    'shrunk-prototypes'
    """
    method = replace(settings.method, **METHOD | EXCEPTIONS.get(settings.method.name, {}))
    return replace(settings, method=method, train=replace(settings.train, **TRAIN))


def train_by_recipe(settings: Settings, folder: str | Path, **how: Any) -> Run:
    """Meta-train from a warm start, which is a run of its own in ``folder``/warm unless the settings name another body.

    Either stage goes on where it was; ``how`` is as in :func:`anyshot.train`.
    """
    if settings.train.body_from is None:
        warm = Path(folder) / "warm"
        settings = settings.with_initial_body(str(warm))
        if not broadcast_from_rank_zero(lambda: Run.find_started(folder) is not None):
            pretrain(pretraining_settings(settings), warm, **how)
    return train(settings, folder, **how)
