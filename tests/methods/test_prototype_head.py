"""Heads that start at the class means, and losses that start balanced by class size."""

import pytest
import torch
from support import make_method, make_task
from torch.distributions import MultivariateNormal

from anyshot.core.builtin_options import MetaSGDOptions
from anyshot.core.random import torch_rng
from anyshot.data.tasks import Task
from anyshot.methods.balancing import image_weights
from anyshot.methods.prototype_head import INITIAL_SCALE, PrototypeHead, prototypes

HEADS = ("prototypes", "shrunk-prototypes")


def features(n: int, width: int = 6) -> torch.Tensor:
    return torch.randn(n, width, generator=torch_rng(3), dtype=torch.float64)


def test_the_logits_are_those_of_the_nearest_class_mean():
    h, labels, query = features(7), torch.tensor([0, 0, 0, 1, 2, 2, 1]), features(5) + 1
    head = PrototypeHead(MetaSGDOptions(head="prototypes")).double()(h, labels, 3)
    found = (query @ head["head_weight"].t() + head["head_bias"]).log_softmax(1)
    means = torch.stack([h[labels == c].mean(0) for c in range(3)])
    expected = (-0.5 * INITIAL_SCALE * torch.cdist(query, means) ** 2).log_softmax(1)
    torch.testing.assert_close(found, expected)


def test_shrunk_means_are_those_of_a_gaussian_prior_about_the_mean_of_the_means():
    """The posterior mean of μ_c ~ N(m, 1/κ) given N_c observations of variance 1."""
    h, labels, kappa = features(5), torch.tensor([0, 0, 0, 1, 2]), 2.0
    p = prototypes(h, labels, 3)
    m, expected = p.mean(0), []
    for c in range(3):
        members = h[labels == c]
        precision = kappa + len(members)
        expected.append((kappa * m + members.sum(0)) / precision)
        log_prior = MultivariateNormal(m, torch.eye(6).double() / kappa)
        x = expected[-1].requires_grad_()
        log = log_prior.log_prob(x) - 0.5 * ((members - x) ** 2).sum()
        assert torch.autograd.grad(log, x)[0].abs().max() < 1e-9  # the mode indeed
    options = MetaSGDOptions(head="shrunk-prototypes", head_kappa=kappa)
    head, query = PrototypeHead(options).double()(h, labels, 3), features(4) + 1
    found = (query @ head["head_weight"].t() + head["head_bias"]).log_softmax(1)
    by_distance = (
        -0.5 * INITIAL_SCALE * torch.cdist(query, torch.stack(expected)) ** 2
    ).log_softmax(1)
    torch.testing.assert_close(found, by_distance)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ["meta-sgd", "taml"])
def test_permuting_classes_permutes_probabilities_and_any_way_will_do(name, head):
    method = make_method(name, alpha=0.05, head=head, omega_prior=0.7, z_site="activation")
    for way in (2, 4):
        task, new = make_task(3, way), torch.arange(way).roll(1)
        other = Task(
            task.support,
            new[task.support_labels],
            task.query,
            new[task.query_labels],
            seed=task.seed,
        )
        p, q = (method.predict(t, torch_rng(0), prediction="naive") for t in (task, other))
        torch.testing.assert_close(q[:, new], p, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_without_steps_the_head_classifies_at_the_shifted_start(head):
    """The prototypes are means of the features that z has shifted, as the head sees them."""
    method, task = (
        make_method("taml", head=head, z_site="activation", test_steps=0, steps=0),
        make_task(),
    )
    x, y, xq, _ = method.task_tensors(task)
    phi = method.posterior(x, y, task.way).mean
    inner = method.inner_problem(x, y, task.way, phi, 0)
    assert inner.norm.scale is not None
    h, g = (method.embed(images, norm=inner.norm) for images in (x, xq))
    expected = method.means_head(h, y, task.way)
    scores = g @ expected["head_weight"].t() + expected["head_bias"]
    torch.testing.assert_close(method.predict(task, prediction="naive"), scores.softmax(1))


def test_a_prior_by_class_size_weighs_classes_and_is_learned():
    labels, shots = torch.tensor([0] * 8 + [1] * 2), torch.tensor([8.0, 2.0])
    for tau, expected in (
        (0.0, [1 / 10] * 2),
        (1.0, [0.4 / 10, 1.6 / 10]),
    ):  # ω ∝ 1 / N_c: classes weigh the same
        method = make_method("meta-sgd", torch.float32, omega_prior=tau)
        with torch.no_grad():
            method.tau.fill_(tau)  # make_method has moved it a little
        w = image_weights(labels, 2, method.apply_gains_and_priors({}, shots), torch.zeros(()))
        assert w[[0, -1]].tolist() == pytest.approx(expected)
    assert "tau" in dict(method.named_parameters())
    assert make_method("meta-sgd").tau is None


def test_the_prior_adds_to_what_the_encoder_says_after_its_gain():
    method = make_method("taml", torch.float32, gains=(2.0, 1.0, 1.0), omega_prior=0.5)
    gain = method.log_gain["omega"].exp()
    omega, shots = torch.tensor([0.3, -0.2]), torch.tensor([4.0, 1.0])
    found = method.apply_gains_and_priors({"omega": omega}, shots)["omega"]
    torch.testing.assert_close(found, gain * omega - method.tau * torch.tensor([4.0, 1.0]).log())


def test_single_shared_numbers_learn_faster():
    factors = make_method(
        "taml", head="shrunk-prototypes", omega_prior=0.5
    ).learning_rate_multipliers()
    assert [factors[name] for name in ("tau", "means_head.log_scale", "means_head.log_kappa")] == [
        10,
        10,
        10,
    ]
