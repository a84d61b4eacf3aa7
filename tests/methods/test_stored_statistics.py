"""Tests with stored batch-norm statistics, alone or as a prior for those of each set."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method, make_task

from anyshot.core.errors import SettingsError
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.data.tasks import TaskStream
from anyshot.inner_loop import adapt, logits_many, query_loss
from anyshot.methods import create_method
from anyshot.methods.stored_statistics import STATISTICS_IMAGES
from anyshot.models.norm import EPS
from anyshot.models.stored_norm import ShrunkNorm
from anyshot.training.stages import train

INNER_LOOP = ("maml", "anil", "meta-sgd", "proto-maml", "taml")
METHODS = ("protonet", "r2d2", "simpleshot", "rfs", *INNER_LOOP)
STORED = {"transductive": False, "stored_statistics": True}


def prepared(name, **options):
    method = make_method(name, **STORED, **options)
    sizes = TaskSettings(way=3, shots="fixed:5", query=4)
    stream = TaskStream(make_imageset(), "train", sizes)
    method.before_validation(stream)
    return method, stream


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_a_prediction_does_not_depend_on_the_other_queries(name, centre):
    method, _ = prepared(name, centre=centre)
    task = make_task()
    predictor = method.adapt(task.support, task.support_labels)
    together = predictor(task.query)
    alone = torch.cat([predictor(image[None]) for image in task.query])
    torch.testing.assert_close(together, alone)


def test_features_are_those_of_torch_batch_norm_in_evaluation_mode():
    """The statistics come from torch's BatchNorm2d in training mode with momentum 1."""
    method, stream = prepared("protonet")
    task = make_task()
    tasks = [stream.task(i) for i in range(30)]
    images = torch.cat([method.to_input(x) for t in tasks for x in (t.support, t.query)])

    def embed(x, norms):
        for i, norm in enumerate(norms, 1):
            y = F.conv2d(x, method.theta[f"conv{i}_weight"], padding=1)
            x = F.max_pool2d(F.relu(norm(y) + method.shift[i - 1].view(1, -1, 1, 1)), 2)
        return x.flatten(1)

    norms = [
        torch.nn.BatchNorm2d(4, EPS, momentum=1.0, affine=False, dtype=torch.float64)
        for _ in range(4)
    ]
    with torch.no_grad():
        embed(images[:STATISTICS_IMAGES], norms)
        for norm in norms:
            norm.eval()
        expected = embed(method.to_input(task.query), norms)
        actual = method.embed(method.to_input(task.query), norm=method.test_norm(method.norm))
    # torch stores the unbiased variance, which differs by 1 / (images × pixels)
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=2e-3, atol=1e-3)


class PlainConv4(torch.nn.Module):
    """Conv4 with a linear head, of torch's own layers."""

    def __init__(self, channels, width, way):
        super().__init__()
        inputs = (3, channels, channels, channels)
        self.convs = torch.nn.ModuleList(
            torch.nn.Conv2d(i, channels, 3, padding=1, bias=False) for i in inputs
        )
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(channels, EPS) for _ in inputs)
        self.head = torch.nn.Linear(width, way)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.head(x.flatten(1))


