"""Images grouped by class, and where they come from: embedded sets, published data sets, a person's own folder."""

from __future__ import annotations

import os
from pathlib import Path

from anyshot.core.atomic_folders import remove_stale_temporaries
from anyshot.core.errors import AnyshotError
from anyshot.core.files import cache_folder
from anyshot.data.class_splits import SplitPolicy, default_shares
from anyshot.data.embedded.digits import open_digits
from anyshot.data.embedded.glyphs import open_glyphs
from anyshot.data.folder import open_folder
from anyshot.data.image_set import ImageSet
from anyshot.data.published import CATALOGUE, open_prepared
from anyshot.data.storage import KINDS, SPLITS

__all__ = ["CATALOGUE", "EMBEDDED", "KINDS", "SPLITS", "ImageSet", "open_images"]

CACHED = (".", "datasets", "folders")  # where sets are made, in the cache folder
EMBEDDED = {"glyphs": open_glyphs, "digits": open_digits}


def open_images(
    name_or_path: str | Path,
    *,
    size: int | None = None,
    seed: int = 0,
    deal: SplitPolicy = default_shares,
) -> ImageSet:
    """Open an image set by name ("glyphs", "digits", "cifar-fs" ...), or a folder: of a saved set, or of pictures.

    size   side of the square images; None takes the set's own (32 for a folder of pictures)
    seed   deals classes to splits where a folder of pictures has none; named sets have one fixed split
    deal   in which shares (see `anyshot.data.class_splits`)

    >>> open_images("digits")
    ImageSet('digits', 1797 images 32x32, classes: test 10)
    """
    name = str(name_or_path)
    path = Path(os.path.expanduser(name))
    for place in CACHED:
        remove_stale_temporaries(cache_folder() / place)
    if name in EMBEDDED:
        images = EMBEDDED[name]()
    elif name in CATALOGUE:
        images = open_prepared(CATALOGUE[name])
    elif name and os.path.isfile(path / "set.json"):
        images = ImageSet.open(path)
    elif name and os.path.isdir(path):
        images = open_folder(path, size=size, seed=seed, deal=deal)
    else:
        raise AnyshotError(
            f"There is no image set or folder {name!r}; sets are {', '.join([*EMBEDDED, *CATALOGUE])}."
        )
    if size is not None and images.size != (size, size):
        raise AnyshotError(
            f"The images of {name!r} are {images.size[0]}x{images.size[1]}, and {size}x{size} was asked for; "
            f"leave the size out to take them as they are."
        )
    return images
