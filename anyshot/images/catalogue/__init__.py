"""The nine published data sets of the paper, one file each: what its official files are and how they become a set."""

from __future__ import annotations

from anyshot.images.catalogue import (
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
from anyshot.images.catalogue.entry import Entry, Remote
from anyshot.images.catalogue.prepare import is_ready, place_of, prepare

__all__ = ["CATALOGUE", "Entry", "Remote", "is_ready", "place_of", "prepare"]

CATALOGUE: dict[str, Entry] = {
    module.ENTRY.name: module.ENTRY
    for module in (cifar_fs, svhn, miniimagenet, cub, aircraft, quickdraw, vgg_flower, gtsrb, fashion_mnist)
}
