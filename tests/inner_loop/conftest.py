"""Random inner problems in which every input requires a gradient, and comparisons of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop import InnerProblem
from anyshot.models.bodies.conv4 import LAYERS
from anyshot.models.network import Norm


@dataclass
class Case:
    """An inner problem, its query set and the tensors whose gradients are compared, by name."""

    inner: InnerProblem
    images: Tensor
    labels: Tensor
    leaves: dict[str, Tensor]

    def gradients(self, loss: Tensor) -> dict[str, Tensor | None]:
        found = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        return dict(zip(self.leaves, found, strict=True))


def make_case(
    shots: list[int],
    size: tuple[int, int] = (32, 32),
    steps: int = 2,
    query: int = 7,
    *,
    head: bool = False,
    centre: bool = False,
    transductive: bool = True,
    scale: bool = False,
    full_rates: bool = False,
    change_images: Callable[[Tensor], Tensor] = lambda x: x,
    channels: int = 32,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Case:
    """A problem with these shots per class; ``head``: a random head that requires a gradient."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    way = len(shots)
    labels = torch.repeat_interleave(torch.arange(way), torch.tensor(shots))
    query_labels = torch.arange(query) % way
    prototypes = F.interpolate(normal(way, 3, 8, 8).sigmoid(), size=size, mode="bilinear")

    def draw(y: Tensor) -> Tensor:
        return change_images((prototypes[y] + 0.3 * normal(len(y), 3, *size)).clamp(0, 1))

    features = channels * (size[0] >> LAYERS) * (size[1] >> LAYERS)
    theta, rates, fan = {}, {}, 3
    for i in range(1, LAYERS + 1):
        theta[f"conv{i}_weight"] = (
            normal(channels, fan, 3, 3) * (2 / (9 * fan)) ** 0.5
        ).requires_grad_()
        theta[f"conv{i}_bias"] = normal(channels).requires_grad_()
        fan = channels
    theta["head_weight"] = (0.3 * head * normal(way, features)).requires_grad_(head)
    theta["head_bias"] = (0.3 * head * normal(way)).requires_grad_(head)
    for name, value in theta.items():
        shape = value.shape
        if name.startswith("head") and not full_rates:
            shape = (1, features) if name == "head_weight" else ()
        rates[name] = (0.01 + 0.01 * normal(*shape).sigmoid()).requires_grad_()
    shift = [(0.1 * normal(channels)).requires_grad_() for _ in range(LAYERS)]
    scales = [(1 + normal(channels)).requires_grad_() for _ in range(LAYERS)] if scale else None
    weights = normal(len(labels)).softmax(0).requires_grad_()
    leaves = {n: t for n, t in theta.items() if t.requires_grad} | {
        "rate " + n: t for n, t in rates.items()
    }
    leaves |= {f"shift{i}": t for i, t in enumerate(shift)} | {
        f"scale{i}": t for i, t in enumerate(scales or ())
    }
    inner = InnerProblem(
        images=draw(labels),
        labels=labels,
        weights=weights,
        theta=theta,
        rates=rates,
        norm=Norm(shift, scales),
        steps=steps,
        centre=centre,
        transductive=transductive,
    )
    return Case(inner, draw(query_labels), query_labels, leaves | {"weights": weights})


def differences(
    found: dict[str, Tensor | None], expected: dict[str, Tensor | None]
) -> dict[str, float]:
    """max |found − expected| / max |expected| of each tensor; both or none may be None."""
    result = {}
    for name, right in expected.items():
        left = found[name]
        assert (left is None) == (right is None), name
        if left is not None and right is not None:
            assert left.shape == right.shape, name
            result[name] = ((left - right).abs().max() / right.abs().max().clamp_min(1e-300)).item()
    return result


@pytest.fixture(name="make_case")
def _make_case() -> Callable[..., Case]:
    return make_case


@pytest.fixture(name="differences")
def _differences() -> Callable[..., dict[str, float]]:
    return differences
