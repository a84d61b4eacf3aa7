"""The settings of a run: frozen dataclasses, from which the command line and JSON are generated.

>>> settings = Settings(task=TaskSettings(way=10), method=MethodSettings(name="maml"))
>>> Settings.from_dict(settings.as_dict()) == settings
True
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from anyshot.core.errors import SettingsError
from anyshot.core.method_settings import MethodSettings
from anyshot.core.old_settings import upgrade_part, upgrade_run
from anyshot.core.options import check_fields, from_plain, option, refuse_unknown_arguments
from anyshot.core.registry import BODIES, ENCODERS, METHODS, POOLINGS, SHOT_RULES, STATISTICS
from anyshot.core.task_settings import TaskSettings, parse_shots

AUGMENTATIONS = ("auto", "flip", "shift", "crop", "colour", "unfamiliar")
MIXINGS = ("random", "turn")


@refuse_unknown_arguments
@dataclass(frozen=True)
class TrainSettings:
    """Meta-training: its length, optimizer, validation and checkpoints.

    Examples
    --------
    >>> TrainSettings(iterations=200, decay="cosine").meta_batch
    4
    """

    iterations: int = option(50_000, "Meta-training iterations; 0: pre-training only.", least=0)
    meta_batch: int = option(4, "Tasks in an iteration.", least=1, most=10_000)
    rate: float = option(1e-3, "Learning rate (Adam).", least=0)
    decay: str = option("none", "Learning-rate schedule.", choices=("none", "cosine"))
    body_rate: float = option(
        1.0, "Learning-rate multiplier of the backbone (θ and β); 0: frozen.", least=0
    )
    clip: float = option(3.0, "Clip each gradient element to ±this.", above=0)
    body_from: str | None = option(
        None,
        "Start from the pre-trained backbone of this run, named weights or safetensors file.",
    )
    augment: tuple[str, ...] = option(
        (),
        "Augmentation of training tasks; auto: what suits the image set.",
        choices=AUGMENTATIONS,
    )
    calibrate: bool = option(
        False, "Fit a temperature to validation tasks at the end, and save it with the parameters."
    )
    validate_by: str = option("naive", "Prediction in validations.", choices=("naive", "mc"))
    validate_every: int = option(
        10_000, "Iterations between validations; 0: validate at the end only.", least=0
    )
    validation_tasks: int = option(3_000, "Tasks in a validation.", least=1, most=10**7)
    patience: int = option(
        0, "Stop after this many validations without improvement; 0: never.", least=0
    )
    select: str = option(
        "id+ood",
        "Model selection: validation accuracy in distribution plus out of distribution, or in "
        "distribution only.",
        choices=("id+ood", "id"),
    )
    checkpoint_every: int = option(100, "Iterations between checkpoints.", least=1)
    seed: int = option(
        0,
        "Seed of initialisation, tasks and noise; on the command line also of pre-training.",
        least=0,
        most=2**64,
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_part("train", values)


@refuse_unknown_arguments
@dataclass(frozen=True)
class PretrainSettings:
    """Pre-training: the backbone learns to classify all training classes, with SGD.

    Examples
    --------
    >>> PretrainSettings(epochs=20).batch
    128
    """

    epochs: int = option(200, "Pre-training epochs.", least=1)
    batch: int = option(128, "Images in a batch.", least=4, most=1_000_000)
    parts: int = option(
        2,
        "Batch splits, each with its own batch-norm statistics; as many cores or ranks work at "
        "once.",
        least=1,
        most=10_000,
    )
    rate: float = option(0.2, "Highest learning rate of the one-cycle schedule (SGD).", least=0)
    momentum: float = option(0.9, "Nesterov momentum.", least=0, most=0.9999)
    weight_decay: float = option(5e-4, "Weight decay.", least=0)
    augment: tuple[str, ...] = option(
        ("auto",),
        "Augmentation; auto: shifts, and flips where the image set allows it.",
        choices=AUGMENTATIONS,
    )
    teacher: str | None = option(
        None,
        "A finished pre-training on the same classes, whose class probabilities are learned too "
        "(distillation).",
    )
    check_every: int = option(
        20, "Epochs between validations by class prototypes; 0: at the end only.", least=0
    )
    check_tasks: int = option(
        100, "Tasks in such a validation, for each image set.", least=1, most=10**7
    )
    seed: int = option(0, "Seed of initialisation, batches and augmentation.", least=0, most=2**64)

    def __post_init__(self) -> None:
        check_fields(self)
        if 2 * self.parts > self.batch:
            raise SettingsError(
                f"A batch of {self.batch} images cannot be split into {self.parts} parts of at "
                "least two images; use fewer parts."
            )

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_part("pretrain", values)


@refuse_unknown_arguments
@dataclass(frozen=True)
class Settings:
    """All settings of a run.

    A run has one or two stages: pre-training of the backbone (if ``pretrain`` is given), then
    meta-training (if ``train.iterations`` is above 0).

    Parameters
    ----------
    images : tuple of str
        Image sets to train on: names or folders.
    ood : tuple of str
        Image sets for out-of-distribution validation.
    mixing : str
        With several image sets: "random" samples one for each task, "turn" takes one for each
        meta-batch in turn.
    task, method, train
        How tasks are sampled, the method, and its meta-training.
    pretrain : PretrainSettings, optional
        The pre-training stage.

    Examples
    --------
    >>> Settings(images=("glyphs",), pretrain=PretrainSettings(epochs=5)).train.iterations
    50000
    """

    images: tuple[str, ...] = option(("glyphs",), "Image sets to train on: names or folders.")
    ood: tuple[str, ...] = option((), "Image sets for out-of-distribution validation.")
    mixing: str = option(
        "random",
        "Sampling of several image sets: one for each task at random, or one for each meta-batch "
        "in turn.",
        choices=MIXINGS,
    )
    task: TaskSettings = field(default_factory=TaskSettings)
    method: MethodSettings = field(default_factory=MethodSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    pretrain: PretrainSettings | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.images:
            raise SettingsError("images is empty; name at least one image set to train on.")
        if self.pretrain is None and not self.train.iterations:
            raise SettingsError("iterations is 0 and there is no pre-training: nothing to train.")
        if self.pretrain is not None and self.train.body_from is not None:
            raise SettingsError(
                f"The backbone cannot be pre-trained and come from {self.train.body_from!r}; "
                "set pretrain=None or body_from=None."
            )

    @property
    def pretrains_only(self) -> bool:
        """Whether the run ends with pre-training."""
        return not self.train.iterations

    def user_code(self) -> list[str]:
        """The import paths of user code: method, backbone, task encoder and shot rule."""
        rule, _, _ = parse_shots(self.task.shots)
        used = [
            (METHODS, self.method.name),
            (BODIES, self.method.body),
            *((STATISTICS, name) for name in self.method.options.get("statistics", ())),
            (ENCODERS, self.method.options.get("encoder", "convolutional")),
            (POOLINGS, self.method.options.get("pooling", "statistics")),
            (SHOT_RULES, rule),
        ]
        return [name for registry, name in used if not registry.is_builtin(name)]

    def with_initial_body(self, body: str | None) -> Settings:
        """A copy that starts from the backbone of another run or file, and does not pre-train."""
        train = dataclasses.replace(self.train, body_from=body)
        return dataclasses.replace(
            self, train=train, pretrain=self.pretrain if body is None else None
        )

    def with_seed(self, seed: int) -> Settings:
        """A copy with another seed of meta-training and of pre-training, if the run has it.

        >>> Settings(pretrain=PretrainSettings()).with_seed(3).pretrain.seed
        3
        """
        stage = self.pretrain
        return dataclasses.replace(
            self,
            train=dataclasses.replace(self.train, seed=seed),
            pretrain=None if stage is None else dataclasses.replace(stage, seed=seed),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with all options of a built-in method."""
        values = dataclasses.asdict(self)
        if METHODS.is_builtin(self.method.name):
            values["method"]["options"] = self.method.all_options()
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """The settings that :meth:`as_dict` wrote, in this version or an earlier one."""
        return from_plain(cls, values)

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_run(values)
