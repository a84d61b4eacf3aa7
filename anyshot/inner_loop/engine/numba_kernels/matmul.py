"""Products of small matrices: four rows and sixteen columns of the result at a time, in registers.

Eight vectors of sums leave room for the factors in sixteen registers, and eight independent sums
hide the latency of a multiplication: 80 to 90 GFLOP/s on a core whose large matrix products reach
90.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.codegen import Builder
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Accumulator, Int, Vector
from anyshot.inner_loop.engine.numba_kernels.winograd import FREQUENCIES, GROUP, TileBuffer

VECTORS = 2  #: of eight columns each, computed together

Factor = Callable[[int, Int, Int], Vector]


def multiply_add(
    builder: Builder, sums: Sequence[Sequence[Accumulator]], left: Factor, right: Factor,
    outer: Any, inner: Any, unroll: int,
) -> None:  # fmt: skip
    """sums[m][n] += Σ_j Σ_k left(m, j, k) · right(n, j, k) for j < outer, k < inner.

    ``unroll`` must divide ``inner``.
    """
    with builder.loop(outer) as j, builder.loop(inner, unroll) as k:
        for u in range(unroll):
            columns = [right(n, j, k + u) for n in range(len(sums[0]))]
            for m, row in enumerate(sums):
                factor = left(m, j, k + u)
                for total, value in zip(row, columns, strict=True):
                    total.add(factor * value)


def block_product(
    builder: Builder, out: Callable[[int, int], tuple[Any, ...]], to: ArrayView, add: bool,
    left: Factor, right: Factor, outer: Any, inner: int,
) -> None:  # fmt: skip
    """Write (or add) four rows and sixteen columns of a product at the indices ``out(m, n)``."""
    start = [
        [to.load(*out(m, n)) if add else to.zero() for n in range(VECTORS)] for m in range(GROUP)
    ]
    sums = [[Accumulator(value) for value in row] for row in start]
    multiply_add(builder, sums, left, right, outer, inner, unroll=4)
    for m, row in enumerate(sums):
        for n, total in enumerate(row):
            to.store(total.current, *out(m, n))


def tile_products(
    builder: Builder, left: TileBuffer, right: ArrayView, out: TileBuffer, tiles: Int,
    add: bool = False,
) -> None:  # fmt: skip
    """out (+)= left ⊙ right, for tiles ``left`` and filters ``right`` [36, inputs, outputs]."""
    with (
        builder.loop(FREQUENCIES) as f,
        builder.loop(out.channels, VECTORS * LANES) as j,
        builder.loop(tiles, GROUP) as t,
    ):
        rows, columns, to = left.group(f, t), right[f], out.group(f, t)

        def factor(m: int, block: Int, k: Int) -> Vector:
            return rows.broadcast(block, m, k)

        def column(n: int, block: Int, k: Int) -> Vector:
            return columns.load(block * LANES + k, j + n * LANES)

        def indices(m: int, n: int) -> tuple[Any, ...]:
            return j // LANES + n, m

        block_product(builder, indices, to, add, factor, column, left.channels // LANES, LANES)


def tile_correlations(
    builder: Builder, left: TileBuffer, right: TileBuffer, total: ArrayView, tiles: Int
) -> None:
    """total += leftᵀ ⊙ right for two batches of tiles; total [36, channels, channels]."""
    with (
        builder.loop(FREQUENCIES) as f,
        builder.loop(left.channels, GROUP) as o,
        builder.loop(right.channels, VECTORS * LANES) as i,
    ):
        to, rows = total[f].window(o, size=(GROUP,)), left.block(f, o // LANES)
        columns = [right.block(f, i // LANES + n) for n in range(VECTORS)]

        def factor(m: int, group: Int, k: Int) -> Vector:
            return rows.broadcast(group, k, o % LANES + m)

        def column(n: int, group: Int, k: Int) -> Vector:
            return columns[n].load(group, k)

        def indices(m: int, n: int) -> tuple[Any, ...]:
            return m, i + n * LANES

        block_product(
            builder, indices, to, True, factor, column, (tiles + (GROUP - 1)) // GROUP, GROUP
        )
