"""3×3 convolutions of many channels by Winograd's algorithm (Numba, an optional extra).

The formulas are those of ``engine/numba_kernels/winograd.py``. Kernels map images to tiles and
back, and torch multiplies the tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from anyshot.core.parallel.threads import single_task_threads
from anyshot.inner_loop.engine import torch_ops
from anyshot.inner_loop.engine.backend import numba_backend
from anyshot.inner_loop.engine.partition import map_over_parts

FREQUENCIES, OUTPUT_SIDE = 36, 4  #: numbers of a tile; its side in the output
FEWEST_TILES = 64  #: fewer do not pay for the transformed weights
FEWEST_CHANNELS, BLOCK = 32, 8  #: fewer channels do not pay; kernels take blocks of eight
MOST_PADDING = 1.5  #: pixels of whole tiles / pixels of the image
TILE_COST = 4  #: time of a number of a tile, in multiplications


def pays(x: Tensor, w: Tensor, tiles: int = FEWEST_TILES) -> bool:
    """Whether a convolution with stride and padding 1 is faster than torch's here."""
    outputs, inputs, *kernel = w.shape
    height, width = x.shape[2:]
    count = _count(height) * _count(width)
    return (
        kernel == [3, 3]
        and min(outputs, inputs) >= FEWEST_CHANNELS
        and outputs % BLOCK == inputs % BLOCK == 0
        and len(x) * count >= tiles
        and count * OUTPUT_SIDE**2 <= MOST_PADDING * height * width
        and numba_backend() is not torch_ops
    )


def output(x: Tensor, w: Tensor, other: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """C(x, w) with stride and padding 1: [n, i, h, w], [o, i, 3, 3] → [n, o, h, w].

    ``other`` is another pair (x, w) of the same shapes, whose convolution is added.
    """
    tiles = _input_tiles(x) @ _filters(w).transpose(1, 2)
    if other is not None:
        tiles.baddbmm_(_input_tiles(other[0]), _filters(other[1]).transpose(1, 2))
    return _from_tiles(tiles, x)


def input(g: Tensor, w: Tensor) -> Tensor:
    """I(g, w)."""
    return _from_tiles(_input_tiles(g) @ _filters(w.flip(2, 3)), g)


def weight(g: Tensor, x: Tensor) -> Tensor:
    """W(g, x)."""
    from anyshot.inner_loop.engine.numba_kernels import conv_layers, tiles

    Z = _new_tiles(g, g.shape[1])
    _run(tiles.cotangent_tiles, _rows(g, border=0), Z)
    dU = Z.flatten(1, 3).transpose(1, 2) @ _input_tiles(x)
    dw = g.new_empty(g.shape[1], 3, 3, x.shape[1])
    conv_layers.transform_filters_backward(dU.numpy(), dw.numpy())
    return dw.permute(0, 3, 1, 2)


def _filters(w: Tensor) -> Tensor:
    """U [36, o, i]."""
    from anyshot.inner_loop.engine.numba_kernels import conv_layers

    U = w.new_empty(FREQUENCIES, *w.shape[:2])
    conv_layers.transform_filters(w.permute(0, 2, 3, 1).contiguous().numpy(), U.numpy())
    return U


def _input_tiles(x: Tensor) -> Tensor:
    """V [36, tiles, channels]."""
    from anyshot.inner_loop.engine.numba_kernels import tiles

    V = _new_tiles(x, x.shape[1])
    _run(tiles.input_tiles, _rows(x, border=1), V)
    return V.flatten(1, 3)


def _from_tiles(M: Tensor, like: Tensor) -> Tensor:
    """The images [n, channels, h, w] of M [36, tiles, channels]."""
    from anyshot.inner_loop.engine.numba_kernels import tiles

    height, width = like.shape[2:]
    shaped = M.view(FREQUENCIES, len(like), _count(height), _count(width), -1)
    y = M.new_empty(
        len(like), _count(height) * OUTPUT_SIDE, _count(width) * OUTPUT_SIDE, M.shape[2]
    )
    _run(tiles.output_images, y, shaped)
    return y[:, :height, :width].permute(0, 3, 1, 2)


def _new_tiles(x: Tensor, channels: int) -> Tensor:
    height, width = x.shape[2:]
    return x.new_empty(FREQUENCIES, len(x), _count(height), _count(width), channels)


def _rows(x: Tensor, border: int) -> Tensor:
    """Images [n, h, w, channels] with zeros around them, up to whole tiles."""
    n, channels, height, width = x.shape
    tall, wide = (_count(pixels) * OUTPUT_SIDE + 2 * border for pixels in (height, width))
    if (tall, wide) == (height, width):
        return x.permute(0, 2, 3, 1).contiguous()
    rows = x.new_zeros(n, tall, wide, channels)
    rows[:, border : border + height, border : border + width] = x.permute(0, 2, 3, 1)
    return rows


@single_task_threads()
def _run(kernel: Callable[..., Any], images: Tensor, tiles: Tensor) -> None:
    """Map images and tiles by a kernel, in as many threads as are free."""
    arrays = images.numpy(), tiles.numpy()
    work = TILE_COST * tiles[:, 0].numel()
    map_over_parts(lambda part: kernel(*arrays, part.start, part.stop), len(images), work)


def _count(pixels: int) -> int:
    """Tiles along one side."""
    return -(-pixels // OUTPUT_SIDE)
