"""The layers of Conv4, each with its four passes written out by hand: forward, backward and the tangents of both.

A block is  y = W * x,  x̂ = r (y − μ),  z = s x̂ + β,  a = relu(pool(z)), with μ and 1/r² − ε the mean and variance of y.
A trailing ``d`` (or ′) is the derivative along the direction v = θ′ of the adapted parameters; shift β and scale s > 0
do not move with v. Two facts keep it cheap:

1. s r > 0, so max-pooling commutes with normalisation and ReLU: y is pooled, and only the small p = pool(y) is
   normalised. Where the ReLU is open x̂ = (a − β) / s, where it is shut every term is zero.
2. In layer 1 the moments of the input's patches give all statistics and the dense part of every weight gradient, so
   layer 1 needs no dense pass at all.

The derivation is in docs/engine.md, with the same symbols.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner.ops import ch, conv, fused, fused_first
from anyshot.network import EPS

CHUNK = 1 << 14  #: pixels of layer 1 in flight (16 images of 32×32): 2 MB of float32 at 32 channels
Backward = tuple[Tensor, Tensor, Tensor, Sequence[Tensor]]  #: dW, dβ, ds and dx as a sum of up to two tensors


def row(t: Tensor) -> Tensor:
    """A per-output-channel vector against a convolution weight."""
    return t.view(-1, 1, 1, 1)


def dot(U: Tensor, V: Tensor) -> Tensor:
    """⟨U_c, V_c⟩ per output channel."""
    return (U * V).sum((1, 2, 3))


class Moments:
    """Mean m [1, c, 3, 3] and covariance S [9c, 9c] of the zero-padded 3×3 patches of x, accumulated in float64."""

    def __init__(self, x: Tensor, chunk: int = 16) -> None:
        n, c, h, w = x.shape
        wide = x.dtype if x.device.type == "mps" else torch.float64  # MPS has no float64

        def windows(t: Tensor) -> Tensor:  # [n, 9c, h·w]
            return F.pad(t, (1, 1, 1, 1)).unfold(2, h, 1).unfold(3, w, 1).reshape(len(t), 9 * c, h * w)

        m = windows(x.sum(0, keepdim=True, dtype=wide).contiguous())[0].sum(1) / (n * h * w)
        M = torch.zeros(9 * c, 9 * c, dtype=wide, device=x.device)
        for part in x.contiguous().split(chunk):
            U = windows(part)
            M += torch.bmm(U, U.transpose(1, 2)).sum(0)
        self.m = m.to(x.dtype).view(1, c, 3, 3)
        self.S = (M / (n * h * w) - torch.outer(m, m)).to(x.dtype)

    def times_S(self, W: Tensor) -> Tensor:
        """W S, in the shape of W."""
        return (W.reshape(len(W), -1) @ self.S).view(W.shape)


class FirstBlock:
    """Layer 1: the statistics are known before the convolution and fold into its weights; no gradient for the images.

    Nothing dense is kept, so the images go through in chunks small enough to stay in the cache.
    """

    def __init__(self, W: Tensor, shift: Tensor, scale: Tensor | None, moments: Moments) -> None:
        self.W, self.shift, self.moments, self.ops = W, shift, moments, fused_first(W)
        self.s = torch.ones_like(shift) if scale is None else scale

    def forward(self, x: Tensor) -> Tensor:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        W, m = self.W, self.moments.m
        self.x, self.WS = x.split(max(1, CHUNK // x[0, 0].numel())), self.moments.times_S(W)
        self.mu = dot(W, m)  # μ = W m
        self.r = (dot(W, self.WS).clamp_min_(0) + EPS).rsqrt()  # r = (diag W S Wᵀ + ε)^−½
        sr = self.s * self.r
        V, offset = row(sr) * W, self.shift - sr * self.mu
        self.parts = [self.ops.pool_relu(conv(part, V, offset)) for part in self.x]  # relu(pool(s r (y − μ) + β)), code
        self.a = torch.cat([a for a, _ in self.parts])
        return self.a

    def _correlate(self, d: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Σ dz and x ⋆ scatter(dz), dz = [a > 0] Σ d."""
        total, G = torch.zeros_like(self.mu), torch.zeros_like(self.W)
        chunks = zip(*(t.split(len(self.x[0])) for t in d), strict=True)
        for x, (a, code), part in zip(self.x, self.parts, chunks, strict=True):
            more, more_G = self.ops.gated_correlation(part, a, code, x, self.W)
            total, G = total + more, G.add_(more_G)
        return total, G

    def backward(self, da: Sequence[Tensor]) -> Backward:
        """From the cotangent of a (a sum), which may be overwritten."""
        r = self.r
        self.Sb, self.G = Sb, G = self._correlate(da)  # Sb = Σ dz,  G = x ⋆ scatter(dz)
        self.WG = dot(self.W, G) - self.mu * Sb
        self.S1 = r * self.WG  # S1 = Σ dz x̂ = r (⟨W, G⟩ − μ Sb)
        self.E = G - row(Sb) * self.moments.m - row(r * self.S1) * self.WS  # dW = s r E = s r (G − Sb m − r S1 W S)
        return row(self.s * r) * self.E, Sb, self.S1, ()

    def tangent(self, Wd: Tensor) -> Tensor:
        """a′, from the tangent of the weights; the images have none."""
        r, mu, s, self.Wd = self.r, self.mu, self.s, Wd
        self.mud = dot(Wd, self.moments.m)  # μ′ = W′ m
        self.rd = rd = -(r**3) * dot(self.WS, Wd)  # r′ = −r³ σ²′/2,  σ²′ = 2 diag W S W′ᵀ
        V, offset = row(s * r) * Wd + row(s * rd) * self.W, -s * (r * self.mud + rd * mu)  # z′ = (s r (y − μ))′
        parts = zip(self.x, self.parts, strict=True)
        gathered = [self.ops.gated_gather(conv(x, V, offset), code, a) for x, (a, code) in parts]
        return torch.cat(gathered)  # a′ = [a > 0] z′ at the maxima

    def tangent_backward(self, dad: Sequence[Tensor]) -> Backward:
        """The tangents of what :meth:`backward` gives, from that of the cotangent."""
        r, rd, mu = self.r, self.rd, self.mu
        Sbd, Gd = self._correlate(dad)
        S1d = r * (dot(self.W, Gd) - mu * Sbd + dot(self.Wd, self.G) - self.mud * self.Sb) + rd * self.WG
        Ed = (
            Gd
            - row(Sbd) * self.moments.m
            - row(rd * self.S1 + r * S1d) * self.WS
            - row(r * self.S1) * self.moments.times_S(self.Wd)
        )  # E′ of dW = s r E
        return row(self.s) * (row(rd) * self.E + row(r) * Ed), Sbd, S1d, ()  # dW′ = s (r′ E + r E′)


