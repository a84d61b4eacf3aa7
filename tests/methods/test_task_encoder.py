import math
from dataclasses import replace

import pytest
import torch
from support import make_task
from tiny_runs import tiny, train_tiny

import anyshot
from anyshot.core.builtin_options import TAMLOptions
from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.core.registry import ENCODERS, POOLINGS, STATISTICS
from anyshot.methods.pooling import AttentionPooling
from anyshot.methods.task_encoder import NormalizedTaskEncoder, TaskEncoder
from anyshot.models.bodies.conv4 import conv4
from anyshot.runs.run import Run


def encoder(**options) -> TaskEncoder:
    made = TaskEncoder(TAMLOptions(**options), conv4((16, 16), 4), torch_rng(0)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn(
                parameter.shape, generator=torch_rng(1), dtype=torch.float64
            )
    return made


def images(n: int) -> torch.Tensor:
    return torch.rand(n, 3, 16, 16, dtype=torch.float64, generator=torch_rng(2))


def test_shapes_and_any_number_of_classes():
    e = encoder()
    for way in (2, 7, 20):
        q = e(images(way * 2), torch.arange(way).repeat(2), way)
        assert {k: tuple(v.shape) for k, v in q.mean.items()} == {
            "omega": (way,),
            "gamma": (5,),
            "z": (32,),
        }
        assert all((d > 0).all() for d in q.deviation.values())


def test_permuting_images_changes_nothing_and_permuting_classes_permutes_omega():
    e, x, labels = encoder(), images(8), torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])
    q = e(x, labels, 3)
    order = torch.randperm(8, generator=torch_rng(3))
    p = e(x[order], labels[order], 3)
    renamed = torch.tensor([2, 0, 1])  # class c is now called renamed[c]
    r = e(x, renamed[labels], 3)
    for k in q.mean:
        torch.testing.assert_close(p.mean[k], q.mean[k])
        torch.testing.assert_close(r.mean[k][renamed] if k == "omega" else r.mean[k], q.mean[k])


def cardinalities(e: TaskEncoder, sizes: list[int]) -> tuple[list[float], list[float]]:
    """What the class pooling and the task pooling receive of these class sizes."""
    given: list[list[float]] = []
    hooks = [
        pooling.register_forward_hook(lambda _, inputs, __: given.append(inputs[2].tolist()))
        for pooling in (e.class_pooling, e.task_pooling)
    ]
    e(
        images(sum(sizes)),
        torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
        len(sizes),
    )
    for hook in hooks:
        hook.remove()
    return given[0], given[1]


def test_a_class_of_1_is_0_to_the_encoder_one_of_50_is_1_and_a_task_the_mean_of_its_classes():
    of_classes, of_task = cardinalities(encoder(), [1, 50, 2, 99])
    assert of_classes == pytest.approx([0, 1, 1 / 49, 2])
    assert of_task == pytest.approx([sum(of_classes) / 4])


def test_sizes_may_be_encoded_by_their_logarithms():
    of_classes, of_task = cardinalities(encoder(cardinality="log"), [1, 50, 2, 2500])
    assert of_classes == pytest.approx([0, 1, math.log(2) / math.log(50), 2])
    assert of_task == pytest.approx([sum(of_classes) / 4])


def test_more_images_of_the_same_kind_are_seen_through_the_cardinality_alone():
    x, labels = images(4), torch.tensor([0, 0, 1, 1])
    twice = (torch.cat([x, x]), torch.cat([labels, labels]), 2)
    blind, seeing = encoder(statistics=("mean", "var")), encoder()
    torch.testing.assert_close(blind(*twice).mean["gamma"], blind(x, labels, 2).mean["gamma"])
    assert (seeing(*twice).mean["gamma"] - seeing(x, labels, 2).mean["gamma"]).abs().max() > 1e-6


