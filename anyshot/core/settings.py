"""The settings of a run: frozen dataclasses, from which the command line and JSON are generated.

>>> settings = Settings(task=TaskSettings(way=10), method=MethodSettings(name="maml"))
>>> Settings.from_dict(settings.as_dict()) == settings
True
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyshot.core.errors import SettingsError
from anyshot.core.method_options import methods_with, options_class
from anyshot.core.old_settings import upgrade_part, upgrade_run
from anyshot.core.options import (
    MAX_NUMBER,
    check_fields,
    from_plain,
    method_options,
    non_default,
    option,
    suggestion,
)
from anyshot.core.registry import BODIES, METHODS, SHOT_RULES, STATISTICS

AUGMENTATIONS = ("auto", "flip", "shift", "crop", "colour")

T = TypeVar("T")


def _refuse_unknown_arguments(cls: type[T]) -> type[T]:
    """Make an unknown argument of a settings class a SettingsError with a suggestion."""
    init = cls.__init__
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]

    @functools.wraps(init)
    def checked_init(self: T, *args: Any, **kwargs: Any) -> None:
        for key in kwargs:
            if key not in names:
                raise SettingsError(_unknown_argument(cls, key, names))
        init(self, *args, **kwargs)

    cls.__init__ = checked_init  # type: ignore[method-assign, assignment]
    return cls


def _unknown_argument(cls: type, key: str, names: list[str]) -> str:
    methods = methods_with(key) if cls is MethodSettings else []
    if methods:
        return (
            f"{key!r} is an option of {' and '.join(methods)}, not a setting of all methods; "
            f"write MethodSettings(name={methods[-1]!r}, options={{{key!r}: …}})."
        )
    return f"{cls.__name__} has no setting {key!r}{suggestion(key, names)}"


@_refuse_unknown_arguments
@dataclass(frozen=True)
class TaskSettings:
    """How tasks are sampled.

    Parameters
    ----------
    way : int
        Classes in a task.
    shots : str
        The rule for the number of support images a class, as for :func:`parse_shots`.
    query : int
        Query images a class.

    Examples
    --------
    >>> TaskSettings(way=10, shots="5").shots
    '5'
    """

    way: int = option(5, "Classes in a task.", least=2, most=10_000)
    shots: str = option(
        "any-shot:1-50",
        "Support images per class: fixed:K, or RULE:LO-HI with the rule any-shot, class-imbalance, "
        "task-imbalance, linear, step, long-tailed or random.",
    )
    query: int = option(15, "Query images a class.", least=1, most=100_000)

    def __post_init__(self) -> None:
        check_fields(self)
        rule, _, _ = parse_shots(self.shots)
        shots = self.shots.replace(rule, SHOT_RULES.canonical_name(rule), 1)
        object.__setattr__(self, "shots", shots)


@_refuse_unknown_arguments
@dataclass(frozen=True)
class MethodSettings:
    """The method, its backbone and its inner loop.

    Parameters
    ----------
    name : str
        A built-in method, or your own as ``FILE.py:NAME``.
    options : dict
        The options of this method alone (its ``Options``), for example ``{"samples": 5}``.
        Options at their defaults are dropped.
    body, channels, steps, test_steps, order, alpha, alpha_head, start, centre, transductive, \
