"""Fashion-MNIST: 10,000 official test images, 28 x 28 enlarged to 32 x 32, for testing only."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import enlarge
from anyshot.data.published.readers import check_integers, damaged_file_error, read_idx

SIDE = 32
ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `t10k-images-idx3-ubyte.gz` and `t10k-labels-idx1-ubyte.gz`, compressed or not."""
    images = source.find_first("t10k-images*")
    labels = source.find_first("t10k-labels*")
    return _read_classes(images, labels, splits) if images and labels else None


def _read_classes(images_file: Path, labels_file: Path, splits: Splits) -> ClassImages:
    images = read_idx(images_file)
    labels = check_integers(labels_file, "its labels", read_idx(labels_file), 0, 9)
    if images.shape != (labels.size, 28, 28):
        shape = list(images.shape)
        raise damaged_file_error(
            images_file, f"it has shape {shape} for {labels.size} labels, not [n, 28, 28]"
        )
    for label, name in enumerate(splits["test"]):
        chosen = images[labels == label]
        if not len(chosen):
            raise damaged_file_error(labels_file, f"it has no label {label}")
        yield name, enlarge(chosen, SIDE)


DATASET = PublishedDataset(
    name="fashion-mnist",
    title="Fashion-MNIST",
    images=10_000,
    side=SIDE,
    terms="MIT",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    source_files="t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz",
    patterns=("t10k-images*", "t10k-labels*"),
    read=read,
    images_per_class=1000,
    remotes=(
        RemoteFile(
            f"{ADDRESS}t10k-images-idx3-ubyte.gz",
            "bef4ecab320f06d8554ea6380940ec79",
            size=4_422_102,
        ),
        RemoteFile(
            f"{ADDRESS}t10k-labels-idx1-ubyte.gz",
            "bb300cfdad3c16e7a12a480ee83cd310",
            size=5_148,
        ),
    ),
)
