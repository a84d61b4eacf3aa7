"""Conv4 with features of three depths."""

import torch
import torch.nn.functional as F

import anyshot
from anyshot.core.random import torch_rng


def test_the_last_part_is_conv4_and_pooling_the_middle_part_gives_it():
    body = anyshot.create_body("conv4-depths", (32, 32), channels=4)
    conv4 = anyshot.create_body("conv4", (32, 32), channels=4)
    theta = body.init_parameters(torch_rng(0), "he")
    images = torch.rand(3, 3, 32, 32, generator=torch_rng(1))
    third, unpooled, last = body.features(theta, body.norm(), images).split(
        list(body.head_parts.values()), 1
    )
    torch.testing.assert_close(last, conv4.features(theta, body.norm(), images))
    torch.testing.assert_close(F.max_pool2d(unpooled.view(3, 4, 4, 4), 2).flatten(1), last)
    again = F.conv2d(third.view(3, 4, 4, 4), theta["conv4_weight"], padding=1)
    torch.testing.assert_close(F.relu(body.norm()(3, again)).flatten(1), unpooled)


def test_parts_of_images_whose_sides_are_no_powers_of_two_add_up_to_the_width():
    body = anyshot.create_body("conv4-depths", (84, 84))
    assert sum(body.head_parts.values()) == body.width