@pytest.mark.parametrize("adapt_body", [True, False])
def test_an_inner_loop_is_that_of_a_torch_module_in_evaluation_mode(adapt_body):
    """Meta-gradients of two steps and the query loss, by autograd through the module."""
    method, _ = prepared("maml", steps=2, alpha=0.1, alpha_head=0.5, adapt_body=adapt_body)
    task = make_task()
    support, labels, query, query_labels = method.task_tensors(task)
    inner = method.inner_problem(support, labels, task.way, {}, 2)
    loss, scores = query_loss(inner, query, query_labels)
    names = [f"conv{i}_weight" for i in range(1, 5)]
    actual = torch.autograd.grad(loss, [*(method.theta[name] for name in names), *method.shift])

    net = PlainConv4(4, method.body.width, task.way).double().eval()
    start = {"head.weight": torch.zeros_like(net.head.weight), "head.bias": torch.zeros(3).double()}
    buffers = dict(method.named_buffers())
    for i, name in enumerate(names):
        start[f"convs.{i}.weight"] = method.theta[name].detach().requires_grad_()
        start[f"norms.{i}.bias"] = method.shift[i].detach().requires_grad_()
        net.norms[i].running_mean.copy_(buffers[f"stored_mean{i}"])
        net.norms[i].running_var.copy_(buffers[f"stored_variance{i}"])
    theta = {name: t if t.requires_grad else t.requires_grad_() for name, t in start.items()}
    adapted = [name for name in theta if "head" in name or ("convs" in name and adapt_body)]
    for _ in range(2):
        inner_loss = F.cross_entropy(torch.func.functional_call(net, theta, support), labels)
        g = torch.autograd.grad(inner_loss, [theta[name] for name in adapted], create_graph=True)
        rates = [0.5 if "head" in name else 0.1 for name in adapted]
        steps = zip(adapted, rates, g, strict=True)
        theta = theta | {name: theta[name] - rate * d for name, rate, d in steps}
    logits = torch.func.functional_call(net, theta, query)
    weights = [start[f"convs.{i}.weight"] for i in range(4)]
    shifts = [start[f"norms.{i}.bias"] for i in range(4)]
    expected = torch.autograd.grad(F.cross_entropy(logits, query_labels), [*weights, *shifts])
    torch.testing.assert_close(scores, logits.detach(), rtol=0, atol=1e-10)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
        assert b.abs().max() > 1e-4


@pytest.mark.parametrize("name", ["rfs", "taml"])
def test_transductive_tests_ignore_stored_statistics(name):
    method, _ = prepared(name, centre=True)
    settings = {**STORED, "transductive": True}
    transductive = make_method(name, centre=True, **settings)
    transductive.load_state_dict(method.state_dict())
    plain, task = make_method(name, centre=True), make_task()
    torch.testing.assert_close(transductive.predict(task), plain.predict(task))
    assert (method.predict(task) - plain.predict(task)).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["protonet", "meta-sgd"])
def test_training_uses_the_statistics_of_each_batch(name):
    task = make_task()
    stored, _ = prepared(name)
    plain = make_method(name)
    torch.testing.assert_close(stored.objective(task).loss, plain.objective(task).loss)


def test_a_run_saves_the_statistics_of_its_training_images(tmp_path):
    settings = Settings(
        images=("tiny",),
        task=TaskSettings(way=3, shots="fixed:5", query=4),
        method=MethodSettings(name="rfs", channels=4, options={"stored_statistics": True}),
        train=TrainSettings(iterations=1, meta_batch=1, validation_tasks=2, select="id"),
    )
    run = train(settings, tmp_path / "run", imagesets=[make_imageset()], tensorboard=False)
    method = run.load_method()
    stored = {name: value.clone() for name, value in method.named_buffers()}
    assert len(stored) == 8
    method.before_validation(TaskStream(make_imageset(), "train", settings.task, seed=0))
    for name, value in method.named_buffers():
        torch.testing.assert_close(value, stored[name])
        assert (value.abs() > 1e-3).any()


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_engine_predicts_as_autograd_does(dtype, centre):
    """Two steps and the class scores, with scales of both signs."""
    method, _ = prepared("maml", centre=centre, alpha=0.1, alpha_head=0.5, dtype=dtype)
    task = make_task()
    support, labels, query, _ = method.task_tensors(task)
    scales = [torch.tensor([-1.2, 1, -0.7, 0.5], dtype=dtype)] * 4
    inner = method.inner_problem(support, labels, task.way, {}, 2)
    inner = replace(inner, norm=replace(inner.norm, scale=scales))

    def scores(engine):
        with torch.no_grad():
            return logits_many([inner], [adapt(inner, engine)], query, engine)

    expected = scores("autograd")
    assert expected.std() > 0.01
    tolerance = {"rtol": 0, "atol": 1e-10 if dtype == torch.float64 else 1e-4}
    torch.testing.assert_close(scores("engine"), expected, **tolerance)


