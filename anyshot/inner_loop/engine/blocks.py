"""The layers of Conv4, each with its four passes written out by hand: forward, backward and the tangents of both.

A block is  y = W * x,  x̂ = r (y − μ),  z = s x̂ + β,  a = relu(pool(z)), with μ and 1/r² − ε the mean and variance of y.
A trailing ``d`` (or ′) is the derivative along the direction v = θ′ of the adapted parameters; shift β and scale s > 0
do not move with v. Two facts keep it cheap:

1. s r > 0, so max-pooling commutes with normalisation and ReLU: y is pooled, and only the small p = pool(y) is
   normalised. Where the ReLU is shut every term is zero.
2. In layer 1 the moments of the input's patches give all statistics and the dense part of every weight gradient, so
   layer 1 needs no dense pass at all.

Everything here is arithmetic on whatever ``ops`` works with: tensors in :mod:`.ops`, NumPy's arrays in :mod:`.loops`.
The derivation is in docs/engine.md, with the same symbols.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import Tensor

Vector = Any  #: one number for each channel
Weight = Any  #: of a convolution; the first axis are the output channels
Map = Any  #: an activation, or its tangent or cotangent
Backward = tuple[Weight, Vector, Vector, Map]  #: dW, dβ, ds and dx


def row(t: Vector) -> Vector:
    """A per-output-channel vector against a convolution weight."""
    return t.reshape(-1, 1, 1, 1)


def dot(U: Weight, V: Weight) -> Vector:
    """⟨U_c, V_c⟩ per output channel."""
    return (U * V).sum((1, 2, 3))


class Pictures:
    """A set of images, with mean m (a weight) and covariance S [9c, 9c] of their zero-padded 3×3 patches."""

    def __init__(self, ops: ModuleType, x: Tensor) -> None:
        self.x = ops.pictures(x)
        self.m, self.S = ops.patch_moments(self.x)

    def times_S(self, W: Weight) -> Weight:
        """W S, in the shape of W."""
        return (W.reshape(len(W), -1) @ self.S).reshape(W.shape)


class Statistics:
    """Where μ and r come from: the set in hand, or the same block of a net on another set.

    A block that borrows them has D = scatter(dz) alone. What its dz have to do with μ and r, Sb = Σ dz and S1 = Σ dz x̂,
    it owes to the other block, whose backward pass comes after and counts it as its own.
    """

    def __init__(self, lender: Any = None) -> None:
        self.lender, self.owed = lender, (0, 0)

    def settle(self, Sb: Vector, S1: Vector) -> tuple[Vector, Vector]:
        """Sb and S1 of all that depends on this block's μ and r; nothing does if they are another's."""
        if self.lender is not None:
            self.lender.statistics.owed = (Sb, S1)
            return 0 * Sb, 0 * S1
        return Sb + self.owed[0], S1 + self.owed[1]


class FirstBlock:
    """Layer 1: the statistics are known before the convolution and fold into its weights; images get no gradient."""

    def __init__(
        self,
        ops: ModuleType,
        statistics: Statistics,
        pictures: Pictures,
        W: Weight,
        shift: Vector,
        scale: Vector,
    ) -> None:
        self.ops, self.W, self.shift, self.s = ops, W, shift, scale
        self.statistics, self.pictures = statistics, pictures

    def forward(self) -> Map:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        W, lender = self.W, self.statistics.lender
        if lender is not None:
            self.WS, self.mu, self.r = lender.WS, lender.mu, lender.r
        else:
            self.WS = self.pictures.times_S(W)
            self.mu = dot(W, self.pictures.m)  # μ = W m
            self.r = self.ops.inverse_deviation(dot(W, self.WS))  # r = (diag W S Wᵀ + ε)^−½
        sr = self.s * self.r
        self.a, self.code = self.ops.first_forward(
            self.pictures.x, row(sr) * W, self.shift - sr * self.mu
        )
        return self.a  # relu(pool(s r (y − μ) + β))

    def backward(self, da: Map) -> Backward:
        """From the cotangent of a, which may be overwritten."""
        r = self.r
        # Sb = Σ dz,  G = x ⋆ scatter(dz)
        self.Sb, self.G = Sb, G = self.ops.gated_correlation(
            da, self.a, self.code, self.pictures.x, self.W
        )
        self.WG = dot(self.W, G) - self.mu * Sb
        self.S1 = r * self.WG  # S1 = Σ dz x̂ = r (⟨W, G⟩ − μ Sb)
        all_Sb, all_S1 = self.statistics.settle(Sb, self.S1)
        self.E = (
            G - row(all_Sb) * self.pictures.m - row(r * all_S1) * self.WS
        )  # dW = s r E = s r (G − Sb m − r S1 W S)
        return row(self.s * r) * self.E, Sb, self.S1, None

    def tangent(self, Wd: Weight) -> Map:
        """a′, from the tangent of the weights; the images have none."""
        r, mu, s, self.Wd = self.r, self.mu, self.s, Wd
        self.mud = dot(Wd, self.pictures.m)  # μ′ = W′ m
        self.rd = rd = -(r**3) * dot(self.WS, Wd)  # r′ = −r³ σ²′/2,  σ²′ = 2 diag W S W′ᵀ
        V, offset = (
            row(s * r) * Wd + row(s * rd) * self.W,
            -s * (r * self.mud + rd * mu),
        )  # z′ = (s r (y − μ))′
        return self.ops.first_tangent(
            self.pictures.x, V, offset, self.a, self.code
        )  # a′ = [a > 0] z′ at the maxima

    def tangent_backward(self, dad: Map) -> Backward:
        """The tangents of what :meth:`backward` gives, from that of the cotangent."""
        r, rd, mu = self.r, self.rd, self.mu
        Sbd, Gd = self.ops.gated_correlation(dad, self.a, self.code, self.pictures.x, self.W)
        S1d = (
            r * (dot(self.W, Gd) - mu * Sbd + dot(self.Wd, self.G) - self.mud * self.Sb)
            + rd * self.WG
        )
        Ed = (
            Gd
            - row(Sbd) * self.pictures.m
            - row(rd * self.S1 + r * S1d) * self.WS
            - row(r * self.S1) * self.pictures.times_S(self.Wd)
        )  # E′ of dW = s r E
        return (
            row(self.s) * (row(rd) * self.E + row(r) * Ed),
            Sbd,
            S1d,
            None,
        )  # dW′ = s (r′ E + r E′)


class Block:
    """Layers 2–4: dy = s r D with D = scatter(dz) − Sb/n − x̂ S1/n = scatter(dz) + c0 + c1 y.

    The factor s r is moved into the (tiny) weights and weight gradients, so D is all that is formed.
    """

    def __init__(
        self, ops: ModuleType, statistics: Statistics, W: Weight, shift: Vector, scale: Vector
    ) -> None:
        self.ops, self.statistics, self.W, self.shift, self.s = ops, statistics, W, shift, scale

    def forward(self, x: Map) -> Map:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        self.x = x
        self.y, self.mu, variance, self.p, self.code, self.n = self.ops.forward(x, self.W)
        self.r = self.ops.inverse_deviation(variance)
        if self.statistics.lender is not None:
            self.mu, self.r = self.statistics.lender.mu, self.statistics.lender.r
        self.sr = self.s * self.r
        self.a = self.ops.affine_relu(
            self.p, self.sr, self.shift - self.mu * self.sr, x
        )  # a = relu(s r (p − μ) + β)
        return self.a

    def backward(self, da: Map) -> Backward:
        """From the cotangent of a, which may be overwritten."""
        r, n = self.r, self.n
        self.dz, S1, Sb = self.ops.gated_sums(
            da, self.a, self.p, self.mu
        )  # dz = [a > 0] da,  Sb = Σ dz
        self.S1 = r * S1  # S1 = Σ dz x̂
        all_Sb, all_S1 = self.statistics.settle(Sb, self.S1)
        self.c1 = -r * all_S1 / n
        self.c0 = -all_Sb / n - self.c1 * self.mu
        V = row(self.sr) * self.W
        self.G, dx = self.ops.backward(
            self.x, V, self.y, self.c1, self.c0, self.dz, self.code
        )  # G = x ⋆ D
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
        """The tangents of what :meth:`backward` gives, from that of the cotangent."""
        r, rd, n, s = self.r, self.rd, self.n, self.s
        dzd, S1d, Sbd = self.ops.gated_sums(dad, self.a, self.p, self.mu)
        S1d = r * S1d + self.S1d  # S1′ = Σ dz′ x̂ + Σ dz x̂′
        c1d = -(rd * self.S1 + r * S1d) / n
        c0d = (
            -Sbd / n - c1d * self.mu - self.c1 * self.mud
        )  # D′ = scatter(dz′) + c0′ + c1′ y + c1 y′
        c = (self.c1, self.c0, c1d, c0d)
        V, Vd = (
            row(self.sr) * self.W,
            row(s * rd) * self.W + row(self.sr) * self.Wd,
        )  # s r W and its tangent
        # G′ = x ⋆ D′ + x′ ⋆ D
        Gd, dxd = self.ops.tangent_backward(
            self.x, self.xd, V, Vd, self.y, self.yd, c, self.dz, dzd, self.code
        )
        return (
            row(s * rd) * self.G + row(self.sr) * Gd,
            Sbd,
            S1d,
            dxd,
        )  # dW′ = s (r′ G + r G′),  dx′ = Vᵀ * D′ + V′ᵀ * D
