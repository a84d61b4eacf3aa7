"""Bayesian TAML in one file, to be read from top to bottom: plain PyTorch, no engine, no settings.

    python examples/taml_in_one_file.py [iterations]

Only the images come from anyshot. The package computes the same loss and the same meta-gradient
(tests/test_examples.py compares them in float64), but faster, resumable, with any
backbone and with the other methods. The formulas are those of Lee et al., "Learning to Balance:
Bayesian Meta-Learning for Imbalanced and Out-of-distribution Tasks", ICLR 2020,
https://arxiv.org/abs/1905.12917

Shapes: C classes, N support images, M query images, K inner steps, 32 channels, 128 features.
Parameters are one flat dict with the names that anyshot uses in its files:

    theta.conv1_weight …    initial body                     rate.conv1_weight …   learning rates α
    shift.0 … shift.3       shifts β of the normalisations   encoder.…             encoder ψ
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot import open_images

WAY = 5  # classes of a task
MAX_SHOTS = 50  # support images of a class: 1 to 50
QUERY = 15  # query images of a class
CHANNELS = 32
LAYERS = ("conv1", "conv2", "conv3", "conv4")
STEPS = 5  # inner steps K in training
TEST_STEPS = 10
SAMPLES = 10  # samples of φ in prediction
META_BATCH = 4  # tasks of an iteration
LEARNING_RATE = 1e-3  # of Adam
TEST_TASKS = 3
CLIP = 3.0  # limit of each element of the meta-gradient

Parameters = dict[str, Tensor]
Task = tuple[Tensor, Tensor, Tensor, Tensor]  # support, support labels, query, query labels


# 1. Tasks: any number of images per class -------------------------------------------------------
def sample_task(classes: Sequence[np.ndarray], rng: np.random.Generator) -> Task:
    """Draw an any-shot task from images of each class, uint8 [n, height, width, 3]."""
    if rng.random() < 0.5:
        shots = rng.integers(1, MAX_SHOTS + 1, WAY)  # class imbalance: each class has its own N_c
    else:
        shots = np.full(WAY, rng.integers(1, MAX_SHOTS + 1))  # task imbalance: all have the same
    support, query = [], []
    for c, shot in zip(rng.choice(len(classes), WAY, replace=False), shots, strict=True):
        order = rng.permutation(len(classes[c]))
        split = max(1, min(shot, len(order) - QUERY))
        support.append(classes[c][order[:split]])
        query.append(classes[c][order[split : split + QUERY]])
    return (*to_tensors(support), *to_tensors(query))


def to_tensors(images: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Images of each class → float [n, 3, height, width] in [0, 1], labels [n]."""
    x = torch.from_numpy(np.concatenate(images)).permute(0, 3, 1, 2) / 255
    y = torch.arange(len(images)).repeat_interleave(torch.tensor([len(i) for i in images]))
    return x, y


# 2. The network: Conv4 and a linear head --------------------------------------------------------
def logits(theta: Parameters, shift: Sequence[Tensor], x: Tensor) -> Tensor:
    """Images [n, 3, height, width] → scores [n, C]. Batch statistics, no running averages."""
    for layer, beta in zip(LAYERS, shift, strict=True):
        x = F.conv2d(x, theta[f"{layer}_weight"], theta[f"{layer}_bias"], padding=1)
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = x.var((0, 2, 3), unbiased=False, keepdim=True)
        x = (x - mean) / (variance + 1e-3).sqrt() + beta[:, None, None]
        x = F.max_pool2d(F.relu(x), 2)
    return F.linear(x.flatten(1), theta["head_weight"], theta["head_bias"])