@pytest.mark.parametrize(
    "options",
    [
        {"hierarchical": False},
        {"statistics": ("mean",)},
        {"statistics": ("mean", "N")},
        {"statistics": ("mean", "var", "skewness")},
        {"statistics": ("mean", "var", "kurtosis")},
        {"omega_hidden": 0},
        {"balance": ("gamma",)},
    ],
)
def test_every_variant_gives_a_finite_posterior_with_gradients(options):
    e = encoder(**options)
    q = e(images(5), torch.tensor([0, 1, 1, 1, 2]), 3)
    q.kl().backward()
    assert set(q.mean) == set(options.get("balance", ("omega", "gamma", "z")))
    used = [name for name, p in e.named_parameters() if p.grad is not None]
    assert {"conv1.weight", "image_features.weight", "task_pooling.mix.weight"} <= set(used)
    assert all(p.grad.isfinite().all() for p in e.parameters() if p.grad is not None)


def test_the_flat_encoder_does_not_see_labels_but_through_omega():
    e, x = encoder(hierarchical=False), images(6)
    a, b = e(x, torch.tensor([0, 0, 0, 1, 1, 1]), 2), e(x, torch.tensor([0, 1, 0, 1, 0, 1]), 2)
    torch.testing.assert_close(a.mean["z"], b.mean["z"])
    assert (a.mean["omega"] - b.mean["omega"]).abs().max() > 1e-6


def by_hand(
    p: dict[str, torch.Tensor], x: torch.Tensor, sizes: list[int]
) -> dict[str, torch.Tensor]:
    """The paper's encoder, class after class: (μ, softplus⁻¹ σ) of every variable."""

    def linear(name: str, h: torch.Tensor) -> torch.Tensor:
        return h @ p[f"{name}.weight"].t() + p[f"{name}.bias"]

    def conv(name: str, h: torch.Tensor) -> torch.Tensor:
        padded = torch.zeros(*h.shape[:2], h.shape[2] + 2, h.shape[3] + 2, dtype=h.dtype)
        padded[:, :, 1:-1, 1:-1] = h
        patches = padded.unfold(2, 3, 1).unfold(3, 3, 1)  # [n, channels, height, width, 3, 3]
        out = torch.einsum("nchwij,ocij->nohw", patches, p[f"{name}.weight"]) + p[
            f"{name}.bias"
        ].view(-1, 1, 1)
        return out.relu().unflatten(3, (-1, 2)).amax(4).unflatten(2, (-1, 2)).amax(3)

    def pooled(name: str, h: torch.Tensor, cardinality: float) -> torch.Tensor:
        given = torch.full_like(h[0], cardinality)
        return (
            linear(f"{name}.mix", torch.stack([h.mean(0), h.var(0, correction=0), given], -1))
            .relu()
            .flatten()
        )

    h = linear("image_features", conv("conv2", conv("conv1", x)).flatten(1))
    given = [(n - 1) / 49 for n in sizes]
    s = torch.stack(
        [pooled("class_pooling", c, t) for c, t in zip(h.split(sizes), given, strict=True)]
    )
    of_classes = linear("class_features.2", linear("class_features.0", s).relu())
    v = pooled("task_pooling", of_classes, sum(given) / len(given))
    seen = {"omega": s, "gamma": v, "z": v}
    return {
        name: linear(f"heads.{name}.2", linear(f"heads.{name}.0", seen[name]).relu())
        for name in seen
    }


def test_the_posterior_is_that_of_the_formulas():
    e, sizes = encoder(), [1, 4, 2]
    with torch.no_grad():
        q = e(images(7), torch.repeat_interleave(torch.arange(3), torch.tensor(sizes)), 3)
        expected = by_hand(dict(e.named_parameters()), images(7), sizes)
    for name, both in expected.items():
        mu, rho = both.chunk(2, -1)
        torch.testing.assert_close(q.mean[name], mu.flatten())
        torch.testing.assert_close(q.deviation[name], torch.log1p(rho.exp()).flatten())


