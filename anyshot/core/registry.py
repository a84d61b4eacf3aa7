"""The open lists: methods, bodies, statistics, shot rules, metrics, experiments. What they hold goes by name, all else
by its place.

A place is an object in a file, ``folder/file.py:Name``, or in a module that Python can import, ``package.module:Name``.
The lists themselves hold places, loaded when they are first wanted: reading names loads nothing.

>>> list(BODIES), "resnet" in BODIES, "nets.py:mine" in BODIES
(['conv4', 'resnet12'], False, True)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from anyshot.core.errors import AnyshotError

IMPORT_PATH = re.compile(r"(?P<file>.+\.py|(?P<module>[^\W\d][\w.]*)):(?P<name>[^\W\d][\w.]*)")
T = TypeVar("T")


class Registry:
    """What there is of one kind, by name; and anything of that kind, by its place."""

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind, self._places = kind, places
        self._own: dict[str, Any] = {}  # name -> object, of those that were registered

    def __iter__(self) -> Iterator[str]:
        return iter([*self._places, *self._own])

    def __len__(self) -> int:
        return len(self._places) + len(self._own)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in [*self]:
            return name in [*self]
        match = IMPORT_PATH.fullmatch(name)
        return match is not None and match["module"] not in [
            *self
        ]  # "fixed:x" is a slip, not a module

    def __getitem__(self, name: str) -> Any:
        """The object itself."""
        own = {**self._own, **{import_path(made): made for made in self._own.values()}}
        if name in own:
            return own[name]
        if name not in self:
            raise AnyshotError(
                f"There is no {self.kind} {name!r}; there are {', '.join(self)}, or write FILE.py:NAME or MODULE:NAME."
            )
        return load_object(self._places.get(name, name))

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate what shall be known by a short name, too. A name that is taken is refused.

        >>> @BODIES.register("conv4")
        ... def mine(image_size, channels=32): ...
        Traceback (most recent call last):
        anyshot.core.errors.AnyshotError: There is already a body called 'conv4'; choose another name.
        """

        def decorate(made: T) -> T:
            if (
                name in self._places
                or IMPORT_PATH.fullmatch(name)
                or import_path(self._own.get(name, made)) != import_path(made)
            ):
                raise AnyshotError(
                    f"There is already a {self.kind} called {name!r}; choose another name."
                )
            self._own[name] = made
            return made

        return decorate

    def resolve(self, names: Sequence[str]) -> dict[str, Any]:
        """Several of them by the names to show, which must differ."""
        shown = [display_name(name) for name in names]
        if twice := [name for name in shown if shown.count(name) > 1]:
            raise AnyshotError(
                f"Two of the {self.kind}s are called {twice[0]!r}; name each once, or rename one."
            )
        return {name: self[where] for name, where in zip(shown, names, strict=True)}

    def is_builtin(self, name: str) -> bool:
        """Whether the name is one of anyshot's own."""
        return name in self._places

    def canonical_name(self, name: str) -> str:
        """The name in a form that means the same wherever it is read: one of anyshot's own, or a full place."""
        if name in self._own:
            where = import_path(self._own[name])
            return (
                where if IMPORT_PATH.fullmatch(where) else name
            )  # inside a function: known to this process alone
        match = IMPORT_PATH.fullmatch(name)
        if match is None or match["module"]:
            return name
        return f"{Path(match['file']).expanduser().resolve()}:{match['name']}"


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
    },
)  #: subclasses of :class:`anyshot.Method`
BODIES = Registry(
    "body",
    {
        "conv4": "anyshot.models.bodies.conv4:conv4",
        "resnet12": "anyshot.models.bodies.resnet12:resnet12",
    },
)  #: functions (image size, channels) → :class:`anyshot.Body`
STATISTICS = Registry(
    "statistic",
    {
        name: f"anyshot.methods.set_statistics:{name}"
        for name in ("mean", "N", "var", "skewness", "kurtosis")
    },
)  #: functions of :class:`anyshot.methods.set_statistics.Sets` → [sets, width]
SHOT_RULES = Registry(
    "shot distribution",
    {
        "any-shot": "anyshot.data.tasks:any_shot",
        "class-imbalance": "anyshot.data.tasks:class_imbalance",
        "task-imbalance": "anyshot.data.tasks:task_imbalance",
        "fixed": "anyshot.data.tasks:fixed",
    },
)  #: functions (rng, way, least, most) → support images of each class
METRICS = Registry(
    "metric", {"brier": "anyshot.evaluation.metrics.extra:brier"}
)  #: functions (probabilities, labels, shots) → a number for a task, beside those that every test has
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
    },
)  #: objects of :class:`anyshot.experiments.Experiment`


