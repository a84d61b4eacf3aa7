"""Features are computed once for each content."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from torch import nn

from anyshot.classifier.backbones import Backbone, compute_features, open_backbone, to_pixels
from anyshot.core.errors import AnyshotError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))


def counting(fingerprint="counting", side=4):
    seen = []

    def compute(pixels):
        seen.append(len(pixels))
        return pixels.reshape(len(pixels), -1).astype(np.float32)

    return Backbone("counting", side, fingerprint, compute), seen


def pictures(n):
    return list(RNG.integers(0, 255, (n, 6, 6, 3), np.uint8))


def test_a_picture_met_before_is_not_computed_again():
    images = pictures(5)
    first, seen = counting()
    once = compute_features(images, first)
    again, seen_again = counting()
    np.testing.assert_array_equal(compute_features([images[3], images[0]], again), once[[3, 0]])
    assert (sum(seen), sum(seen_again)) == (5, 0)


def test_equal_pictures_are_computed_once_and_all_answered():
    image = pictures(1)[0]
    backbone, seen = counting()
    rows = compute_features([image, image.copy(), image], backbone)
    assert sum(seen) == 1
    assert (rows == rows[0]).all()


def test_another_fingerprint_shares_nothing():
    images = pictures(2)
    compute_features(images, counting("one")[0])
    backbone, seen = counting("two")
    compute_features(images, backbone)
    assert sum(seen) == 2


def test_without_a_fingerprint_nothing_is_kept(tmp_path):
    backbone, _ = counting("")
    compute_features(pictures(1), backbone)
    assert not (tmp_path / "cache").exists()


def test_what_was_interrupted_goes_on_where_it_was():
    images = pictures(70)
    backbone, seen = counting()

    def failing(pixels):
        if seen:
            raise KeyboardInterrupt
        return backbone.compute(pixels)

    with pytest.raises(KeyboardInterrupt):
        compute_features(images, Backbone("counting", 4, "counting", failing))
    done = sum(seen)
    assert 0 < done < 70
    compute_features(images, backbone)
    assert sum(seen) == 70


def test_arrays_pil_images_and_files_of_the_same_pixels_agree(tmp_path):
    pixels = pictures(1)[0]
    Image.fromarray(pixels).save(tmp_path / "a.png")
    backbone, _ = counting()
    rows = compute_features(
        [pixels, Image.fromarray(pixels), tmp_path / "a.png", str(tmp_path / "a.png")], backbone
    )
    assert (rows == rows[0]).all()


def test_a_grey_picture_is_three_equal_channels():
    grey = RNG.integers(0, 255, (6, 6), np.uint8)
    colour = np.stack([grey] * 3, 2)
    np.testing.assert_array_equal(to_pixels(grey, 6), colour)
    np.testing.assert_array_equal(to_pixels(grey[:, :, None], 6), colour)


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 4, 3)), np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8)]
)
def test_what_is_no_picture_is_refused(wrong):
    with pytest.raises(AnyshotError, match="expected uint8"):
        to_pixels(wrong, 8)


def test_files_that_are_no_pictures_are_named(tmp_path):
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(AnyshotError, match=r"note\.txt.*not an image"):
        compute_features([tmp_path / "note.txt"], counting()[0])
    with pytest.raises(AnyshotError, match=r"gone\.png"):
        compute_features([tmp_path / "gone.png"], counting()[0])
    with pytest.raises(AnyshotError, match="at least one"):
        compute_features([], counting()[0])


def test_a_module_sees_floats_from_0_to_1_and_is_cached_by_its_weights():
    module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    backbone = open_backbone(module, side=4)
    white = compute_features([np.full((4, 4, 3), 255, np.uint8)], backbone)
    np.testing.assert_allclose(
        white[0], module[2].weight.sum(1).detach() + module[2].bias.detach(), rtol=1e-5
    )
    other = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    assert open_backbone(other, side=4).fingerprint != backbone.fingerprint


def test_a_backbone_that_makes_no_vectors_is_said():
    with pytest.raises(AnyshotError, match=r"\[1, 4, 4, 3\] of 1 images"):
        compute_features(pictures(1), open_backbone(lambda pixels: pixels, side=4))


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(AnyshotError, match="efficientnet-lite0"):
        open_backbone("eficientnet-lite0")
