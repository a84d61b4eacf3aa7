"""Mirror images and other zooms as further evidence at test time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method, make_task

from anyshot.inner import gradient
from anyshot.lists import METHODS
from anyshot.methods.views import zoomed
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


@pytest.mark.parametrize(
    ("options", "scales"), [({"flips": True}, [1]), ({"zooms": (0.75, 1.3)}, [1, 0.75, 1.3]), ({}, [1])], ids=str
)
def test_steps_see_the_views_in_turn_and_answers_are_averaged_over_them(options, scales):
    method, task = make_method("meta-sgd", alpha=0.05, test_steps=5, **options), make_task()
    support, labels, query, _ = method.tensors(task)

    def views(images):
        seen = [zoomed(images, scale) for scale in scales]
        return [view for one in seen for view in ((one, one.flip(3)) if method.settings.flips else (one,))]

    inner = method.inner(support, labels, task.way, {}, 5)
    theta, learned_from = dict(inner.theta), views(support)
    for k in range(5):
        g, _ = gradient(theta, learned_from[k % len(learned_from)], labels, inner.weights, inner.norm)
        theta = {name: theta[name] - inner.rates[name] * g[name] for name in theta}
    answers = [inner.query_logits(theta, view).softmax(1) for view in views(query)]
    torch.testing.assert_close(method.predict(task), (sum(answers) / len(answers)).detach())


def test_prototypes_are_means_over_all_views():
    method, plain, task = make_method("protonet", zooms=(0.75,)), make_method("protonet"), make_task()
    support, labels, query, _ = plain.tensors(task)
    learned = plain.adapt(torch.cat([support, zoomed(support, 0.75)]), labels.repeat(2))
    torch.testing.assert_close(method.predict(task), (learned(query) + learned(zoomed(query, 0.75))) / 2)


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


@pytest.mark.parametrize("scale", [0.5, 0.75, 1.0, 1.3, 4.0])
@pytest.mark.parametrize("size", [(8, 8), (7, 12)])
def test_a_zoom_is_what_torch_samples_from_a_grid(size, scale):
    images = torch.rand(2, 3, *size, generator=torch_rng(0), dtype=torch.float64)
    grid = F.affine_grid(
        torch.tensor([[[scale, 0, 0], [0, scale, 0]]] * 2).double(), [2, 3, *size], align_corners=False
    )
    expected = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(zoomed(images, scale), expected)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_from_other_zooms(name):
    """Not only the query's views count: those of the support change what is learned."""
    zooming, plain, task = make_method(name, alpha=0.05, zooms=(0.75,)), make_method(name, alpha=0.05), make_task()
    query = plain.tensors(task)[2]
    learned = plain.adapt(task.support, task.support_labels, torch_rng(0), "naive")
    asked_twice = (learned(query) + learned(zoomed(query, 0.75))) / 2
    assert not torch.allclose(zooming.predict(task, torch_rng(0), prediction="naive"), asked_twice)


def test_zooms_and_mirror_images_go_together():
    method = make_method("meta-sgd", alpha=0.05, flips=True, zooms=(1.3,))
    task = make_task()
    p, q = (method.predict(t) for t in (task, replace(task, query=task.query.flip(2))))
    torch.testing.assert_close(p, q)
