"""Published data sets: one module each says what the official files are and how to read them.

`catalogue` lists the data sets, `prepare` converts official files into an image set, `archives`,
`readers`, `safe_matlab` and `safe_pickle` read files that are not trusted. May import `core` and
the modules of `data` that hold image sets.
"""

from anyshot.data.published.catalogue import CATALOGUE, find_dataset
from anyshot.data.published.dataset import PublishedDataset, RemoteFile
from anyshot.data.published.prepare import (
    is_prepared,
    open_prepared,
    prepare,
    prepared_folder,
    verify_prepared,
)

__all__ = [
    "CATALOGUE",
    "PublishedDataset",
    "RemoteFile",
    "find_dataset",
    "is_prepared",
    "open_prepared",
    "prepare",
    "prepared_folder",
    "verify_prepared",
]