flips, zooms
        The settings that methods share; ``anyshot train --help`` explains each.

    Examples
    --------
    >>> MethodSettings(name="taml", options={"samples": 5, "bayesian": True}).options
    {'samples': 5}
    >>> MethodSettings(name="maml", options={"zeta": 4.0})
    Traceback (most recent call last):
    anyshot.core.errors.SettingsError: maml has no option 'zeta'; mt-net has it.
    """

    name: str = option("taml", "The method.", choices=METHODS)
    options: dict[str, Any] = field(
        default_factory=dict, hash=False, metadata={"help": "The options of this method alone."}
    )
    body: str = option("conv4", "The backbone.", choices=BODIES)
    channels: int | None = option(
        None,
        "Channels of the backbone's first layer. Default: 32 for conv4, 64 for resnet12.",
        least=1,
        most=16_384,
    )
    steps: int = option(5, "Inner steps in meta-training (K).", least=0, most=100_000)
    test_steps: int = option(10, "Inner steps in validation and test.", least=0, most=100_000)
    order: int = option(
        2, "Meta-gradients: 2 second-order (exact), 1 first-order.", choices=("1", "2")
    )
    alpha: float | None = option(
        None,
        "Inner learning rate α. Default: the method's (0.5 for MAML; 0.01, learned, for Meta-SGD "
        "and TAML).",
        least=0,
    )
    alpha_head: float | None = option(
        None, "Inner learning rate of the head. Default: --alpha.", least=0
    )
    start: str = option(
        "paper",
        "Initialisation of the convolutions: σ = 0.02 (paper) or √(2 / fan-in) (he).",
        choices=("paper", "he"),
    )
    centre: bool = option(False, "Feature centring: subtract the set's mean feature.")
    transductive: bool = option(
        True,
        "Batch-norm statistics of the query batch (transductive, as in the paper); off: of the "
        "support set.",
    )
    flips: bool = option(
        False,
        "Test-time augmentation: inner steps and predictions also use mirror images, where the "
        "image set allows it.",
    )
    zooms: tuple[float, ...] = option(
        (),
        "Test-time augmentation: inner steps and predictions also use these zooms (0.75: the "
        "middle three quarters of each side).",
        above=0,
        most=4,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if METHODS.is_builtin(self.name):
            known = options_class(self.name)
            check_option_names(self.name, self.options, known)
            options = non_default(method_options(known, self.options))
            object.__setattr__(self, "options", options)
        elif "statistics" in self.options:  # of your own variant of TAML
            names = tuple(map(STATISTICS.canonical_name, self.options["statistics"]))
            object.__setattr__(self, "options", {**self.options, "statistics": names})

    def all_options(self) -> dict[str, Any]:
        """The options of the method with their defaults.

        >>> MethodSettings(name="mt-net").all_options()
        {'zeta': 0.0}
        """
        return dataclasses.asdict(method_options(options_class(self.name), self.options))

    def with_values(self, values: Mapping[str, Any], skip_foreign: bool = False) -> MethodSettings:
        """A copy with other values of shared settings and of the method's options alike.

        Parameters
        ----------
        values : mapping
            New values by name. With another method ``name``, options that this method does not
            have are dropped.
        skip_foreign : bool
            Drop values of options that the method does not have; otherwise they are an error.

        Examples
        --------
        >>> MethodSettings().with_values({"alpha": 0.1, "samples": 3}).options
        {'samples': 3}
        """
        shared_names = {f.name for f in dataclasses.fields(self)}
        shared = {k: v for k, v in values.items() if k in shared_names}
        own = {k: v for k, v in values.items() if k not in shared_names}
        if not own and shared.get("name", self.name) == self.name:
            return dataclasses.replace(self, **shared)
        known = {f.name for f in dataclasses.fields(options_class(shared.get("name", self.name)))}
        options = {k: v for k, v in self.options.items() if k in known}
        options |= shared.pop("options", {})
        options |= {k: v for k, v in own.items() if k in known or not skip_foreign}
        return dataclasses.replace(self, **shared, options=options)

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_part("method", values)


def check_option_names(method: str, options: Mapping[str, Any], known_options: type) -> None:
    """Refuse options that a method does not have, and say which method has them."""
    known = [f.name for f in dataclasses.fields(known_options)]
    for name in options:
        if name in known:
            continue
        others = methods_with(name)
        if others:
            hint = f"; {' and '.join(others)} {'have' if len(others) > 1 else 'has'} it."
        else:
            hint = suggestion(name, known) if known else "; it has no options."
        raise SettingsError(f"{method} has no option {name!r}{hint}")


@_refuse_unknown_arguments
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
    seed: int = option(0, "Seed of initialisation, tasks and noise.", least=0, most=2**64)

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_part("train", values)


@_refuse_unknown_arguments
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


@_refuse_unknown_arguments
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
        choices=("random", "turn"),
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
        """The import paths of user code: method, backbone, statistics and shot rule."""
        rule, _, _ = parse_shots(self.task.shots)
        used = [
            (METHODS, self.method.name),
            (BODIES, self.method.body),
            *((STATISTICS, name) for name in self.method.options.get("statistics", ())),
            (SHOT_RULES, rule),
        ]
        return [name for registry, name in used if not registry.is_builtin(name)]

    def with_initial_body(self, body: str | None) -> Settings:
        """A copy that starts from the backbone of another run or file, and does not pre-train."""
        train = dataclasses.replace(self.train, body_from=body)
        return dataclasses.replace(
            self, train=train, pretrain=self.pretrain if body is None else None
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


def parse_shots(text: str) -> tuple[str, int, int]:
    """Rule and range of a text such as ``any-shot:1-50`` or ``fixed:5``.

    ``any-shot`` alone means 1-50, and ``5`` means fixed:5.

    >>> parse_shots("class-imbalance:5-25")
    ('class-imbalance', 5, 25)
    """
    match = re.fullmatch(r"(?:([^\d:].*?)(?::|$))?(?:(\d{1,99})(?:-(\d{1,99}))?)?", text)
    if not match or not text or (match[1] in (None, "fixed") and not match[2]):
        raise SettingsError(f"Shots {text!r} are not valid; write any-shot:1-50 or fixed:5.")
    rule = match[1] or "fixed"
    if rule not in SHOT_RULES:
        raise SettingsError(f"There is no shot rule {rule!r}{suggestion(rule, SHOT_RULES)}")
    least, most = (1, 50) if match[2] is None else (int(match[2]), int(match[3] or match[2]))
    if rule == "fixed" and least != most:
        raise SettingsError(
            f"Shots {text!r} are a range without a rule; write for example any-shot:{least}-{most}."
        )
    if not 1 <= least <= most:
        raise SettingsError(f"Shots {text!r} need a range LO-HI with 1 ≤ LO ≤ HI.")
    if most > MAX_NUMBER:
        raise SettingsError(
            f"Shots {text!r} ask for {most} images a class, but at most {MAX_NUMBER:,} are allowed."
        )
    return rule, least, most
