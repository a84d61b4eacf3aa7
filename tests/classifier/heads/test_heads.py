"""Each head against a second way of computing it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from anyshot.classifier.heads.discriminant import Discriminant
from anyshot.classifier.heads.kernel_ridge import KernelRidge
from anyshot.classifier.heads.learner import HEADS, Learner
from anyshot.classifier.heads.logistic import fit_coefficients, fit_logistic
from anyshot.classifier.heads.mixture import Mixture, MixtureWeights, class_evidence
from anyshot.classifier.heads.support_set import (
    FOLDS,
    ProjectedFeatures,
    SupportSet,
    make_support_set,
    signed_sqrt_normalize,
)
from anyshot.classifier.heads.taml import STEPS, TamlHead


def task(sizes=(1, 12, 5, 3), width=40, query=6, seed=0):
    """Support features, labels, query features: one Gaussian blob a class."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.5, 0.4, (len(sizes), width))
    labels = np.repeat(np.arange(len(sizes)), sizes)

    def draw(c):
        return np.maximum(centres[c] + rng.normal(0, 0.5, (len(c), width)), 0).astype(np.float32)

    return (
        torch.from_numpy(draw(labels)),
        torch.from_numpy(labels),
        torch.from_numpy(draw(np.arange(query) % len(sizes))),
    )


def without(support, i):
    mask = torch.arange(len(support.labels)) != i
    labels = support.labels[mask]
    return dataclasses.replace(
        support,
        z=support.z[mask],
        labels=labels,
        counts=torch.bincount(labels).float(),
        folds=support.folds[mask],
    )


def image_point(support, i):
    return ProjectedFeatures(support.z[i : i + 1], torch.zeros(1))


@pytest.mark.parametrize("width", [40, 10])  # fewer images than dimensions, and more
def test_task_coordinates_preserve_distances(width):
    features, labels, query = task(width=width)
    frame, support = make_support_set(features, labels)
    points = frame(query)
    direct = (
        torch.cdist(signed_sqrt_normalize(query), signed_sqrt_normalize(features)).square()
        / frame.unit**2
    )
    inside = torch.cdist(points.z, support.z).square() + points.residual[:, None]
    torch.testing.assert_close(inside, direct, rtol=1e-4, atol=1e-4)


def test_features_are_normalised_by_the_oldest_torch(monkeypatch):
    monkeypatch.delattr(torch.compiler, "is_exporting", raising=False)  # new in torch 2.7
    x = signed_sqrt_normalize(torch.tensor([[9.0, -16.0]]))
    torch.testing.assert_close(x, torch.tensor([[0.6, -0.8]]))


