"""Inputs of ``adapt`` and of the predictor that it returns."""

import logging

import numpy as np
import pytest
import torch
from support import make_method, make_task

from anyshot.core.errors import DataError
from anyshot.methods import METHODS


# ---------------------------------------------------------------- transductive or not
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_non_transductive_result_does_not_depend_on_the_other_images(name, centre):
    method, task = make_method(name, alpha=0.1, transductive=False, centre=centre), make_task()
    classify = method.adapt(task.support, task.support_labels)
    together = classify(task.query)
    alone = torch.cat([classify(image[None]) for image in task.query])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-6)
    assert (together - together.mean(0)).abs().max() > 1e-3  # images do differ


@pytest.mark.parametrize("name", METHODS)
def test_transductive_result_and_loss_depend_on_the_other_images(name):
    task, losses = make_task(), []
    for transductive in (True, False):
        method = make_method(name, alpha=0.1, transductive=transductive)
        losses.append(method.objective(task).loss.item())
        classify = method.adapt(task.support, task.support_labels)
        change = (classify(task.query)[:6] - classify(task.query[:6])).abs().max()
        assert (change > 1e-4) == transductive
    if name != "simpleshot":  # its training does not look at the query images
        assert abs(losses[0] - losses[1]) > 1e-6


@pytest.mark.parametrize("name", ["taml", "protonet"])
def test_transductive_predictor_warns_once_about_small_batches(name, caplog):
    task = make_task(way=3)
    with caplog.at_level(logging.WARNING):
        for transductive in (True, False):
            method = make_method(name, transductive=transductive)
            classify = method.adapt(task.support, task.support_labels)
            for count in (3, 2, 1):
                classify(task.query[:count])
    (message,) = [r.getMessage() for r in caplog.records if r.name == "anyshot.methods.predictor"]
    assert "2 images for 3 classes" in message
    assert "--no-transductive" in message


# ---------------------------------------------------------------- images
def test_arrays_bytes_and_floats_give_the_same_result():
    method, task = make_method("maml", torch.float32, alpha=0.1), make_task()
    expected = method.predict(task)
    images, queries = task.support.numpy(), task.query.numpy()
    images.setflags(write=False)
    for labels in (task.support_labels.numpy().astype(np.uint8), task.support_labels.tolist()):
        assert torch.equal(method.adapt(images, labels)(queries), expected)
    floats = [(t.transpose(0, 3, 1, 2) / 255).astype(np.float64) for t in (images, queries)]
    torch.testing.assert_close(method.adapt(floats[0], labels)(floats[1]), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x: x[..., :2],
            r"uint8 \[\d+, 16, 16, 2\].*uint8 \[n, 16, 16, 3\] or float \[n, 3, 16, 16\]",
        ),
        (lambda x: x.permute(0, 3, 1, 2), r"uint8 \[\d+, 3, 16, 16\]"),
        (lambda x: x.float() / 255, r"float32 \[\d+, 16, 16, 3\]"),
        (lambda x: x.int().permute(0, 3, 1, 2), "int32"),
        (lambda x: x[:0], r"uint8 \[0, 16, 16, 3\].* n at least 1"),
        (lambda x: x.float().permute(0, 3, 1, 2), "from 0 to 255"),
        (lambda x: x.float().permute(0, 3, 1, 2) * torch.nan, "from nan to nan"),
        (lambda x: x.float().permute(0, 3, 1, 2) / 255 - 0.5, "values from -0.[45]"),
    ],
)
def test_unsuitable_images_are_refused(change, message):
    method, task = make_method("maml"), make_task()
    for ask in (
        lambda: method.adapt(change(task.support), task.support_labels),
        lambda: method.adapt(task.support, task.support_labels)(change(task.query)),
    ):
        with pytest.raises(DataError, match=message):
            ask()


# ---------------------------------------------------------------- labels
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: 2 * y, "0, 2, 4.*0 to 2"),
        (lambda y: y + 1, "1, 2, 3.*0 to 2"),
        (lambda y: y - 1, "Labels are -1, 0, 1"),
        (lambda y: y.float(), "Labels are float32"),
        (lambda y: y > 0, "Labels are bool"),
        (lambda y: y[:-1], "one for each image"),
        (lambda y: torch.eye(3)[y].long(), r"\[\d+, 3\]"),
        (lambda y: [str(c) for c in y.tolist()], "expected integers"),
        (
            lambda y: 2 * torch.arange(len(y)),
            r"0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ….*0 to 11",
        ),
    ],
)
def test_unsuitable_labels_are_refused(change, message):
    task = make_task(way=3, shots="fixed:4")
    with pytest.raises(DataError, match=message):
        make_method("taml").adapt(task.support, change(task.support_labels))
