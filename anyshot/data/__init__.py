"""From image files to tasks: image sets, augmentation and task sampling.

Image sets come from the package itself (`embedded`), from published data sets (`published`), from a
folder of class folders (`folder`) or from any labelled data set (`from_dataset`). `tasks` draws
few-shot tasks from them. May import `core` only.
"""

from anyshot.data.image_set import ImageSet
from anyshot.data.loading import EMBEDDED, open_images
from anyshot.data.published import CATALOGUE
from anyshot.data.storage import KINDS, SPLITS

__all__ = ["CATALOGUE", "EMBEDDED", "KINDS", "SPLITS", "ImageSet", "open_images"]
