import numpy as np
import pytest
import torch
from support import make_imageset, make_method

from anyshot.tasks import numpy_rng
from anyshot.warm import PEAK_RATE, one_cycle, shifted, warm_start


def warmed(epochs: int, sets=None) -> tuple[dict, list]:
    method, log = make_method("maml", torch.float32), []
    warm_start(method, sets or [make_imageset(classes=24)], epochs, 0, log.append)
    return method.state_dict(), log


def test_the_body_learns_to_tell_the_training_classes_apart_and_is_repeatable():
    state, log = warmed(8)
    assert log[-1]["accuracy"] > log[0]["accuracy"] + 0.2
    again, _ = warmed(8)
    assert all(torch.equal(state[k], again[k]) for k in state)


def test_classes_of_several_image_sets_are_told_apart_together():
    _, log = warmed(2, [make_imageset(classes=12), make_imageset(classes=24, name="other")])
    assert [r["epoch"] for r in log] == [1, 2]


def test_the_rate_rises_and_falls():
    rates = [one_cycle(p) for p in np.linspace(0, 1, 101)]
    assert np.argmax(rates) == 30
    assert max(rates) == pytest.approx(PEAK_RATE)
    assert rates[-1] == pytest.approx(0, abs=1e-9)


def test_a_shift_moves_pixels_and_repeats_edges():
    image = torch.arange(36.0).view(1, 1, 6, 6)
    rng, same = numpy_rng(3), numpy_rng(3)
    down, right = same.integers(0, 7, size=2) - 3
    assert (down, right) != (0, 0)
    moved = shifted(image, rng)[0, 0]
    for row in range(6):
        for column in range(6):
            expected = image[0, 0, min(max(row + down, 0), 5), min(max(column + right, 0), 5)]
            assert moved[row, column] == expected


def test_fewer_images_than_a_batch_are_one_batch():
    _, log = warmed(3, [make_imageset()])  # 4 classes of 30
    assert log[-1]["loss"] > 0
    assert log[-1]["loss"] < log[0]["loss"]
