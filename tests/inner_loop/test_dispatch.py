"""The choice between engine and autograd: the same results, errors and log lines."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from anyshot.core.errors import SettingsError
from anyshot.inner_loop import adapt, adapt_many, fallback, logits_many, query_loss
from anyshot.models import network


def test_adapted_parameters_agree_with_autograd(make_case):
    for options in ({}, {"head": True, "centre": True, "scale": True}):
        case = make_case([1, 3, 2], steps=4, **options)
        theta, theta0 = adapt(case.inner), adapt(case.inner, "autograd")
        assert list(theta) == list(theta0)
        for name in theta:
            assert not theta[name].requires_grad
            assert torch.allclose(theta[name], theta0[name], rtol=1e-11, atol=1e-12), name


def test_problems_that_share_images_give_the_same_results_as_alone(make_case):
    case = make_case([2, 3], steps=3, scale=True)
    inners = [
        replace(case.inner, weights=case.inner.weights * factor) for factor in (0.5, 1.0, 2.0)
    ]
    thetas = adapt_many(inners, workers=2)
    scores = logits_many(inners, thetas, case.images, workers=2)
    assert scores.shape == (3, 7, 2)
    for inner, theta, score in zip(inners, thetas, scores, strict=True):
        alone = adapt(inner, "autograd")
        assert all(
            torch.allclose(theta[name], alone[name], rtol=1e-11, atol=1e-12) for name in theta
        )
        assert torch.allclose(score, inner.query_logits(alone, case.images), rtol=1e-10)


def test_adaptation_and_prediction_work_by_autograd(make_case):
    case = make_case([2, 1], (16, 16), steps=1)
    theta = adapt(case.inner, engine="autograd")
    [same] = adapt_many([case.inner], engine="autograd")
    assert all(torch.equal(theta[name], same[name]) for name in theta)
    [score] = logits_many([case.inner], [theta], case.images, engine="autograd")
    assert torch.allclose(score, logits_many([case.inner], [theta], case.images)[0], rtol=1e-10)


def test_without_gradients_the_loss_has_no_graph(make_case):
    case = make_case([2, 1], steps=2)
    with torch.no_grad():
        loss, logits = query_loss(case.inner, case.images, case.labels)
    expected, expected_logits = query_loss(case.inner, case.images, case.labels)
    assert not loss.requires_grad
    assert torch.allclose(loss, expected)
    assert torch.allclose(logits, expected_logits)


def test_step_sizes_can_be_plain_numbers(make_case, differences):
    case = make_case([2, 1], (16, 16), head=True)
    inner = replace(case.inner, rates=dict.fromkeys(case.inner.rates, 0.05))
    losses = [
        query_loss(inner, case.images, case.labels, engine=way)[0] for way in ("engine", "autograd")
    ]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10


def test_a_zero_head_that_requires_a_gradient_gets_one(make_case, differences):
    case = make_case([2, 1], (16, 16))
    head = {
        name: case.inner.theta[name].detach().requires_grad_() for name in network.HEAD_PARAMETERS
    }
    case = replace(
        case, inner=replace(case.inner, theta=case.inner.theta | head), leaves=case.leaves | head
    )
    losses = [
        query_loss(case.inner, case.images, case.labels, engine=way)[0]
        for way in ("engine", "autograd")
    ]
    found = differences(*(case.gradients(loss) for loss in losses))
    assert "head_weight" in found
    assert max(found.values()) < 1e-10


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: replace(c, body=lambda theta, norm, x: x.flatten(1)), "not Conv4"),
        (
            lambda c: replace(c, theta=c.theta | {"conv2_weight": torch.ones(32, 32, 5, 5)}),
            "not 3×3",
        ),
        (lambda c: replace(c, images=c.images.half()), "float16"),
        (lambda c: replace(c, weights=c.weights.float()), "different types"),
        (lambda c: replace(c, images=c.images.clone().requires_grad_()), "with respect to images"),
        (lambda c: replace(c, images=c.images[..., :12]), "16×12 pixels"),
    ],
)
def test_a_required_engine_raises_the_reason_why_it_cannot(make_case, change, reason):
    inner = change(make_case([1, 1], (16, 16)).inner)
    with pytest.raises(SettingsError, match=reason):
        adapt(inner, engine="engine")


def test_a_fallback_is_logged_once_and_gives_a_gradient_for_images(make_case, caplog, monkeypatch):
    monkeypatch.setattr(fallback, "_logged_reasons", set())
    case = make_case([1, 1], (16, 16))
    images = case.images.clone().requires_grad_()
    with caplog.at_level(logging.WARNING, "anyshot.inner_loop"):
        for _ in range(2):
            query_loss(case.inner, images, case.labels)[0].backward()
    assert images.grad.abs().max() > 0
    assert ["with respect to images" in record.getMessage() for record in caplog.records] == [True]


def test_an_unknown_engine_is_an_error(make_case):
    with pytest.raises(SettingsError, match="'fast' is unknown"):
        adapt(make_case([1, 1], (16, 16)).inner, engine="fast")


def test_adaptation_in_inference_mode_does_not_affect_other_modes(make_case):
    case = make_case([1, 2], (20, 20))
    with torch.inference_mode():
        inside = adapt(case.inner)
    outside = adapt(case.inner)
    assert all(torch.equal(inside[name], outside[name]) for name in outside)


@pytest.mark.parametrize("engine", ["engine", "autograd"])
def test_with_the_supports_statistics_images_are_classified_independently(make_case, engine):
    case = make_case([2, 3], (20, 20), transductive=False, centre=True)
    inner, images = case.inner, case.images
    theta = adapt(inner, engine)
    together = logits_many([inner], [theta], images, engine)[0]
    alone = torch.cat([logits_many([inner], [theta], image[None], engine)[0] for image in images])
    assert torch.allclose(together, alone, rtol=1e-10)
    assert torch.allclose(together, inner.query_logits(theta, images), rtol=1e-9)
