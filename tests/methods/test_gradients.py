"""Meta-gradients against central finite differences in float64, through five steps."""

import pytest
import torch
from support import make_method, make_task

from anyshot.core.random import torch_rng
from anyshot.methods import MTNet

CASES = {
    "maml": ("maml", {"alpha": 0.3}),
    "maml with centred features": ("maml", {"alpha": 0.05, "alpha_head": 1.0, "centre": True}),
    "meta-sgd": ("meta-sgd", {"alpha": 0.1}),
    "meta-sgd with class means": ("meta-sgd", {"alpha": 0.1, "class_mean": True}),
    "meta-sgd with 1/N": ("meta-sgd", {"alpha": 0.1, "divide_by_shots": True}),
    "mt-net": ("mt-net", {"alpha": 0.3}),
    "abml": ("abml", {"alpha": 0.3, "deviation": 0.3}),
    "protonet": ("protonet", {}),
    "proto-maml": ("proto-maml", {"alpha": 0.02}),
    "taml": ("taml", {"alpha": 0.1}),
    "taml with gains": ("taml", {"alpha": 0.1, "gains": (1.0, 0.5, 0.2)}),
    "taml, z on activations": ("taml", {"alpha": 0.1, "z_site": "activation"}),
    "taml, deterministic and flat": (
        "taml",
        {"alpha": 0.1, "bayesian": False, "hierarchical": False},
    ),
    "taml, all statistics": (
        "taml",
        {"alpha": 0.1, "statistics": ("mean", "N", "var", "skewness", "kurtosis")},
    ),
    "taml, head of shrunk means, prior by size": (
        "taml",
        {
            "alpha": 0.05,
            "head": "shrunk-prototypes",
            "omega_prior": 0.5,
            "centre": True,
            "cardinality": "log",
        },
    ),
    "taml, head of means, z on activations": (
        "taml",
        {"alpha": 0.05, "head": "prototypes", "z_site": "activation", "gains": (1.0, 0.5, 0.2)},
    ),
    "meta-sgd, head of shrunk means": (
        "meta-sgd",
        {"alpha": 0.05, "head": "shrunk-prototypes", "omega_prior": 1.0},
    ),
    "taml, one by one": (
        "taml",
        {"alpha": 0.1, "transductive": False, "centre": True, "z_site": "activation"},
    ),
}
BODIES = {"conv4": {}, "resnet12": {"body": "resnet12", "channels": 2, "steps": 2}}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("case", CASES)
def test_meta_gradients_agree_with_finite_differences(case, body, monkeypatch):
    name, options = CASES[case]
    method, task = (
        make_method(name, **options, **BODIES[body]),
        make_task(shots="class-imbalance:2-6"),
    )
    if isinstance(method, MTNet):
        differentiate_the_straight_through_surrogate(method, task.way, monkeypatch)

    def objective() -> torch.Tensor:
        o = method.objective(task, torch_rng(1))
        return o.loss + o.penalty

    gradients = torch.autograd.grad(
        objective(), list(method.parameters()), allow_unused=True, materialize_grads=True
    )
    groups: dict[str, list] = {}
    for (key, parameter), gradient in zip(method.named_parameters(), gradients, strict=True):
        groups.setdefault(key.split(".")[0], []).append((parameter, gradient))
    assert {"theta", "shift"} <= set(groups)
    for group, pairs in groups.items():
        assert directional_error(objective, pairs) < 1e-5, group


def directional_error(objective, pairs, h: float = 1e-8) -> float:
    """Relative error of the derivative along the gradient's own direction mixed with a random one.

    h is small, because a ReLU or a pooling maximum may switch within it, where no derivative
    exists. float64 allows it.
    """
    generator = torch_rng(7)
    directions = []
    for parameter, gradient in pairs:
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        scale = gradient.norm() if gradient.norm() > 0 else torch.ones((), dtype=torch.float64)
        directions.append(
            gradient / scale + 0.5 * noise / noise.norm()
        )  # never opposite, not even for one number
    expected = sum((g * d).sum() for (_, g), d in zip(pairs, directions, strict=True))
    values = []
    with torch.no_grad():
        for sign in (1, -2, 1):  # +h, then −h, then back
            for (parameter, _), d in zip(pairs, directions, strict=True):
                parameter += sign * h * d
            values.append(objective())
    found = (values[0] - values[1]) / (2 * h)
    return (abs(found - expected) / abs(expected)).item()


def differentiate_the_straight_through_surrogate(method, way, monkeypatch) -> None:
    """Replace the hard mask, a step function of ζ, by hard + soft(ζ) − soft(ζ now)."""
    with torch.no_grad():
        soft = method.soft_mask(torch_rng(1), way)
        offset = {name: (value > 0.5).to(value) - value for name, value in soft.items()}
    monkeypatch.setattr(
        method,
        "mask",
        lambda noise, way: {n: offset[n] + s for n, s in method.soft_mask(noise, way).items()},
    )


def test_first_order_gradients_ignore_the_curvature_but_not_the_steps():
    task = make_task()
    second, first = (make_method("meta-sgd", alpha=0.1, order=order) for order in (2, 1))
    grads = []
    for method in (second, first):
        o = method.objective(task)
        grads.append(
            torch.autograd.grad(o.loss, [method.theta["conv1_weight"], method.rate["head_weight"]])
        )
    assert not torch.allclose(grads[0][0], grads[1][0])
    assert grads[1][1].abs().max() > 0


def test_conv_biases_have_exactly_zero_gradient():
    method, task = make_method("taml"), make_task()
    o = method.objective(task)
    gradient = torch.autograd.grad(o.loss, method.theta["conv2_bias"], allow_unused=True)[0]
    assert gradient is None or not gradient.any()
