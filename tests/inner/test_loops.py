"""The fused loops against the torch operators they stand for, in float64."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
import torch

from anyshot.inner import blocks, ops, query_loss

loops = pytest.importorskip("anyshot.inner.loops")
kernels = pytest.importorskip("anyshot.inner.kernels")
sparse = pytest.importorskip("anyshot.inner.sparse")

SHAPES = [(3, 6, 6, 8), (2, 32, 7, 9), (1, 1, 2, 2), (4, 3, 3, 2)]  # even, odd, smallest


def add_patches(sums, dz, code, shift, x, channel, windows, start, step, pitch):
    """The vector instructions of :mod:`anyshot.inner.sparse` in words that need no compiler."""
    for c in (channel, channel + 1):
        for p in range(windows):
            first = start + step * p + shift[code[p, c]]
            for j in range(3):
                sums[c, j, :9] += dz[p, c] * x[first + j * pitch : first + j * pitch + 9]


@pytest.fixture(params=[True, False], ids=["compiled", "plain Python"])
def compiled(request, monkeypatch):
    """The loops mean the same to Python as to Numba."""
    if not request.param:
        monkeypatch.setattr(sparse, "_add_patches", add_patches)
        monkeypatch.setattr(sparse, "gated_patch_sums", sparse.gated_patch_sums.py_func)
    for name, loop in vars(kernels).copy().items():
        if not request.param and hasattr(loop, "py_func"):
            monkeypatch.setattr(kernels, name, loop.py_func)
    return request.param


@pytest.fixture(params=SHAPES, ids=str)
def tensors(request, compiled):
    """y, y′, more [n, c, h, w]; d, more, u [n, c, h // 2, w // 2]; vectors; pooled output and code both ways."""
    generator = torch.Generator().manual_seed(1)
    n, c, h, w = request.param

    def normal(*shape):
        t = torch.randn(shape, generator=generator, dtype=torch.float64)
        return t.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else t

    large = [normal(n, c, h, w).mul(3).round() if i == 0 else normal(n, c, h, w) for i in range(3)]  # y with ties
    small = [normal(n, c, h // 2, w // 2) for _ in range(3)]
    return large, small, [normal(c) for _ in range(4)]


def both(name, *arguments):
    """A function of either module on copies of the arguments; ``code`` is made by the module itself from y."""
    results = []
    for module in (loops, ops):
        copies = [a(module) if callable(a) else [t.clone() for t in a] if isinstance(a, list) else a for a in arguments]
        copies = [t.clone() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in copies]
        found = getattr(module, name)(*copies)
        results.append(found if isinstance(found, tuple) else (found,))
    return results


def agree(results, codes=()):
    for i, (left, right) in enumerate(zip(*results, strict=True)):
        if i not in codes:
            assert left.shape == right.shape
            assert torch.allclose(left, right, rtol=1e-12, atol=1e-12), i


def test_pooling_and_statistics(tensors):
    (y, *_), _, _ = tensors
    agree(both("pool_relu", y), codes=[1])
    agree(both("statistics_and_pool", y + 100), codes=[3])


def test_the_first_of_equal_values_wins(tensors):
    (y, yd, _), (a, *_), _ = tensors
    agree(both("gated_gather", yd, lambda module: module.pool_relu(y)[1], a))


def test_affine_maps(tensors):
    _, (p, a, u), (j, k, m, _) = tensors
    agree(both("affine_relu", p, j, k))
    agree(both("gated_affine_", p, a, j, u, k, m, u))


@pytest.mark.parametrize("summands", [1, 2])
def test_gated_sums_and_scatters(tensors, summands):
    (y, *_), (d, more, a), (c, *_) = tensors
    code = lambda module: module.pool_relu(y)[1]  # noqa: E731
    agree(both("gated_sums_", [d, more][:summands], a, a, c))
    W = torch.ones(y.shape[1], 3, 3, 3, dtype=torch.float64)
    x = torch.cat([y[:, :1], y[:, -1:], 2 * y[:, :1]], 1).contiguous(memory_format=torch.channels_last)
    if y.shape[1] % 2 == 0:
        agree(both("gated_correlation", [d, more][:summands], a, code, x, W))
        agree(both("gated_correlation", [d, more][:summands], a, code, x[:, :1].contiguous(), W[:, :1]))


def test_spreads_and_tangent_sums(tensors):
    (y, yd, more), (dz, *_), (j, k, m, _) = tensors
    code = lambda module: module.pool_relu(y)[1]  # noqa: E731
    agree(both("spread", y, j, k, dz, code))
    agree(both("tangent_spread_", yd, j, y, k, m, dz, code))
    for d in ([yd], [yd, more]):
        agree(both("tangent_sums_", d, y, k, code))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vector_instructions_add_patches_of_two_channels(dtype):
    numba, generator = pytest.importorskip("numba"), np.random.Generator(np.random.Philox(0))

    @numba.njit
    def run(sums, dz, code, shift, x):
        sparse._add_patches(sums, dz, code, shift, x, 2, 3, 5, 6, 24)

    dz, code = generator.normal(size=(3, 4)).astype(dtype), generator.integers(0, 4, (3, 4)).astype(np.uint8)
    x, shift = generator.normal(size=200).astype(dtype), np.array([0, 3, 24, 27])
    sums, expected = (np.ones((4, 3, sparse.ROW), dtype) for _ in range(2))
    run(sums, dz, code, shift, x)
    add_patches(expected, dz, code, shift, x, 2, 3, 5, 6, 24)
    assert np.allclose(sums[..., :9], expected[..., :9], rtol=1e-5)


@pytest.mark.parametrize("chosen", ["loops", "ops"])
@pytest.mark.parametrize("size", [(32, 32), (33, 47)])
def test_either_way_the_engine_gives_autograds_gradients(make_case, differences, monkeypatch, chosen, size):
    module = {"loops": loops, "ops": ops}[chosen]
    monkeypatch.setattr(blocks, "fused", lambda W: module)
    monkeypatch.setattr(blocks, "fused_first", lambda W: module)
    case = make_case([1, 3], size, 3, head=True, scale=True, centre=True)
    losses = [query_loss(case.inner, case.images, case.labels, engine=way)[0] for way in ("engine", "autograd")]
    assert max(differences(*(case.gradients(loss) for loss in losses)).values()) < 1e-10


def test_chunks_of_layer_one_change_nothing_but_rounding(make_case, differences, monkeypatch):
    case = make_case([3, 4], (32, 32), 2)
    found = []
    for chunk in (1 << 14, 1 << 11):
        monkeypatch.setattr(blocks, "CHUNK", chunk)
        found.append(case.gradients(query_loss(case.inner, case.images, case.labels)[0]))
    assert max(differences(*found).values()) < 1e-12


def test_a_variance_far_from_zero_mean_keeps_its_digits():
    y = (1000 + torch.randn(50, 4, 8, 8, generator=torch.Generator().manual_seed(0))).float()
    y = y.contiguous(memory_format=torch.channels_last)
    mean, variance, *_ = loops.statistics_and_pool(y)
    expected = torch.var_mean(y.double(), (0, 2, 3), correction=0)
    assert torch.allclose(variance.double(), expected[0], rtol=2e-4)
    assert torch.allclose(mean.double(), expected[1], rtol=1e-7)


def test_the_loops_are_chosen_by_device_threads_and_environment(monkeypatch):
    cpu, threads = torch.zeros(1), torch.get_num_threads()
    ops.loops.cache_clear()
    assert ops.fused(cpu) is loops
    assert ops.fused(torch.zeros(1, device="meta")) is ops
    monkeypatch.setattr(ops, "MOST_THREADS", threads - 1)
    assert ops.fused(cpu) is ops
    monkeypatch.undo()
    monkeypatch.setenv("ANYSHOT_LOOPS", "0")
    ops.loops.cache_clear()
    assert ops.fused(cpu) is ops
    ops.loops.cache_clear()


def test_without_numba_torch_does_it_and_says_so(monkeypatch, caplog):
    monkeypatch.delitem(sys.modules, "anyshot.inner.loops")
    monkeypatch.delitem(sys.modules, "anyshot.inner.jit")
    monkeypatch.setitem(sys.modules, "numba", None)
    ops.loops.cache_clear()
    with caplog.at_level(logging.INFO, "anyshot.inner"):
        assert ops.loops() is ops
    assert "anyshot[fast]" in caplog.text
    ops.loops.cache_clear()


def test_compiling_is_announced(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(loops, "Path", lambda folder: tmp_path)
    with caplog.at_level(logging.WARNING, "anyshot.inner"):
        loops.announce()
        (tmp_path / "kernels.spread.nbi").touch()
        loops.announce()
    assert caplog.text.count("Compiling the engine's loops") == 1


def test_the_operators_of_other_devices_agree(tensors, monkeypatch):
    """CUDA and MPS take other reductions than a CPU; here they run on a tensor that claims to be elsewhere."""
    (y, yd, _), _, (c, *_) = tensors

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device("cuda")

    away = [t.as_subclass(Elsewhere) for t in (yd, y, c)]
    for left, right in zip(ops.channel_sums(yd, y, c), ops.channel_sums(*away), strict=True):
        assert torch.allclose(left, right.as_subclass(torch.Tensor))
    for left, right in zip(ops.statistics_and_pool(y), ops.statistics_and_pool(away[1]), strict=True):
        assert torch.allclose(left, right.as_subclass(torch.Tensor))
