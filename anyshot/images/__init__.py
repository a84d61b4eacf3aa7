"""Images grouped by class, and where they come from: embedded sets, published data sets, a person's own folder."""

from __future__ import annotations

from pathlib import Path

from anyshot.errors import AnyshotError
from anyshot.images.digits import open_digits
from anyshot.images.glyphs import open_glyphs
from anyshot.images.imageset import SPLITS, ImageSet

__all__ = ["SPLITS", "ImageSet", "open_images"]

EMBEDDED = {"glyphs": open_glyphs, "digits": open_digits}


def open_images(name_or_path: str | Path, *, size: int | None = None, seed: int = 0) -> ImageSet:
    """Open an image set by name ("glyphs", "digits"), or the folder of a saved set.

    size   side of the square images; None takes the set's own (32 for a folder of pictures)
    seed   deals classes to splits where a folder of pictures has none; named sets have one fixed split

    >>> open_images("digits")
    ImageSet('digits', 1797 images 32x32, classes: test 10)
    """
    name = str(name_or_path)
    if name in EMBEDDED:
        return EMBEDDED[name]()
    path = Path(name_or_path).expanduser()
    if (path / "set.json").is_file():
        return ImageSet.open(path)
    raise AnyshotError(f"There is no image set {name!r}; the embedded ones are {', '.join(EMBEDDED)}.")
