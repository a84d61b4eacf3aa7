"""Products of small matrices: four rows and sixteen columns of a result at a time, kept in registers.

Eight vectors of sums leave room for the factors in sixteen registers, and eight independent sums hide how long a
multiplication takes: 80 to 90 GFLOP/s on a core whose large matrix products reach 90.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshot.inner_loop.engine.numba_kernels.codegen import (
    LANES,
    Pen,
    Variable,
    Vector,
    View,
    Whole,
)
from anyshot.inner_loop.engine.numba_kernels.winograd import FREQUENCIES, ROWS, Flight

VECTORS = 2  #: of eight columns

Factor = Callable[[int, Whole, Whole], Vector]


def multiply_add(
    pen: Pen,
    sums: Sequence[Sequence[Variable]],
    left: Factor,
    right: Factor,
    outer: Any,
    inner: Any,
    unroll: int,
) -> None:
    """sums[m][n] += Σ_j Σ_k left(m, j, k) · right(n, j, k) for j < outer, k < inner; ``unroll`` divides inner."""
    with pen.loop(outer) as j, pen.loop(inner, unroll) as k:
        for u in range(unroll):
            columns = [right(n, j, k + u) for n in range(len(sums[0]))]
            for m, row in enumerate(sums):
                factor = left(m, j, k + u)
                for total, value in zip(row, columns, strict=True):
                    total.add(factor * value)


def block_product(
    pen: Pen, out: Callable[[int, int], tuple[Any, ...]], to: View, add: bool, left: Factor, right: Factor, outer: Any,
    inner: int,
) -> None:  # fmt: skip
    """Four rows and sixteen columns of a product, written (or added) to the places ``out(m, n)`` of an array."""
    start = [
        [to.load(*out(m, n)) if add else to.zero() for n in range(VECTORS)] for m in range(ROWS)
    ]
    sums = [[Variable(value) for value in row] for row in start]
    multiply_add(pen, sums, left, right, outer, inner, unroll=4)
    for m, row in enumerate(sums):
        for n, total in enumerate(row):
            to.store(total.now, *out(m, n))


def tile_products(
    pen: Pen, left: Flight, right: View, out: Flight, tiles: Whole, add: bool = False
) -> None:
    """out (+)= left ⊙ right for tiles ``left`` and ``out`` and filters ``right`` [36, inputs, outputs]."""
    with (
        pen.loop(FREQUENCIES) as f,
        pen.loop(out.channels, VECTORS * LANES) as j,
        pen.loop(tiles, ROWS) as t,
    ):
        rows, columns, to = left.group(f, t), right[f], out.group(f, t)

        def factor(m: int, block: Whole, k: Whole) -> Vector:
            return rows.broadcast(block, m, k)

        def column(n: int, block: Whole, k: Whole) -> Vector:
            return columns.load(block * LANES + k, j + n * LANES)

        def place(m: int, n: int) -> tuple[Any, ...]:
            return j // LANES + n, m

        block_product(pen, place, to, add, factor, column, left.channels // LANES, LANES)


def tile_correlations(pen: Pen, left: Flight, right: Flight, total: View, tiles: Whole) -> None:
    """total += leftᵀ ⊙ right, for two sets of tiles; total is [36, channels of left, channels of right]."""
    with (
        pen.loop(FREQUENCIES) as f,
        pen.loop(left.channels, ROWS) as o,
        pen.loop(right.channels, VECTORS * LANES) as i,
    ):
        to, rows = total[f].window(o, size=(ROWS,)), left.block(f, o // LANES)
        columns = [right.block(f, i // LANES + n) for n in range(VECTORS)]

        def factor(m: int, group: Whole, k: Whole) -> Vector:
            return rows.broadcast(group, k, o % LANES + m)

        def column(n: int, group: Whole, k: Whole) -> Vector:
            return columns[n].load(group, k)

        def place(m: int, n: int) -> tuple[Any, ...]:
            return m, i + n * LANES

        block_product(pen, place, to, True, factor, column, (tiles + (ROWS - 1)) // ROWS, ROWS)