def display_name(name: str) -> str:
    """The name to show: ANIL for folder/file.py:ANIL."""
    return name.rpartition(":")[2]


# ---------------------------------------------------------------------------------------------------- places
def import_path(made: Any) -> str:
    """Where an object is."""
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    if made.__module__ == "__main__" and file:
        return f"{Path(file).resolve()}:{made.__qualname__}"
    return f"{made.__module__}:{made.__qualname__}"


def load_object(where: str) -> Any:
    """The object at a place."""
    match = _parsed(where)
    try:
        found: Any = (
            importlib.import_module(match["module"])
            if match["module"]
            else _run_file(Path(match["file"]))
        )
    except AnyshotError:
        raise
    except Exception as error:  # whatever somebody's file raises
        raise AnyshotError(
            f"{where!r} cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    for part in match["name"].split("."):
        if not hasattr(found, part):
            raise AnyshotError(f"There is no {match['name']!r} in {match['file']!r}.")
        found = getattr(found, part)
    return found


def _parsed(where: str) -> re.Match[str]:
    match = IMPORT_PATH.fullmatch(where)
    if match is None:
        raise AnyshotError(f"{where!r} is no place of code; write FILE.py:NAME or MODULE:NAME.")
    return match


def _run_file(path: Path) -> ModuleType:
    """The file as a module named by its full path. It is run again if it has changed, and never from kept bytecode."""
    path = path.expanduser().resolve()
    source, name = _read(path), str(path)
    digest = hashlib.sha256(source).hexdigest()
    if name in sys.modules and sys.modules[name].__dict__.get("__digest__") == digest:
        return sys.modules[name]
    module = ModuleType(name)
    module.__dict__.update(__file__=name, __digest__=digest)
    sys.modules[name] = module
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def user_code_location(error: BaseException) -> str | None:
    """Where, in somebody's own file, an error comes from; None if such code had no part in it."""
    frames = [(f.f_globals, line) for f, line in traceback.walk_tb(error.__traceback__)]
    lines = [f"{names['__file__']}, line {line}" for names, line in frames if "__digest__" in names]
    return lines[-1] if lines else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AnyshotError(f"The code in '{path}' cannot be read: {error.strerror}.") from error


# ---------------------------------------------------------------------------------------------------- whose code
Fingerprint = Mapping[str, str | None]  #: "file", its "sha256", and the "version" of its package


def fingerprint(where: str) -> Fingerprint:
    """What tells the code at a place from other code."""
    match, version = IMPORT_PATH.fullmatch(where), None
    if match is None:  # registered inside a function
        return {"file": None, "sha256": None, "version": None}
    file = match["file"]
    if match["module"]:
        load_object(where)
        file = getattr(sys.modules[match["module"]], "__file__", None)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(match["module"].partition(".")[0])
    return {
        "file": file,
        "sha256": hashlib.sha256(_read(Path(file))).hexdigest() if file else None,
        "version": version,
    }


def verify_code(recorded: Mapping[str, Fingerprint]) -> None:
    """Refuse code that is not what was recorded, so that nobody computes with something else."""
    for where, then in recorded.items():
        now = fingerprint(where)
        if now["sha256"] != then.get("sha256"):
            before, after = (f"{str(one.get('sha256'))[:12]}…" for one in (then, now))
            raise AnyshotError(
                f"{where!r} is not what this run began with: '{now['file']}' has changed (SHA-256 {before} then, "
                f"{after} now). Bring that version back, or start a new run."
            )