class Block:
    """Layers 2–4: dy = s r D with D = scatter(dz) − Sb/n − x̂ S1/n = scatter(dz) + c0 + c1 y.

    The factor s r is moved into the (tiny) weights and weight gradients, so D is all that is formed. Where the ReLU is
    open x̂ = k (u − c): from the output (u = a, c = β, k = 1) without a scale, else from p, as s may be near zero.
    """

    def __init__(self, W: Tensor, shift: Tensor, scale: Tensor | None) -> None:
        self.W, self.shift, self.scale, self.ops = W, shift, scale, fused(W)

    def forward(self, x: Tensor) -> Tensor:
        """a, the block's output [n, channels, h // 2, w // 2]."""
        self.x, self.y = x, self.ops.conv(x, self.W)
        self.n = self.y.numel() // len(self.W)
        self.mu, variance, p, self.code = self.ops.statistics_and_pool(self.y)
        self.r = (variance + EPS).rsqrt()
        self.sr = self.r if self.scale is None else self.scale * self.r
        self.a = self.ops.affine_relu(p, self.sr, self.shift - self.mu * self.sr)  # a = relu(s r (p − μ) + β)
        self.u, self.c, self.k = p, self.mu, self.r
        if self.scale is None:
            self.u, self.c, self.k = self.a, self.shift, torch.ones_like(self.r)
        return self.a

    def backward(self, da: Sequence[Tensor]) -> Backward:
        """From the cotangent of a (a sum), which may be overwritten."""
        r, n = self.r, self.n
        self.dz, S1, Sb = self.ops.gated_sums_(da, self.a, self.u, self.c)  # dz = [a > 0] da,  Sb = Σ dz
        self.S1 = self.k * S1  # S1 = Σ dz x̂
        self.c1 = -r * self.S1 / n
        self.c0 = -Sb / n - self.c1 * self.mu
        self.G, dx = self.ops.conv_backward(self._D(), self.x, row(self.sr) * self.W)  # G = x ⋆ D
        return row(self.sr) * self.G, Sb, self.S1, (dx,)  # dW = s r G,  dx = (s r W)ᵀ * D

    def _D(self) -> Tensor:
        """D, made twice rather than kept: it is as large as y."""
        return self.ops.spread(self.y, self.c1, self.c0, self.dz, self.code)

    def tangent(self, xd: Tensor, Wd: Tensor) -> Tensor:
        """a′, from the tangents of input and weights."""
        r, n, self.xd, self.Wd = self.r, self.n, xd, Wd
        yd = self.ops.conv_tangent(self.x, xd, self.W, Wd)  # y′ = W′ * x + W * x′
        self.yd, pd, s1, s0 = self.ops.tangent_sums_(yd, self.y, self.mu, self.code)
        self.mud = s0 / n  # μ′ = mean y′
        self.rd = -(r**3) * s1 / n  # r′ = −r³ σ²′/2,  σ²′ = 2 mean (y − μ) y′
        q = self.k * self.rd / r  # x̂′ = r (p′ − μ′) + r′ (p − μ),  r′ (p − μ) = (r′/r) x̂ = q (u − c)
        xhd, self.S1d = self.ops.gated_affine_(pd, self.a, r, self.u, q, -r * self.mud - q * self.c, self.dz)
        return xhd if self.scale is None else xhd * ch(self.scale)  # a′ = [a > 0] s x̂′

    def tangent_backward(self, dad: Sequence[Tensor]) -> Backward:
        """The tangents of what :meth:`backward` gives, from that of the cotangent."""
        r, rd, n = self.r, self.rd, self.n
        dzd, S1d, Sbd = self.ops.gated_sums_(dad, self.a, self.u, self.c)
        S1d = self.k * S1d + self.S1d  # S1′ = Σ dz′ x̂ + Σ dz x̂′
        c1d = -(rd * self.S1 + r * S1d) / n
        c0d = -Sbd / n - c1d * self.mu - self.c1 * self.mud  # D′ = scatter(dz′) + c0′ + c1′ y + c1 y′
        Dd = self.ops.tangent_spread_(self.yd, self.c1, self.y, c1d, c0d, dzd, self.code)  # D′
        srd = rd if self.scale is None else self.scale * rd
        V, Vd = row(self.sr) * self.W, row(srd) * self.W + row(self.sr) * self.Wd  # s r W and its tangent
        Gd, dxd = self.ops.conv_backward_tangent(self._D(), Dd, self.x, self.xd, V, Vd)  # G′ = x ⋆ D′ + x′ ⋆ D
        return row(srd) * self.G + row(self.sr) * Gd, Sbd, S1d, dxd  # dW′ = s (r′ G + r G′),  dx′ = Vᵀ * D′ + V′ᵀ * D
