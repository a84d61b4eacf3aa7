"""Experiments as data: models (rows), blocks of columns, figures, and the paper's numbers.

>>> experiment = Experiment(
...     "digits", "Does TAML help on digits?",
...     models=(Model("Meta-SGD", "meta-sgd"), Model("Bayesian TAML", "taml")),
...     blocks=(Block("glyphs", (Column("glyphs"), Column("digits", "fixed:5"))),),
... )
>>> [column.label for column in experiment.columns]
['glyphs', 'digits, fixed:5']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion


class Published(NamedTuple):
    """A published accuracy in per cent, with the half-width of its 95 % interval if known."""

    accuracy: float
    interval: float | None = None


@dataclass(frozen=True)
class Model:
    """A row of the table: a method with its changed settings.

    Models that differ only in ``test`` share their trained runs.

    Parameters
    ----------
    name : str
        The row's label.
    method : str
        A name in the registry of methods, or ``FILE.py:NAME``.
    change : Mapping[str, Any]
        Values that replace those of ``MethodSettings``.
    test : Mapping[str, Any]
        Values that replace those of ``MethodSettings`` in tests only.
    train : Mapping[str, Any]
        Values that replace those of ``TrainSettings``.
    base : str
        The model over which the table reports this one's gain; empty: none.
    """

    name: str
    method: str = "taml"
    change: Mapping[str, Any] = field(default_factory=dict, hash=False)
    test: Mapping[str, Any] = field(default_factory=dict, hash=False)
    train: Mapping[str, Any] = field(default_factory=dict, hash=False)
    base: str = ""


@dataclass(frozen=True)
class Column:
    """A column of the table: the image set and the shots of its test tasks.

    Parameters
    ----------
    images : str
        A data set's name, or a folder.
    shots : str
        A shot rule such as ``"fixed:5"``; empty: the rule of training.
    name : str
        The column's label; empty: made from ``images`` and ``shots``.
    paper : Mapping[str, Published]
        The paper's numbers by model name.
    test : Mapping[str, Any]
        Values that replace those of ``MethodSettings`` in the tests of this column.
    """

    images: str
    shots: str = ""
    name: str = ""
    paper: Mapping[str, Published] = field(default_factory=dict, hash=False)
    test: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def label(self) -> str:
        """The column's heading."""
        return self.name or self.set_name + (f", {self.shots}" if self.shots else "")

    @property
    def set_name(self) -> str:
        """The image set's name, or the last part of its path."""
        return Path(self.images).name


@dataclass(frozen=True)
class FigureSpec:
    """A figure to draw from measurements of some models.

    Parameters
    ----------
    kind : str
        One of :data:`anyshot.experiments.figures.KINDS`.
    title : str
        The figure's title in the report.
    models : tuple[str, ...]
        Names of the models that the figure shows.
    columns : tuple[Column, ...]
        The tasks that are measured; empty: the columns of the block.
    values : tuple[int, ...]
        Numbers of Monte Carlo samples, for the kinds that need them.
    note : str
        A sentence below the figure, for example the paper's numbers.
    """

    kind: str
    title: str
    models: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    values: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Block:
    """One training for all models, and the columns in which they are tested.

    Parameters
    ----------
    preset : str
        The settings of the training, by their name in :mod:`anyshot.training.presets`.
    columns : tuple[Column, ...]
        What the models are tested on.
    images : tuple[str, ...]
        Training sets that replace those of the preset.
    shots : str
        A shot rule that replaces that of the preset.
    figures : tuple[FigureSpec, ...]
        Figures of the models of this block.
    """

    preset: str
    columns: tuple[Column, ...] = ()
    images: tuple[str, ...] = ()
    shots: str = ""
    figures: tuple[FigureSpec, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table, its figures, and the runs behind them.

    Parameters
    ----------
    name : str
        The name of the output folder.
    title : str
        The title of the table.
    models : tuple[Model, ...]
        The rows.
    blocks : tuple[Block, ...]
        Trainings with their columns.
    reference : str
        The model that the others are compared with; empty: the last one.
    seeds : int
        Runs of each model.
    seeds_short : int
        Runs of each model at the scale ``short``.
    tasks : int
        Test tasks of each run and column.
    tasks_short : int, optional
        Test tasks at the scale ``short``; by default a tenth of ``tasks``.
    train_short : Mapping[str, Any]
        Values that replace those of ``TrainSettings`` at the scale ``short``.
    methods_short : Mapping[str, Mapping[str, Any]]
        By method, values that replace those of ``MethodSettings`` at the scale ``short``.
    """

    name: str
    title: str
    models: tuple[Model, ...]
    blocks: tuple[Block, ...]
    reference: str = ""
    seeds: int = 3
    seeds_short: int = 1
    tasks: int = 3000
    tasks_short: int | None = None
    train_short: Mapping[str, Any] = field(default_factory=dict, hash=False)
    methods_short: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        known = [model.name for model in self.models]
        named = [self.reference] if self.reference else []
        named += [model.base for model in self.models if model.base]
        named += [name for block in self.blocks for spec in block.figures for name in spec.models]
        for name in named:
            if name not in known:
                raise SettingsError(
                    f"The experiment {self.name!r} has no model {name!r}{suggestion(name, known)}"
                )
        if not known or len(set(known)) < len(known):
            raise SettingsError(
                f"The experiment {self.name!r} needs models with different names; it has {known}."
            )
        if not self.blocks:
            raise SettingsError(f"The experiment {self.name!r} needs at least one block.")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of all blocks."""
        return tuple(column for block in self.blocks for column in block.columns)

    @property
    def reference_model(self) -> str:
        """The name of the model that the others are compared with."""
        return self.reference or self.models[-1].name

    def model(self, name: str) -> Model:
        """Return the model with this name."""
        return next(model for model in self.models if model.name == name)


def is_variant(model: str, name: str) -> bool:
    """Whether a model has this name, or is a variant of the model of this name.

    >>> is_variant("MAML, ROS", "MAML"), is_variant("MAML", "MAML, ROS")
    (True, False)
    """
    return model == name or model.startswith(f"{name},")


def parse_published(table: str) -> list[dict[str, Published]]:
    """Read a table of published accuracies: one dictionary a column, by the names of the rows.

    >>> parse_published('''
    ... MAML      71.55±0.23  45.17±0.22
    ... Meta-SGD  72.71±0.21  46.45±0.24
    ... ''')[1]["Meta-SGD"]
    Published(accuracy=46.45, interval=0.24)
    """
    rows: dict[str, list[Published]] = {}
    for line in table.strip().splitlines():
        name = re.split(r"\s+[\d.]+±", line.strip())[0]
        numbers = re.findall(r"([\d.]+)±([\d.]+)", line)
        rows[name] = [Published(float(mean), float(interval)) for mean, interval in numbers]
    widths = {len(numbers) for numbers in rows.values()}
    if len(widths) != 1:
        raise SettingsError(
            f"The rows of a published table have {sorted(widths)} numbers; "
            "every row needs the same number."
        )
    return [
        {name: numbers[column] for name, numbers in rows.items()} for column in range(widths.pop())
    ]
