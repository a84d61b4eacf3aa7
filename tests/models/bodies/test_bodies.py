"""Bodies by name and by import path, from the command line to the trained run."""

from __future__ import annotations

import pytest
import torch
from support import make_imageset, make_task

from anyshot.cli.settings_options import settings_with
from anyshot.core.errors import AnyshotError, CodeError, SettingsError
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.inner_loop import adapt
from anyshot.methods import create_method
from anyshot.models.bodies import create_body
from anyshot.models.network import Body
from anyshot.runs.run import Run
from anyshot.training.stages import train

OWN = '''
import torch
import torch.nn.functional as F
from anyshot.models.network import Body, Layer

def perceptron(image_size, channels=16, image_channels=3):
    """Two layers on the pixels."""
    pixels = image_channels * image_size[0] * image_size[1]
    layers = (
        Layer("first", (channels, pixels), "1"),
        Layer("second", (8, channels), "2", bias="second_bias"),
    )

    def features(theta, norm, x):
        h = F.relu(norm(0, F.linear(x.flatten(1), theta["first"])))
        return F.relu(norm(1, F.linear(h, theta["second"], theta["second_bias"])))

    return Body(features, layers, image_size, image_channels)

def not_a_body(image_size, channels=1):
    return channels

NotCallable = 3

class Module(torch.nn.Module):
    """Has no arguments."""

class FailingModule(torch.nn.Module):
    def __init__(self, size, channels):
        raise ZeroDivisionError

module = torch.nn.Bilinear(2, 2, 1)

def no_channels(image_size):
    return perceptron(image_size)
'''


@pytest.fixture
def own(tmp_path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


@pytest.mark.parametrize(
    ("chosen", "channels"),
    [
        ({}, 32),
        ({"channels": 5}, 5),
        ({"body": "resnet12"}, 64),
        ({"body": "resnet12", "channels": 3}, 3),
    ],
)
def test_options_body_and_channels_choose_the_network(chosen, channels):
    settings = settings_with(Settings(), {"method": "maml", **chosen})
    method = create_method(settings.method, (16, 16))
    assert method.body.layers[0].channels == channels
    assert next(iter(method.theta.values())).shape[0] == channels


def test_unknown_body_is_refused_with_the_closest_name():
    with pytest.raises(AnyshotError, match=r"conv5.*conv4"):
        MethodSettings(body="conv5")


@pytest.mark.parametrize(
    "name", ["not_a_body", "NotCallable", "Module", "FailingModule", "module", "no_channels"]
)
def test_object_that_creates_no_body_is_refused(own, name):
    with pytest.raises(CodeError, match=rf"{name}.*anyshot\.Body"):
        create_body(f"{own}:{name}", (16, 16), channels=2)


@pytest.mark.parametrize("size", [32, (32,), (0, 32), "large", None])
def test_wrong_image_size_is_refused(size):
    with pytest.raises(SettingsError, match="height, width"):
        create_body("conv4", size)


@pytest.mark.parametrize("reshape", [lambda x: x.sum(), lambda x: x, lambda x: None])
def test_body_with_features_of_a_wrong_shape_is_refused(reshape):
    body = Body(lambda theta, norm, x: reshape(x), (), (8, 8))
    with pytest.raises(CodeError, match=r"\[2, width\]"):
        _ = body.width


@pytest.mark.parametrize("body", ["resnet12", "own"])
@pytest.mark.parametrize("method", ["taml", "mt-net", "abml", "proto-maml"])
def test_run_with_another_body_is_trained_and_loaded(method, body, own, tmp_path):
    settings = Settings(
        images=("tiny",),
        task=TaskSettings(way=2, shots="any-shot:1-4", query=3),
        method=MethodSettings(
            name=method,
            body=f"{own}:perceptron" if body == "own" else body,
            channels=2,
            steps=1,
            test_steps=1,
            alpha=0.05,
        ),
        train=TrainSettings(iterations=2, meta_batch=1, validate_every=0, validation_tasks=2),
    )
    made = train(settings, tmp_path / "run", imagesets=[make_imageset()], ood=[])
    assert list(Run(tmp_path / "run").code) == ([f"{own}:perceptron"] if body == "own" else [])
    p = made.load_method().predict(make_task(way=2))
    torch.testing.assert_close(p.sum(1), torch.ones(len(p)))


def test_engine_refuses_a_body_with_the_names_of_conv4():
    method = create_method(MethodSettings(name="maml", channels=4), (16, 16))
    x, y, _, _ = method.task_tensors(make_task())
    adapt(method.inner_problem(x, y, 3, {}, 1), engine="engine")
    conv4 = method.body
    method.body = Body(
        lambda theta, norm, x: conv4.features(theta, norm, -x), conv4.layers, (16, 16)
    )
    with pytest.raises(AnyshotError, match="Conv4"):
        adapt(method.inner_problem(x, y, 3, {}, 1), engine="engine")
