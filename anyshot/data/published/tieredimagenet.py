"""tieredImageNet: 608 classes of ImageNet in 34 categories, 84 x 84, split 351/97/160 by category.

The classes are those of Ren et al. 2018, the images those of ILSVRC 2012. As in the published
code, each image is resized as a whole. The published pickles name classes by words that do not
identify them, so that they are not read.
"""

from __future__ import annotations

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, Splits
from anyshot.data.published.image_files import (
    IMAGE_FILES,
    class_names,
    decode_groups,
    group_by_folder,
)

SIDE = 84


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read the training images of ImageNet: image files in folders such as train/n01440764."""
    folders = group_by_folder(source, class_names(splits))
    return decode_groups(folders, SIDE, crop=False) if folders else None


DATASET = PublishedDataset(
    name="tieredimagenet",
    title="tieredImageNet",
    images=779_165,
    side=SIDE,
    terms="ImageNet's terms: non-commercial research and education",
    homepage="https://github.com/renmengye/few-shot-ssl-public",
    source_files="the training images of ILSVRC 2012, in a folder for each synset (n01440764, ...)",
    patterns=IMAGE_FILES,
    read=read,
    split_images={"train": 448_695, "validation": 124_261, "test": 206_209},
)
