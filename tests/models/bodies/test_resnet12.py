"""ResNet-12 against torch's modules, and with every method."""

import math

import pytest
import torch
from support import make_method, make_task
from torch import Tensor, nn

from anyshot.core.random import torch_rng
from anyshot.core.registry import METHODS
from anyshot.models.bodies.resnet12 import resnet12
from anyshot.models.network import Norm
from anyshot.models.norm import EPS


class Block(nn.Module):
    """As the field writes it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        sizes = (inputs, outputs, outputs)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(size, outputs, 3, padding=1, bias=False) for size in sizes
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(outputs, EPS, track_running_stats=False) for _ in range(4)
        )
        self.relu, self.pool = nn.LeakyReLU(0.1), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        one, two, three = self.convolutions
        h = self.relu(self.norms[0](one(x)))
        h = self.relu(self.norms[1](two(h)))
        return self.pool(self.relu(self.norms[2](three(h)) + self.norms[3](self.shortcut(x))))


def test_body_is_four_residual_blocks_and_a_mean_over_positions():
    body = resnet12((32, 32), channels=2)
    theta = {
        name: value.double() for name, value in body.init_parameters(torch_rng(0), "he").items()
    }
    shift = [
        0.1 * torch.randn(u.channels, generator=torch_rng(i)).double()
        for i, u in enumerate(body.layers)
    ]
    scale = [1 + 0.1 * s for s in shift]
    blocks = [Block(inputs, outputs) for inputs, outputs in ((3, 2), (2, 4), (4, 8), (8, 16))]
    network = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1)).double()
    with torch.no_grad():
        for b, block in enumerate(blocks):
            for i, convolution in enumerate((*block.convolutions, block.shortcut)):
                convolution.weight.copy_(theta[body.layers[4 * b + i].weight])
                block.norms[i].weight.copy_(scale[4 * b + i])
                block.norms[i].bias.copy_(shift[4 * b + i])
    x = torch.rand(5, 3, 32, 32, dtype=torch.float64, generator=torch_rng(9))
    torch.testing.assert_close(body.features(theta, Norm(shift, scale), x), network(x).flatten(1))


def test_widths_are_the_standard_ones_and_a_block_is_one_group():
    body = resnet12((84, 84))
    assert [u.channels for u in body.layers] == [64] * 4 + [128] * 4 + [256] * 4 + [512] * 4
    assert body.width == 512
    assert [len(names) for names in body.layer_parameters.values()] == [4, 4, 4, 4, 2]
    blocks = ((3, 64), (64, 128), (128, 256), (256, 512))
    assert sum(math.prod(u.size) for u in body.layers) == sum(
        9 * o * (i + 2 * o) + i * o for i, o in blocks
    )


@pytest.mark.parametrize("size", [(16, 16), (32, 20)])
def test_images_of_sixteen_pixels_or_more_are_accepted(size):
    assert resnet12(size, 4).width == 32


@pytest.mark.parametrize("name", METHODS)
def test_every_method_classifies_images_one_by_one(name):
    method = make_method(
        name, body="resnet12", channels=2, alpha=0.01, transductive=False, prediction="naive"
    )
    task = make_task(way=2, shots="fixed:3", query=2)
    classify = method.adapt(task.support, task.support_labels)
    alone = torch.cat([classify(image[None]) for image in task.query])
    torch.testing.assert_close(classify(task.query), alone)
    assert method.objective(task).loss.isfinite()
