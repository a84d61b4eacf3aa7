"""GTSRB, German traffic signs: the training images of 43 signs, 32 x 32, for testing only."""

from __future__ import annotations

import re

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import (
    IMAGE_FILES,
    class_names,
    decode_groups,
    group_by_folder,
)

SIDE = 32


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `GTSRB_Final_Training_Images.zip` (folders Images/00014), or folders "00014 Stop"."""
    folders = group_by_folder(source, class_names(splits), key=_class_number)
    return decode_groups(folders, SIDE) if folders else None


def _class_number(folder: str) -> str:
    """Return the five digits at the start of "00014 Stop" or "00014"; "" for other folders."""
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
    patterns=IMAGE_FILES,
    read=read,
    split_images={"test": 39_209},
    remotes=(
        RemoteFile(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
            "GTSRB_Final_Training_Images.zip",
            "f33fd80ac59bff73c82d25ab499e03a3",
            size=276_294_756,
        ),
    ),
    kind="signs",
)