# 3. The encoder q(φ | D; ψ): support set → a Gaussian for each balancing variable ---------------
def encode(p: Parameters, x: Tensor, y: Tensor) -> tuple[Parameters, Parameters]:
    """Means and deviations of ω̃ [C], γ̃ [5] and z̃ [256], given the support set."""
    for conv in ("conv1", "conv2"):
        weight, bias = p[f"encoder.{conv}.weight"], p[f"encoder.{conv}.bias"]
        x = F.max_pool2d(F.relu(F.conv2d(x, weight, bias, padding=1)), 2)
    h = linear(p, "image_features", x.flatten(1))  # NN1: [N, 64]
    members = F.one_hot(y).t().to(h)  # [C, N]
    size = (members.sum(1) - 1) / (50 - 1)  # [C], 0 for one image and 1 for fifty
    s = pool(p, "class_pooling", h, members, size)  # s_c: [C, 256]
    h = linear(p, "class_features.2", F.relu(linear(p, "class_features.0", s)))  # NN2: [C, 32]
    v = pool(p, "task_pooling", h, h.new_ones(1, len(h)), size.mean()[None])  # [1, 128]
    mean, deviation = {}, {}
    for name, pooled in (("omega", s), ("gamma", v), ("z", v)):
        out = linear(p, f"heads.{name}.2", F.relu(linear(p, f"heads.{name}.0", pooled)))
        mu, sigma = out.chunk(2, -1)
        mean[name] = mu.flatten()
        deviation[name] = F.softplus(sigma).flatten()
    return mean, deviation


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    return F.linear(x, p[f"encoder.{name}.weight"], p[f"encoder.{name}.bias"])


def pool(p: Parameters, name: str, h: Tensor, members: Tensor, size: Tensor) -> Tensor:
    """Statistics pooling: features [n, width] of several sets → [sets, 4 · width].

    ``members`` is 0/1 [sets, n], ``size`` is the encoded number of members [sets].
    """
    share = members / members.sum(1, keepdim=True)
    mean = share @ h
    variance = share @ (h - members.t() @ mean) ** 2
    statistics = torch.stack([mean, variance, size[:, None].expand_as(mean)], -1)
    return F.relu(linear(p, f"{name}.mix", statistics)).flatten(1)


def sample(mean: Parameters, deviation: Parameters, noise: torch.Generator) -> Parameters:
    """φ̂ = μ + σ ∘ ε, reparametrised."""
    epsilon = {name: torch.randn(mu.shape, generator=noise).to(mu) for name, mu in mean.items()}
    return {name: mean[name] + deviation[name] * epsilon[name] for name in mean}


def kl_divergence(mean: Parameters, deviation: Parameters) -> Tensor:
    """KL[q ‖ N(0, 1)] = ½ Σ (μ² + σ² − 1 − log σ²)."""
    mu, sigma = torch.cat([*mean.values()]), torch.cat([*deviation.values()])
    return 0.5 * (mu**2 + sigma**2 - 1 - (sigma**2).log()).sum()


# 4. The inner loop, balanced by φ = (ω, γ, z) ---------------------------------------------------
def adapt(
    p: Parameters, phi: Parameters, x: Tensor, y: Tensor, steps: int, training: bool
) -> Parameters:
    """θ_0 = θ ∗ z, then θ_k = θ_{k−1} − γ ∘ α ∘ ∇ Σ_n w_n CE_n(θ_{k−1}); returns θ_K.

    In training the meta-gradient flows through the steps (second order).
    """
    shift = [p[f"shift.{i}"] for i in range(len(LAYERS))]
    way = int(y.max()) + 1

    # z: the body's weights are scaled and its biases shifted, per output channel
    theta = {}
    z = iter(phi["z"].split([len(beta) for beta in shift for _ in range(2)]))
    for layer in LAYERS:
        theta[f"{layer}_weight"] = p[f"theta.{layer}_weight"] * (1 + next(z)[:, None, None, None])
        theta[f"{layer}_bias"] = p[f"theta.{layer}_bias"] + next(z)
    # the head starts at zero: no class is special, and any number of classes will do
    width = p["rate.head_weight"].shape[1]
    theta["head_weight"] = x.new_zeros(way, width, requires_grad=True)
    theta["head_bias"] = x.new_zeros(way, requires_grad=True)

    # γ: one multiplier of the learning rates per layer
    rates = {}
    for layer, gamma in zip((*LAYERS, "head"), phi["gamma"].exp(), strict=True):
        for name in (f"{layer}_weight", f"{layer}_bias"):
            rates[name] = gamma * p[f"rate.{name}"]

    # ω: one weight per class; ω_c = 1 / C is the mean cross-entropy
    weights = phi["omega"].softmax(0)[y] * way / len(y)

    for _ in range(steps):
        if not training:
            theta = {name: value.detach().requires_grad_() for name, value in theta.items()}
        loss = (weights * F.cross_entropy(logits(theta, shift, x), y, reduction="none")).sum()
        gradient = torch.autograd.grad(loss, [*theta.values()], create_graph=training)
        theta = {
            name: value - rates[name] * g
            for (name, value), g in zip(theta.items(), gradient, strict=True)
        }
    return theta


