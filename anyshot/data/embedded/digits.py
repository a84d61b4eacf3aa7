"""`digits`, the embedded out-of-distribution set: 1,797 handwritten digits, enlarged to 32 x 32.

The pixels (digits.npz) are those of `sklearn.datasets.load_digits`: the test part of "Optical
Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine Learning Repository,
CC BY 4.0).
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.data.image_set import ImageSet

SIDE = 32


def open_digits() -> ImageSet:
    """Open the digits: ten classes of 174 to 183 images, all in the test split."""
    images, labels = raw_digits()
    large = np.stack([_enlarge(image) for image in images])
    arrays = {str(digit): large[labels == digit] for digit in range(10)}
    notes = {"source": "UCI Optical Recognition of Handwritten Digits, CC BY 4.0"}
    return ImageSet.from_arrays("digits", arrays, {"test": list(arrays)}, notes, "characters")


def raw_digits() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the published digits: images uint8 [1797, 8, 8] in 0..16, labels uint8 [1797]."""
    with (
        as_file(files("anyshot.data.embedded").joinpath("digits.npz")) as path,
        np.load(path) as data,
    ):
        return data["images"], data["labels"]


def _enlarge(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Enlarge an image [8, 8] in 0..16 to [SIDE, SIDE, 3] in 0..255."""
    grey = np.rint(image * (255 / 16)).astype(np.uint8)
    return np.asarray(
        Image.fromarray(grey).resize((SIDE, SIDE), Image.Resampling.BICUBIC).convert("RGB")
    )
