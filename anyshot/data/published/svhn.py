"""SVHN, cropped digits: official test images for testing, 600 images per digit for validation.

Splits are by class name, so the validation classes are called "0 (validation)" and so on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.readers import check_integers, damaged_file_error, read_mat

ADDRESS = "http://ufldl.stanford.edu/housenumbers/"
VALIDATION_IMAGES = 600  # of each digit, the first ones in the file


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `test_32x32.mat` for testing and `val_32x32.mat` or `train_32x32.mat` for validation.

    One of the two splits is enough.
    """
    test = source.find_first("*test*.mat")
    validation = source.find_first("*val*.mat") or source.find_first("*train*.mat")
    return _read_classes(validation, test, splits) if test or validation else None


def _read_classes(validation: Path | None, test: Path | None, splits: Splits) -> ClassImages:
    for path, split, limit in (
        (validation, "validation", VALIDATION_IMAGES),
        (test, "test", None),
    ):
        if path is None:
            continue
        images, digits = _read_digits(path)
        for digit, name in enumerate(splits[split]):
            chosen = np.flatnonzero(digits == digit)[:limit]
            if not len(chosen):
                raise damaged_file_error(path, f"it has no digit {digit}")
            yield name, np.ascontiguousarray(images[..., chosen].transpose(3, 0, 1, 2))


def _read_digits(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 [32, 32, 3, n] and digits int64 [n]; the file uses 10 for zero."""
    images, labels = read_mat(path, "X", "y")
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, labels.size):
        content = f"{images.dtype} {list(images.shape)}"
        raise damaged_file_error(
            path, f"'X' is {content}, not uint8 [32, 32, 3, n] with n labels 'y'"
        )
    return images, check_integers(path, "its labels 'y'", labels.ravel(), 0, 10) % 10


DATASET = PublishedDataset(
    name="svhn",
    title="Street View House Numbers",
    images=26_032 + 10 * VALIDATION_IMAGES,
    side=32,
    terms="non-commercial use only",
    homepage=ADDRESS,
    source_files="test_32x32.mat and train_32x32.mat",
    patterns=("*test*.mat", "*train*.mat", "*val*.mat"),
    read=read,
    split_images={"validation": 10 * VALIDATION_IMAGES, "test": 26_032},
    remotes=(
        RemoteFile(f"{ADDRESS}test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", size=64_275_384),
        RemoteFile(
            f"{ADDRESS}train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", size=182_040_794
        ),
    ),
    optional_splits=("validation", "test"),
    kind="characters",
)
