"""The published data sets by name."""

from __future__ import annotations

from anyshot.core.errors import DataError
from anyshot.core.options import suggestion
from anyshot.data.published import (
    aircraft,
    cifar_fs,
    cub,
    fashion_mnist,
    gtsrb,
    miniimagenet,
    omniglot,
    quickdraw,
    svhn,
    tieredimagenet,
    vgg_flower,
)
from anyshot.data.published.dataset import PublishedDataset

CATALOGUE: dict[str, PublishedDataset] = {
    module.DATASET.name: module.DATASET
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
        omniglot,
        tieredimagenet,
    )
}


def find_dataset(name: str) -> PublishedDataset:
    """Return the data set called `name`; the error for an unknown name suggests a similar one."""
    if name not in CATALOGUE:
        raise DataError(f"There is no data set {name!r}{suggestion(name, CATALOGUE)}")
    return CATALOGUE[name]
