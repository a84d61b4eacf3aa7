"""All methods on bodies that are made of modules: gradients, batch statistics, dropout, runs."""

from __future__ import annotations

import copy
import shutil
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from modules import NETS, ConvNorm, TinyTransformer
from support import assert_equal, make_imageset, make_task
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

import anyshot
from anyshot import METHODS, Body, MethodSettings, create_method
from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.random import torch_rng
from anyshot.models.module_features import parameter_key
from anyshot.models.seeded_random import SeededRandom
from anyshot.runs.run import Run
from anyshot.training.meta_training import task_gradients
from anyshot.training.stages import train

FILE = Path(__file__).parents[1] / "helpers" / "modules.py"
GRADIENT_METHODS = ["maml", "meta-sgd", "mt-net", "abml", "proto-maml", "taml", "anil"]


def make(method: str, net: str = "ConvNorm", **values):
    settings = MethodSettings(name=method, body=f"{FILE}:{net}", steps=2, test_steps=3, alpha=0.05)
    return create_method(settings.with_values(values), (16, 16))


def plain_meta_gradients(net, task_tensors, seed, order):
    """Two steps of MAML from a zero head with torch alone: query loss and gradients of θ."""
    support, labels, query, query_labels = task_tensors
    theta = dict(net.named_parameters())
    buffers = {name: value.clone() for name, value in net.named_buffers()}

    def loss(theta, head, x, y, call):
        with SeededRandom(seed + call), sdpa_kernel(SDPBackend.MATH):
            features = functional_call(net.train(), {**buffers, **theta}, (x,))
        return F.cross_entropy(F.linear(features, *head), y)

    start = list(theta.values())
    way, width = 3, net(support).shape[1]
    head = [torch.zeros(way, width).double(), torch.zeros(way).double()]
    for step in range(2):
        at = [*theta.values(), *(h.requires_grad_() for h in head)]
        value = loss(dict(zip(theta, at, strict=False)), at[-2:], support, labels, 2 + step)
        g = torch.autograd.grad(value, at, create_graph=order == 2, materialize_grads=True)
        moved = [a - 0.05 * d for a, d in zip(at, g, strict=True)]
        theta, head = dict(zip(theta, moved, strict=False)), moved[-2:]
    value = loss(theta, head, query, query_labels, 1)
    return value, torch.autograd.grad(value, start, materialize_grads=True)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("net", NETS)
def test_meta_gradients_are_those_of_plain_autograd(net, order):
    task = make_task()
    module = NETS[net]().double()
    body = Body.from_module(copy.deepcopy(module).float(), (16, 16))
    settings = MethodSettings(name="maml", steps=2, alpha=0.05, order=order)
    method = anyshot.MAML(settings, body, torch.Generator()).double()
    method.load_state_dict(
        {
            **{f"theta.{parameter_key(n)}": value for n, value in module.named_parameters()},
            **{f"constants.{key}": value for key, value in method.norm.constants.items()},
        }
    )
    seed = body.draw_seed(task.noise())
    loss, expected = plain_meta_gradients(module, method.task_tensors(task), seed, order)
    gradients, numbers = task_gradients(method, task)
    assert numbers["loss"] == pytest.approx(loss.item(), rel=1e-10)
    actual = dict(zip((name for name, _ in method.named_parameters()), gradients, strict=True))
    for (name, _), g in zip(module.named_parameters(), expected, strict=True):
        torch.testing.assert_close(
            actual[f"theta.{parameter_key(name)}"], g, rtol=1e-10, atol=1e-10, msg=name
        )


