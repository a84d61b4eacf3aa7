"""Mirror images as further evidence at test time."""

from dataclasses import replace

import pytest
import torch
from support import make_imageset, make_method, make_task

from anyshot.lists import METHODS
from anyshot.settings import TaskSettings
from anyshot.tasks import TaskStream, torch_rng


def both(name, **options):
    return (make_method(name, alpha=0.05, flips=flips, **options) for flips in (True, False))


@pytest.mark.parametrize("name", METHODS)
def test_a_mirrored_query_image_gets_the_same_probabilities(name):
    method, _ = both(name)
    task = make_task()
    mirrored = replace(task, query=task.query.flip(2))
    p, q = (method.predict(t, torch_rng(0), prediction="naive") for t in (task, mirrored))
    torch.testing.assert_close(p, q)
    assert not torch.allclose(p, make_method(name, alpha=0.05).predict(task, torch_rng(0), prediction="naive"))


def test_it_is_the_mean_of_two_answers_of_what_is_learned_from_both():
    flipping, plain = both("meta-sgd")
    task = make_task()
    support = torch.cat([task.support, task.support.flip(2)])
    learned = plain.adapt(support, task.support_labels.repeat(2))
    expected = (learned(task.query) + learned(task.query.flip(2))) / 2
    torch.testing.assert_close(flipping.predict(task), expected)


def test_the_encoder_counts_each_image_once():
    flipping, _ = both("taml", test_steps=2)
    task, seen = make_task(), []
    honest = flipping.encoder.forward
    flipping.encoder.forward = lambda images, labels, way: (seen.append(len(labels)), honest(images, labels, way))[1]
    flipping.predict(task, prediction="naive")
    assert seen == [len(task)]


def test_images_that_do_not_mirror_are_left_alone():
    letters = replace(make_imageset(), kind="characters")
    task = TaskStream(letters, "test", TaskSettings(way=3, shots="fixed:3", query=4)).task(0)
    assert not task.mirrors
    flipping, plain = both("taml")
    torch.testing.assert_close(flipping.predict(task), plain.predict(task))
    assert flipping.settings.flips