def test_folds_are_even_and_leave_no_class_empty():
    _, labels, _ = task(sizes=(1, 12, 5, 30))
    support = make_support_set(*task(sizes=(1, 12, 5, 30))[:2])[1]
    assert (support.folds[labels == 0] == -1).all()
    for c in (1, 2, 3):
        counts = torch.bincount(support.folds[labels == c], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("strength", [1.0, 10.0])
def test_logistic_regression_equals_scikit_learn(strength):
    linear_model = pytest.importorskip("sklearn.linear_model")
    features, labels, query = task(sizes=(2, 30, 5, 13), width=60, query=40)
    frame, support = make_support_set(features, labels)
    points = frame(query)
    sklearn = linear_model.LogisticRegression(
        C=strength, class_weight="balanced", max_iter=2000, tol=1e-8
    )
    expected = sklearn.fit(support.z.numpy(), labels.numpy()).predict_proba(points.z.numpy())
    ours = fit_logistic(support, strength)[0](points).exp()
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_logistic_steps_follow_nesterov_with_a_fixed_curvature():
    support = make_support_set(*task()[:2])[1]
    weights = support.balanced_weights().double().numpy()
    x = np.c_[support.z.double().numpy(), np.ones(len(weights))]
    target = np.eye(4)[support.labels]
    penalty = np.diag([1 / 10] * (x.shape[1] - 1) + [1e-5])
    curvature = penalty + x.T @ np.diag(weights) @ x / 2
    points = [np.zeros((x.shape[1], 4))]
    momenta = [0, 0, 0.28175, 0.43404]  # 0, then (t_k − 1) / t_k+1 with t = 1, 1.618, 2.194, …
    for momentum in momenta:
        ahead = points[-1] + (momentum * (points[-1] - points[-2]) if momentum else 0)
        p = np.exp(x @ ahead)
        p /= p.sum(1, keepdims=True)
        slope = x.T @ (weights[:, None] * (p - target)) + penalty @ ahead
        points.append(ahead - np.linalg.solve(curvature, slope))
    found = fit_coefficients(
        support.z.double(), support.labels, torch.from_numpy(weights), 4, steps=len(momenta)
    )
    np.testing.assert_allclose(found.coefficients, points[-1], atol=1e-4)


def test_logistic_folds_equal_fits_without_the_fold():
    support = make_support_set(*task()[:2])[1]
    held_out = fit_logistic(support)[1]
    for fold in (0, 3):
        weights = support.balanced_weights() * (support.folds != fold)
        alone = fit_coefficients(support.z, support.labels, weights, support.way)(support.points)
        chosen = support.folds == fold
        assert chosen.any()
        torch.testing.assert_close(held_out[chosen].exp(), alone[chosen].exp(), rtol=0, atol=2e-3)


def test_discriminant_equals_the_closed_form_in_full_dimensions():
    features, labels, query = task()
    frame, support = make_support_set(features, labels)
    head = Discriminant().requires_grad_(False)
    x, q = ((signed_sqrt_normalize(f) - frame.origin) / frame.unit for f in (features, query))
    n, width, free = support.counts, x.shape[1], len(x) - 4
    kappa, nu, nu_zero, tau, rho = (head.value(v) for v in ("kappa", "nu", "nu_zero", "tau", "rho"))
    raw_means = torch.stack([x[labels == c].mean(0) for c in range(4)])
    means = torch.stack(
        [(kappa * raw_means.mean(0) + n[c] * raw_means[c]) / (kappa + n[c]) for c in range(4)]
    )
    rest = x - raw_means[labels]
    tau = (nu_zero * tau + rest.square().sum()) / (nu_zero + free)
    sigma = (nu * tau / width * torch.eye(width) + rest.t() @ rest) / (nu + free)
    v = 1 + rho / (kappa + n)
    away = q[:, None] - means
    squares = (away @ torch.linalg.inv(sigma) * away).sum(2)
    temperature = head.value("temperature") * 1280 / width
    expected = ((-squares / 2 / v - head.lam * v.log()) * temperature).log_softmax(1)
    torch.testing.assert_close(head(support)[0](frame(query)), expected, rtol=1e-3, atol=1e-3)


def test_discriminant_leave_one_out_equals_refits():
    support = make_support_set(*task()[:2])[1]
    # the closed form keeps τ, so a strong prior fixes it here too
    head = Discriminant(log_nu_zero=20.0).requires_grad_(False)
    held_out = head(support)[1]
    for i in (2, 14, 20):
        torch.testing.assert_close(
            held_out[i],
            head(without(support, i))[0](image_point(support, i))[0],
            rtol=1e-3,
            atol=1e-3,
        )


def test_untrained_mixture_without_evidence_is_the_mean_of_the_heads():
    support = make_support_set(*task()[:2])[1]
    heads = torch.randn(3, len(support.z), 4).log_softmax(2)
    mixture = Mixture(3).requires_grad_(False)
    mixture.log_evidence.fill_(-50.0)
    weights = mixture(class_evidence(support, heads), support.counts)
    torch.testing.assert_close(weights(heads).exp(), heads.exp().mean(0))


def test_overwhelming_evidence_against_a_head_has_a_finite_gradient():
    support = make_support_set(*task(sizes=(300, 300), width=8)[:2])[1]
    good, bad = 1e-3, 5.0  # nats lost on each held-out image
    rows = [
        torch.tensor([[-good, -9.0], [-9.0, -good]]),
        torch.tensor([[-bad, -0.1], [-0.1, -bad]]),
    ]
    heads = torch.stack([r[support.labels] for r in rows])
    mixture = Mixture(2)
    weights = mixture(class_evidence(support, heads), support.counts)
    assert weights.trust.min() == 0
    weights(heads)[torch.arange(600), support.labels].sum().backward()
    assert all(p.grad.isfinite().all() for p in mixture.parameters() if p.grad is not None)


def test_mixture_formula():
    heads = torch.randn(2, 5, 3).log_softmax(2)
    trust, sharpness, omega = torch.rand(2, 3) + 0.1, torch.rand(2, 3) + 0.5, torch.rand(3) + 0.1
    p = omega * (trust[:, None] * heads.exp() ** sharpness[:, None]).sum(0)
    torch.testing.assert_close(
        MixtureWeights(trust, sharpness, omega)(heads).exp(), p / p.sum(1, keepdim=True)
    )


@pytest.mark.parametrize("sizes", [(1, 1), (1,) * 20, (30, 1), (200, 3, 50), (2,) * 50])
def test_learner_predicts_for_any_number_and_size_of_classes(sizes):
    features, labels, query = task(sizes=sizes, width=32)
    adapted = Learner().requires_grad_(False).adapt(features, labels)
    p = adapted(query).exp()
    assert p.shape == (len(query), len(sizes))
    torch.testing.assert_close(p.sum(1), torch.ones(len(query), dtype=torch.double))


def test_a_prediction_does_not_depend_on_the_batch():
    features, labels, query = task()
    adapted = Learner().requires_grad_(False).adapt(features, labels)
    together = adapted(query)
    torch.testing.assert_close(
        torch.cat([adapted(q[None]) for q in query]), together, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_heads_keep_the_dtype_of_the_features(kind, default):
    features, labels, query = task()
    expected = Learner().requires_grad_(False).adapt(features, labels)(query)
    torch.set_default_dtype(default)
    try:
        learner = Learner().requires_grad_(False)
        support = make_support_set(features.to(kind), labels)[1]
        heads, held_out = learner.fit_heads([support])
        weights = learner.mixture(class_evidence(support, held_out), support.counts)
        adapted = learner.adapt(features.to(kind), labels)
    finally:
        torch.set_default_dtype(torch.float32)
    assert {
        held_out.dtype,
        weights.trust.dtype,
        *(head(support.points).dtype for head in heads),
    } == {kind}
    torch.testing.assert_close(adapted(query), expected, rtol=1e-4, atol=1e-4)


def test_equal_images_in_a_class_give_finite_probabilities():
    features, labels, query = task(sizes=(4, 4))
    features[:] = features[labels * 4]
    p = Learner().requires_grad_(False).adapt(features, labels)(query).exp()
    assert torch.isfinite(p).all()


def test_every_head_has_a_name():
    features, labels, _ = task()
    assert len(Learner().requires_grad_(False).adapt(features, labels).heads) == len(HEADS)


@pytest.mark.parametrize("noise", [0.0, 0.5])  # its networks start at zero: no balancing
def test_taml_head_takes_balanced_gradient_steps_from_the_nearest_mean(noise):
    support = make_support_set(*task()[:2])[1]
    head = TamlHead().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for network in (head.of_class, head.of_task):
        network[-1].weight.normal_(std=noise, generator=generator)
    omega, z, gamma = head.balance(support)
    scale = (head.log_beta + z).exp()
    rate = (head.log_alpha + gamma).exp()
    class_weights = 4 * omega.softmax(0)
    means = support.class_means()
    weight = (2 * scale * means.t()).requires_grad_()
    bias = (-scale * means.square().sum(1)).requires_grad_()
    for _ in range(STEPS):
        losses = torch.nn.functional.cross_entropy(
            support.z @ weight + bias, support.labels, class_weights, reduction="none"
        )
        slopes = torch.autograd.grad(losses.mean(), (weight, bias))
        weight = (weight - rate * slopes[0]).detach().requires_grad_()
        bias = (bias - rate * slopes[1]).detach().requires_grad_()
    adapted, _ = head(support)
    torch.testing.assert_close(adapted.weight, weight.detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(adapted.bias[0], bias.detach(), rtol=1e-3, atol=1e-4)


def test_taml_statistics_equal_a_computation_by_loops():
    support = make_support_set(*task()[:2])[1]
    head = TamlHead().requires_grad_(False)
    inputs = []
    for network in (head.of_class, head.of_task):
        network.register_forward_hook(lambda module, args, output: inputs.append(args[0].numpy()))
    head.balance(support)
    members = [support.z[support.labels == c].numpy() for c in range(4)]
    means = [rows.mean(0) for rows in members]
    statistics = np.array(
        [
            [
                np.log(len(rows)) / 2 - 1,
                np.mean([np.linalg.norm(row - means[c]) ** 2 for row in rows]),
                min(np.linalg.norm(means[c] - means[d]) for d in range(4) if d != c),
                np.linalg.norm(means[c]),
            ]
            for c, rows in enumerate(members)
        ]
    )
    np.testing.assert_allclose(inputs[0], statistics, rtol=1e-3, atol=1e-4)
    pooled = [*statistics.mean(0), *statistics.std(0), np.log(4) / 2 - 1]
    np.testing.assert_allclose(inputs[1], pooled, rtol=1e-3, atol=1e-4)


def test_taml_held_out_predictions_equal_a_fit_without_the_fold():
    support = make_support_set(*task()[:2])[1]
    head = TamlHead().requires_grad_(False)
    held_out = head(support)[1]
    fold = int(support.folds.max())
    mask = support.folds != fold
    labels = support.labels[mask]
    rest = dataclasses.replace(
        support,
        z=support.z[mask],
        labels=labels,
        counts=torch.bincount(labels).float(),
        folds=support.folds[mask],
    )
    scale = len(labels) / len(support.labels)  # the whole task's loss divides by all its images
    head.log_alpha += np.log(scale)
    torch.testing.assert_close(
        held_out[~mask], head(rest)[0](support.points)[~mask], rtol=1e-3, atol=1e-3
    )


def test_kernel_ridge_equals_scikit_learn():
    kernel_ridge = pytest.importorskip("sklearn.kernel_ridge")
    features, labels, query = task()
    frame, support = make_support_set(features, labels)
    head = KernelRidge().requires_grad_(False)
    width, ridge, temperature = (
        p.exp().item() for p in (head.log_width, head.log_ridge, head.log_temperature)
    )
    x, q = ((signed_sqrt_normalize(f) - frame.origin) / frame.unit for f in (features, query))
    model = kernel_ridge.KernelRidge(kernel="rbf", gamma=1 / (2 * width), alpha=ridge)
    model.fit(x, np.eye(4)[labels] - 0.25, sample_weight=support.balanced_weights())
    expected = (temperature * torch.from_numpy(model.predict(q))).log_softmax(1).float()
    torch.testing.assert_close(head(support)[0](frame(query)), expected, rtol=1e-3, atol=1e-3)


def test_kernel_ridge_leave_one_out_equals_refits(monkeypatch):
    support = make_support_set(*task()[:2])[1]
    # equal weights, which do not change when an image is left out
    monkeypatch.setattr(SupportSet, "balanced_weights", lambda self: torch.ones(len(self.labels)))
    head = KernelRidge().requires_grad_(False)
    held_out = head(support)[1]
    for i in (3, 14, 20):
        torch.testing.assert_close(
            held_out[i],
            head(without(support, i))[0](image_point(support, i))[0],
            rtol=1e-3,
            atol=1e-3,
        )


def test_kernel_ridge_limits_the_images_of_each_class(monkeypatch):
    support = make_support_set(*task()[:2])[1]
    monkeypatch.setattr("anyshot.classifier.heads.kernel_ridge.MAX_IMAGES", 12)
    head, held_out = KernelRidge().requires_grad_(False)(support)
    assert len(head.images) == 1 + 3 + 3 + 3
    torch.testing.assert_close(held_out[5], head(image_point(support, 5))[0])  # it was not fitted
    assert torch.isfinite(held_out).all()
