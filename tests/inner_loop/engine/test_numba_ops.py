"""The compiled kernels against the torch operators, in float64; the choice between the two."""

from __future__ import annotations

import inspect
import itertools
import logging
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from anyshot.core.parallel.threads import map_tasks
from anyshot.inner_loop import query_loss
from anyshot.inner_loop.engine import backend, parameters
from anyshot.inner_loop.engine import torch_ops as ops
from anyshot.inner_loop.engine.torch_ops import CHANNELS_LAST

kernels = pytest.importorskip("anyshot.inner_loop.engine.numba_ops")
from anyshot.inner_loop.engine.numba_layouts import Activation  # noqa: E402

# images, channels in and out, height, width: whole tiles, cut tiles, less than a tile, one window,
# many images
SHAPES = [
    (3, 16, 32, 8, 8),
    (5, 32, 16, 7, 11),
    (2, 16, 16, 2, 3),
    (1, 16, 16, 2, 2),
    (30, 16, 48, 12, 9),
]


@pytest.fixture(params=SHAPES, ids=str)
def draw(request):
    """``draw("xW")`` gives random tensors with the sizes of x, y, pooled p, weights W and c."""
    n, inputs, outputs, h, w = request.param
    sizes = {
        "x": (n, inputs, h, w),
        "y": (n, outputs, h, w),
        "p": (n, outputs, h // 2, w // 2),
        "W": (outputs, inputs, 3, 3),
        "c": (outputs,),
    }
    generator = torch.Generator().manual_seed(n)

    def like(kinds, dtype=torch.float64):
        drawn = [
            torch.randn(sizes[k], generator=generator, dtype=torch.float64).to(dtype) for k in kinds
        ]
        return [
            t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in drawn
        ]

    return like


def to_map(t):
    """A tensor as an Activation: blocks of eight channels, a border of zeros, whole tiles."""
    n, c, h, w = t.shape
    values = np.zeros((n, c // 8, -(-h // 4) * 4 + 2, -(-w // 4) * 4 + 2, 8), t.numpy().dtype)
    values[:, :, 1 : h + 1, 1 : w + 1] = (
        t.numpy().reshape(n, c // 8, 8, h, w).transpose(0, 1, 3, 4, 2)
    )
    return Activation(values, h, w)


def to_tiles(t, size, fill=0.0):
    """A tensor as the kernels' y (or pooled y) for an input of that size."""
    (n, c, h, w), side = t.shape, 4 if t.shape[2:] == size else 2
    values = np.full(
        (n, c // 8, -(-size[0] // 4) * side, -(-size[1] // 4) * side, 8), fill, t.numpy().dtype
    )
    values[:, :, :h, :w] = t.numpy().reshape(n, c // 8, 8, h, w).transpose(0, 1, 3, 4, 2)
    return values


def to_tensor(values, size, border=0):
    inside = values[:, :, border : size[0] + border, border : size[1] + border].transpose(
        0, 1, 4, 2, 3
    )
    return torch.from_numpy(np.ascontiguousarray(inside)).flatten(1, 2)


def close(left, right, tolerance=1e-12):
    if isinstance(left, Activation):
        left = to_tensor(left.values, (left.height, left.width), border=1)
    if isinstance(left, np.ndarray):
        left = kernels.from_backend(left)
    assert left.shape == right.shape
    assert left.numel() == 0 or (
        left - right
    ).abs().max() <= tolerance * right.abs().max().clamp_min(1e-300)


def border_is_zero(a):
    inside = np.zeros(a.values.shape, bool)
    inside[:, :, 1 : a.height + 1, 1 : a.width + 1] = True
    assert not a.values[~inside].any()


def pooled(x, W):
    """y, pool(y) and the code, both ways."""
    return [
        (y, p, code)
        for y, _, _, p, code, _ in (
            ops.forward(x, W),
            kernels.forward(to_map(x), kernels.to_backend(W)),
        )
    ]


def test_forward_and_normalisation(draw):
    x, W, c, d = draw("xWcc")
    expected, found = ops.forward(x, W), kernels.forward(to_map(x), kernels.to_backend(W))
    size = tuple(x.shape[2:])
    close(to_tensor(found[0], size), expected[0])
    close(found[1], expected[1])
    close(found[2], expected[2])
    p = expected[3]
    close(to_tensor(found[3], p.shape[2:]), p)
    assert found[5] == expected[5]
    a = kernels.affine_relu(found[3], c.numpy(), d.numpy(), to_map(x))
    close(a, ops.affine_relu(p, c, d, x))
    border_is_zero(a)


def test_backward(draw):
    x, W, dz, c1, c0 = draw("xWpcc")
    (y, _, code), (kernel_y, _, kernel_code) = pooled(x, W)
    expected = ops.backward(x, W, y, c1, c0, dz, code)
    dz = to_tiles(dz, tuple(x.shape[2:]))
    found = kernels.backward(
        to_map(x), kernels.to_backend(W), kernel_y, c1.numpy(), c0.numpy(), dz, kernel_code
    )
    for left, right in zip(found, expected, strict=True):
        close(left, right)


def test_tangent(draw):
    x, xd, W, Wd, mean = draw("xxWWc")
    (y, p, code), (kernel_y, kernel_p, kernel_code) = pooled(x, W)
    expected = ops.tangent(x, xd, W, Wd, y, mean, p, code)
    weights = [kernels.to_backend(t) for t in (W, Wd)]
    found = kernels.tangent(
        to_map(x), to_map(xd), *weights, kernel_y, mean.numpy(), kernel_p, kernel_code
    )
    close(to_tensor(found[0], y.shape[2:]), expected[0])
    close(to_tensor(found[1], p.shape[2:]), expected[1])
    close(found[2], expected[2])
    close(found[3], expected[3])


def test_tangent_backward(draw):
    x, xd, W, Wd, yd, dz, dzd, *c = draw("xxWWyppcccc")
    (y, _, code), (kernel_y, _, kernel_code) = pooled(x, W)
    size = tuple(x.shape[2:])
    expected = ops.tangent_backward(x, xd, W, Wd, y, yd, tuple(c), dz, dzd, code)
    tiles = [to_tiles(t, size) for t in (yd, dz, dzd)]
    weights, c = [kernels.to_backend(t) for t in (W, Wd)], tuple(t.numpy() for t in c)
    found = kernels.tangent_backward(
        to_map(x), to_map(xd), *weights, kernel_y, tiles[0], c, *tiles[1:], kernel_code
    )
    for left, right in zip(found, expected, strict=True):
        close(left, right)


def test_pooled_normalisation(draw):
    y, p, pd, d, a, dz, *c = draw("ypppppcccc")
    size, arrays = tuple(y.shape[2:]), [t.numpy() for t in c]
    expected = ops.gated_sums(d.clone(), a, p, c[0])
    found = kernels.gated_sums(to_map(d), to_map(a), to_tiles(p, size, fill=9.0), arrays[0])
    assert np.array_equal(found[0], to_tiles(expected[0], size))  # zero beyond
    close(found[1], expected[1])
    close(found[2], expected[2])
    expected = ops.gated_affine(pd.clone(), a, c[0], p, c[1], c[2], dz, c[3])
    tiles = [to_tiles(t, size) for t in (pd, p, dz)]
    found = kernels.gated_affine(
        tiles[0], to_map(a), arrays[0], tiles[1], *arrays[1:3], tiles[2], arrays[3]
    )
    close(found[0], expected[0])
    close(found[1], expected[1])
    border_is_zero(found[0])


@pytest.mark.parametrize("colours", [1, 2, 3])
@pytest.mark.parametrize("size", [(8, 8), (7, 11), (2, 3), (16, 5)], ids=str)
def test_layer_one(size, colours):
    generator = torch.Generator().manual_seed(colours)

    def normal(*shape):
        t = torch.randn(shape, generator=generator, dtype=torch.float64)
        return t.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else t

    x, V, Vd, offset = (
        normal(5, colours, *size),
        normal(16, colours, 3, 3),
        normal(16, colours, 3, 3),
        normal(16),
    )
    kernel_x, kernel_V, kernel_Vd = (
        kernels.image_layout(x),
        kernels.to_backend(V),
        kernels.to_backend(Vd),
    )
    a, code = ops.first_forward(x, V, offset)
    kernel_a, kernel_code = kernels.first_forward(kernel_x, kernel_V, offset.numpy())
    close(kernel_a, a)
    border_is_zero(kernel_a)
    ad = kernels.first_tangent(kernel_x, kernel_Vd, offset.numpy(), kernel_a, kernel_code)
    close(ad, ops.first_tangent(x, Vd, offset, a, code))
    border_is_zero(ad)
    d = normal(*a.shape)
    expected = ops.gated_correlation(d.clone(), a, code, x, V)
    found = kernels.gated_correlation(to_map(d), kernel_a, kernel_code, kernel_x, kernel_V)
    for left, right in zip(found, expected, strict=True):
        close(left, right)
    (m, S), (kernel_m, kernel_S) = ops.patch_moments(x), kernels.patch_moments(kernel_x)
    close(kernel_m, m)
    order = (
        np.arange(9 * colours).reshape(colours, 9).T.reshape(-1)
    )  # colours come last in the loops' weights
    close(kernel_S, S[order][:, order])


def test_the_first_of_equal_values_wins():
    x = torch.zeros(2, 16, 8, 8, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    W = torch.ones(16, 16, 3, 3, dtype=torch.float64)
    assert not kernels.forward(to_map(x), kernels.to_backend(W))[4].any()


def test_features_have_the_order_of_torch(draw):
    (p,) = draw("p")
    a = to_map(p)
    assert torch.equal(kernels.features(a), ops.features(p))
    if p.numel():
        close(kernels.from_features(ops.features(p), a), p)


def test_float32_is_about_as_good_as_a_direct_convolution():
    generator = torch.Generator().manual_seed(0)
    x, W = (
        torch.randn(20, 32, 16, 16, generator=generator),
        torch.randn(32, 32, 3, 3, generator=generator),
    )
    exact = ops.conv(x.double(), W.double())
    found = to_tensor(kernels.forward(to_map(x), kernels.to_backend(W))[0], (16, 16))
    assert (
        found - exact
    ).square().mean().sqrt() / exact.std() < 1e-6  # a direct convolution has 1e-7 to 2e-7


def test_a_variance_with_a_large_mean_keeps_its_digits():
    generator = torch.Generator().manual_seed(0)
    x, W = (
        100 + torch.randn(50, 16, 8, 8, generator=generator),
        torch.rand(16, 16, 3, 3, generator=generator),
    )
    W[:, :, 0] = W[:, :, 2] = 0
    W[:, :, 1, [0, 2]] = 0  # of the centre alone, so that the border is as the rest
    y = ops.conv(x.double(), W.double())
    _, mean, variance, *_ = kernels.forward(to_map(x), kernels.to_backend(W))
    expected = torch.var_mean(y, (0, 2, 3), correction=0)
    # (mean / deviation)² is some 1e5: without a pivot float32 would lose all but two digits
    assert np.allclose(variance, expected[0], rtol=2e-3)
    assert np.allclose(mean, expected[1], rtol=1e-6)


def weights(*channels):
    return [torch.zeros(c, colours, 3, 3) for colours, c in itertools.pairwise(channels)]


@pytest.mark.parametrize("channels", [(3, 32, 32, 32, 32), (1, 64, 64), (3, 16, 48, 128, 16)])
def test_multiples_of_sixteen_channels_use_the_kernels(channels):
    assert backend.choose_backend(weights(*channels)) is kernels


@pytest.mark.parametrize(
    ("channels", "reason"),
    [
        ((3, 32, 20, 32), "20 channels"),
        ((3, 32, 144), "144 channels"),
        ((4, 32, 32), "of 4 colours"),
    ],
)
def test_unsupported_channels_fall_back_to_torch_with_one_log_line(channels, reason, caplog):
    backend._log_fallback.cache_clear()
    with caplog.at_level(logging.WARNING, "anyshot.inner_loop"):
        assert [backend.choose_backend(weights(*channels)) for _ in range(2)] == [ops, ops]
    assert [reason in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("channels", [16, 20, 48, 64])
def test_networks_of_other_widths_agree_with_autograd(make_case, differences, channels):
    case = make_case([2, 2], (16, 16), 2, channels=channels)
    losses = [
        query_loss(case.inner, case.images, case.labels, engine=way)[0]
        for way in ("engine", "autograd")
    ]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10


@pytest.mark.parametrize("chosen", ["kernels", "ops"])
@pytest.mark.parametrize("size", [(32, 32), (33, 47)])
def test_both_backends_give_the_gradients_of_autograd(
    make_case, differences, monkeypatch, chosen, size
):
    module = {"kernels": kernels, "ops": ops}[chosen]
    monkeypatch.setattr(parameters, "choose_backend", lambda weights: module)
    case = make_case([1, 3], size, 3, head=True, scale=True, centre=True)
    losses = [
        query_loss(case.inner, case.images, case.labels, engine=way)[0]
        for way in ("engine", "autograd")
    ]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10


LAYOUTS = {
    "cut out of larger images": lambda x: F.pad(x, (4, 4, 4, 4)).contiguous(
        memory_format=CHANNELS_LAST
    )[:, :, 4:-4, 4:-4],
    "every other row and column": lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3)[
        :, :, ::2, ::2
    ],
    "one channel repeated three times": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "transposed": lambda x: x.transpose(2, 3),
    "every other image": lambda x: x.repeat_interleave(2, 0)[::2],
}


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_images_can_have_any_memory_layout(make_case, differences, change):
    case = make_case([2, 3], (32, 32), 2, change_images=change)
    losses = [
        query_loss(case.inner, case.images, case.labels, engine=way)[0]
        for way in ("engine", "autograd")
    ]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10


def test_chunks_of_layer_one_change_nothing_but_rounding(make_case, differences, monkeypatch):
    monkeypatch.setattr(parameters, "choose_backend", lambda weights: ops)
    case = make_case([3, 4], (32, 32), 2)
    found = []
    for chunk in (1 << 14, 1 << 11):
        monkeypatch.setattr(ops, "CHUNK", chunk)
        found.append(case.gradients(query_loss(case.inner, case.images, case.labels)[0]))
    assert max(differences(*found).values()) < 1e-12


def test_the_backend_depends_on_device_and_environment(monkeypatch):
    weights = [torch.zeros(32, 3, 3, 3)]
    backend._import_numba_ops.cache_clear()
    assert backend.choose_backend(weights) is kernels
    assert backend.choose_backend([weights[0].to("meta")]) is ops
    monkeypatch.setenv("ANYSHOT_NUMBA", "0")
    backend._import_numba_ops.cache_clear()
    assert backend.choose_backend(weights) is ops
    backend._import_numba_ops.cache_clear()


def test_without_numba_torch_operators_are_used_and_logged(monkeypatch, caplog):
    monkeypatch.delitem(sys.modules, "anyshot.inner_loop.engine.numba_ops")
    monkeypatch.delitem(sys.modules, "anyshot.inner_loop.engine.numba_kernels.compile")
    monkeypatch.setitem(sys.modules, "numba", None)
    backend._import_numba_ops.cache_clear()
    with caplog.at_level(logging.INFO, "anyshot.inner_loop"):
        assert backend.numba_backend() is ops
    assert "anyshot[fast]" in caplog.text
    backend._import_numba_ops.cache_clear()


def test_parallel_workers_announce_compilation_once(monkeypatch):
    said = []
    monkeypatch.setattr(kernels, "announce_compilation", lambda: (time.sleep(0.05), said.append(1)))
    backend._import_numba_ops.cache_clear()
    map_tasks(lambda _: backend.numba_backend(), range(2), workers=2)
    assert said == [1]


def test_compilation_is_announced(monkeypatch, caplog):
    with caplog.at_level(logging.WARNING, "anyshot.inner_loop"):
        for kept in (False, True):
            monkeypatch.setattr(kernels, "is_cached", lambda loop, kept=kept: kept)
            kernels.announce_compilation()
    assert caplog.text.count("Compiling the engine's kernels") == 1


def test_operators_for_other_devices_agree(draw):
    """CUDA and MPS use other reductions than a CPU; here a CPU tensor claims to be on CUDA."""
    y, yd, c, x, W = draw("yycxW")

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device("cuda")

    away = [t.as_subclass(Elsewhere) for t in (yd, y, c, x)]
    for left, right in zip(ops.channel_sums(yd, y, c), ops.channel_sums(*away[:3]), strict=True):
        assert torch.allclose(left, right.as_subclass(torch.Tensor))
    for left, right in zip(ops.forward(x, W)[:5], ops.forward(away[3], W)[:5], strict=True):
        assert torch.allclose(left, right.as_subclass(torch.Tensor))


def test_both_backends_have_every_operation_that_the_engine_uses():
    folder = Path(backend.__file__).parent
    source = "".join((folder / name).read_text("utf-8") for name in ("blocks.py", "network.py"))
    used = set(re.findall(r"\bops\.(\w+)\(", source))
    assert {"to_backend", "forward", "tangent_backward"} <= used
    for name in used:
        left, right = (inspect.signature(getattr(module, name)) for module in (ops, kernels))
        required = [p.name for p in left.parameters.values() if p.default is p.empty]
        assert len(required) == len(right.parameters), name