@pytest.mark.parametrize("net", NETS)
def test_steps_that_are_computed_again_have_the_gradients_of_steps_that_are_kept(net):
    method, task = make("taml", net, samples=2).double(), make_task()
    actual, _ = task_gradients(method, task)
    method.engine = "autograd"
    expected, _ = task_gradients(method, task)
    for (name, _), a, b in zip(method.named_parameters(), actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10, msg=name)


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def test_memory_for_activations_does_not_grow_with_the_number_of_steps():
    task = make_task()

    def saved_numbers(engine: str, steps: int) -> int:
        method, boxes = make("maml", steps=steps), weakref.WeakSet()
        method.engine = engine

        def keep(tensor):
            boxes.add(box := Box(tensor))
            return box

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda box: box.tensor):
            objective = method.objective(task)
        kept = {box.tensor.data_ptr(): box.tensor.numel() for box in boxes}
        assert objective.loss.requires_grad
        return sum(kept.values())

    growth, whole = (
        saved_numbers(engine, 6) - saved_numbers(engine, 2) for engine in ("auto", "autograd")
    )
    assert 0 < growth < whole / 4


@pytest.mark.parametrize("method", METHODS)
def test_an_image_alone_has_the_answer_that_it_has_among_others_if_not_transductive(method):
    classify = make(method, transductive=False).adapt(*support_of(make_task()))
    query = make_task(query=10).query
    torch.testing.assert_close(classify(query[:1]), classify(query)[:1], rtol=1e-5, atol=1e-6)


def support_of(task):
    return task.support, task.support_labels


@pytest.mark.parametrize("transductive", [True, False])
def test_batch_norms_use_the_statistics_that_the_setting_says(transductive):
    method = make("maml", transductive=transductive).double()
    task = make_task()
    support, labels, query, _ = method.task_tensors(task)
    inner = method.inner_problem(support, labels, task.way, {}, 3)
    theta = method.adapted_parameters(inner, 0)

    def layer(x, number, reference):
        weight, bias = theta[f"module/{number}/weight"], theta[f"module/{number}/bias"]
        y = F.conv2d(x, weight, bias, padding=1, groups=1 if number == "first" else 2)
        norm = {"first": "norm", "second": "second_norm"}[number]
        source = y if reference is None else reference
        mean = source.mean((0, 2, 3), keepdim=True)
        variance = ((source - mean) ** 2).mean((0, 2, 3), keepdim=True)
        scale, shift = (
            theta[f"module/{norm}/{part}"].view(1, -1, 1, 1) for part in ("weight", "bias")
        )
        return y, F.relu((y - mean) / (variance + 1e-5).sqrt() * scale + shift)

    def features(x, references):
        first, h = layer(x, "first", references[0])
        second, h = layer(F.max_pool2d(h, 4), "second", references[1])
        h = F.max_pool2d(h, 2).flatten(1) + method.norm.constants["module/offset"]
        return first, second, theta["module/scale"] * h

    first, second, _ = features(support, (None, None))
    _, _, h = features(query, (None, None) if transductive else (first, second))
    expected = F.linear(h, theta["head_weight"], theta["head_bias"]).softmax(1)
    actual = method.adapt(*support_of(task))(query)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", ["ConvNorm", "TinyTransformer"])
def test_dropout_is_a_function_of_the_task_in_training_and_off_in_tests(method, net):
    mine, task = make(method, net), make_task()
    before = torch.get_rng_state()
    first = mine.objective(task)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    again, other = mine.objective(task), mine.objective(task, torch.Generator().manual_seed(5))
    assert first.loss.item() == again.loss.item()
    assert first.loss.item() != other.loss.item() or method == "simpleshot"  # learns from means
    without = create_without_dropout(mine, net)
    noise = torch.Generator().manual_seed
    expected = without.predict(task, noise(1))
    torch.testing.assert_close(mine.predict(task, noise(1)), expected, rtol=0, atol=0)
    torch.set_rng_state(before)


def create_without_dropout(method, net):
    body = Body.from_module(NETS[net](dropout=0.0), (16, 16))
    same = type(method)(method.settings, body, torch.Generator())
    same.load_state_dict(method.state_dict())
    return same


def test_steps_and_query_draw_different_dropout():
    method, task = make("maml"), make_task()
    support, labels, _, _ = method.task_tensors(task)
    inner = method.inner_problem(support, labels, 3, {}, 2, noise=task.noise())
    head = torch.randn(3, method.body.width, generator=torch_rng(0))
    inner = replace(inner, theta={**inner.theta, "head_weight": head})
    g = [method.gradient(inner, inner.theta, 0, step)["module/scale"].item() for step in range(3)]
    again = method.gradient(inner, inner.theta, 0, 0)["module/scale"].item()
    assert g[0] == again
    assert len(set(g)) == 3


