"""Mirror images and other zooms as further evidence at test time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method, make_task

from anyshot.core.random import torch_rng
from anyshot.core.registry import METHODS
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.inner_loop import gradient
from anyshot.methods.test_time_augmentation import make_views, zoom
from anyshot.models.network import HEAD_PARAMETERS


def both(name, **options):
    return (make_method(name, alpha=0.05, flips=flips, **options) for flips in (True, False))


@pytest.mark.parametrize("name", METHODS)
def test_a_mirrored_query_image_gets_the_same_probabilities(name):
    method, _ = both(name)
    task = make_task()
    mirrored = replace(task, query=task.query.flip(2))
    p, q = (method.predict(t, torch_rng(0), prediction="naive") for t in (task, mirrored))
    torch.testing.assert_close(p, q)
    assert not torch.allclose(
        p, make_method(name, alpha=0.05).predict(task, torch_rng(0), prediction="naive")
    )


WAYS = {
    "as they are": ({}, [1]),
    "mirror images": ({"flips": True}, [1]),
    "zooms": ({"zooms": (0.75, 1.3)}, [1, 0.75, 1.3]),
    "both": ({"flips": True, "zooms": (1.3,)}, [1, 1.3]),
}


def views(images, scales, flips):
    seen = [images if scale == 1 else zoom(images, scale) for scale in scales]
    return [view for one in seen for view in ((one, one.flip(3)) if flips else (one,))]


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize(("options", "scales"), WAYS.values(), ids=WAYS)
def test_steps_see_the_views_in_turn_and_answers_are_averaged_over_them(
    options, scales, transductive
):
    method = make_method("meta-sgd", alpha=0.05, test_steps=5, transductive=transductive, **options)
    task, flips = make_task(), method.settings.flips
    support, labels, query, _ = method.task_tensors(task)
    inner, learned_from = (
        method.inner_problem(support, labels, task.way, {}, 5),
        views(support, scales, flips),
    )
    theta = dict(inner.theta)
    for k in range(5):
        g, _ = gradient(
            theta, learned_from[k % len(learned_from)], labels, inner.weights, inner.norm
        )
        theta = {name: theta[name] - inner.rates[name] * g[name] for name in theta}
    pairs = zip(
        learned_from, views(query, scales, flips), strict=True
    )  # the same view has the same statistics
    answers = [
        replace(inner, images=seen).query_logits(theta, asked).softmax(1) for seen, asked in pairs
    ]
    torch.testing.assert_close(method.predict(task), (sum(answers) / len(answers)).detach())


@pytest.mark.parametrize("name", METHODS)
def test_averaged_features_are_the_same_for_a_mirrored_query_image(name):
    options = {"alpha": 0.05, "flips": True, "test_steps": 2}
    method, task = make_method(name, **options, average_views="features"), make_task()
    mirrored = replace(task, query=task.query.flip(2))
    p, q = (method.predict(t, torch_rng(0), prediction="naive") for t in (task, mirrored))
    torch.testing.assert_close(p, q)
    apart = make_method(name, **options)
    assert not torch.allclose(p, apart.predict(task, torch_rng(0), prediction="naive"))


@pytest.mark.parametrize("body", ["conv4", "conv4-unit"])
@pytest.mark.parametrize("transductive", [True, False])
def test_averaged_features_have_the_mean_length_of_those_of_the_views(body, transductive):
    options = {"body": body, "transductive": transductive, "zooms": (0.75,), "flips": True}
    method, task = make_method("protonet", **options, average_views="features"), make_task()
    support, labels, query, _ = method.task_tensors(task)
    pairs = list(zip(views(support, [1, 0.75], True), views(query, [1, 0.75], True), strict=True))

    def average(features):
        lengths = [f.norm(dim=1, keepdim=True) for f in features]
        total = sum(features)
        return total / total.norm(dim=1, keepdim=True) * sum(lengths) / len(lengths)

    h = average([method.embed(seen) for seen, _ in pairs])
    g = average(
        [method.embed(asked, reference=None if transductive else seen) for seen, asked in pairs]
    )
    p = torch.stack([h[labels == c].mean(0) for c in range(task.way)])
    expected = (-(torch.cdist(g, p) ** 2)).softmax(1).detach()
    torch.testing.assert_close(method.predict(task), expected)


def test_steps_on_a_frozen_body_see_averaged_features():
    options = {"alpha_head": 0.1, "test_steps": 3, "adapt_body": False, "flips": True}
    method, task = make_method("meta-sgd", **options, average_views="features"), make_task()
    support, labels, query, _ = method.task_tensors(task)

    def average(images):
        pair = torch.stack([method.embed(images), method.embed(images.flip(3))])
        return F.normalize(pair.mean(0)) * pair.norm(dim=2).mean(0)[:, None]

    x, g = average(support).detach(), average(query).detach()
    head = (torch.zeros(task.way, x.shape[1]).to(x), torch.zeros(task.way).to(x))
    for _ in range(3):
        weight, bias = (part.requires_grad_() for part in head)
        loss = F.cross_entropy(x @ weight.t() + bias, labels)
        slopes = torch.autograd.grad(loss, (weight, bias))
        rates = (method.rates()[name].detach() for name in HEAD_PARAMETERS)
        steps = zip((weight, bias), rates, slopes, strict=True)
        head = tuple(value.detach() - rate * slope for value, rate, slope in steps)
    weight, bias = head
    torch.testing.assert_close(method.predict(task), (g @ weight.t() + bias).softmax(1))


@pytest.mark.parametrize("transductive", [True, False])
def test_prototypes_are_means_over_all_views(transductive):
    method, task = make_method("protonet", zooms=(0.75,), transductive=transductive), make_task()
    support, labels, query, _ = method.task_tensors(task)
    pairs = [(support, query), (zoom(support, 0.75), zoom(query, 0.75))]
    h = torch.stack([method.embed(seen) for seen, _ in pairs]).mean(0)
    p = torch.stack([h[labels == c].mean(0) for c in range(task.way)])
    answers = []
    for seen, asked in pairs:
        g = method.embed(asked, reference=None if transductive else seen)
        answers.append((-(torch.cdist(g, p) ** 2)).softmax(1))
    torch.testing.assert_close(method.predict(task), (sum(answers) / 2).detach())


def test_samples_see_the_same_views():
    options = {"alpha": 0.05, "test_steps": 3, "samples": 3, "flips": True, "zooms": (0.75,)}
    method, task = make_method("taml", **options), make_task()
    support, labels, query, _ = method.task_tensors(task)
    noise, answers = task.noise(), []
    q = method.posterior(support, labels, task.way)
    for phi in [q.sample(noise) for _ in range(3)]:
        inner = method.inner_problem(
            support, labels, task.way, phi, 3, tuple(views(support, [1, 0.75], True))
        )
        theta = method.adapted_parameters(inner, order=0)
        answers += [
            inner.query_logits(theta, view).softmax(1) for view in views(query, [1, 0.75], True)
        ]
    torch.testing.assert_close(method.predict(task), torch.stack(answers).mean(0).detach())


def test_the_encoder_counts_each_image_once():
    flipping, _ = both("taml", test_steps=2)
    task, seen = make_task(), []
    honest = flipping.encoder.forward
    flipping.encoder.forward = lambda images, labels, way, evidence: (
        seen.append(len(labels)),
        honest(images, labels, way, evidence),
    )[1]
    flipping.predict(task, prediction="naive")
    assert seen == [len(task)]


def test_images_that_do_not_mirror_are_left_alone():
    letters = replace(make_imageset(), kind="characters")
    task = TaskStream(letters, "test", TaskSettings(way=3, shots="fixed:3", query=4)).task(0)
    assert not task.flip_invariant
    flipping, plain = both("taml")
    torch.testing.assert_close(flipping.predict(task), plain.predict(task))
    assert flipping.settings.flips
    averaging, plain = both("taml", average_views="features")
    torch.testing.assert_close(averaging.predict(task), plain.predict(task))


@pytest.mark.parametrize("scale", [0.5, 0.75, 1.0, 1.3, 4.0])
@pytest.mark.parametrize("size", [(8, 8), (7, 12)])
def test_a_zoom_is_what_torch_samples_from_a_grid(size, scale):
    images = torch.rand(2, 3, *size, generator=torch_rng(0), dtype=torch.float64)
    grid = F.affine_grid(
        torch.tensor([[[scale, 0, 0], [0, scale, 0]]] * 2).double(),
        [2, 3, *size],
        align_corners=False,
    )
    expected = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(zoom(images, scale), expected)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_from_other_zooms(name):
    """Not only the query's views count: those of the support change what is learned."""
    zooming, plain, task = (
        make_method(name, alpha=0.05, zooms=(0.75,)),
        make_method(name, alpha=0.05),
        make_task(),
    )
    query = plain.task_tensors(task)[2]
    learned = plain.adapt(task.support, task.support_labels, torch_rng(0), "naive")
    asked_twice = (learned(query) + learned(zoom(query, 0.75))) / 2
    assert not torch.allclose(zooming.predict(task, torch_rng(0), prediction="naive"), asked_twice)


def test_shifted_views_are_those_of_an_image_with_repeated_edges():
    images = torch.rand(2, 3, 6, 5, generator=torch_rng(0))
    padded = F.pad(images, (2, 2, 2, 2), mode="replicate")
    starts = [(2, 2), (4, 2), (0, 2), (2, 4), (2, 0)]  # as it is, up, down, left, right
    expected = [padded[:, :, i : i + 6, j : j + 5] for i, j in starts]
    assert all(map(torch.equal, make_views(images, (), False, shift=2), expected))
    both = [view for one in expected for view in (one, one.flip(3))]
    found = list(make_views(images, (), True, shift=2))
    assert len(found) == 10
    assert all(map(torch.equal, found, both))
