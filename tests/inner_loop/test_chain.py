"""Gradients through the engine's inputs to α, γ, ω, z at both sites and the encoder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from anyshot.inner_loop import query_loss
from anyshot.models.bodies.conv4 import CONV_BIASES, CONV_WEIGHTS, LAYERS, features
from anyshot.models.network import HEAD_PARAMETERS, Norm

CHANNELS = 32


def balanced(case, site):
    """An inner problem from an encoder-like function of the support set, and its leaves."""
    inner, way = case.inner, int(case.inner.labels.max()) + 1
    encoder = nn.Sequential(
        nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, way + LAYERS + 1 + 2 * CHANNELS * LAYERS)
    ).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    alpha = {name: rate.detach().clone().requires_grad_() for name, rate in inner.rates.items()}
    out = encoder(inner.images.mean((0, 2, 3)))
    omega = (out[:way]).softmax(0)
    gamma = out[way : way + LAYERS + 1].exp()
    z = 0.3 * out[way + LAYERS + 1 :].view(2, LAYERS, CHANNELS)
    theta, rates, scale = dict(inner.theta), {}, None
    for layer, (weight, bias) in enumerate(zip(CONV_WEIGHTS, CONV_BIASES, strict=True)):
        if site == "weights":
            theta[weight] = theta[weight] * (1 + z[0, layer].view(-1, 1, 1, 1))
            theta[bias] = theta[bias] + z[1, layer]
        rates |= {name: alpha[name] * gamma[layer] for name in (weight, bias)}
    rates |= {name: alpha[name] * gamma[-1] for name in HEAD_PARAMETERS}
    if site == "activations":
        scale = [1 + z[0, layer] for layer in range(LAYERS)]
    weights = way * omega[inner.labels] / len(inner.labels)
    made = replace(
        inner, theta=theta, rates=rates, weights=weights, norm=Norm(inner.norm.shift, scale)
    )
    leaves = {name: inner.theta[name] for name in CONV_WEIGHTS} | {
        f"alpha {n}": alpha[n] for n in CONV_WEIGHTS + HEAD_PARAMETERS
    }
    return made, leaves | {f"encoder {n}": p for n, p in encoder.named_parameters()}


@pytest.mark.parametrize("site", ["weights", "activations"])
def test_gradients_reach_alpha_gamma_omega_z_and_the_encoder(make_case, differences, site):
    case = make_case([1, 4, 2], (32, 32), 3)
    found = []
    for way in ("engine", "autograd"):
        inner, leaves = balanced(case, site)
        loss, _ = query_loss(inner, case.images, case.labels, engine=way)
        found.append(
            dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        )
    assert max(differences(*found).values()) < 1e-10
    last = found[0]["encoder 2.weight"]
    if site == "weights":  # z on biases cancels under batch statistics
        assert last[-CHANNELS * LAYERS :].abs().max() == 0
    assert last[: -CHANNELS * LAYERS].abs().min() > 0


def test_gradients_flow_through_a_head_from_prototypes(make_case, differences):
    """Proto-MAML: W_c = 2 p_c, b_c = −‖p_c‖², p_c the class means of the support features at θ."""
    case = make_case([2, 3, 1], (32, 32), 2)
    inner, found = case.inner, []
    wanted = [inner.theta[name] for name in CONV_WEIGHTS] + list(inner.norm.shift)
    for way in ("engine", "autograd"):
        h = features(inner.theta, inner.norm, inner.images)
        prototypes = torch.stack([h[inner.labels == c].mean(0) for c in range(3)])
        head = {"head_weight": 2 * prototypes, "head_bias": -prototypes.square().sum(1)}
        task = replace(inner, theta=inner.theta | head)
        loss, _ = query_loss(task, case.images, case.labels, engine=way)
        found.append({str(i): g for i, g in enumerate(torch.autograd.grad(loss, wanted))})
    assert max(differences(*found).values()) < 1e-10
