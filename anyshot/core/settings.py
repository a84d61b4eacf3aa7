"""Every option of a run with its default and its reason: frozen dataclasses, from which the command line and JSON come.

>>> settings = Settings(task=TaskSettings(way=10), method=MethodSettings(name="maml"))
>>> Settings.from_dict(settings.as_dict()) == settings
True
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

from anyshot.core.errors import SettingsError
from anyshot.core.options import MAX_NUMBER, check_fields, from_plain, option, suggestion
from anyshot.core.registry import BODIES, METHODS, SHOT_RULES, STATISTICS

BALANCING = ("omega", "gamma", "z")
AUGMENTATIONS = ("auto", "flip", "shift", "crop", "colour")


@dataclass(frozen=True)
class TaskSettings:
    """How tasks are drawn."""

    way: int = option(5, "Classes in a task.", least=2)
    shots: str = option(
        "any-shot:1-50",
        "Support images per class: fixed:K, or RULE:LO-HI with the rule any-shot, class-imbalance, "
        "task-imbalance, linear, step, long-tailed or random.",
    )
    query: int = option(15, "Query images a class.", least=1)

    def __post_init__(self) -> None:
        check_fields(self)
        rule, _, _ = parse_shots(self.shots)
        object.__setattr__(
            self, "shots", self.shots.replace(rule, SHOT_RULES.canonical_name(rule), 1)
        )


@dataclass(frozen=True)
class MethodSettings:
    """What is learned and how a task is adapted to."""

    name: str = option("taml", "The method.", choices=METHODS)
    options: dict[str, Any] = field(
        default_factory=dict, hash=False, metadata={"help": "The method's own settings."}
    )
    body: str = option("conv4", "What turns images into features.", choices=BODIES)
    channels: int | None = option(
        None,
        "Channels of the body's first layer; by default the body's own (32 for conv4, 64 for resnet12).",
        least=1,
    )
    steps: int = option(5, "Inner steps in meta-training (K).", least=0)
    test_steps: int = option(10, "Inner steps in validation and test.", least=0)
    order: int = option(2, "2: exact meta-gradients; 1: first-order ones.", choices=("1", "2"))
    alpha: float | None = option(
        None,
        "Inner step size; by default the method's own (0.5 fixed for MAML, 0.01 learned for Meta-SGD and TAML).",
        least=0,
    )
    alpha_head: float | None = option(
        None, "Inner step size of the head, where it is not that of the body.", least=0
    )
    start: str = option(
        "paper",
        "Convolution weights at the start: σ = 0.02, or √(2/fan-in).",
        choices=("paper", "he"),
    )
    centre: bool = option(False, "Subtract the set's mean feature before the head.")
    transductive: bool = option(
        True,
        "Normalise query images by their own statistics, as the paper does; off: by the support's, one by one.",
    )
    head: str = option(
        "zero", "Meta-SGD, TAML: where the head starts: at zero, at the class means, or at means drawn to that of all.",
        choices=("zero", "prototypes", "shrunk-prototypes"),
    )  # fmt: skip
    head_scale: float = option(
        0.1, "Learned scale of a head of class means, at its start.", above=0
    )
    head_kappa: float = option(
        1.0,
        "Learned number of images that the mean of all is worth in a shrunk class mean, at its start.",
        above=0,
    )
    flips: bool = option(
        False,
        "Tests: steps see mirror images in turn, and answers are averaged over both, where the images allow it.",
    )
    zooms: tuple[float, ...] = option(
        (), "Tests: other scales (0.75: the middle three quarters of a side) that steps see in turn and answers are "
        "averaged over.", above=0, most=4,
    )  # fmt: skip
    class_mean: bool = option(
        False, "Average the support loss class by class ('1/N'), not image by image."
    )
    balance: tuple[str, ...] = option(
        BALANCING, "TAML's balancing variables that are on.", choices=BALANCING
    )
    bayesian: bool = option(
        True, "Balancing variables with uncertainty; off: their means alone, with an L2 penalty."
    )
    prediction: str = option(
        "mc", "TAML's prediction: averaged over samples, or at the mean.", choices=("mc", "naive")
    )
    samples: int = option(10, "Samples of an averaged prediction (S).", least=1)
    deviation: float = option(
        0.01, "ABML: standard deviation of every weight at the start.", above=0
    )
    deviation_head: float | None = option(
        None, "ABML: that of the head's weights, where it is another.", above=0
    )
    zeta: float = option(
        0.0, "MT-net: ζ at the start; at 0 half of all channels and of the head's classes move."
    )
    z_site: str = option(
        "weight", "What z shifts: weights or activations.", choices=("weight", "activation")
    )
    hierarchical: bool = option(
        True, "Encode classes, then the set of classes; off: one pooling over all images."
    )
    statistics: tuple[str, ...] = option(
        ("mean", "var", "N"), "Statistics that the encoder pools.", choices=STATISTICS
    )
    task_cardinality: str = option(
        "shots", "What tells the encoder a task's size: the mean of its classes' sizes, or its number of classes.",
        choices=("shots", "way"),
    )  # fmt: skip
    cardinality: str = option(
        "linear",
        "How the encoder is told sizes: (N − 1) / 49, or log N / log 50.",
        choices=("linear", "log"),
    )
    omega_prior: float | None = option(
        None,
        "Meta-SGD, TAML: the learned τ at its start, where ω ∝ N_c^−τ before φ is known; none: no τ.",
    )
    omega_hidden: int = option(
        64, "Hidden units between a class's statistics and its ω; 0: none (multi).", least=0
    )
    gains: tuple[float, ...] = option(
        (), "Learned gains of ω̃, γ̃, z̃ at their start; none: 1, not learned (paper). Small ones spare a trained body.",
        above=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.statistics:
            raise SettingsError(
                f"statistics is empty; the encoder needs at least one of {', '.join(STATISTICS)}."
            )
        if self.gains and len(self.gains) != len(BALANCING):
            raise SettingsError(
                f"gains is {self.gains}, but must be three numbers, for ω̃, γ̃ and z̃."
            )


@dataclass(frozen=True)
class TrainSettings:
    """How long, how fast, and what decides which parameters are kept."""

    iterations: int = option(50_000, "Meta-iterations.", least=1)
    meta_batch: int = option(4, "Tasks in a meta-iteration.", least=1)
    rate: float = option(1e-3, "Adam's rate.", least=0)
    decay: str = option("none", "The rate over the run.", choices=("none", "cosine"))
    rising: int = option(
        0, "Iterations in which the rate rises from nothing at the start.", least=0
    )
    body_rate: float = option(
        1.0, "The body's rate (θ and β) as a multiple of the others'.", least=0
    )
    clip: float = option(3.0, "Each gradient element is clipped to ±this.", above=0)
    body_from: str | None = option(
        None, "Run, named weights or safetensors file whose body (θ and β) this run starts from."
    )
    first_order_until: int = option(
        0, "Iterations with first-order gradients before those of the method.", least=0
    )
    average: float = option(
        0.0, "Decay of the running average of all parameters that is validated and kept; 0: the parameters themselves.",
        least=0, most=0.99999,
    )  # fmt: skip
    augment: tuple[str, ...] = option(
        (),
        "What is done to the images of training tasks; auto asks the image set.",
        choices=AUGMENTATIONS,
    )
    calibrate: bool = option(
        False, "Fit a temperature to validation tasks at the end, and keep it with the parameters."
    )
    validate_by: str = option("naive", "Prediction in validations.", choices=("naive", "mc"))
    validate_every: int = option(
        10_000, "Iterations between validations; 0: only at the end.", least=0
    )
    validation_tasks: int = option(3_000, "Tasks in a validation.", least=1)
    patience: int = option(
        0, "Stop after this many validations without a new best; 0: never.", least=0
    )
    select: str = option(
        "id+ood", "Accuracy that picks the best checkpoint.", choices=("id+ood", "id")
    )
    checkpoint_every: int = option(100, "Iterations between checkpoints.", least=1)
    seed: int = option(0, "Determines start, tasks and noise.", least=0, most=2**64)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class PretrainSettings:
    """How the body is trained to tell all training classes apart before any meta-training."""

    epochs: int = option(200, "Times that every training image is seen.", least=1)
    batch: int = option(128, "Images in a step.", least=4)
    parts: int = option(
        2,
        "Parts of a batch, each with its own batch statistics; as many cores or ranks work at once.",
        least=1,
    )
    rate: float = option(0.2, "Highest rate of SGD.", least=0)
    schedule: str = option(
        "one-cycle",
        "The rate: rising for three tenths and falling, or falling only.",
        choices=("one-cycle", "cosine"),
    )
    momentum: float = option(0.9, "Nesterov's momentum.", least=0, most=0.9999)
    weight_decay: float = option(5e-4, "Pull of every weight towards zero.", least=0)
    label_smoothing: float = option(
        0.0, "Share of each label that is spread over all classes.", least=0, most=0.99
    )
    rotations: str = option(
        "none", "Images in quarter turns: their angle to be told as well, or each angle of a class a class of its own.",
        choices=("none", "task", "classes"),
    )  # fmt: skip
    augment: tuple[str, ...] = option(
        ("auto",), "What is done to images; auto: shifts, and flips where the image set allows it.",
        choices=AUGMENTATIONS,
    )  # fmt: skip
    average: float = option(
        0.0, "Decay of the running average of the weights that is checked and kept; 0: the weights themselves.",
        least=0, most=0.99999,
    )  # fmt: skip
    check_every: int = option(
        20, "Epochs between checks on the validation classes; 0: only at the end.", least=0
    )
    check_tasks: int = option(100, "Tasks in a check, for each image set.", least=1)

    def __post_init__(self) -> None:
        check_fields(self)
        if 2 * self.parts > self.batch:
            raise SettingsError(
                f"A batch of {self.batch} images has no {self.parts} parts of two images or more; take fewer parts."
            )


@dataclass(frozen=True)
class Settings:
    """A whole run: meta-training, or with ``warm`` a warm start, of which ``train`` is the seed alone."""

    images: tuple[str, ...] = option(("glyphs",), "Image sets to learn from.")
    ood: tuple[str, ...] = option((), "Image sets for out-of-distribution validation.")
    mixing: str = option(
        "random",
        "With several image sets: drawn for each task, or in turn.",
        choices=("random", "turn"),
    )
    task: TaskSettings = field(default_factory=TaskSettings)
    method: MethodSettings = field(default_factory=MethodSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    warm: PretrainSettings | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.images:
            raise SettingsError("images is empty; name at least one image set to learn from.")

    def user_code(self) -> list[str]:
        """Where the code is that is not anyshot's own: of the method, its body, its statistics, the shot rule."""
        m, (rule, _, _) = self.method, parse_shots(self.task.shots)
        used = [
            (METHODS, m.name),
            (BODIES, m.body),
            *((STATISTICS, name) for name in m.statistics),
            (SHOT_RULES, rule),
        ]
        return [name for known, name in used if not known.is_builtin(name)]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    def with_initial_body(self, body: str | None) -> Settings:
        """The same with another body to start from."""
        return dataclasses.replace(self, train=dataclasses.replace(self.train, body_from=body))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """The settings that :meth:`as_dict` wrote; an unknown key is an error with a suggestion."""
        return from_plain(cls, values)


