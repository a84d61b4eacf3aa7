"""Experiments: the paper's tables and figures as data, and one runner for all of them.

An :class:`Experiment` lists models, training sets, test columns and figures. The paper's nine are
in :mod:`anyshot.experiments.paper`; your own is a file that defines ``EXPERIMENT``. The way of an
experiment: :mod:`~anyshot.experiments.plan` turns it into jobs,
:mod:`~anyshot.experiments.reproduce` runs them, :mod:`~anyshot.experiments.results` collects their
measurements. This package may import every package but ``classifier`` and ``cli``.
"""

from __future__ import annotations

from anyshot.experiments.experiment import (
    Block,
    Column,
    Experiment,
    FigureSpec,
    Model,
    Published,
    parse_published,
)

__all__ = [
    "Block",
    "Column",
    "Experiment",
    "FigureSpec",
    "Model",
    "Published",
    "parse_published",
]
