"""The engine against autograd in float64: gradients agree to 1e-10 of their largest element."""

from __future__ import annotations

import pytest
import torch

from anyshot.inner_loop import query_loss


def compare(case, differences, order=2, tolerance=1e-10):
    (loss, logits), (loss0, logits0) = (
        query_loss(case.inner, case.images, case.labels, order, way)
        for way in ("engine", "autograd")
    )
    assert loss.item() == pytest.approx(loss0.item(), rel=1e-11)
    assert torch.allclose(logits, logits0, rtol=1e-10, atol=1e-11)
    worst = differences(case.gradients(loss), case.gradients(loss0))
    assert len(worst) >= 4
    assert {name: error for name, error in worst.items() if not error < tolerance} == {}


@pytest.mark.parametrize("size", [(32, 32), (28, 28), (33, 47), (84, 84)])
def test_gradients_agree_for_any_image_size(make_case, differences, size):
    compare(make_case([1, 3, 2], size), differences)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 10])
def test_gradients_agree_for_any_number_of_steps(make_case, differences, steps):
    compare(make_case([1, 3], (16, 16), steps), differences)


@pytest.mark.parametrize("shots", [[1, 1], [1, 8], [2] * 20, [1] * 5])
def test_gradients_agree_for_any_way_and_shot(make_case, differences, shots):
    compare(make_case(shots, (17, 20), query=len(shots) + 1), differences)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_gradients_agree_for_every_variant(make_case, differences, head, centre, scale):
    compare(
        make_case([1, 4, 2], (32, 32), 3, head=head, centre=centre, scale=scale, full_rates=head),
        differences,
    )


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_gradients_agree_when_the_query_takes_the_supports_statistics(
    make_case, differences, order, centre, scale
):
    case = make_case(
        [1, 4, 2], (32, 32), 3, query=5, centre=centre, scale=scale, transductive=False
    )
    compare(case, differences, order)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("scale", [False, True])
def test_lower_orders_agree_and_leave_the_same_inputs_unconnected(
    make_case, differences, order, scale
):
    compare(
        make_case([1, 4, 2], (32, 32), 3, head=scale, scale=scale, centre=scale), differences, order
    )


def test_a_head_made_of_the_body_is_adapted_independently(make_case, differences):
    case = make_case([2, 3], (16, 16), 3)
    means = case.inner.theta["conv4_weight"].flatten(1)[
        :2, : case.inner.theta["head_weight"].shape[1]
    ]
    case.inner.theta.update(
        head_weight=means, head_bias=means.sum(1)
    )  # linear, so no graph is freed
    compare(case, differences)


def flat(x):
    """Large regions of one value: ties in every pooling window inside them."""
    return x.mul(3).round().div(3)[:, :, ::8, ::8].repeat_interleave(8, 2).repeat_interleave(8, 3)


IMAGES = {
    "flat regions": flat,
    "constant images": lambda x: x.mean((2, 3), keepdim=True).expand_as(x),
    "equal images": lambda x: x[:1].expand_as(x),
    "black images": torch.zeros_like,
}


@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("scale", [False, True])
def test_gradients_agree_for_ties_and_constants(make_case, differences, images, scale):
    compare(
        make_case([1, 2, 1], (32, 32), 3, change_images=IMAGES[images], head=True, scale=scale),
        differences,
    )


def test_gradients_agree_for_one_image_per_class(make_case, differences):
    compare(make_case([1, 1, 1, 1, 1], steps=5), differences)
