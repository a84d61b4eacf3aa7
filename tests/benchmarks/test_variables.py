"""The experiments on ω, γ and z in cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from paired_rows import compare_rows
from support import make_method, make_task
from torch.nn.functional import cross_entropy
from variables_averaging import RandomStarts, RandomViews, with_width
from variables_headroom import oracle_gain, with_constants
from variables_padding import pad, with_head_gamma
from variables_posterior import slope

from anyshot import gradient


@pytest.fixture
def taml():
    """TAML whose posterior differs from its prior."""
    method = make_method("taml", steps=2, test_steps=3, samples=3, alpha=0.1, omega_prior=0.5)
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in method.encoder.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=noise).to(parameter)
    return method.requires_grad_(False)


def test_samples_of_full_width_are_monte_carlo_prediction(taml):
    task = make_task()
    changed = with_width(taml, 1.0, 3)
    torch.testing.assert_close(changed.predict(task), taml.predict(task, prediction="mc"))
    narrow = with_width(taml, 0.0, 3).predict(task)
    assert not torch.allclose(narrow, taml.predict(task, prediction="mc"))


def test_samples_above_the_floor_flip_no_sign(taml):
    task = make_task()
    support, labels, _, _ = taml.task_tensors(task)
    q = taml.posterior(support, labels, task.way)
    phis = with_width(taml, 5.0, 4, floor=0.05).test_phis(q, task.noise(), "mc")
    least = min((1 + phi["z"]).min().item() for phi in phis)
    assert least == pytest.approx(0.05)


def test_random_starts_and_views_without_randomness_are_the_method_itself():
    method, task = make_method("meta-sgd", alpha=0.1, test_steps=3), make_task()
    expected = method.predict(task)
    torch.testing.assert_close(RandomStarts(method, 0.0).predict(task), expected)
    torch.testing.assert_close(RandomViews(method, ()).predict(task), expected)
    assert not torch.allclose(RandomStarts(method, 0.5).predict(task), expected)
    assert not torch.allclose(RandomViews(method, ("shift",)).predict(task), expected)


def test_constants_replace_what_the_encoder_infers(taml):
    phi = {"omega": torch.ones(3), "gamma": torch.ones(5), "z": torch.ones(8)}
    shots = torch.tensor([1.0, 2.0, 4.0])
    found = with_constants(taml, head=2.0, body=0.0, tau=1.0).apply_gains_and_priors(phi, shots)
    torch.testing.assert_close(found["omega"].softmax(0), (1 / shots) / (1 / shots).sum())
    torch.testing.assert_close(found["gamma"].exp(), torch.tensor([0.0] * 4 + [2.0]))
    assert not found["z"].any()


def test_the_oracle_gains_where_the_best_row_depends_on_the_size():
    sizes = np.tile([10, 10, 100, 100, 200, 200], 10)
    small = np.where(sizes == 10, 1.0, 0.0)
    rows = {
        "small": {"accuracy": small, "images_of_task": sizes},
        "large": {"accuracy": 1 - small, "images_of_task": sizes},
    }
    assert oracle_gain(rows, "accuracy")[0] == pytest.approx(1 / 3)
    rows["small"]["accuracy"] = 1 - small
    assert oracle_gain(rows, "accuracy")[0] == 0


def test_padding_shrinks_the_loss_and_enters_the_batch_statistics():
    method, task = make_method("meta-sgd", alpha=0.1), make_task(shots="fixed:2")
    support, labels, _, _ = method.task_tensors(task)
    plain = method.inner_problem(support, labels, task.way, {}, 1)
    padded = pad(plain, 4 * len(labels))
    assert padded.weights.sum().item() == pytest.approx(plain.weights.sum().item() / 4)
    assert pad(plain, len(labels)) is plain
    scores = plain.body(padded.theta, padded.norm, padded.images)[: len(labels)]
    expected = scores - method.body.features(plain.theta, plain.norm, support)
    assert expected.abs().max() > 0.01  # black images change the statistics
    g, _ = gradient(padded.theta, padded.images, padded.labels, padded.weights, padded.norm)
    head = padded.theta["head_weight"].clone().requires_grad_()
    loss = cross_entropy(scores @ head.t(), labels) / 4
    torch.testing.assert_close(g["head_weight"], torch.autograd.grad(loss, head)[0])


def test_gamma_of_the_head_multiplies_its_steps(taml):
    task = make_task(shots="fixed:2")
    support, labels, _, _ = taml.task_tensors(task)
    phi = {"z": torch.zeros(1)}
    one, two = (
        with_head_gamma(taml, gamma, False).inner_problem(support, labels, task.way, phi, 1)
        for gamma in (1.0, 2.0)
    )
    assert not one.theta["head_weight"].any()
    torch.testing.assert_close(two.rates["head_weight"], 2 * one.rates["head_weight"])
    torch.testing.assert_close(two.rates["conv1_weight"], one.rates["conv1_weight"])
    longer = with_head_gamma(taml, 1.0, True)
    assert len(longer.inner_problem(support, labels, task.way, phi, 1).labels) == 200
    plain = with_head_gamma(taml, 1.0, False).predict(task)
    assert not torch.allclose(longer.predict(task), plain)  # every step sees the padding


def test_slopes_are_exponents_and_differences_are_paired():
    assert slope([[n, -1.2 * np.log(n) + 3] for n in (1, 5, 50)]) == pytest.approx(-1.2)
    base = {"row": "a", "images": "svhn", "tasks": 3, "accuracy": [10, 50, 90], "nll": [1, 2, 3]}
    other = {**base, "row": "b", "accuracy": [11, 51, 92]}
    line = compare_rows({"a": base, "b": other}, {"b": "a"})[1]
    assert line["accuracy_difference"] == pytest.approx(4 / 3)
    assert line["accuracy_difference_interval"] == pytest.approx(1.96 / 3)
    assert "reference" not in compare_rows({"a": base}, {"a": "a"})[0]
