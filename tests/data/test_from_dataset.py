from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from anyshot.core.errors import DataError, SettingsError
from anyshot.data import ImageSet


class Flowers:
    """A data set as torchvision has them."""

    classes = ("rose", "lily", "iris")

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def grey(value: int, height: int = 6, width: int = 6) -> np.ndarray:
    return np.full((height, width), value, np.uint8)


def test_images_and_labels_of_every_kind_are_grouped_by_class():
    colour = np.stack([grey(7), grey(8), grey(9)], axis=2)
    dataset = Flowers(
        (Image.fromarray(grey(1)), 2),
        (grey(2), np.int64(0)),
        (colour, torch.tensor(2)),
        (torch.tensor(grey(3)), np.array(0)),
        (Image.fromarray(colour), 1),
        (grey(4)[..., None], 1),
    )
    images = ImageSet.from_dataset(
        "flowers", dataset, {"train": ["rose", "iris"], "val": ["lily"]}, kind="drawings"
    )
    assert images.classes == ("rose", "lily", "iris")
    assert images.images_of("rose")[:, 0, 0].tolist() == [[2, 2, 2], [3, 3, 3]]
    assert images.images_of("lily")[:, 0, 0].tolist() == [[7, 8, 9], [4, 4, 4]]
    assert images.images_of("iris")[:, 0, 0].tolist() == [[1, 1, 1], [7, 8, 9]]
    assert images.splits == {"train": (0, 2), "validation": (1,)}
    assert images.kind == "drawings"


def test_labels_are_names_where_the_data_set_has_no_list_of_classes():
    assert ImageSet.from_dataset("n", [(grey(1), 10), (grey(2), 9)]).classes == ("9", "10")
    assert ImageSet.from_dataset("n", [(grey(1), "b"), (grey(2), "a")]).classes == ("a", "b")


def test_classes_with_equal_names_stay_separate():
    dataset = Flowers((grey(1), 0), (grey(2), 1))
    dataset.classes = ["crane", "crane"]
    assert ImageSet.from_dataset("birds", dataset).classes == ("crane (0)", "crane (1)")


def test_images_of_several_sizes_are_resized_to_one():
    dataset = Flowers((grey(1, 8, 12), 0), (Image.fromarray(grey(2, 20, 10)), 1))
    with pytest.raises(DataError, match=r"2 different sizes.*size=84"):
        ImageSet.from_dataset("flowers", dataset)
    images = ImageSet.from_dataset("flowers", dataset, size=5)
    assert images.size == (5, 5)
    assert images.images[:, 2, 2].tolist() == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Flowers(), "has no classes"),
        (iter([(grey(1), 0)]), "no length or no indices"),
        (Flowers(grey(1)), "is a ndarray, not a pair"),
        (Flowers((grey(1), 0, 0)), "is a tuple, not a pair"),
        (Flowers((grey(1), 1.0)), "label of item 0 is 1.0"),
        (Flowers((grey(1), True)), "label of item 0 is True"),
        (Flowers((grey(1), None)), "label of item 0 is None"),
        (Flowers((grey(1), torch.tensor([1, 2]))), "label of item 0 is tensor"),
        (Flowers((grey(1), 3)), "is 3, but it has only 3 class names"),
        (
            Flowers((torch.zeros(3, 6, 6), 0)),
            r"float32 \[3, 6, 6\]; .* transforms that return tensors",
        ),
        (Flowers((None, 0)), "is object"),
    ],
)
def test_malformed_items_are_refused(dataset, words):
    with pytest.raises(DataError, match=words):
        ImageSet.from_dataset("odd", dataset)


def test_a_side_out_of_range_is_refused():
    with pytest.raises(SettingsError, match="100000"):
        ImageSet.from_dataset("flowers", Flowers((grey(1), 0)), size=100_000)