def test_layers_have_the_papers_widths():
    e = TaskEncoder(TAMLOptions(), conv4((32, 32)), torch_rng(0))
    assert {
        name: tuple(p.shape) for name, p in e.named_parameters() if name.endswith("weight")
    } == {
        "conv1.weight": (10, 3, 3, 3),
        "conv2.weight": (10, 10, 3, 3),
        "image_features.weight": (64, 10 * 8 * 8),
        "class_pooling.mix.weight": (4, 3),
        "class_features.0.weight": (128, 256),
        "class_features.2.weight": (32, 128),
        "task_pooling.mix.weight": (4, 3),
        "heads.omega.0.weight": (64, 256),
        "heads.omega.2.weight": (2, 64),
        "heads.gamma.0.weight": (64, 128),
        "heads.gamma.2.weight": (10, 64),
        "heads.z.0.weight": (64, 128),
        "heads.z.2.weight": (512, 64),
    }


def test_the_start_comes_from_the_given_generator_alone():
    state = torch.get_rng_state()
    one, again, other = (
        TaskEncoder(TAMLOptions(), conv4((16, 16), 4), torch_rng(seed)) for seed in (0, 0, 1)
    )
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        assert name.endswith("bias") or not torch.equal(parameter, other.get_parameter(name))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_start_is_the_papers():
    e = TaskEncoder(TAMLOptions(), conv4((32, 32)), torch_rng(0))
    assert not any(p.any() for n, p in e.named_parameters() if n.endswith("bias"))
    assert abs(e.image_features.weight.std() - 0.02) < 1e-3
    assert e.conv2.weight.abs().max() <= 0.04


# ---------------------------------------------------------------------------------- normalized
def with_units_switched_off(kind: type[TaskEncoder]) -> TaskEncoder:
    """An encoder whose convolutions have large negative biases."""
    made = kind(TAMLOptions(), conv4((16, 16), 4), torch_rng(0), "he").double()
    with torch.no_grad():
        made.conv1.bias.fill_(-50.0)
        made.conv2.bias.fill_(-50.0)
    return made


@pytest.mark.parametrize(("kind", "sees"), [(TaskEncoder, False), (NormalizedTaskEncoder, True)])
def test_only_the_normalized_encoder_sees_images_whatever_its_biases_are(kind, sees):
    e, labels = with_units_switched_off(kind), torch.tensor([0, 0, 1, 1])
    mean = e(images(4), labels, 2).mean["omega"]  # classes of one size: only images differ
    mean[0].backward()
    assert (abs(mean[0] - mean[1]).item() > 1e-4) is sees
    assert bool(e.conv1.weight.grad.abs().max() > 1e-8) is sees


def test_normalized_features_are_those_of_the_formula_and_of_one_image_alone():
    e, x = (
        NormalizedTaskEncoder(TAMLOptions(), conv4((16, 16), 4), torch_rng(0)).double(),
        images(3),
    )

    def block(conv: torch.nn.Conv2d, h: torch.Tensor) -> torch.Tensor:
        h = conv(h)
        h = torch.stack([(one - one.mean()) / (one.var(correction=0) + 1e-5).sqrt() for one in h])
        return torch.nn.functional.max_pool2d(h.relu(), 2)

    h = e.image_features(block(e.conv2, block(e.conv1, x - 0.5)).flatten(1))
    expected = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(e.embed_images(x), expected)
    torch.testing.assert_close(e.embed_images(x[1:2]), expected[1:2])


def test_the_normalized_encoder_starts_at_hes_scale():
    e = NormalizedTaskEncoder(TAMLOptions(), conv4((32, 32)), torch_rng(0), "paper")
    assert abs(e.image_features.weight.std() - (2 / 640) ** 0.5) < 1e-3