def parse_shots(text: str) -> tuple[str, int, int]:
    """Rule and range of a text like ``any-shot:1-50`` or ``fixed:5`` (``any-shot`` means 1-50, ``5`` means fixed:5).

    >>> parse_shots("class-imbalance:5-25")
    ('class-imbalance', 5, 25)
    """
    match = re.fullmatch(r"(?:([^\d:].*?)(?::|$))?(?:(\d{1,99})(?:-(\d{1,99}))?)?", text)
    if not match or not text or (match[1] in (None, "fixed") and not match[2]):
        raise SettingsError(
            f"Shots {text!r} are not understood; write for instance any-shot:1-50 or fixed:5."
        )
    rule = match[1] or "fixed"
    if rule not in SHOT_RULES:
        raise SettingsError(f"There is no shot distribution {rule!r}{suggestion(rule, SHOT_RULES)}")
    least, most = (1, 50) if match[2] is None else (int(match[2]), int(match[3] or match[2]))
    if rule == "fixed" and least != most:
        raise SettingsError(
            f"Shots {text!r} are a range without a rule; write for instance any-shot:{least}-{most}."
        )
    if not 1 <= least <= most:
        raise SettingsError(
            f"Shots {text!r} need a range that starts at 1 or more and does not fall."
        )
    if most > MAX_NUMBER:
        raise SettingsError(
            f"Shots {text!r} ask for {most} images of a class, but must be at most {MAX_NUMBER:,}."
        )
    return rule, least, most
