"""Fit an experiment to image sets: chosen ones, or those that are ready on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from anyshot.core.errors import DataError, SettingsError
from anyshot.data import CATALOGUE, EMBEDDED
from anyshot.data.published import is_prepared
from anyshot.experiments.experiment import Block, Column, Experiment, is_variant
from anyshot.experiments.scale import DataChoice
from anyshot.training.presets import preset


def is_available(images: str) -> bool:
    """Whether this image set can be opened on this machine."""
    if images in CATALOGUE:
        return is_prepared(CATALOGUE[images])
    return images in EMBEDDED or os.path.isdir(os.path.expanduser(images))


def check_exists(data: DataChoice) -> None:
    """Refuse names that are neither a folder nor a named set, prepared or not."""
    for name in (*data.train, *data.test):
        if name not in CATALOGUE and not is_available(name):
            known = ", ".join([*EMBEDDED, *CATALOGUE])
            raise DataError(
                f"There is no image set or folder {name!r}; the named sets are {known}."
            )


def training_sets(block: Block) -> tuple[str, ...]:
    """The image sets from which a block's models learn."""
    return block.images or preset(block.preset).images


def all_sets(experiment: Experiment) -> list[str]:
    """Every image set of the experiment, once: of training, of columns, of figures."""
    names = [name for block in experiment.blocks for name in training_sets(block)]
    names += [column.images for column in _all_columns(experiment)]
    return list(dict.fromkeys(names))


def with_data(experiment: Experiment, data: DataChoice) -> Experiment:
    """Replace training sets by ``data.train`` and other test sets by ``data.test``.

    The new columns have no numbers of the paper. Blocks that became equal are merged.
    """
    blocks: dict[str, Block] = {}
    for block in [block for block in experiment.blocks if block.columns] or experiment.blocks:
        figures = tuple(
            replace(spec, columns=_replace_sets(block, spec.columns, data))
            for spec in block.figures
        )
        columns = _replace_sets(block, block.columns, data)
        changed = replace(block, columns=columns, images=data.train, figures=figures)
        blocks.setdefault(block.shots or preset(block.preset).task.shots, changed)
    return replace(experiment, blocks=tuple(blocks.values()))


def _replace_sets(block: Block, columns: Sequence[Column], data: DataChoice) -> tuple[Column, ...]:
    replaced = []
    for column in columns:
        trained_on = column.images in training_sets(block)
        sets = data.train if trained_on or not data.test else data.test
        for images in sets:
            new = Column(images, column.shots or block.shots, test=column.test)
            # columns that differ in their settings alone need different names
            name = f"{new.label}, {column.name}" if column.test else ""
            replaced.append(replace(new, name=name))
    return tuple(dict.fromkeys(replaced))


def select_columns(experiment: Experiment, images: Sequence[str]) -> Experiment:
    """Keep only the columns of these image sets."""
    known = list(dict.fromkeys(column.images for column in _all_columns(experiment)))
    for name in images:
        if name not in known:
            raise SettingsError(
                f"{experiment.name} has no column of {name!r}; it has {', '.join(known)}."
            )
    return replace(experiment, blocks=_filter(experiment, lambda column: column.images in images))


def select_models(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """Keep only these models and their variants, whose names continue with a comma."""
    for name in names:
        if not any(is_variant(model.name, name) for model in experiment.models):
            known = ", ".join(model.name for model in experiment.models if not model.base)
            raise SettingsError(f"{experiment.name} has no model {name!r}; it has {known}.")
    kept = [m for m in experiment.models if any(is_variant(m.name, name) for name in names)]
    known_names = {model.name for model in kept}
    models = tuple(m if m.base in known_names else replace(m, base="") for m in kept)
    blocks = []
    for block in experiment.blocks:
        figures = tuple(spec for spec in block.figures if known_names.issuperset(spec.models))
        blocks.append(replace(block, figures=figures))
    reference = experiment.reference if experiment.reference in known_names else ""
    return replace(experiment, models=models, blocks=tuple(blocks), reference=reference)


def keep_available(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """Drop blocks and columns whose image sets are not on this machine; name the sets dropped."""
    blocks = tuple(
        replace(block, images=tuple(filter(is_available, training_sets(block))))
        for block in experiment.blocks
    )
    remaining = tuple(
        block
        for block in _filter(
            replace(experiment, blocks=blocks), lambda column: is_available(column.images)
        )
        if block.images
    )
    sentences = [
        f"{name} is not prepared on this machine and was left out (anyshot data prepare {name})."
        if name in CATALOGUE
        else f"There is no folder {name}, so it was left out."
        for name in all_sets(experiment)
        if not is_available(name)
    ]
    if not remaining:
        raise DataError(
            f"No part of {experiment.name} can run with the image sets on this machine. "
            f"{' '.join(sentences)}"
        )
    return replace(experiment, blocks=remaining), sentences


def _all_columns(experiment: Experiment) -> list[Column]:
    in_figures = [
        column for block in experiment.blocks for spec in block.figures for column in spec.columns
    ]
    return [*experiment.columns, *in_figures]


def _filter(experiment: Experiment, keep: Callable[[Column], bool]) -> tuple[Block, ...]:
    """The blocks with the columns to keep; figures and blocks without such columns are dropped."""
    blocks = []
    for block in experiment.blocks:
        columns = tuple(filter(keep, block.columns))
        figures = []
        for spec in block.figures:
            selected = tuple(filter(keep, spec.columns))
            if selected or (columns and not spec.columns):
                figures.append(replace(spec, columns=selected))
        blocks.append(replace(block, columns=columns, figures=tuple(figures)))
    return tuple(block for block in blocks if block.columns or block.figures)
