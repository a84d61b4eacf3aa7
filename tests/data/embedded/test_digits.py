from __future__ import annotations

import numpy as np
import pytest

from anyshot.data import open_images
from anyshot.data.embedded.digits import raw_digits


def test_digits_are_ten_test_classes():
    digits = open_images("digits")
    assert digits.classes == tuple("0123456789")
    assert digits.splits == {"test": tuple(range(10))}
    assert digits.images.shape == (1797, 32, 32, 3)
    assert digits.counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_use_the_whole_range_of_brightness():
    images = open_images("digits").images
    assert images.min() == 0
    assert images.max() == 255
    assert (images[..., 0] == images[..., 2]).all()


def test_the_embedded_digits_are_those_of_scikit_learn():
    published = pytest.importorskip("sklearn.datasets").load_digits()
    images, labels = raw_digits()
    assert np.array_equal(images, published.images)
    assert np.array_equal(labels, published.target)
