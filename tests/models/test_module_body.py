"""Modules as bodies: pure functions for all threads, and refusals that name the layer."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from modules import ConvNorm, ResidualNet, TinyTransformer
from support import make_task
from torch import nn
from torch.nn.utils import parametrizations

from anyshot import BODIES, Body, MethodSettings, create_method
from anyshot.core.errors import AnyshotError, CodeError
from anyshot.core.random import torch_rng
from anyshot.models.bodies import create_body


class Net(nn.Module):
    """A convolution, a layer under test, and the mean over positions."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 4, 4)
        self.tested = layer

    def forward(self, x):
        return self.tested(self.conv(x)).mean((2, 3))


class Plain(Net):
    def __init__(self) -> None:
        super().__init__(nn.ReLU())


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x / self.calls


class Copied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Conv2d(4, 4, 1)
        self.kept = [self.linear.weight]

    def forward(self, x):
        return F.conv2d(x, self.kept[0])


class PythonNoise(nn.Module):
    def forward(self, x):
        return x * random.random() if self.training else x


class SeldomDropped(nn.Module):
    """Stochastic depth: two calls are usually equal."""

    def forward(self, x):
        return x * (random.random() > 0.05) if self.training else x


class UnseenNumPy(nn.Module):
    def forward(self, x):
        np.random.rand()  # noqa: NPY002 - what users' modules do
        return x


class Assigns(nn.Module):
    """A running average; the buffer is replaced instead of changed, and in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(4, 1, 1))

    def forward(self, x):
        if self.training:
            self.average = 0.9 * self.average + 0.1 * x.detach().mean((0, 2, 3), True)[0]
        return x - self.average


class IntegerNoise(nn.Module):
    def forward(self, x):
        return x + torch.randint_like(x, 0, 9) if self.training else x


class Detached(nn.Module):
    def forward(self, x):
        return x.detach()


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Rnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 4, batch_first=True)

    def forward(self, x):
        return self.rnn(x.flatten(2).transpose(1, 2))[0].transpose(1, 2).view_as(x)


class OwnBatchNorm(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x) + 1


class Distances(nn.Module):
    def forward(self, x):
        return torch.cdist(x, torch.eye(4).to(x))


class DropPath(nn.Module):
    def forward(self, x):
        return x * (torch.rand(len(x), 1, 1, 1) > 0.2) + torch.randn_like(x) if self.training else x


class ByHand(nn.Module):
    def forward(self, x):
        return (x - x.mean(0)) / (x.std(0) + 1)


def computed() -> nn.Module:
    layer = nn.Conv2d(4, 4, 1)
    layer.twice = layer.weight * 2
    return layer


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: nn.LazyConv2d(4, 1), "tested.*LazyConv2d"),
        (Counts, "tested.calls of Counts"),
        (lambda: parametrizations.spectral_norm(nn.Conv2d(4, 4, 1)), "tested.parametrizations"),
        (lambda: nn.InstanceNorm2d(4, track_running_stats=True), "tested.running_mean.*Instance"),
        (lambda: OwnBatchNorm(4), "tested.running_mean of OwnBatchNorm"),
        (Copied, "tested.linear.weight of Conv2d"),
        (computed, r"tested.twice of Conv2d"),
        (PythonNoise, r"not torch's.*tested \(PythonNoise\)"),
        (SeldomDropped, r"not torch's.*tested \(SeldomDropped\)"),
        (UnseenNumPy, r"not torch's"),
        (Assigns, r"buffers.*average of tested \(Assigns\)"),
        (IntegerNoise, r"tested \(IntegerNoise\).*randint_like"),
        (Detached, r"cannot be differentiated \(tested \(Detached\)"),
        (nn.Flatten, r"Net cannot process|returns"),
        (lambda: nn.Conv2d(4, 4, 99), r"16×16 pixels.*tested \(Conv2d\).*[Kk]ernel"),
        (lambda: Function(lambda x: (x, x)), "cannot process|returns"),
    ],
)
def test_module_that_is_no_function_of_its_parameters_is_refused(layer, message):
    with pytest.raises(AnyshotError, match=message):
        Body.from_module(Net(layer()), (16, 16))


def test_module_without_parameters_is_refused():
    with pytest.raises(CodeError, match="nothing to learn"):
        Body.from_module(nn.Flatten(), (16, 16))


@pytest.fixture
def create(monkeypatch):
    monkeypatch.setattr(BODIES, "_registered", {})

    def create(make_layer, method="maml", **values):
        class Mine(Net):
            def __init__(self) -> None:
                super().__init__(make_layer())

        BODIES.register("mine")(Mine)
        return create_method(MethodSettings(name=method, body="mine", **values), (16, 16))

    return create


def test_layer_without_a_second_derivative_is_refused_in_second_order_only(create):
    with pytest.raises(CodeError, match=r"tested \(Distances\).*--order 1"):
        create(Distances)
    create(Distances, order=1)
    create(Distances, method="protonet")


def test_normalisation_by_hand_is_refused_if_not_transductive(create):
    create(ByHand)
    with pytest.raises(CodeError, match=r"tested \(ByHand\).*--no-transductive"):
        create(ByHand, transductive=False)


def test_dropout_that_tests_have_too_is_refused(create):
    with pytest.raises(CodeError, match=r"dropout in tested \(Function\)"):
        create(lambda: Function(lambda x: F.dropout(x, 0.5)))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.ConvTranspose2d(4, 4, 2, 2),
        lambda: nn.Sequential(nn.LayerNorm([4, 4, 4]), nn.PReLU(), nn.RReLU(), DropPath()),
        lambda: nn.Sequential(nn.InstanceNorm2d(4), nn.GELU(), nn.Dropout2d(0.2)),
        lambda: nn.Sequential(nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)),
        lambda: parametrizations.weight_norm(nn.Conv2d(4, 4, 1)),
        lambda: nn.SyncBatchNorm(4),
        lambda: nn.LocalResponseNorm(2),
        Rnn,
    ],
)
def test_many_layers_work_in_second_order(create, layer):
    method = create(layer, steps=1, alpha=0.1)
    task = make_task(way=2, query=2)
    loss = method.objective(task).loss
    loss.backward()
    assert loss.item() == method.objective(task).loss.item()
    assert all(p.grad.isfinite().all() for p in method.theta.values() if p.grad is not None)


@pytest.mark.parametrize("net", [ConvNorm, ResidualNet, TinyTransformer])
def test_threads_that_share_a_body_do_not_disturb_each_other(net):
    body = Body.from_module(net(), (16, 16))
    x = torch.rand(5, 3, 16, 16, generator=torch_rng(0))
    thetas = [
        {name: value * (1 + i / 8) for name, value in body.init_parameters(torch_rng(i)).items()}
        for i in range(8)
    ]
    norms = [replace(body.norm(), seed=None if i % 2 else i) for i in range(8)]
    expected = [body.features(theta, n, x) for theta, n in zip(thetas, norms, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            results = list(pool.map(lambda i: body.features(thetas[i], norms[i], x), range(8)))
            assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


class Tied(nn.Module):
    """Two convolutions with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 4, 4)
        self.first, self.second = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 2)
        self.third = nn.Conv2d(4, 4, 2)
        self.third.weight = self.second.weight

    def forward(self, x):
        return self.third(F.silu(self.second(self.first(self.stem(x))))).mean((2, 3))


