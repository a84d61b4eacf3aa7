"""Bodies with a batch norm or dropout of their own are refused where they would change results."""

import pytest
import torch
import torch.nn.functional as F
from support import make_task
from torch import nn

from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.core.registry import BODIES
from anyshot.core.settings import MethodSettings
from anyshot.methods import MAML, create_method
from anyshot.models.network import Body, Layer

BATCH_NORM = nn.BatchNorm1d(16, affine=False, track_running_stats=False)
DROPOUT = nn.Dropout(0.5)
LAYERS = {
    "clean": lambda h: h,
    "module norm": BATCH_NORM,
    "functional norm": lambda h: F.batch_norm(h, None, None, training=True),
    "norm by hand": lambda h: (h - h.mean(0)) / (h.std(0) + 1),
    "fixed norm": lambda h: F.batch_norm(h, torch.zeros(16).to(h), torch.ones(16).to(h)),
    "module dropout": DROPOUT,
    "functional dropout": lambda h: F.dropout(h, 0.5),
    "inactive dropout": nn.Dropout(0.5).eval(),
}


@pytest.fixture
def create(monkeypatch):
    monkeypatch.setattr(BODIES, "_registered", {})

    def create(layer, transductive):
        def body(image_size, channels=16, image_channels=3):
            pixels = image_channels * image_size[0] * image_size[1]

            def features(theta, norm, x):
                return LAYERS[layer](F.relu(norm(0, F.linear(x.flatten(1), theta["first"]))))

            return Body(features, (Layer("first", (16, pixels), "1"),), image_size, image_channels)

        BODIES.register("mine")(body)
        settings = MethodSettings(name="maml", body="mine", transductive=transductive)
        return create_method(settings, (16, 16))

    return create


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize(
    ("layer", "name"), [("module dropout", "Dropout"), ("functional dropout", "dropout")]
)
def test_dropout_is_refused(create, layer, name, transductive):
    before = torch.get_rng_state()
    with pytest.raises(CodeError, match=f"'mine'.*{name}"):
        create(layer, transductive)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        ("module norm", "BatchNorm1d"),
        ("functional norm", "batch_norm"),
        ("norm by hand", "computation of its own"),
    ],
)
def test_batch_norm_of_a_body_is_refused_if_the_method_is_not_transductive(create, layer, name):
    create(layer, transductive=True)
    with pytest.raises(CodeError, match=f"'mine'.*{name}.*--no-transductive"):
        create(layer, transductive=False)


@pytest.mark.parametrize("layer", ["clean", "fixed norm", "inactive dropout"])
def test_other_layers_are_accepted_and_do_not_leak(create, layer):
    method, task = create(layer, transductive=False), make_task()
    classify = method.adapt(task.support, task.support_labels)
    alone = classify(task.query[:1])
    torch.testing.assert_close(classify(task.query)[:1], alone, rtol=0, atol=1e-5)


class Whitening(nn.Conv2d):
    """A convolution with a batch norm written by hand."""

    def forward(self, x):
        h = super().forward(x).flatten(1)
        return (h - h.mean(0)) / (h.std(0) + 1)


class Masking(nn.Conv2d):
    """A convolution with dropout that evaluation mode does not turn off."""

    def forward(self, x):
        return F.dropout(super().forward(x).flatten(1), 0.5)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Whitening(3, 4, 3, 4), r"'Whitening'.*--no-transductive"),
        (Masking(3, 4, 3, 4), r"'Masking'.*dropout in Masking\)"),
        (nn.Sequential(nn.ReLU(), Masking(3, 4, 3, 4)), r"'Sequential'.*dropout in 1 \(Masking\)"),
    ],
)
def test_a_constructor_refuses_a_module_as_create_method_does(module, message):
    settings = MethodSettings(name="maml", transductive=False)
    with pytest.raises(CodeError, match=message):
        MAML(settings, Body.from_module(module, (16, 16)), torch_rng(0, "start"))
