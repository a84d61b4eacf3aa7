"""Registries of methods, bodies, statistics, shot rules, metrics and experiments.

A registry maps short names to import paths and imports an object when it is first used. Anything
that is not registered is named by its import path, ``folder/file.py:NAME`` or
``package.module:NAME`` (see :mod:`anyshot.core.code_loading`).

>>> list(BODIES), "resnet" in BODIES, "nets.py:mine" in BODIES
(['conv4', 'conv4-depths', 'conv4-unit', 'resnet12'], False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from anyshot.core.code_loading import (
    IMPORT_PATH,
    absolute_path,
    import_path,
    is_run_copy,
    load_object,
)
from anyshot.core.errors import SettingsError

T = TypeVar("T")


class Registry:
    """Objects of one kind by short name or by import path.

    Parameters
    ----------
    kind : str
        What the objects are, for messages: "method".
    builtin : mapping of str to str
        Short name -> import path of the objects that come with anyshot.
    """

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self._builtin = builtin
        self._registered: dict[str, Any] = {}  # name -> object

    def __iter__(self) -> Iterator[str]:
        return iter([*self._builtin, *self._registered])

    def __len__(self) -> int:
        return len(self._builtin) + len(self._registered)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in [*self]:
            return name in [*self]
        match = IMPORT_PATH.fullmatch(name)
        # "fixed:x" is a typing error, not an object x of a module "fixed"
        return match is not None and match["module"] not in [*self]

    def __getitem__(self, name: str) -> Any:
        """Return the object, importing it if necessary."""
        by_path = {import_path(each): each for each in self._registered.values()}
        registered = {**self._registered, **by_path}
        if name in registered:
            return registered[name]
        if name not in self:
            raise SettingsError(
                f"There is no {self.kind} {name!r}; choose one of {', '.join(self)}, "
                "or write FILE.py:NAME or MODULE:NAME."
            )
        return load_object(self._builtin.get(name, name))

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an object under a short name.

        Parameters
        ----------
        name : str
            A name that is not taken and is not an import path.

        Raises
        ------
        SettingsError
            If the name is taken or is an import path. Registering the same object again is allowed
            (notebooks do it).

        Examples
        --------
        >>> @BODIES.register("conv4")
        ... def small(image_size, channels=32): ...
        Traceback (most recent call last):
        anyshot.core.errors.SettingsError: The body name 'conv4' is taken; choose another.
        """

        def decorate(registered: T) -> T:
            if is_run_copy(registered):  # a run's copy must not replace the code of this process
                return registered
            previous = self._registered.get(name, registered)
            taken = name in self._builtin or import_path(previous) != import_path(registered)
            if IMPORT_PATH.fullmatch(name):
                raise SettingsError(
                    f"The {self.kind} name {name!r} is an import path; choose a short name."
                )
            if taken:
                raise SettingsError(f"The {self.kind} name {name!r} is taken; choose another.")
            self._registered[name] = registered
            return registered

        return decorate

    def resolve(self, names: Sequence[str]) -> dict[str, Any]:
        """Return several objects by display name; two objects must not share one."""
        shown = [display_name(name) for name in names]
        if repeated := [name for name in shown if shown.count(name) > 1]:
            raise SettingsError(
                f"Two of the {self.kind}s are called {repeated[0]!r}; "
                "name each once, or rename one of them."
            )
        return {label: self[name] for label, name in zip(shown, names, strict=True)}

    def is_registered(self, path: str) -> bool:
        """Return whether this process has registered the object with this import path."""
        return path in map(import_path, self._registered.values())

    def is_builtin(self, name: str) -> bool:
        """Return whether the name is a short name that comes with anyshot."""
        return name in self._builtin

    def canonical_name(self, name: str) -> str:
        """Return the name in a form that does not depend on the working directory or process.

        Built-in names stay, registered names become import paths, and files get absolute paths.
        """
        if name in self._registered:
            path = import_path(self._registered[name])
            # an object defined inside a function has no import path: only this process knows it
            return path if IMPORT_PATH.fullmatch(path) else name
        return absolute_path(name)


