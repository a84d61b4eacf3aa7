"""How much of an experiment to run: ``paper`` (days), ``short`` (hours) or ``smoke`` (a minute)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion
from anyshot.core.task_settings import parse_shots
from anyshot.experiments.experiment import Experiment
from anyshot.training import recipe

LARGE = 50  #: images a class; larger tasks cost more than those of training


@dataclass(frozen=True)
class DataChoice:
    """Image sets that replace those of an experiment."""

    train: tuple[str, ...]  #: learned from, and tested on
    test: tuple[str, ...] = ()  #: tested on only


@dataclass(frozen=True)
class Scale:
    """What differs from the paper's protocol. A model's own changes are applied after these."""

    name: str
    share: float = 1.0  #: of the experiment's test tasks
    figure_tasks: int = 300  #: tasks of a figure of ω, γ or z
    seeds: int | None = None  #: replaces the experiment's
    tasks: int | None = None  #: replaces the share
    reduce_large_tasks: bool = False  #: fewer test tasks where they are larger than in training
    task: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  #: by method name
    train: Mapping[str, Any] = field(default_factory=dict)
    pretrained: bool = False  #: whether all models start from one pre-trained body
    data: DataChoice | None = None

    def seeds_of(self, experiment: Experiment) -> int:
        """The number of runs of each model."""
        return self.seeds or (experiment.seeds_short if self.name == "short" else experiment.seeds)

    def for_experiment(self, experiment: Experiment) -> Scale:
        """This scale with what the experiment changes at ``short`` from a pre-trained body."""
        if self.name != "short" or not self.pretrained:
            return self
        train = {**self.train, **experiment.train_short}
        return replace(self, train=train, methods={**self.methods, **experiment.methods_short})

    def tasks_of(self, experiment: Experiment, shots: str, adapts: bool = True) -> int:
        """The number of test tasks under a shot rule.

        A measurement that does not adapt (``adapts=False``) is cheap on large tasks, too.
        """
        planned = experiment.tasks_short if self.name == "short" else None
        tasks = self.tasks or planned or max(2, round(self.share * experiment.tasks))
        _, _, most = parse_shots(shots)
        if self.reduce_large_tasks and adapts and most > LARGE:
            return max(2, tasks * LARGE // most)
        return tasks


def with_pretrained_body(scale: Scale) -> Scale:
    """Return the scale with one pre-trained body for all models.

    It takes from anyshot's recipe what such a body needs: centred features, its step sizes, and
    gains with which the balancing variables do not destroy it. The head and the prior of ω stay
    the paper's, because the paper's methods are compared. The body keeps learning, because MAML
    and Prototypical Networks have nothing else to learn, but slowly: a fast body loses accuracy
    on unfamiliar images.
    """
    method = {key: recipe.METHOD[key] for key in ("centre", "alpha", "alpha_head", "gains")}
    return replace(
        scale,
        pretrained=True,
        method={**method, **scale.method},
        methods=recipe.EXCEPTIONS,
        train={**scale.train, "body_rate": 0.1},
    )


PAPER = Scale("paper")
SHORT_FROM_SCRATCH = Scale(
    "short",
    share=0.1,
    figure_tasks=100,
    reduce_large_tasks=True,
    train={
        "iterations": 200,
        "decay": "cosine",
        "validate_every": 100,
        "validation_tasks": 50,
        "checkpoint_every": 25,
    },
)
SHORT = with_pretrained_body(SHORT_FROM_SCRATCH)
SMOKE = Scale(
    "smoke",
    figure_tasks=3,
    seeds=1,
    tasks=3,
    reduce_large_tasks=True,
    task={"way": 3, "query": 3},
    method={"channels": 16, "start": "he", "steps": 1, "test_steps": 1, "samples": 2},
    train={
        "iterations": 2,
        "meta_batch": 1,
        "validate_every": 0,
        "validation_tasks": 2,
        "checkpoint_every": 2,
    },
    data=DataChoice(("glyphs",), ("digits",)),
)
SCALES = {scale.name: scale for scale in (SMOKE, SHORT_FROM_SCRATCH, PAPER)}  #: from scratch


def find_scale(name: str, recipe: str | None = None) -> Scale:
    """Return the scale of this name under a recipe.

    ``"anyshot"`` starts from a pre-trained body, ``"paper"`` from scratch; None takes the scale's
    default, which is a pre-trained body for ``short`` only.
    """
    if name not in SCALES:
        raise SettingsError(f"There is no scale {name!r}{suggestion(name, SCALES)}")
    pretrained = recipe == "anyshot" or (recipe is None and name == "short")
    return with_pretrained_body(SCALES[name]) if pretrained else SCALES[name]
