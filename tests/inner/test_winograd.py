"""Winograd's convolutions against direct ones: exact in float64, close in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.inner import ops

winograd = pytest.importorskip("anyshot.inner.winograd")
tiles = pytest.importorskip("anyshot.inner.tiles")

# images, channels in and out, height, width: whole tiles, cut tiles, less than a tile, several chunks
SHAPES = [(3, 8, 16, 8, 8), (5, 16, 8, 7, 11), (2, 8, 8, 2, 3), (30, 8, 8, 12, 9), (1, 32, 32, 1, 1)]


def draw(shape, dtype=torch.float64):
    n, inputs, outputs, h, w = shape
    generator = torch.Generator().manual_seed(n)
    sizes = [(n, inputs, h, w)] * 2 + [(n, outputs, h, w)] * 2 + [(outputs, inputs, 3, 3)] * 2
    tensors = [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes]
    return [t.contiguous(memory_format=torch.channels_last) for t in tensors]


def close(left, right, tolerance=1e-12):
    assert left.shape == right.shape
    assert (left - right).abs().max() <= tolerance * right.abs().max()


def plain(left, accumulate=False):
    """:func:`tiles.tile_map` in words that need no compiler."""

    def apply(to, start, row, column, source, first, pitch, step, channels):
        def place(start, row, column, side):
            corner = start + np.add.outer(np.arange(side) * row, np.arange(side) * column)
            return corner[..., None] + np.arange(channels)

        outs, ins = left.shape
        tile = source.reshape(-1)[place(first, pitch, step, ins)]
        found = np.einsum("ir,rsc,js->ijc", left, tile, left)
        where = place(start, row, column, outs)
        to.reshape(-1)[where] = found + accumulate * to.reshape(-1)[where]

    return apply


@pytest.fixture(params=[True, False], ids=["compiled", "plain Python"])
def compiled(request, monkeypatch):
    if not request.param:
        maps = {"_A_left": tiles.AT, "_A_right": tiles.AT.T, "_B_left": tiles.BT}
        for name, left in maps.items():
            monkeypatch.setattr(tiles, name, plain(left))
        monkeypatch.setattr(tiles, "_B_right", plain(tiles.BT.T, accumulate=True))
        monkeypatch.setattr(tiles, "_copy", tiles._copy.py_func)
        for name in ("input_tiles", "input_cotangent", "output_tiles", "output_cotangent"):
            monkeypatch.setattr(winograd, name, getattr(tiles, name).py_func)


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_tile_map_is_a_product_from_both_sides(accumulate):
    numba = pytest.importorskip("numba")
    left = np.array([[1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])
    mapped = tiles.tile_map(left, accumulate)

    @numba.njit
    def run(to, source):
        mapped(to, 0, 16, 8, source, 0, 24, 8, 8)

    generator = np.random.Generator(np.random.Philox(0))
    source, to = generator.normal(size=(3, 3, 8)), np.ones((2, 2, 8))
    run(to, source)
    assert np.allclose(to, accumulate + np.einsum("ir,rsc,js->ijc", left, source, left))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_four_passes_agree_with_direct_convolutions(shape):
    x, xd, D, Dd, W, Wd = draw(shape)
    close(winograd.conv(x, W), ops.conv(x, W))
    close(sum(winograd.conv_tangent(x, xd, W, Wd)), sum(ops.conv_tangent(x, xd, W, Wd)))
    for left, right in zip(winograd.conv_backward(D, x, W), ops.conv_backward(D, x, W), strict=True):
        close(left, right)
    (G, dx), (G0, dx0) = (m.conv_backward_tangent(D, Dd, x, xd, W, Wd) for m in (winograd, ops))
    close(G, G0)
    close(sum(dx), sum(dx0))


def test_float32_is_about_as_good_as_a_direct_convolution():
    x, _, _, _, W, _ = draw((20, 32, 32, 16, 16))
    exact = ops.conv(x, W)
    error = (winograd.conv(x.float(), W.float()) - exact).square().mean().sqrt() / exact.std()
    assert error < 1e-6  # a direct convolution has 1e-7 to 2e-7


def test_the_transposed_maps_are_transposed():
    """⟨W * x, D⟩ = ⟨x, Wᵀ * D⟩ = ⟨W, x ⋆ D⟩."""
    x, _, D, _, W, _ = draw((4, 8, 8, 9, 6))
    G, dx = winograd.conv_backward(D, x, W)
    value = (winograd.conv(x, W) * D).sum()
    assert torch.allclose((x * dx).sum(), value)
    assert torch.allclose((W * G).sum(), value)


def test_channels_that_do_not_fill_vectors_are_refused():
    assert winograd.fits(torch.zeros(32, 16, 3, 3))
    assert not winograd.fits(torch.zeros(32, 12, 3, 3))
    assert not winograd.fits(torch.zeros(10, 8, 3, 3))


@pytest.mark.parametrize("out", [2, 3, 4])
def test_toom_cook_gives_minimal_filters_of_any_length(out):
    points = [0, 1, -1, 2, -2][: out + 1]
    At, G, Bt = tiles.toom_cook(points, out)
    d, g = np.arange(1.0, out + 3) ** 2, np.array([2.0, -1.0, 3.0])
    assert np.allclose(At @ ((G @ g) * (Bt @ d)), np.correlate(d, g))


def test_a_network_of_other_widths_takes_direct_convolutions_and_agrees(make_case, differences):
    from anyshot.inner import query_loss

    case = make_case([2, 2], (16, 16), 2, channels=12)
    losses = [query_loss(case.inner, case.images, case.labels, engine=way)[0] for way in ("engine", "autograd")]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10
