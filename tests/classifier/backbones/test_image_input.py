"""Accepted image inputs."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from anyshot.classifier.backbones import to_pixels
from anyshot.core.errors import ClassifierError

RNG = np.random.default_rng(0)


def test_a_grey_image_has_three_equal_channels():
    grey = RNG.integers(0, 255, (6, 6), np.uint8)
    colour = np.stack([grey] * 3, 2)
    np.testing.assert_array_equal(to_pixels(grey, 6), colour)
    np.testing.assert_array_equal(to_pixels(grey[:, :, None], 6), colour)


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 4, 3)), np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8)]
)
def test_arrays_of_another_type_or_shape_are_refused(wrong):
    with pytest.raises(ClassifierError, match="expected uint8"):
        to_pixels(wrong, 8)


@pytest.mark.parametrize("shape", [(0, 0, 3), (0, 0), (5, 0, 3), (0, 5), (3, 9, 3)])
def test_images_without_pixels_are_refused(shape):
    with pytest.raises(ClassifierError, match=f"{shape[1]}x{shape[0]}"):
        to_pixels(np.zeros(shape, np.uint8), 8)
    with pytest.raises(ClassifierError, match="1x9"):
        to_pixels(Image.new("RGB", (1, 9)), 8)


def test_a_damaged_pil_image_is_refused():
    file = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (40, 40, 3), np.uint8)).save(file, "PNG")
    with pytest.raises(ClassifierError):
        to_pixels(Image.open(io.BytesIO(file.getvalue()[:500])), 8)
