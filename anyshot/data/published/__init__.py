"""The nine published data sets of the paper, one file each: what its official files are and how they become a set."""

from __future__ import annotations

import difflib

from anyshot.core.errors import AnyshotError
from anyshot.data.published import (
    aircraft,
    cifar_fs,
    cub,
    fashion_mnist,
    gtsrb,
    miniimagenet,
    quickdraw,
    svhn,
    vgg_flower,
)
from anyshot.data.published.dataset import PublishedDataset, Remote
from anyshot.data.published.prepare import check, is_ready, open_prepared, place_of, prepare

__all__ = [
    "CATALOGUE",
    "PublishedDataset",
    "Remote",
    "check",
    "find_dataset",
    "is_ready",
    "open_prepared",
    "place_of",
    "prepare",
]

CATALOGUE: dict[str, PublishedDataset] = {
    module.ENTRY.name: module.ENTRY
    for module in (
        cifar_fs,
        svhn,
        miniimagenet,
        cub,
        aircraft,
        quickdraw,
        vgg_flower,
        gtsrb,
        fashion_mnist,
    )
}


def find_dataset(name: str) -> PublishedDataset:
    """The entry called `name`, or a sentence with the nearest name."""
    if name not in CATALOGUE:
        near = difflib.get_close_matches(name, CATALOGUE, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CATALOGUE)}."
        raise AnyshotError(f"There is no data set {name!r}; {hint}")
    return CATALOGUE[name]
