"""Winograd's matrices, the instructions that apply them, and block products."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from anyshot.inner_loop.engine.numba_kernels import matmul, winograd
from anyshot.inner_loop.engine.numba_kernels.compile import compile_kernel


def normal(*shape, dtype=np.float64):
    return np.random.Generator(np.random.Philox(0)).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("out", [2, 3, 4])
def test_toom_cook_gives_minimal_filters_of_any_length(out):
    points = [0, 1, -1, 2, -2][: out + 1]
    At, G, Bt = winograd.toom_cook(points, out)
    d, g = np.arange(1.0, out + 3) ** 2, np.array([2.0, -1.0, 3.0])
    assert np.allclose(At @ ((G @ g) * (Bt @ d)), np.correlate(d, g))


MATRICES = {"plain": np.array([[1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])}
MATRICES |= {
    "Bᵀ": winograd.BT,
    "B": winograd.BT.T,
    "Aᵀ": winograd.AT,
    "A": winograd.AT.T,
    "G": winograd.G,
    "Gᵀ": winograd.G.T,
}


@pytest.mark.parametrize("overlap", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", MATRICES.values(), ids=MATRICES.keys())
def test_a_tile_transformation_is_a_product_from_both_sides(m, dtype, overlap):
    outs, ins = m.shape

    def apply(builder, to, source):
        winograd.add_tile(winograd.apply_both_sides(m, winograd.load_tile(source)), to, overlap)

    source, to = normal(ins, ins, 8, dtype=dtype), np.ones((outs, outs, 8), dtype)
    compile_kernel(apply, {"to": f"{outs} {outs} 8", "source": f"{ins} {ins} 8"}, cache=False)(
        to, source
    )
    expected = np.einsum("ir,rsc,js->ijc", m, source.astype(float), m)
    expected += np.minimum.outer(np.arange(outs), np.arange(outs))[..., None] < overlap
    assert np.allclose(
        to, expected, atol=(1e-4 if dtype == np.float32 else 1e-12) * np.abs(expected).max()
    )


def test_mirrored_rows_are_those_of_a_point_and_its_negative():
    assert winograd.mirrored_rows(winograd.BT)[0] == [(1, 2), (3, 4)]
    assert winograd.mirrored_rows(winograd.AT.T)[0] == [(1, 2), (3, 4)]
    assert winograd.mirrored_rows(winograd.AT) == ([], [0, 1, 2, 3])


@pytest.mark.parametrize("add", [False, True])
def test_a_block_product_is_four_rows_and_sixteen_columns_of_a_product(add):
    def product(builder, C, A, B):
        def left(m, j, k):
            return A.broadcast(m, j, k)

        def right(n, j, k):
            return B.load(j, k, 8 * n)

        matmul.block_product(builder, lambda m, n: (m, 8 * n), C, add, left, right, 3, 4)

    A, B, C = normal(4, 3, 4), normal(3, 4, 16), np.ones((4, 16))
    compile_kernel(product, {"C": "4 16", "A": "4 3 4", "B": "3 4 16"}, cache=False)(C, A, B)
    assert np.allclose(C, add + np.einsum("mjk,jkn->mn", A, B))
