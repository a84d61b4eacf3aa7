"""The layers of Conv4 by hand-derived passes: forward, backward and the tangents of both.

A block is  y = W * x,  x̂ = r (y − μ),  z = s x̂ + β,  a = relu(pool(z)),  where μ and 1/r² − ε are
the mean and variance of y. A trailing ``d`` (or ′) is the derivative along the direction v = θ′ of
the adapted parameters. Shift β and scale s > 0 do not change along v. Two facts keep it cheap:

1. s r > 0, so max-pooling commutes with normalisation and ReLU. So y is pooled first, and only the
   small p = pool(y) is normalised. Where the ReLU is zero, every term is zero.
2. In layer 1 the moments of the input's patches give all statistics and the dense part of every
   weight gradient. So layer 1 needs no dense pass.

The code is arithmetic on the arrays of ``ops``: tensors in :mod:`.torch_ops`, NumPy arrays in
:mod:`.numba_ops`. docs/engine.md has the derivation, with the same symbols.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import Tensor

Vector = Any  #: one number for each channel
Weight = Any  #: of a convolution; output channels first
Map = Any  #: an activation, or its tangent or cotangent
Backward = tuple[Weight, Vector, Vector, Map]  #: dW, dβ, ds and dx


def row(t: Vector) -> Vector:
    """A per-output-channel vector, broadcastable to a convolution weight."""
    return t.reshape(-1, 1, 1, 1)


def dot(U: Weight, V: Weight) -> Vector:
    """⟨U_c, V_c⟩ per output channel."""
    return (U * V).sum((1, 2, 3))


class ImagePatches:
    """Images, with mean m (a weight) and covariance S [9c, 9c] of their padded 3×3 patches."""

    def __init__(self, ops: ModuleType, images: Tensor) -> None:
        self.images = images
        self.x = ops.image_layout(images)
        self.m, self.S = ops.patch_moments(self.x)

    def times_S(self, W: Weight) -> Weight:
        """W S, in the shape of W."""
        return (W.reshape(len(W), -1) @ self.S).reshape(W.shape)


class BatchStatistics:
    """Whether a block computes μ and r from its own images or takes them from a ``source`` block.

    The source is the same block of a net on the reference images. A block with a source has
    D = scatter(dz) alone. The part of its gradient that flows through μ and r, Sb = Σ dz and
    S1 = Σ dz x̂, is stored as ``borrowed`` at the source, whose backward pass runs later and adds
    it.
    """

    def __init__(self, source: Any = None) -> None:
        self.source = source
        self.borrowed: tuple[Vector, Vector] = (0, 0)

    def combine(self, Sb: Vector, S1: Vector) -> tuple[Vector, Vector]:
        """Sb and S1 of all blocks that use this block's μ and r; zero if they are the source's."""
        if self.source is not None:
            self.source.statistics.borrowed = (Sb, S1)
            return 0 * Sb, 0 * S1
        return Sb + self.borrowed[0], S1 + self.borrowed[1]


class StoredStatistics:
    """Constants μ and r in place of a source block; what flows through them is dropped."""

    WS = 0.0  # of layer 1; its factor S1 is 0

    def __init__(self, mu: Vector, r: Vector) -> None:
        self.mu, self.r = mu, r
        self.statistics = BatchStatistics()


class FirstBlock:
    """Layer 1: its statistics are known before the convolution and folded into the weights.

    Images get no gradient.
    """

    def __init__(
        self,
        ops: ModuleType,
        statistics: BatchStatistics,
        patches: ImagePatches,
        W: Weight,
        shift: Vector,
        scale: Vector,
    ) -> None:
        self.ops = ops
        self.statistics = statistics
        self.patches = patches
        self.W, self.shift, self.s = W, shift, scale

    def forward(self) -> Map:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        W = self.W
        source = self.statistics.source
        if source is not None:
            self.WS, self.mu, self.r = source.WS, source.mu, source.r
        else:
            self.WS = self.patches.times_S(W)
            self.mu = dot(W, self.patches.m)  # μ = W m
            self.r = self.ops.inverse_deviation(dot(W, self.WS))  # r = (diag W S Wᵀ + ε)^−½
        sr = self.s * self.r
        self.a, self.code = self.ops.first_forward(
            self.patches.x, row(sr) * W, self.shift - sr * self.mu
        )
        return self.a  # relu(pool(s r (y − μ) + β))

    def backward(self, da: Map) -> Backward:
        """From the cotangent of a, which may be overwritten."""
        r = self.r
        # Sb = Σ dz,  G = x ⋆ scatter(dz)
        self.Sb, self.G = Sb, G = self.ops.gated_correlation(
            da, self.a, self.code, self.patches.x, self.W
        )
        self.WG = dot(self.W, G) - self.mu * Sb
        self.S1 = r * self.WG  # S1 = Σ dz x̂ = r (⟨W, G⟩ − μ Sb)
        all_Sb, all_S1 = self.statistics.combine(Sb, self.S1)
        # dW = s r E = s r (G − Sb m − r S1 W S)
        self.E = G - row(all_Sb) * self.patches.m - row(r * all_S1) * self.WS
        return row(self.s * r) * self.E, Sb, self.S1, None

    def tangent(self, Wd: Weight) -> Map:
        """a′, from the tangent of the weights; the images have none."""
        r, mu, s, self.Wd = self.r, self.mu, self.s, Wd
        self.mud = dot(Wd, self.patches.m)  # μ′ = W′ m
        self.rd = rd = -(r**3) * dot(self.WS, Wd)  # r′ = −r³ σ²′/2,  σ²′ = 2 diag W S W′ᵀ
        V = row(s * r) * Wd + row(s * rd) * self.W  # z′ = (s r (y − μ))′
        offset = -s * (r * self.mud + rd * mu)
        # a′ = [a > 0] z′ at the maxima
        return self.ops.first_tangent(self.patches.x, V, offset, self.a, self.code)

    def tangent_backward(self, dad: Map) -> Backward:
        """The tangents of the results of :meth:`backward`, from that of the cotangent of a."""
        r, rd, mu = self.r, self.rd, self.mu
        Sbd, Gd = self.ops.gated_correlation(dad, self.a, self.code, self.patches.x, self.W)
        S1d = (
            r * (dot(self.W, Gd) - mu * Sbd + dot(self.Wd, self.G) - self.mud * self.Sb)
            + rd * self.WG
        )
        Ed = (
            Gd
            - row(Sbd) * self.patches.m
            - row(rd * self.S1 + r * S1d) * self.WS
            - row(r * self.S1) * self.patches.times_S(self.Wd)
        )  # E′ of dW = s r E
        dWd = row(self.s) * (row(rd) * self.E + row(r) * Ed)  # dW′ = s (r′ E + r E′)
        return dWd, Sbd, S1d, None


class Block:
    """Layers 2–4: dy = s r D with D = scatter(dz) − Sb/n − x̂ S1/n = scatter(dz) + c0 + c1 y.

    The factor s r is moved into the (tiny) weights and weight gradients, so only D is computed.
    """

    def __init__(
        self, ops: ModuleType, statistics: BatchStatistics, W: Weight, shift: Vector, scale: Vector
    ) -> None:
        self.ops = ops
        self.statistics = statistics
        self.W, self.shift, self.s = W, shift, scale

    def forward(self, x: Map) -> Map:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        self.x = x
        self.y, self.mu, variance, self.p, self.code, self.n = self.ops.forward(x, self.W)
        self.r = self.ops.inverse_deviation(variance)
        source = self.statistics.source
        if source is not None:
            self.mu, self.r = source.mu, source.r
        self.sr = self.s * self.r
        # a = relu(s r (p − μ) + β)
        self.a = self.ops.affine_relu(self.p, self.sr, self.shift - self.mu * self.sr, x)
        return self.a

    def backward(self, da: Map) -> Backward:
        """From the cotangent of a, which may be overwritten."""
        r, n = self.r, self.n
        # dz = [a > 0] da,  Sb = Σ dz
        self.dz, S1, Sb = self.ops.gated_sums(da, self.a, self.p, self.mu)
        self.S1 = r * S1  # S1 = Σ dz x̂
        all_Sb, all_S1 = self.statistics.combine(Sb, self.S1)
        self.c1 = -r * all_S1 / n
        self.c0 = -all_Sb / n - self.c1 * self.mu
        V = row(self.sr) * self.W
        # G = x ⋆ D
        self.G, dx = self.ops.backward(self.x, V, self.y, self.c1, self.c0, self.dz, self.code)
        return row(self.sr) * self.G, Sb, self.S1, dx  # dW = s r G,  dx = (s r W)ᵀ * D

    def tangent(self, xd: Map, Wd: Weight) -> Map:
        """a′, from the tangents of input and weights."""
        r, n, self.xd, self.Wd = self.r, self.n, xd, Wd
        # y′ = W′ * x + W * x′
        self.yd, pd, s1, s0 = self.ops.tangent(
            self.x, xd, self.W, Wd, self.y, self.mu, self.p, self.code
        )
        self.mud = s0 / n  # μ′ = mean y′
        self.rd = -(r**3) * s1 / n  # r′ = −r³ σ²′/2,  σ²′ = 2 mean (y − μ) y′
        offset = -r * self.mud - self.rd * self.mu  # x̂′ = r (p′ − μ′) + r′ (p − μ)
        ad, self.S1d = self.ops.gated_affine(
            pd, self.a, r, self.p, self.rd, offset, self.dz, self.s
        )
        return ad  # a′ = [a > 0] s x̂′

    def tangent_backward(self, dad: Map) -> Backward:
        """The tangents of the results of :meth:`backward`, from that of the cotangent of a."""
        r, rd, n, s = self.r, self.rd, self.n, self.s
        dzd, S1d, Sbd = self.ops.gated_sums(dad, self.a, self.p, self.mu)
        S1d = r * S1d + self.S1d  # S1′ = Σ dz′ x̂ + Σ dz x̂′
        c1d = -(rd * self.S1 + r * S1d) / n
        # D′ = scatter(dz′) + c0′ + c1′ y + c1 y′
        c0d = -Sbd / n - c1d * self.mu - self.c1 * self.mud
        c = (self.c1, self.c0, c1d, c0d)
        V = row(self.sr) * self.W
        Vd = row(s * rd) * self.W + row(self.sr) * self.Wd
        # G′ = x ⋆ D′ + x′ ⋆ D
        Gd, dxd = self.ops.tangent_backward(
            self.x, self.xd, V, Vd, self.y, self.yd, c, self.dz, dzd, self.code
        )
        # dW′ = s (r′ G + r G′),  dx′ = Vᵀ * D′ + V′ᵀ * D
        return row(s * rd) * self.G + row(self.sr) * Gd, Sbd, S1d, dxd
