"""How much of an experiment is done: ``paper`` all of it, ``short`` within hours on two cores, ``smoke`` a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anyshot.core.errors import AnyshotError
from anyshot.core.options import suggestion
from anyshot.core.settings import parse_shots
from anyshot.experiments.experiment import Experiment
from anyshot.training import recipe

LARGE = 50  #: images a class; a task of more costs more than those that methods are trained on


@dataclass(frozen=True)
class DataChoice:
    """Image sets to put an experiment on: those learned from, and others that are only tested on."""

    learned: tuple[str, ...]
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scale:
    """What is other than the paper's protocol says. Settings are changed before those of a model."""

    name: str
    share: float = 1.0  #: of the experiment's test tasks
    pictured: int = 300  #: tasks that figures of ω, γ and z look at
    seeds: int | None = None  #: instead of the experiment's
    tasks: int | None = None  #: instead of the share
    fewer_large: bool = False  #: the larger the tasks beyond those of training, the fewer
    task: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  #: of single methods besides
    train: Mapping[str, Any] = field(default_factory=dict)
    warm: bool = False  #: whether all models start from one warm start
    data: DataChoice | None = None

    def seeds_of(self, experiment: Experiment) -> int:
        """Runs of each model."""
        return self.seeds or (experiment.seeds_short if self.name == "short" else experiment.seeds)

    def tasks_of(self, experiment: Experiment, shots: str, adapts: bool = True) -> int:
        """Tasks of a test with such shots, or of a look at φ, which adapts to none and need not spare large ones."""
        tasks = self.tasks or max(2, round(self.share * experiment.tasks))
        _, _, most = parse_shots(shots)
        return (
            max(2, tasks * LARGE // most) if self.fewer_large and adapts and most > LARGE else tasks
        )


def with_pretrained_body(scale: Scale) -> Scale:
    """The scale with one warm start for all models, and what a warm body needs of anyshot's recipe: centred features,
    step sizes that suit it, balancing variables that do not wipe it out. The head and the prior of ω stay the paper's:
    its methods are what is compared. The body learns, since of MAML and Prototypical Networks nothing else does, but
    slowly: fast, it unlearns unfamiliar images."""
    method = {key: recipe.METHOD[key] for key in ("centre", "alpha", "alpha_head", "gains")}
    train = {**scale.train, "body_rate": 0.1}
    return replace(
        scale, warm=True, method={**method, **scale.method}, methods=recipe.EXCEPTIONS, train=train
    )


PAPER = Scale("paper")
COLD = Scale(
    "short",
    share=0.1,
    pictured=100,
    fewer_large=True,
    train={
        "iterations": 200, "decay": "cosine", "validate_every": 100, "validation_tasks": 50, "checkpoint_every": 25,
    },
)  # fmt: skip
SHORT = with_pretrained_body(COLD)
SMOKE = Scale(
    "smoke",
    pictured=3,
    seeds=1,
    tasks=3,
    fewer_large=True,
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
SCALES = {scale.name: scale for scale in (SMOKE, COLD, PAPER)}  #: as the paper starts


def scale_of(name: str, start: str | None = None) -> Scale:
    """The scale of a name, started by a recipe, "anyshot" or "paper"; None: by a warm body at the scale ``short``."""
    if name not in SCALES:
        raise AnyshotError(f"There is no scale {name!r}{suggestion(name, SCALES)}")
    warm = start == "anyshot" or (start is None and name == "short")
    return with_pretrained_body(SCALES[name]) if warm else SCALES[name]