# ------------------------------------------------------------------------------------- by name
def test_attention_pooling_is_the_formula():
    pooling = AttentionPooling(5, TAMLOptions())
    rng = torch_rng(0)
    with torch.no_grad():
        pooling.query.copy_(torch.randn(4, 5, generator=rng))
        pooling.size.copy_(torch.randn(4, 1, generator=rng))
    x = torch.randn(6, 5, generator=rng)
    members = torch.tensor([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1]])
    sizes = torch.tensor([0.2, 0.3, 0.0])
    pooled = pooling(x, members, sizes).view(3, 4, 5)
    for c, size in enumerate(sizes):
        own = x[members[c] > 0]
        for h in range(4):
            weights = (own @ pooling.query[h] / 5**0.5).exp()
            mean = (weights[:, None] * own).sum(0) / weights.sum()
            expected = (mean + pooling.size[h] * size).clamp_min(0)
            torch.testing.assert_close(pooled[c, h], expected)


def test_attention_pooling_does_not_depend_on_the_order_of_images():
    e = encoder(pooling="attention")
    x, labels = images(7), torch.tensor([0, 0, 1, 1, 1, 2, 2])
    order = torch.tensor([6, 3, 1, 0, 5, 2, 4])
    q, other = e(x, labels, 3), e(x[order], labels[order], 3)
    for name in q.mean:
        torch.testing.assert_close(q.mean[name], other.mean[name])
    assert q.mean["omega"].std() > 0


OWN_ENCODER = """
import torch
from torch import nn
from anyshot import Posterior
from anyshot.methods.balancing import variable_sizes

class Sizes(nn.Module):
    def __init__(self, options, body, generator, start, adapt_body):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(()))
        self.gamma = variable_sizes(body)["gamma"]

    def forward(self, images, labels, way, evidence=None):
        shots = torch.bincount(labels, minlength=way).to(images)
        mean = {"omega": self.slope * shots.log(), "gamma": images.new_zeros(self.gamma)}
        return Posterior(mean, {name: torch.ones_like(value) for name, value in mean.items()})

class Mean(nn.Module):
    def __init__(self, width, options):
        super().__init__()

    def forward(self, features, members, cardinality):
        return ((members / members.sum(1, keepdim=True)) @ features).repeat(1, 4)
"""


def test_encoder_and_pooling_of_ones_own_are_trained_and_loaded(tmp_path):
    (tmp_path / "own.py").write_text(OWN_ENCODER)
    for option, name in (("encoder", "Sizes"), ("pooling", "Mean")):
        settings = tiny("taml", iterations=1)
        method = settings.method.with_values({option: f"{tmp_path / 'own.py'}:{name}"})
        run = train_tiny(replace(settings, method=method), tmp_path / option)
        assert list(run.code) == [f"{tmp_path / 'own.py'}:{name}"]
        with pytest.raises(CodeError, match="trust"):
            Run(tmp_path / option).load_method()
        assert Run(tmp_path / option, trust_code=True).load_method().predict(make_task(way=2)).shape


def test_an_encoder_of_your_own_must_return_a_posterior():
    task = make_task()
    method = anyshot.create_method(tiny("taml").method, task.support.shape[1:3])
    method.encoder.forward = lambda *inputs: None
    with pytest.raises(CodeError, match=r"returned NoneType; expected .*Posterior"):
        method.predict(task)


@pytest.mark.parametrize(
    ("option", "registry"),
    [("encoder", ENCODERS), ("pooling", POOLINGS), ("statistics", STATISTICS)],
)
def test_user_code_with_other_arguments_is_refused_with_those_it_gets(
    option, registry, monkeypatch
):
    monkeypatch.setattr(registry, "_registered", {"own": lambda: None})
    value = ("own",) if option == "statistics" else "own"
    settings = anyshot.MethodSettings(name="taml", options={option: value})
    with pytest.raises(CodeError, match=r"cannot be called \(.*\); it gets the arguments \("):
        anyshot.create_method(settings)
