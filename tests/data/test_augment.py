import numpy as np
import pytest
from support import make_imageset

from anyshot.data.augment import COLOUR, CROP, augment, jitter_colours


@pytest.fixture
def images():
    """Each pixel of each image has another colour, which shows where it came from."""
    n, height, width = 40, 20, 32
    place = np.arange(height * width).reshape(height, width)
    one = np.stack([place % 256, place // 256, np.zeros_like(place)], -1)
    return np.repeat(one[None], n, 0).astype(np.uint8)


def origins(images):
    """Row and column that each pixel was fetched from."""
    whole = images.astype(int)
    return np.divmod(whole[..., 0] + 256 * whole[..., 1], images.shape[2])


def rng():
    return np.random.default_rng(5)


def test_no_augmentation_changes_nothing(images):
    assert augment(images, (), rng()) is images


def test_a_shift_moves_each_image_by_its_own_steps_and_repeats_the_edge(images):
    rows, columns = origins(augment(images, ("shift",), rng()))
    n, height, width = rows.shape
    seen = set()
    for i in range(n):
        down, right = rows[i, 10, 0] - 10, columns[i, 0, 16] - 16
        seen.add((down, right))
        assert (rows[i] == np.clip(np.arange(height) + down, 0, height - 1)[:, None]).all()
        assert (columns[i] == np.clip(np.arange(width) + right, 0, width - 1)).all()
    assert {abs(down) for down, _ in seen} == {0, 1, 2}  # a tenth of 20 and of 32
    assert {abs(right) for _, right in seen} == {0, 1, 2, 3}


def test_a_flip_mirrors_about_half_of_the_images(images):
    flipped = augment(images, ("flip",), rng())
    mirrored = [(image == images[0, :, ::-1]).all() for image in flipped]
    same = [(image == images[0]).all() for image in flipped]
    assert np.logical_xor(mirrored, same).all()
    assert 10 < sum(mirrored) < 30


def test_a_crop_is_a_part_of_the_image_enlarged(images):
    rows, columns = origins(augment(images, ("crop",), rng()))
    for actual, side in ((rows[:, :, 0], 20), (columns[:, 0], 32)):
        span = actual[:, -1] - actual[:, 0] + 1
        assert span.min() >= CROP * side - 1
        assert span.max() <= side
        assert len(set(span)) > 3
        assert (np.diff(actual, axis=1) >= 0).all()
    assert len(set(rows[:, 0, 0])) > 2  # not always from the top


def test_combined_augmentations_depend_on_the_seed_alone(images):
    how = ("flip", "shift", "crop", "colour")
    assert (augment(images, how, rng()) == augment(images, how, rng())).all()
    assert (augment(images, how, rng()) != augment(images, how, np.random.default_rng(6))).any()


def test_colours_change_as_brightness_contrast_and_saturation_say():
    photo = make_imageset().images[:6]
    actual = jitter_colours(photo, rng()).astype(float)
    factors = rng().uniform(1 - COLOUR, 1 + COLOUR, (3, 6))
    for image, original, (b, c, s) in zip(actual, photo.astype(float), factors.T, strict=True):
        grey = original @ [0.299, 0.587, 0.114]
        saturated = s * original + (1 - s) * grey[..., None]
        expected = b * (c * saturated + (1 - c) * grey.mean())
        assert np.abs(image - expected.clip(0, 255)).max() < 0.51
