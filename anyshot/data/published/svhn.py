"""SVHN, cropped digits: the official test images for testing, 600 training images a digit for validation.

The same ten digits cannot be in two splits by name, so the validation classes are called "0 (validation)" and so on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.readers import check_integers, damaged_file, read_mat

ADDRESS = "http://ufldl.stanford.edu/housenumbers/"
VALIDATION = 600  # of each digit, the first ones in the file


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`test_32x32.mat`, and `val_32x32.mat` (a set-aside file) or else `train_32x32.mat`; one of the two will do."""
    test = tree.first_match("*test*.mat")
    validation = tree.first_match("*val*.mat") or tree.first_match("*train*.mat")
    return _classes(validation, test, splits) if test or validation else None


def _classes(validation: Path | None, test: Path | None, splits: Splits) -> ClassImages:
    for path, split, most in ((validation, "validation", VALIDATION), (test, "test", None)):
        if path is None:
            continue
        images, digits = _digits(path)
        for digit, name in enumerate(splits[split]):
            chosen = np.flatnonzero(digits == digit)[:most]
            if not len(chosen):
                raise damaged_file(path, f"it has no digit {digit}")
            yield name, np.ascontiguousarray(images[..., chosen].transpose(3, 0, 1, 2))


def _digits(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [32, 32, 3, n] and digits int64 [n]; the file writes 10 for zero."""
    images, labels = read_mat(path, "X", "y")
    if (
        images.dtype != np.uint8
        or images.shape[:3] != (32, 32, 3)
        or images.shape[3:] != (labels.size,)
    ):
        raise damaged_file(
            path,
            f"'X' is {images.dtype} {list(images.shape)}, not uint8 [32, 32, 3, n] with n labels 'y'",
        )
    return images, check_integers(path, "its labels 'y'", labels.ravel(), 0, 10) % 10


DATASET = PublishedDataset(
    name="svhn",
    title="Street View House Numbers",
    images=26_032 + 10 * VALIDATION,
    side=32,
    terms="non-commercial use only",
    homepage=ADDRESS,
    source_files="test_32x32.mat and train_32x32.mat",
    patterns=("*test*.mat", "*train*.mat", "*val*.mat"),
    read=read,
    remotes=(
        RemoteFile(f"{ADDRESS}test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", size=64_275_384),
        RemoteFile(
            f"{ADDRESS}train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", size=182_040_794
        ),
    ),
    optional_splits=("validation", "test"),
    kind="characters",
)