# 5. The objective and the prediction ------------------------------------------------------------
def objective(p: Parameters, task: Task, noise: torch.Generator) -> Tensor:
    """(1/M) Σ_m −log p(y_m | x_m, φ̂) + KL[q(φ | D) ‖ N(0, 1)] / (N + M), one sample φ̂."""
    x, y, query, query_labels = task
    mean, deviation = encode(p, x, y)
    theta = adapt(p, sample(mean, deviation, noise), x, y, STEPS, training=True)
    shift = [p[f"shift.{i}"] for i in range(len(LAYERS))]
    loss = F.cross_entropy(logits(theta, shift, query), query_labels)
    return loss + kl_divergence(mean, deviation) / (len(y) + len(query_labels))


def predict(p: Parameters, task: Task, noise: torch.Generator) -> Tensor:
    """Probabilities [M, C]: mean of the softmax over samples of φ, each with its own adaptation."""
    p = {name: value.detach() for name, value in p.items()}
    x, y, query, _ = task
    mean, deviation = encode(p, x, y)
    shift = [p[f"shift.{i}"] for i in range(len(LAYERS))]
    phis = [sample(mean, deviation, noise) for _ in range(SAMPLES)]
    thetas = [adapt(p, phi, x, y, TEST_STEPS, training=False) for phi in phis]
    return torch.stack([logits(t, shift, query).softmax(1).detach() for t in thetas]).mean(0)


# 6. Meta-training -------------------------------------------------------------------------------
def init_parameters(size: int, generator: torch.Generator) -> Parameters:
    """Weights N(0, 0.02²), convolutions truncated at ±2σ; biases 0; learning rates 0.01."""
    p = {}

    def add(name: str, *shape: int) -> None:
        bound = 0.04 if len(shape) == 4 else float("inf")
        weight = torch.empty(shape)
        p[f"{name}weight"] = torch.nn.init.trunc_normal_(weight, 0, 0.02, -bound, bound, generator)
        p[f"{name}bias"] = torch.zeros(shape[0])

    for i, layer in enumerate(LAYERS):
        add(f"theta.{layer}_", CHANNELS, CHANNELS if i else 3, 3, 3)
        p[f"shift.{i}"] = torch.zeros(CHANNELS)
    for name in [name for name in p if name.startswith("theta.")]:
        p[name.replace("theta.", "rate.")] = torch.full_like(p[name], 0.01)
    p["rate.head_weight"] = torch.full((1, CHANNELS * (size // 16) ** 2), 0.01)  # for all classes
    p["rate.head_bias"] = torch.full((1,), 0.01)
    add("encoder.conv1.", 10, 3, 3, 3)
    add("encoder.conv2.", 10, 10, 3, 3)
    add("encoder.image_features.", 64, 10 * (size // 4) ** 2)
    add("encoder.class_pooling.mix.", 4, 3)
    add("encoder.class_features.0.", 128, 256)
    add("encoder.class_features.2.", 32, 128)
    add("encoder.task_pooling.mix.", 4, 3)
    for name, inputs, outputs in (("omega", 256, 1), ("gamma", 128, 5), ("z", 128, 8 * CHANNELS)):
        add(f"encoder.heads.{name}.0.", 64, inputs)
        add(f"encoder.heads.{name}.2.", 2 * outputs, 64)
    return {name: value.requires_grad_() for name, value in p.items()}


def main(iterations: int = 20) -> None:
    """Train on the characters that come with anyshot and test on characters that are new."""
    images = open_images("glyphs")
    train, test = (
        [images.images_of(c) for c in images.splits[split]] for split in ("train", "test")
    )
    noise = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    p = init_parameters(images.size[0], noise)
    adam = torch.optim.Adam(p.values(), LEARNING_RATE)
    for iteration in range(iterations):
        tasks = [sample_task(train, rng) for _ in range(META_BATCH)]
        adam.zero_grad()
        loss = torch.stack([objective(p, task, noise) for task in tasks]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_value_(p.values(), CLIP)
        adam.step()
        print(f"iteration {iteration + 1}: loss {loss.item():.3f}")
    hits = []
    for _ in range(TEST_TASKS):
        task = sample_task(test, rng)
        hits.append((predict(p, task, noise).argmax(1) == task[3]).float().mean().item())
    print(f"accuracy on {TEST_TASKS} tasks of new classes: {100 * np.mean(hits):.1f} %")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
