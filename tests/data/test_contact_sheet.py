from __future__ import annotations

import numpy as np

from anyshot.data import ImageSet
from anyshot.data.contact_sheet import LABEL, class_sheet, stack_sheets, task_sheet


def make_images(n: int, colour: tuple[int, int, int], side: int = 32) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8), (n, side, side, 3)).copy()


def count(sheet, colour) -> int:
    return int((np.asarray(sheet) == colour).all(2).sum())


def test_a_class_sheet_shows_some_classes_of_each_split():
    names = [f"class {n} with a name that is rather longer than its column" for n in range(12)]
    arrays = {name: make_images(4, (n * 10, 0, 200)) for n, name in enumerate(names)}
    images = ImageSet.from_arrays("pets", arrays, {"train": names[:10], "test": names[10:]})
    sheet = class_sheet(images, classes=3, columns=6)
    assert sheet.width == LABEL + 6 * 66
    for n in (0, 4, 9, 10, 11):  # the first, the last and one between, and both of two
        assert count(sheet, (n * 10, 0, 200)) == 4 * 64 * 64
    assert count(sheet, (50, 0, 200)) == 0


def test_a_task_sheet_shows_every_support_and_query_image():
    support = np.concatenate([make_images(7, (255, 0, 0), 84), make_images(1, (0, 255, 0), 84)])
    query = np.concatenate([make_images(2, (200, 0, 0), 84), make_images(2, (0, 200, 0), 84)])
    labels = np.array([0] * 7 + [1]), np.array([0, 0, 1, 1])
    sheet = task_sheet("a task", ["red", "green"], support, labels[0], query, labels[1], columns=5)
    assert count(sheet, (255, 0, 0)) == 7 * 84 * 84
    assert count(sheet, (0, 255, 0)) == 84 * 84
    assert count(sheet, (0, 200, 0)) == 2 * 84 * 84
    assert stack_sheets(sheet, sheet).height == 2 * sheet.height


def test_a_sheet_can_name_anything():
    names = ["[/b]", "two\nlines", "caf\udce9", "\x1b[31m", "字", "x" * 300]
    images = ImageSet.from_arrays(
        "[bold]\n", {name: make_images(2, (9, 9, 9)) for name in names}, {"test": names}
    )
    assert count(class_sheet(images), (9, 9, 9)) == 12 * 64 * 64
