"""Inductive tests with stored batch-norm statistics."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method, make_task

from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.data.tasks import TaskStream
from anyshot.methods.embedding_method import STATISTICS_IMAGES
from anyshot.models.norm import EPS
from anyshot.training.stages import train

METHODS = ("protonet", "r2d2", "simpleshot", "rfs")
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
        actual = method.embed(method.to_input(task.query), norm=method.stored_norm())
    # torch stores the unbiased variance, which differs by 1 / (images × pixels)
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=2e-3, atol=1e-3)


def test_transductive_tests_ignore_stored_statistics():
    method, _ = prepared("rfs", centre=True)
    settings = {**STORED, "transductive": True}
    transductive = make_method("rfs", centre=True, **settings)
    transductive.load_state_dict(method.state_dict())
    plain, task = make_method("rfs", centre=True), make_task()
    torch.testing.assert_close(transductive.predict(task), plain.predict(task))
    assert (method.predict(task) - plain.predict(task)).abs().max() > 1e-4


def test_training_uses_the_statistics_of_each_batch():
    task = make_task()
    stored, _ = prepared("protonet")
    plain = make_method("protonet")
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