def test_layers_may_share_a_weight():
    torch.manual_seed(0)
    module = Tied()
    body = Body.from_module(module, image_size=(20, 20))
    theta = body.init_parameters(torch_rng(0))
    assert sum(key.endswith("weight") for key in theta) == 3
    images = torch.rand(2, 3, 20, 20)
    theta["module/second/weight"] = 2 * theta["module/second/weight"]
    with torch.no_grad():
        module.second.weight.mul_(2)
        torch.testing.assert_close(body.features(theta, body.norm(), images), module(images))


def test_frozen_parameters_are_neither_adapted_nor_learned():
    net = ConvNorm()
    net.first.requires_grad_(False)
    body = Body.from_module(net, (16, 16))
    assert "module/first/weight" not in body.init_parameters(torch_rng(0))
    assert torch.equal(body.norm().constants["module/first/weight"], net.first.weight)
    assert [layer.group for layer in body.layers] == ["second"]


def test_module_itself_does_not_change():
    net = ConvNorm()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    body = Body.from_module(net, (16, 16))
    theta = body.init_parameters(torch_rng(0))
    body.features(theta, replace(body.norm(), seed=3), torch.rand(4, 3, 16, 16))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert net.training


def test_constructor_of_a_class_gets_size_and_channels(monkeypatch):
    monkeypatch.setattr(BODIES, "_registered", {})
    BODIES.register("transformer")(TinyTransformer)
    BODIES.register("plain")(Plain)
    assert create_body("transformer", (24, 16), 12).width == 12
    assert create_body("plain", (16, 16)).width == 4
    with pytest.raises(CodeError, match="channels"):
        create_body("plain", (16, 16), 12)
    BODIES.register("needs more")(Net)
    with pytest.raises(CodeError, match="layer"):
        create_body("needs more", (16, 16))


def test_parameters_of_a_function_need_not_belong_to_a_layer():
    def features(theta, norm, x):
        return x.flatten(1) * theta["scale"] + theta["shift"]

    body = Body(features, (), (4, 4), others={"scale": torch.ones(()), "shift": torch.zeros(48)})
    assert body.width == 48
    assert list(body.layer_parameters) == ["scale", "shift", "head"]
    assert body.init_parameters(torch_rng(0))["scale"] == 1
