"""Products of small matrices, compiled: four rows and sixteen columns of a result at a time, kept in registers.

Eight vectors of sums leave room for the factors in sixteen registers, and eight independent sums hide how long a
multiplication takes: 80 to 90 GFLOP/s on a core whose large matrix products reach 90.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshot.inner.compiled.jit import Array, compiled
from anyshot.inner.compiled.tiles import FOUR, FREQUENCIES, PLACE
from anyshot.inner.compiled.vectors import LANES, Pen, Variable, written_out

ROWS, VECTORS = 4, 2


def multiply_add(
    pen: Pen, sums: Sequence[Sequence[Variable]], rows: Sequence[Any], A: Any, B: Any, b: Any, vector: Any,
    inner: tuple[Any, Any, Any], outer: tuple[Any, Any, Any], unroll: int,
) -> None:  # fmt: skip
    """sums[m][n] += Σ_j Σ_k A[rows[m] + j + k] · B[b + j + k + n vectors].

    ``inner`` and ``outer`` are how many k and j there are, and their steps in A and in B; ``unroll`` divides the k.
    """
    with pen.loop(outer[0]) as j, pen.loop(inner[0], unroll) as k:
        for u in range(unroll):
            deeper = pen.build.add(k, pen.index(u))
            place = pen.place(b, (j, outer[2]), (deeper, inner[2]))
            right = [pen.load(B, pen.place(place, (n, vector))) for n in range(len(sums[0]))]
            for start, row in zip(rows, sums, strict=True):
                left = pen.broadcast(A, pen.place(start, (j, outer[1]), (deeper, inner[1])))
                for total, value in zip(row, right, strict=True):
                    total.add(left * value)


def block_product(accumulate: bool, unroll: int) -> Callable[..., Any]:
    """C (+)= A B for four rows and sixteen columns of C.

    ``f(C, c, row, vector, A, a, row, inner, outer, B, b, vector, inner, outer, inners, outers)``: the sum is over
    ``outers`` times ``inners`` products, with their steps in A and B.
    """

    @written_out
    def apply(
        pen: Pen, C: Any, c: Any, c_row: Any, c_vector: Any, A: Any, a: Any, a_row: Any, a_in: Any, a_out: Any,
        B: Any, b: Any, b_vector: Any, b_in: Any, b_out: Any, inners: Any, outers: Any,
    ) -> None:  # fmt: skip
        places = [[pen.place(c, (m, c_row), (n, c_vector)) for n in range(VECTORS)] for m in range(ROWS)]
        start = pen.constant(0)
        sums = [[pen.variable(pen.load(C, place) if accumulate else start) for place in row] for row in places]
        rows = [pen.place(a, (m, a_row)) for m in range(ROWS)]
        multiply_add(pen, sums, rows, A, B, b, b_vector, (inners, a_in, b_in), (outers, a_out, b_out), unroll)
        for row, totals in zip(places, sums, strict=True):
            for place, total in zip(row, totals, strict=True):
                pen.store(total.now, C, place)

    return apply


_product, _product_added = block_product(False, 4), block_product(True, 4)


@compiled
def tile_products(left: Array, right: Array, out: Array, tiles: int, add: bool) -> None:
    """out (+)= left ⊙ right for tiles ``left`` and ``out`` and filters ``right`` [36, inputs, outputs]."""
    _, inputs, outputs = right.shape
    for f in range(FREQUENCIES):
        for j in range(0, outputs, VECTORS * LANES):
            b = f * inputs * outputs + j
            for t in range(0, tiles, ROWS):
                c, a = f * PLACE + t * outputs + 4 * j, f * PLACE + t * inputs
                if add:
                    _product_added(
                        out, c, LANES, FOUR, left, a, LANES, 1, FOUR,
                        right, b, LANES, outputs, LANES * outputs, LANES, inputs // LANES,
                    )  # fmt: skip
                else:
                    _product(
                        out, c, LANES, FOUR, left, a, LANES, 1, FOUR,
                        right, b, LANES, outputs, LANES * outputs, LANES, inputs // LANES,
                    )  # fmt: skip


@compiled
def tile_correlations(left: Array, right: Array, total: Array, tiles: int) -> None:
    """total += leftᵀ ⊙ right, for two sets of tiles; total is [36, channels of left, channels of right]."""
    _, outputs, inputs = total.shape
    for f in range(FREQUENCIES):
        for o in range(0, outputs, ROWS):
            a = f * PLACE + o // LANES * FOUR + o % LANES
            for i in range(0, inputs, VECTORS * LANES):
                _product_added(
                    total, (f * outputs + o) * inputs + i, inputs, LANES, left, a, 1, LANES, 4 * outputs,
                    right, f * PLACE + 4 * i, FOUR, LANES, 4 * inputs, 4, -(-tiles // 4),
                )  # fmt: skip
