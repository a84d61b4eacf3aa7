"""GTSRB, German traffic signs: the training images of 43 signs, 32 x 32, for testing only."""

from __future__ import annotations

import re

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import PICTURES, class_names, decode_groups, group_by_folder

SIDE = 32


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`GTSRB_Final_Training_Images.zip`: pictures in Images/00000 to Images/00042; or folders "00014 Stop"."""
    folders = group_by_folder(tree, class_names(splits), key=_number)
    return decode_groups(folders, SIDE) if folders else None


def _number(folder: str) -> str:
    """The five digits with which a class begins, "00014 Stop" or "00014"; other folders have none."""
    number = re.match(r"\d{5}(?= |$)", folder)
    return number[0] if number else ""


DATASET = PublishedDataset(
    name="gtsrb",
    title="German Traffic Signs (GTSRB)",
    images=39_209,
    side=SIDE,
    terms="no licence stated; cite Stallkamp et al. 2012",
    homepage="https://benchmark.ini.rub.de/gtsrb_dataset.html",
    source_files="GTSRB_Final_Training_Images.zip",
    patterns=PICTURES,
    read=read,
    remotes=(
        RemoteFile(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB_Final_Training_Images.zip",
            "f33fd80ac59bff73c82d25ab499e03a3",
            size=276_294_756,
        ),
    ),
    kind="signs",
)
