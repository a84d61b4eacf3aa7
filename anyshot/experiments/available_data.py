"""An experiment on the image sets that there are: those asked for, and of the others those that are ready here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from anyshot.core.errors import AnyshotError
from anyshot.data import CATALOGUE, EMBEDDED
from anyshot.data.published import is_prepared as is_prepared
from anyshot.experiments.experiment import Block, Column, Experiment
from anyshot.experiments.scale import DataChoice
from anyshot.training.presets import preset


def is_available(images: str) -> bool:
    """Whether a set can be opened on this machine."""
    if images in CATALOGUE:
        return is_prepared(CATALOGUE[images])
    return images in EMBEDDED or os.path.isdir(os.path.expanduser(images))


def learned(block: Block) -> tuple[str, ...]:
    """The sets that a block's models learn from."""
    return block.images or preset(block.preset).images


def with_data(experiment: Experiment, data: DataChoice) -> Experiment:
    """The experiment on other sets: those learned from take the place of those learned from, others that of others.
    The paper has no numbers for them; blocks that then are alike become one."""
    blocks: dict[str, Block] = {}
    for block in [block for block in experiment.blocks if block.columns] or experiment.blocks:
        pictures = tuple(replace(p, columns=_moved(block, p.columns, data)) for p in block.pictures)
        columns = _moved(block, block.columns, data)
        changed = replace(block, columns=columns, images=data.learned, pictures=pictures)
        blocks.setdefault(block.shots, changed)
    return replace(experiment, blocks=tuple(blocks.values()))


def _moved(block: Block, columns: Sequence[Column], data: DataChoice) -> tuple[Column, ...]:
    found = []
    for column in columns:
        sets = data.learned if column.images in learned(block) or not data.others else data.others
        found += [Column(images, column.shots or block.shots) for images in sets]
    return tuple(dict.fromkeys(found))


def chosen(experiment: Experiment, images: Sequence[str]) -> Experiment:
    """The columns of some sets alone."""
    looked_at = [picture.columns for block in experiment.blocks for picture in block.pictures]
    known = [column.images for columns in (experiment.columns, *looked_at) for column in columns]
    for name in images:
        if name not in known:
            raise AnyshotError(
                f"{experiment.name} has no column of {name!r}; there are {', '.join(dict.fromkeys(known))}."
            )
    return replace(
        experiment, blocks=_with_columns(experiment, lambda column: column.images in images)
    )


def with_ready(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """What of the experiment can be done here, and sentences on what cannot."""
    missing: dict[str, None] = {}
    blocks = []
    for block in experiment.blocks:
        own = learned(block)
        some = tuple(name for name in own if is_available(name))
        looked_at = [
            *block.columns,
            *(column for picture in block.pictures for column in picture.columns),
        ]
        missing |= dict.fromkeys(
            name for name in (*own, *(c.images for c in looked_at)) if not is_available(name)
        )
        blocks.append(replace(block, images=some))
    kept = _with_columns(
        replace(experiment, blocks=tuple(blocks)), lambda column: is_available(column.images)
    )
    kept = tuple(block for block in kept if block.images)
    sentences = [
        f"{name} is not ready here and left out (anyshot data prepare {name})." for name in missing
    ]
    if not kept:
        raise AnyshotError(
            f"Nothing of {experiment.name} can be done with the images that are here. {' '.join(sentences)}"
        )
    return replace(experiment, blocks=kept), sentences


def _with_columns(experiment: Experiment, wanted: Callable[[Column], bool]) -> tuple[Block, ...]:
    """The blocks without the columns that are not wanted, and none that is left with nothing."""
    blocks = []
    for block in experiment.blocks:
        columns = tuple(filter(wanted, block.columns))
        pictures = []
        for picture in block.pictures:
            some = tuple(filter(wanted, picture.columns))
            if some or (columns and not picture.columns):
                pictures.append(replace(picture, columns=some))
        blocks.append(replace(block, columns=columns, pictures=tuple(pictures)))
    return tuple(block for block in blocks if block.columns or block.pictures)
