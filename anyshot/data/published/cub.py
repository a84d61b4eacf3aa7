"""CUB-200-2011: 200 species of birds, 84 x 84, split 100/50/50 by class."""

from __future__ import annotations

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names, decode_groups, group_by_folder

SIDE = 84


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `CUB_200_2011.tgz`: image files in folders such as images/001.Black_footed_Albatross."""
    folders = group_by_folder(source, class_names(splits))
    return decode_groups(folders, SIDE) if folders else None


DATASET = PublishedDataset(
    name="cub",
    title="Caltech-UCSD Birds 200-2011",
    images=11_788,
    side=SIDE,
    terms="non-commercial research and education",
    homepage="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    source_files="CUB_200_2011.tgz",
    patterns=("*.jpg",),  # segmentations are PNG files in folders of the same names
    read=read,
    remotes=(
        RemoteFile(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            "97eceeb196236b17998738112f37df78",
            size=1_150_585_339,
        ),
    ),
)
