"""Experiments: tables and figures as data, and one runner for all of them.

An :class:`Experiment` says which models are trained on what, what they are tested on, and what is drawn. The paper's
nine are in :mod:`anyshot.experiments.paper`; anyone's own is a file with an ``EXPERIMENT``.
"""

from __future__ import annotations

from anyshot.experiments.experiment import (
    Block,
    Column,
    Experiment,
    Model,
    Picture,
    Published,
    published,
)

__all__ = ["Block", "Column", "Experiment", "Model", "Picture", "Published", "published"]
