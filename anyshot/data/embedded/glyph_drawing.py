"""Draw images of a character: warp its distance fields, then add colours, textures and noise.

Images of a class share only the shape. Position, size, angle, slant, stroke weight, colours,
background and noise are random for each image.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from anyshot.data.embedded.glyph_shapes import BOX, EDGE

Floats = NDArray[np.float32]


def draw_images(fields: Floats, count: int, side: int, rng: Generator) -> NDArray[np.uint8]:
    """Draw images uint8 [count, side, side, 3] from distance fields [faces, EDGE, EDGE]."""
    ink = ink_coverage(fields, count, side, rng)[..., None]
    paper, pen = _colours(count, rng)
    back = _mix(paper, _variation(count, 0.45, rng), _texture(count, side, rng))
    front = _mix(pen, _variation(count, 0.25, rng), _texture(count, side, rng))
    picture = back + (front - back) * ink
    grain = rng.uniform(0, 0.09, (count, 1, 1, 1)).astype(np.float32)
    picture += grain * rng.standard_normal(picture.shape, dtype=np.float32)
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)


def ink_coverage(fields: Floats, count: int, side: int, rng: Generator) -> Floats:
    """Return the share of ink of each pixel, float32 [count, side, side], for random maps."""
    matrix = _affine(count, side, rng)
    shift = np.einsum("nij,nj->ni", matrix, rng.uniform(-0.08, 0.08, (count, 2)) * side)
    centre = (np.arange(side) + 0.5 - side / 2).astype(np.float32)
    # (y, x) of every pixel, [2, side, side]
    grid = np.stack(np.meshgrid(centre, centre, indexing="ij"))
    points = np.einsum("nij,jyx->niyx", matrix.astype(np.float32), grid)
    points += (shift + EDGE / 2 - 0.5)[:, :, None, None].astype(np.float32)
    distance = _sample(fields, rng.integers(len(fields), size=count), points)
    # field pixels to one picture pixel
    pixel = np.sqrt(np.abs(np.linalg.det(matrix)))[:, None, None]
    weight = rng.uniform(-0.5, 1.3, (count, 1, 1))  # thinner or bolder by this much on either side
    edge = pixel * rng.uniform(0.9, 1.5, (count, 1, 1))  # sharp or a little blurred
    return np.clip(0.5 + (distance + weight) / edge, 0, 1).astype(np.float32)


def _affine(count: int, side: int, rng: Generator) -> NDArray[np.float64]:
    """Return maps from image to field, [count, 2, 2] on (y, x): scale, aspect, slant, rotation."""
    scale = BOX / (side * rng.uniform(0.58, 0.95, count))
    aspect = np.exp(rng.uniform(-0.18, 0.18, count))
    slant = rng.uniform(-0.3, 0.3, count)
    angle = np.deg2rad(np.clip(rng.normal(0, 14, count), -35, 35))
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], 1)
    shear = np.stack(
        [np.stack([scale * aspect, 0 * slant], 1), np.stack([slant * scale, scale / aspect], 1)], 1
    )
    return shear @ turn


def _sample(fields: Floats, which: NDArray[np.int64], points: Floats) -> Floats:
    """Interpolate fields[which[n]] at points [n, 2, side, side]; border values are repeated."""
    y, x = np.clip(points[:, 0], 0, EDGE - 1.001), np.clip(points[:, 1], 0, EDGE - 1.001)
    row, column = y.astype(np.int32), x.astype(np.int32)
    y -= row
    x -= column
    at = (which.astype(np.int32)[:, None, None] * EDGE + row) * EDGE + column
    flat = fields.reshape(-1)
    top = flat[at] * (1 - x) + flat[at + 1] * x
    bottom = flat[at + EDGE] * (1 - x) + flat[at + EDGE + 1] * x
    return top * (1 - y) + bottom * y


def _colours(count: int, rng: Generator) -> tuple[Floats, Floats]:
    """Return colours of paper and pen, [count, 3] in 0..1, that differ visibly in brightness."""
    gap = rng.uniform(0.35, 0.8, count)
    faint = rng.random(count) < 0.15
    gap[faint] = rng.uniform(0.18, 0.35, int(faint.sum()))
    dark = rng.uniform(0.05, 0.95 - gap)
    bright = dark + gap
    swap = rng.random(count) < 0.5
    grey = np.stack([np.where(swap, bright, dark), np.where(swap, dark, bright)], 1)
    tint = rng.uniform(-0.35, 0.35, (count, 2, 3))
    tint -= (tint @ np.array([0.299, 0.587, 0.114]))[..., None]
    # tints leave the brightness as it is
    both = np.clip(grey[..., None] + tint, 0, 1).astype(np.float32)
    return both[:, 0], both[:, 1]


def _variation(count: int, most: float, rng: Generator) -> Floats:
    """Return the colour amplitude of a texture, [count, 3]."""
    return (rng.uniform(0, most, (count, 1)) * rng.uniform(-1, 1, (count, 3))).astype(np.float32)


def _mix(colour: Floats, step: Floats, texture: Floats) -> Floats:
    return colour[:, None, None, :] + step[:, None, None, :] * texture[..., None]


def _texture(count: int, side: int, rng: Generator) -> Floats:
    """Return patterns in -1..1, [count, side, side]: plain, gradient, stripes, checks, clouds."""
    centre = ((np.arange(side) + 0.5) / side - 0.5).astype(np.float32)
    angle, phase = rng.uniform(0, 2 * np.pi, (2, count, 1, 1)).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    along = cos * centre[:, None] + sin * centre  # [count, side, side]
    kind = rng.integers(5, size=count)
    pattern = np.zeros((count, side, side), np.float32)
    pattern[kind == 1] = along[kind == 1] * 1.4
    waves = 2 * np.pi * rng.uniform(1.5, 6, (count, 1, 1)).astype(np.float32)
    stripes, checks, blobs = kind == 2, kind == 3, kind == 4
    pattern[stripes] = np.sin(waves[stripes] * along[stripes] + phase[stripes])
    across = cos[checks] * centre - sin[checks] * centre[:, None]
    pattern[checks] = np.sign(
        np.sin(waves[checks] * along[checks] + phase[checks]) * np.sin(waves[checks] * across)
    )
    pattern[blobs] = _blobs(int(blobs.sum()), side, rng)
    return pattern


def _blobs(count: int, side: int, rng: Generator) -> Floats:
    """Return smooth clouds: 7 x 7 random values, interpolated to [count, side, side]."""
    coarse = rng.uniform(-1, 1, (count, 7, 7)).astype(np.float32)
    position = np.linspace(0, 5.999, side, dtype=np.float32)
    distance = np.abs(position[:, None] - np.arange(7, dtype=np.float32))
    weight = np.clip(1 - distance, 0, 1)  # interpolation weights, [side, 7]
    return weight @ coarse @ weight.T
