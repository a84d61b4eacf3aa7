"""Operators with fast second derivatives equal elementary operators up to third derivatives."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from anyshot.inner_loop.engine import torch_ops
from anyshot.inner_loop.second_order import FastSecondOrder, Trace, mode, products, winograd


def elementary_norm(x, weight, bias, dims):
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + 1e-5) ** -0.5 * weight + bias


def elementary_batch_norm(x, weight, bias):
    shape = (-1, *[1] * (x.dim() - 2))
    return elementary_norm(
        x, weight.view(shape), bias.view(shape), [d for d in range(x.dim()) if d != 1]
    )


def elementary_convolution(x, weight, bias):
    """Stride 2, padding (1, 0), two groups."""
    windows = F.pad(x, (0, 0, 1, 1)).unfold(2, 3, 2).unfold(3, 3, 2)
    halves = zip(windows.chunk(2, 1), weight.chunk(2), strict=True)
    return torch.cat(
        [torch.einsum("ncyxij,ocij->noyx", part, w) for part, w in halves], 1
    ) + bias.view(-1, 1, 1)


OPERATORS = {
    "conv1d": (
        lambda x, w: F.conv1d(x, w, dilation=2),
        lambda x, w: torch.einsum("nctk,ock->not", x.unfold(2, 5, 1)[..., ::2], w),
        [(2, 4, 7), (6, 4, 3)],
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(1, 0), groups=2),
        elementary_convolution,
        [(2, 4, 5, 6), (6, 2, 3, 3), (6,)],
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w),
        lambda x, w: torch.einsum(
            "nczyxijk,ocijk->nozyx", x.unfold(2, 2, 1).unfold(3, 2, 1).unfold(4, 2, 1), w
        ),
        [(2, 2, 3, 3, 3), (3, 2, 2, 2, 2)],
    ),
    "linear": (
        F.linear,
        lambda x, w, b: torch.einsum("abi,oi->abo", x, w) + b,
        [(2, 3, 4), (5, 4), (5,)],
    ),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        elementary_batch_norm,
        [(3, 4, 2, 2), (4,), (4,)],
    ),
    "batch norm of rows": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        elementary_batch_norm,
        [(6, 4), (4,), (4,)],
    ),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (5,), w, b),
        lambda x, w, b: elementary_norm(x, w, b, [-1]),
        [(2, 3, 5), (5,), (5,)],
    ),
    "gelu": (F.gelu, lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2, [(4, 5)]),
    "attention": (
        F.scaled_dot_product_attention,
        lambda q, k, v: torch.einsum(
            "abij,abjd->abid",
            (torch.einsum("abid,abjd->abij", q, k) / 2).exp()
            / (torch.einsum("abid,abjd->abij", q, k) / 2).exp().sum(-1, keepdim=True),
            v,
        ),
        [(2, 2, 3, 4)] * 3,
    ),
}


def derivatives(function, inputs, weights):
    """Values and derivatives up to the third, each of a random quadratic function of the last."""
    rng = torch.Generator().manual_seed(1)

    def reduce(tensors):
        return sum(
            (t * torch.randn(t.shape, generator=rng, dtype=t.dtype) + t.square()).sum()
            for t in tensors
        )

    at = [t.clone().requires_grad_() for t in inputs]
    levels = [[function(*at)]]
    for _ in range(3):
        wanted = [t for t, used in zip(at, weights, strict=True) if used]
        levels.append(
            torch.autograd.grad(
                reduce(levels[-1]), wanted, create_graph=True, materialize_grads=True
            )
        )
    return [t for level in levels for t in level]


@pytest.mark.parametrize("only", ["all", "first", "others"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_and_its_derivatives_equal_those_of_elementary_operators(name, only):
    operator, elementary, shapes = OPERATORS[name]
    if only == "others" and len(shapes) == 1:
        pytest.skip("one input only")
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
    wanted = [only == "all" or (i == 0) == (only == "first") for i in range(len(shapes))]

    def fast(*at):
        with FastSecondOrder():
            return operator(*at)

    for left, right in zip(
        derivatives(fast, inputs, wanted), derivatives(elementary, inputs, wanted), strict=True
    ):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10 * right.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [(8, 8), (11, 10), (12, 7)])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_winograd_convolutions_equal_those_of_torch(layout, size, dtype):
    pytest.importorskip("numba")
    rng = torch.Generator().manual_seed(0)
    shapes = [(16, 32, *size), (40, 32, 3, 3), (40,), (16, 40, *size)]
    x, w, b, g = (torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes)
    kernels = products.Convolution([1, 1], [1, 1], [1, 1], 1)
    assert winograd.pays(x, w)
    y = F.conv2d(x, w, b, padding=1)
    expected = (
        y,
        torch.nn.grad.conv2d_input(x.shape, w, g, padding=1),
        torch.nn.grad.conv2d_weight(x, w.shape, g, padding=1),
    )
    x, w, g = (t.to(dtype).contiguous(memory_format=layout) for t in (x, w, g))
    found = kernels.output(x, w, b.to(dtype)), kernels.input(g, w, x), kernels.weight(g, x, w)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == dtype
        assert (left.double() - right).abs().max() <= tolerance * right.abs().max()


@pytest.mark.parametrize("size", [(8, 8), (5, 5)])  # by Winograd's algorithm, and not
def test_a_sum_of_convolutions_equals_two_convolutions(size):
    rng = torch.Generator().manual_seed(0)
    shapes = [(16, 32, *size), (40, 32, 3, 3)] * 2 + [(40,)]
    x, w, u, v, b = (torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes)
    kernels = products.Convolution([1, 1], [1, 1], [1, 1], 1)
    for bias in (b, None):
        expected = F.conv2d(x, w, bias, padding=1) + F.conv2d(u, v, padding=1)
        torch.testing.assert_close(kernels.sum_of_outputs((x, w), (u, v), bias), expected)


def test_products_of_a_linear_layer_equal_sums_over_elements():
    rng = torch.Generator().manual_seed(0)
    shapes = [(7, 5), (4, 5), (7, 5), (4, 5), (4,), (7, 4)]
    x, w, u, v, b, g = (torch.randn(s, generator=rng, dtype=torch.float64) for s in shapes)
    kernels = products.Linear()
    found = {
        kernels.output(x, w, b): torch.einsum("ni,oi->no", x, w) + b,
        kernels.sum_of_outputs((x, w), (u, v), b): (
            torch.einsum("ni,oi->no", x, w) + torch.einsum("ni,oi->no", u, v) + b
        ),
        kernels.input(g, w, x): torch.einsum("no,oi->ni", g, w),
        kernels.weight(g, x, w): torch.einsum("no,ni->oi", g, x),
    }
    for left, right in found.items():
        torch.testing.assert_close(left, right)


def test_winograd_is_used_only_where_it_pays(monkeypatch):
    pytest.importorskip("numba")
    wide = torch.empty(32, 32, 3, 3)
    assert winograd.pays(torch.empty(16, 32, 8, 8), wide)
    assert not winograd.pays(torch.empty(4, 32, 8, 8), wide)  # few tiles
    assert not winograd.pays(torch.empty(64, 32, 5, 5), wide)  # mostly padding
    assert not winograd.pays(torch.empty(64, 16, 8, 8), torch.empty(32, 16, 3, 3))
    assert not winograd.pays(torch.empty(64, 36, 8, 8), torch.empty(32, 36, 3, 3))
    assert not winograd.pays(torch.empty(64, 32, 8, 8), torch.empty(32, 32, 5, 5))
    strided = products.Convolution([2, 2], [1, 1], [1, 1], 1)
    assert strided.output(torch.rand(16, 32, 16, 16), wide.zero_(), None).shape[2:] == (8, 8)
    monkeypatch.setattr(winograd, "numba_backend", lambda: torch_ops)
    assert not winograd.pays(torch.empty(16, 32, 8, 8), wide)


def test_operators_are_replaced_where_supported_and_kept_elsewhere():
    x, w = torch.rand(2, 3, 8, 8, requires_grad=True), torch.rand(4, 3, 3, 3)
    with FastSecondOrder():
        assert "_Output" in F.conv2d(x, w).grad_fn.name()
        assert F.conv2d(x, w, padding="same").grad_fn.name() == "ConvolutionBackward0"
        assert F.conv2d(x[0], w).shape == (4, 6, 6)
        with torch.autocast("cpu", torch.bfloat16):
            assert F.conv2d(x, w).dtype == torch.bfloat16
        assert "Gelu" in F.gelu(x, approximate="tanh").grad_fn.name()
        assert F.gelu(x.bfloat16()).grad_fn.name() == "GeluBackward0"
        vmapped = torch.func.vmap(lambda image: F.gelu(image))(x)
        torch.testing.assert_close(vmapped, F.gelu(x))
        causal = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(causal, F.scaled_dot_product_attention(x, x, x, is_causal=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_updates_running_averages_and_keeps_the_stored_ones_in_tests(dtype):
    x = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    fast, torch_own = (torch.nn.BatchNorm2d(3).to(dtype) for _ in range(2))
    for training in (True, False):
        fast.train(training)
        torch_own.train(training)
        with FastSecondOrder():
            found = fast(x)
        torch.testing.assert_close(found, torch_own(x))
        assert torch.equal(fast.running_var, torch_own.running_var)
        assert torch.equal(fast.running_mean, torch_own.running_mean)


@pytest.mark.parametrize("operator", [torch.conv2d, F.linear])
def test_values_of_unused_gradients_are_not_computed_but_their_graph_is(operator):
    rng = torch.Generator().manual_seed(0)
    shapes = {torch.conv2d: [(2, 3, 4, 4), (5, 3, 3, 3)], F.linear: [(2, 3), (5, 3)]}[operator]
    x, w = (torch.randn(s, generator=rng, dtype=torch.float64) for s in shapes)
    v = torch.randn(w.shape, generator=rng, dtype=torch.float64)
    w.requires_grad_()
    trace = Trace([w])
    with FastSecondOrder(trace):
        loss = operator(x, w).exp().sum()
    [g] = torch.autograd.grad(loss, w, create_graph=True)
    assert g.abs().min() > 0
    [expected] = torch.autograd.grad(g, w, v, retain_graph=True)
    with trace.without_values():
        [unused] = torch.autograd.grad(loss, w, create_graph=True)
    assert not unused.any()
    assert torch.equal(torch.autograd.grad(unused, w, v)[0], expected)


def test_every_replaced_operator_is_tested():
    assert len(mode.REPLACEMENTS) + len(mode.PRODUCTS) == len(OPERATORS) - 1  # two batch norms