@pytest.mark.parametrize("method", METHODS)
def test_run_with_a_module_resumes_to_the_same_bits_with_any_number_of_workers(method, tmp_path):
    net = tmp_path / "net.py"
    shutil.copy(FILE, net)
    settings = anyshot.Settings(
        images=("tiny",),
        task=anyshot.TaskSettings(way=2, shots="any-shot:1-4", query=3),
        method=MethodSettings(
            name=method, body=f"{net}:ConvNorm", channels=2, steps=1, test_steps=1, alpha=0.05
        ),
        train=anyshot.TrainSettings(
            iterations=2, meta_batch=2, validate_every=0, validation_tasks=1, checkpoint_every=1
        ),
    )
    short = replace(settings, train=replace(settings.train, iterations=1))
    data = {"imagesets": [make_imageset()], "ood": [], "tensorboard": False}
    train(settings, tmp_path / "whole", workers=2, **data)
    train(short, tmp_path / "parts", workers=1, **data)
    net.write_text("changed = True")  # the run goes on with its copy
    train(settings, tmp_path / "parts", workers=1, **data)
    whole, parts = (Run(tmp_path / name, trust_code=True) for name in ("whole", "parts"))
    assert_equal(whole.latest_checkpoint().tensors, parts.latest_checkpoint().tensors)
    with pytest.raises(CodeError, match="trust_code"):
        Run(tmp_path / "parts").load_method()
    loaded = parts.load_method()
    assert_equal(dict(loaded.state_dict()), parts.best().tensors)
    assert "constants.module/offset" in loaded.state_dict()


def test_gamma_has_one_element_for_each_layer_and_z_two_for_each_output_channel():
    method = make("taml", "TinyTransformer")
    assert list(method.body.layer_parameters) == [
        "position", "patches", "norm", "attention", "attention.out_proj", "head of the module",
        "head",
    ]  # fmt: skip
    q = method.posterior(*method.task_tensors(make_task())[:2], 3)
    assert q.mean["gamma"].shape == (7,)
    assert q.mean["z"].shape == (2 * (8 + 24 + 8 + 24),)
    phi = {"gamma": torch.arange(7.0), "z": torch.linspace(-1, 1, 128)}
    images, labels, _, _ = method.task_tensors(make_task())
    inner = method.inner_problem(images, labels, 3, phi, 1)
    moved = inner.theta["module/patches/weight"] / method.theta["module/patches/weight"] - 1
    torch.testing.assert_close(moved[:, 0, 0, 0], phi["z"][:8])
    rates = dict(method.rate)
    assert torch.equal(
        inner.rates["module/position"], rates["module/position"] * torch.tensor(0.0).exp()
    )
    torch.testing.assert_close(
        inner.rates["module/head/bias"], rates["module/head/bias"] * torch.tensor(5.0).exp()
    )


def test_initialisation_is_the_modules_own_and_a_function_of_the_seed():
    before = torch.get_rng_state()
    settings = MethodSettings(name="maml", body=f"{FILE}:TinyTransformer")
    first, again, other = (create_method(settings, (16, 16), seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert_equal(first.state_dict(), again.state_dict())
    position = "theta.module/position"
    assert not torch.equal(first.state_dict()[position], other.state_dict()[position])
    assert torch.equal(
        first.theta["module/attention/in_proj_bias"], torch.zeros(24)
    )  # as nn.MultiheadAttention does it
    mine = TinyTransformer()
    body = Body.from_module(mine, (16, 16))
    assert torch.equal(body.init_parameters(torch_rng(3))["module/position"], mine.position)


def test_z_at_the_activations_is_refused_for_a_module():
    with pytest.raises(SettingsError, match="z-site"):
        make("taml", z_site="activation")


def test_buffers_follow_the_method_to_another_type():
    method = make("maml").double()
    assert method.norm.constants["module/offset"].dtype == torch.float64
    assert ConvNorm().offset.dtype == torch.float32
