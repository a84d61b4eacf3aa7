"""What people hand to ``adapt`` and to the classifier they get back."""

import logging

import numpy as np
import pytest
import torch
from support import make_method, make_task

from anyshot.core.errors import AnyshotError
from anyshot.methods import METHODS


# ---------------------------------------------------------------------------------------------------- one by one
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_without_transduction_an_image_is_classified_as_it_is_among_others(name, centre):
    method, task = make_method(name, alpha=0.1, transductive=False, centre=centre), make_task()
    classify = method.adapt(task.support, task.support_labels)
    together = classify(task.query)
    alone = torch.cat([classify(image[None]) for image in task.query])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-6)
    assert (together - together.mean(0)).abs().max() > 1e-3  # images do differ


@pytest.mark.parametrize("name", METHODS)
def test_with_transduction_an_image_depends_on_the_others_and_so_does_training(name):
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
def test_a_transductive_classifier_says_once_that_it_needs_more_images(name, caplog):
    task = make_task(way=3)
    with caplog.at_level(logging.WARNING):
        for transductive in (True, False):
            method = make_method(name, transductive=transductive)
            classify = method.adapt(task.support, task.support_labels)
            classify(task.query[:3])
            assert len(caplog.records) == (not transductive)
            classify(task.query[:2])
            classify(task.query[:1])
    assert len(caplog.records) == 1
    assert "about 2 images of 3 classes" in caplog.text
    assert "--no-transductive" in caplog.text


# ---------------------------------------------------------------------------------------------------- images
def test_arrays_bytes_and_floats_give_the_same_answer():
    method, task = make_method("maml", torch.float32, alpha=0.1), make_task()
    expected = method.predict(task)
    images, queries = task.support.numpy(), task.query.numpy()
    images.setflags(write=False)
    for labels in (task.support_labels.numpy().astype(np.uint8), task.support_labels.tolist()):
        assert torch.equal(method.adapt(images, labels)(queries), expected)
    floats = [(t.transpose(0, 3, 1, 2) / 255).astype(np.float64) for t in (images, queries)]
    torch.testing.assert_close(method.adapt(floats[0], labels)(floats[1]), expected)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda x: x[..., :2],
            r"uint8 \[\d+, 16, 16, 2\], but should be uint8 \[n, 16, 16, 3\] or float \[n, 3, 16, 16\]",
        ),
        (lambda x: x.permute(0, 3, 1, 2), r"uint8 \[\d+, 3, 16, 16\]"),
        (lambda x: x.float() / 255, r"float32 \[\d+, 16, 16, 3\]"),
        (lambda x: x.int().permute(0, 3, 1, 2), "int32"),
        (lambda x: x[:0], r"uint8 \[0, 16, 16, 3\].* n at least 1"),
        (lambda x: x.float().permute(0, 3, 1, 2), "divide by 255"),
        (lambda x: x.float().permute(0, 3, 1, 2) * torch.nan, "from nan to nan"),
        (lambda x: x.float().permute(0, 3, 1, 2) / 255 - 0.5, "values from -0.[45]"),
    ],
)
def test_images_of_other_kinds_are_refused_with_a_sentence(change, sentence):
    method, task = make_method("maml"), make_task()
    for ask in (
        lambda: method.adapt(change(task.support), task.support_labels),
        lambda: method.adapt(task.support, task.support_labels)(change(task.query)),
    ):
        with pytest.raises(AnyshotError, match=sentence):
            ask()


# ---------------------------------------------------------------------------------------------------- labels
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda y: 2 * y, "Labels are 0, 2, 4, but should be 0 to 2, each at least once"),
        (lambda y: y + 1, "Labels are 1, 2, 3, but should be 0 to 2"),
        (lambda y: y - 1, "Labels are -1, 0, 1"),
        (lambda y: y.float(), "Labels are float32"),
        (lambda y: y > 0, "Labels are bool"),
        (lambda y: y[:-1], "one for each image"),
        (lambda y: torch.eye(3)[y].long(), r"\[\d+, 3\]"),
        (lambda y: [str(c) for c in y.tolist()], "should be integers"),
        (
            lambda y: 2 * torch.arange(len(y)),
            r"Labels are 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, …, but should be 0 to 11",
        ),
    ],
)
def test_labels_that_are_not_the_classes_numbers_are_refused_with_a_sentence(change, sentence):
    task = make_task(way=3, shots="fixed:4")
    with pytest.raises(AnyshotError, match=sentence):
        make_method("taml").adapt(task.support, change(task.support_labels))