@pytest.mark.parametrize("options", [{"stored_statistics": True}, {"norm_prior": 20.0}])
def test_a_body_whose_statistics_cannot_be_stored_is_refused_at_once(options):
    body = f"{Path(__file__).parents[1] / 'helpers' / 'modules.py'}:ConvNorm"
    with pytest.raises(SettingsError, match="--norm-prior"):
        create_method(MethodSettings(name="rfs", body=body, options=options), (16, 16))


@pytest.mark.parametrize("engine", ["auto", "autograd"])
@pytest.mark.parametrize("options", [STORED, {"norm_prior": 20.0}])
def test_a_method_that_is_created_inside_inference_mode_predicts(engine, options):
    task = make_task()
    with torch.inference_mode():
        method = make_method("maml", **options)
        method.engine = engine
        inside = method.predict(task)
    torch.testing.assert_close(inside, make_method("maml", **options).predict(task))


@pytest.mark.parametrize("reference_size", [None, 4])
@pytest.mark.parametrize("scale", [None, torch.tensor([1.5, -0.5], dtype=torch.float64)])
def test_shrunk_statistics_are_those_of_the_batch_and_the_prior_images(reference_size, scale):
    """Values and second derivatives, against the statistics of all these images together."""
    rng = torch.Generator().manual_seed(0)
    prior = torch.randn(3, 2, 5, 5, generator=rng, dtype=torch.float64) + 1
    x = torch.randn(6, 2, 5, 5, generator=rng, dtype=torch.float64, requires_grad=True)
    shift = torch.tensor([0.1, -0.2], dtype=torch.float64)
    given = [(prior.mean((0, 2, 3)), prior.var((0, 2, 3), correction=0))]
    scales = None if scale is None else [scale]
    norm = ShrunkNorm([shift], scales, reference_size, statistics=given, prior_images=3.0)

    def expected(x):
        both = torch.cat([prior, x[:reference_size]])
        mean, var = both.mean((0, 2, 3), True), both.var((0, 2, 3), correction=0, keepdim=True)
        y = (x - mean) / (var + EPS).sqrt()
        return y * (1 if scale is None else scale.view(-1, 1, 1)) + shift.view(-1, 1, 1)

    torch.testing.assert_close(norm(0, x), expected(x), rtol=0, atol=1e-12)
    found = []
    for normalise in (lambda x: norm(0, x), expected):
        (first,) = torch.autograd.grad(normalise(x).pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        found.append((first.detach(), second))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("name", ["rfs", "meta-sgd", "taml"])
def test_a_norm_prior_leads_from_the_statistics_of_the_set_to_stored_ones(name, transductive):
    task, stream = make_task(), TaskStream(make_imageset(), "train", TaskSettings(way=3))

    def prediction(transductive=transductive, **options):
        method = make_method(name, transductive=transductive, **options)
        method.before_validation(stream)
        return method.predict(task)

    own, stored = prediction(), prediction(transductive=False, stored_statistics=True)
    torch.testing.assert_close(prediction(norm_prior=1e-9), own)
    torch.testing.assert_close(prediction(norm_prior=1e9), stored)
    between = prediction(norm_prior=20.0)
    assert min((between - own).abs().max(), (between - stored).abs().max()) > 1e-5


def test_a_norm_prior_leaves_training_as_it_is():
    task = make_task()
    shrunk, plain = make_method("meta-sgd", norm_prior=20.0), make_method("meta-sgd")
    torch.testing.assert_close(shrunk.objective(task).loss, plain.objective(task).loss)