METHODS = Registry(
    "method",
    {
        "maml": "anyshot.methods.maml:MAML",
        "meta-sgd": "anyshot.methods.meta_sgd:MetaSGD",
        "mt-net": "anyshot.methods.mt_net:MTNet",
        "abml": "anyshot.methods.abml:ABML",
        "protonet": "anyshot.methods.protonet:ProtoNet",
        "proto-maml": "anyshot.methods.proto_maml:ProtoMAML",
        "taml": "anyshot.methods.taml:TAML",
        "anil": "anyshot.methods.anil:ANIL",
        "r2d2": "anyshot.methods.r2d2:R2D2",
        "simpleshot": "anyshot.methods.simpleshot:SimpleShot",
        "rfs": "anyshot.methods.rfs:RFS",
    },
)  #: subclasses of :class:`anyshot.Method`
BODIES = Registry(
    "body",
    {
        "conv4": "anyshot.models.bodies.conv4:conv4",
        "conv4-depths": "anyshot.models.bodies.conv4_depths:conv4_depths",
        "conv4-unit": "anyshot.models.bodies.conv4_unit:conv4_unit",
        "resnet12": "anyshot.models.bodies.resnet12:resnet12",
    },
)  #: functions (image size, channels) → :class:`anyshot.Body`
STATISTICS = Registry(
    "statistic",
    {
        name: f"anyshot.methods.set_statistics:{name}"
        for name in ("mean", "N", "var", "skewness", "kurtosis")
    },
)  #: functions of :class:`anyshot.methods.set_statistics.FeatureSets` → [sets, width]
ENCODERS = Registry(
    "task encoder",
    {
        "convolutional": "anyshot.methods.task_encoder:TaskEncoder",
        "normalized": "anyshot.methods.task_encoder:NormalizedTaskEncoder",
    },
)  #: modules (options, body, generator, start, adapt_body) → Posterior; see TaskEncoder
POOLINGS = Registry(
    "pooling",
    {
        "statistics": "anyshot.methods.pooling:StatisticsPooling",
        "attention": "anyshot.methods.pooling:AttentionPooling",
    },
)  #: modules (width, options) of (features, members, cardinality) → [sets, 4 · width]
SHOT_RULES = Registry(
    "shot distribution",
    {
        "any-shot": "anyshot.data.shots:any_shot",
        "class-imbalance": "anyshot.data.shots:class_imbalance",
        "task-imbalance": "anyshot.data.shots:task_imbalance",
        "fixed": "anyshot.data.shots:fixed",
        "linear": "anyshot.data.shots:linear",
        "step": "anyshot.data.shots:step",
        "long-tailed": "anyshot.data.shots:long_tailed",
        "random": "anyshot.data.shots:random_sizes",
    },
)  #: functions (rng, way, least, most) → support images of each class
METRICS = Registry(
    "metric", {"brier": "anyshot.evaluation.metrics.extra:brier"}
)  #: functions (probabilities, labels, shots) → a number for a task, added to the standard metrics
EXPERIMENTS = Registry(
    "experiment",
    {
        "any-shot": "anyshot.experiments.paper:ANY_SHOT",
        "multi-dataset": "anyshot.experiments.paper:MULTI_DATASET",
        "ood": "anyshot.experiments.paper:OOD",
        "task-imbalance": "anyshot.experiments.paper:TASK_IMBALANCE",
        "class-imbalance": "anyshot.experiments.paper:CLASS_IMBALANCE",
        "bayesian": "anyshot.experiments.paper:BAYESIAN",
        "encoding": "anyshot.experiments.paper:ENCODING",
        "statistics": "anyshot.experiments.paper:STATISTICS",
        "initialisation": "anyshot.experiments.paper:INITIALISATION",
        "imbalance": "anyshot.experiments.imbalance:IMBALANCE",
        "standard": "anyshot.experiments.standard:STANDARD",
        "standard-64": "anyshot.experiments.standard:STANDARD_64",
        "standard-miniimagenet": "anyshot.experiments.standard:STANDARD_MINI",
    },
)  #: objects of :class:`anyshot.experiments.Experiment`


def display_name(name: str) -> str:
    """Return the name to show: ``ANIL`` for ``folder/file.py:ANIL``."""
    return name.rpartition(":")[2]
