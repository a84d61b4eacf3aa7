"""Open an image set by its name or path."""

from __future__ import annotations

import os
from pathlib import Path

from anyshot.core.atomic_folders import remove_stale_temporaries
from anyshot.core.errors import DataError
from anyshot.core.files import cache_folder
from anyshot.data.class_splits import SplitPolicy, default_shares
from anyshot.data.embedded.digits import open_digits
from anyshot.data.embedded.glyphs import open_glyphs, open_letters
from anyshot.data.folder import open_folder
from anyshot.data.image_set import ImageSet
from anyshot.data.published import CATALOGUE, open_prepared

EMBEDDED = {"glyphs": open_glyphs, "letters": open_letters, "digits": open_digits}
CACHE_FOLDERS = (".", "datasets", "folders")  # parts of the cache folder that hold image sets


def open_images(
    name_or_path: str | Path,
    *,
    size: int | None = None,
    seed: int = 0,
    split_policy: SplitPolicy = default_shares,
) -> ImageSet:
    """Open an image set by name, or a folder by its path.

    Parameters
    ----------
    name_or_path : str or Path
        Name of an embedded set ("glyphs", "letters", "digits") or of a published one ("cifar-fs",
        ...), folder of a saved image set, or folder of images (`FOLDER/CLASS/*` or
        `FOLDER/{train,val,test}/CLASS/*`).
    size : int, optional
        Side of the square images in pixels. Default: the size of the set; 32 for a folder of
        images.
    seed : int
        Seed of the class split of a folder of images without split folders. Named sets have a fixed
        split.
    split_policy : callable
        Shares of the classes in train, validation and test of such a folder
        (see :mod:`anyshot.data.class_splits`).

    Returns
    -------
    ImageSet

    Raises
    ------
    DataError
        The set does not exist, is damaged, or has another image size.
    NotPreparedError
        The set is published and not prepared yet (`anyshot data prepare NAME`).

    Examples
    --------
    >>> open_images("digits")
    ImageSet('digits', 1797 images 32x32, classes: test 10)
    """
    name = str(name_or_path)
    path = Path(os.path.expanduser(name))
    for folder in CACHE_FOLDERS:
        remove_stale_temporaries(cache_folder() / folder)
    if name in EMBEDDED:
        images = EMBEDDED[name]()
    elif name in CATALOGUE:
        images = open_prepared(CATALOGUE[name])
    elif name and os.path.isfile(path / "set.json"):
        images = ImageSet.open(path)
    elif name and os.path.isdir(path):
        images = open_folder(path, size=size, seed=seed, split_policy=split_policy)
    else:
        known = ", ".join([*EMBEDDED, *CATALOGUE])
        raise DataError(f"There is no image set or folder {name!r}; the named sets are {known}.")
    if size is not None and images.size != (size, size):
        height, width = images.size
        raise DataError(
            f"The images of {name!r} are {height}x{width}, not {size}x{size}; omit the size to use "
            "them as they are."
        )
    return images
