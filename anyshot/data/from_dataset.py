"""Read labelled data sets of other libraries: objects that return (image, label) for an index."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.core.errors import DataError
from anyshot.core.progress import progress
from anyshot.data.decode import check_side, resize_and_crop, to_rgb


class LabelledDataset(Protocol):
    """A data set with indices and a length."""

    def __getitem__(self, index: int, /) -> Any: ...
    def __len__(self) -> int: ...


def group_by_class(
    name: str, dataset: LabelledDataset, size: int | None
) -> dict[str, NDArray[np.uint8]]:
    """Return {class name: uint8 [n, height, width, 3]}, ordered by label."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError(
            f"A {type(dataset).__name__} has no length or no indices; give a data set with both."
        )
    if size is not None:
        check_side(size)
    known = list(getattr(dataset, "classes", []))
    groups: dict[Any, list[NDArray[np.uint8]]] = {}
    with progress(f"Reading {name}", len(dataset)) as advance:
        for index in range(len(dataset)):
            image, label = _image_and_label(dataset[index], index)
            groups.setdefault(label, []).append(_to_pixels(image, index, size))
            advance()
    sizes = {array.shape for arrays in groups.values() for array in arrays}
    if len(sizes) > 1:
        raise DataError(
            f"The images of {name!r} have {len(sizes)} different sizes; give one, for example "
            "size=84."
        )
    ordered = sorted(groups, key=lambda label: (isinstance(label, str), label))
    names = [_class_name(label, known) for label in ordered]
    unique = [
        f"{name} ({label})" if names.count(name) > 1 else name
        for name, label in zip(names, ordered, strict=True)
    ]
    return {name: np.stack(groups[label]) for name, label in zip(unique, ordered, strict=True)}


def _image_and_label(item: Any, index: int) -> tuple[Any, int | str]:
    """Return image and label; labels are integers of any library, or names."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"Item {index} of the data set is a {type(item).__name__}, not a pair (image, label)."
        )
    image, label = item
    if hasattr(label, "item") and getattr(label, "ndim", 0) == 0:  # scalars of NumPy and torch
        label = label.item()
    if isinstance(label, bool) or not isinstance(label, Integral | str):
        raise DataError(
            f"The label of item {index} is {label!r}; labels must be integers or names."
        )
    return image, label if isinstance(label, str) else int(label)


def _to_pixels(image: Any, index: int, size: int | None) -> NDArray[np.uint8]:
    """Return uint8 [height, width, 3]."""
    if not isinstance(image, Image.Image):
        array = np.asarray(image)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        if array.dtype != np.uint8 or not (
            array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
        ):
            raise DataError(
                f"Image {index} of the data set is {array.dtype} {list(array.shape)}; expected "
                "a PIL image or uint8 [height, width] or [height, width, 3]: omit transforms "
                "that return tensors."
            )
        image = Image.fromarray(array)
    return np.asarray(to_rgb(image)) if size is None else resize_and_crop(image, size)


def _class_name(label: int | str, known: list[Any]) -> str:
    if isinstance(label, str) or not known:
        return str(label)
    if not 0 <= label < len(known):
        raise DataError(
            f"A label of the data set is {label}, but it has only {len(known)} class names."
        )
    return str(known[label])
