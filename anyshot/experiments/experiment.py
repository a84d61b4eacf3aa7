"""What an experiment is: models (rows), blocks of columns, what is drawn, and what the paper says.

>>> mine = Experiment(
...     "mine", "Does it pay on digits?",
...     models=(Model("Meta-SGD", "meta-sgd"), Model("Bayesian TAML", "taml")),
...     blocks=(Block("glyphs", (Column("glyphs"), Column("digits", "fixed:5"))),),
... )
>>> [column.label for column in mine.columns]
['glyphs', 'digits, fixed:5']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from anyshot.core.errors import AnyshotError
from anyshot.core.options import suggestion


class Published(NamedTuple):
    """A published accuracy in per cent, with the half-width of its interval."""

    accuracy: float
    interval: float


@dataclass(frozen=True)
class Model:
    """A row: a method, what changes in its settings, how it predicts in tests, and what changes in its training."""

    name: str  #: in the table
    method: str = "taml"
    change: Mapping[str, Any] = field(default_factory=dict, hash=False)  #: of its MethodSettings
    test: Mapping[str, Any] = field(default_factory=dict, hash=False)  #: of those, in tests alone
    train: Mapping[str, Any] = field(default_factory=dict, hash=False)  #: of its TrainSettings


@dataclass(frozen=True)
class Column:
    """What models are tested on."""

    images: str
    shots: str = ""  #: those of training, where nothing is said
    name: str = ""  #: in the table
    paper: Mapping[str, Published] = field(default_factory=dict, hash=False)  #: by the model's name

    @property
    def label(self) -> str:
        """What to call it in a table."""
        return self.name or self.set + (f", {self.shots}" if self.shots else "")

    @property
    def set(self) -> str:
        """The image set's name, or the last part of its path."""
        return Path(self.images).name


@dataclass(frozen=True)
class Picture:
    """A figure of some models of a block: ``kind`` is one of those in :mod:`anyshot.experiments.figures`."""

    kind: str
    title: str
    models: tuple[str, ...]  #: by their names
    columns: tuple[Column, ...] = ()  #: whose tasks are looked at; none: those of the block
    values: tuple[int, ...] = ()  #: where the kind asks for some: numbers of samples
    note: str = ""  #: what else to say below it, such as the paper's numbers


@dataclass(frozen=True)
class Block:
    """What models are trained on, and the columns that they are tested in."""

    preset: str  #: the training, by its name in :mod:`anyshot.training.presets`
    columns: tuple[Column, ...] = ()
    images: tuple[str, ...] = ()  #: instead of those that the preset learns from
    shots: str = ""  #: instead of the preset's
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table, its figures, and what is behind them."""

    name: str
    title: str
    models: tuple[Model, ...]
    blocks: tuple[Block, ...]
    reference: str = (
        ""  #: the model that others are compared with; the last one, where nothing is said
    )
    seeds: int = 3  #: of each model
    seeds_short: int = 1  #: of each model at the scale ``short``
    tasks: int = 3000  #: of each test

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        drawn = [
            name for block in self.blocks for picture in block.pictures for name in picture.models
        ]
        for name in [*([self.reference] if self.reference else []), *drawn]:
            if name not in names:
                raise AnyshotError(
                    f"The experiment {self.name!r} has no model {name!r}{suggestion(name, names)}"
                )
        if not names or len(set(names)) < len(names) or not self.blocks:
            raise AnyshotError(
                f"The experiment {self.name!r} needs models of different names, and at least one block."
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of all blocks."""
        return tuple(column for block in self.blocks for column in block.columns)

    @property
    def compared_with(self) -> str:
        """The name of the model that others are compared with."""
        return self.reference or self.models[-1].name

    def model(self, name: str) -> Model:
        """The model of a name."""
        return next(model for model in self.models if model.name == name)


def published(table: str) -> list[dict[str, Published]]:
    """The columns of a table as text, each by the rows' names.

    >>> published('''
    ... MAML      71.55±0.23  45.17±0.22
    ... Meta-SGD  72.71±0.21  46.45±0.24
    ... ''')[1]["Meta-SGD"]
    Published(accuracy=46.45, interval=0.24)
    """
    rows = {}
    for line in table.strip().splitlines():
        name = re.split(r"\s+[\d.]+±", line.strip())[0]
        rows[name] = [
            Published(float(a), float(b)) for a, b in re.findall(r"([\d.]+)±([\d.]+)", line)
        ]
    widths = {len(numbers) for numbers in rows.values()}
    if len(widths) != 1:
        raise AnyshotError(
            f"The rows of a published table have {sorted(widths)} numbers, but should have as many each."
        )
    return [
        {name: numbers[place] for name, numbers in rows.items()} for place in range(widths.pop())
    ]
