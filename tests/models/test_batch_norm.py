"""Batch norm: torch's values and derivatives, bit for bit, and right third derivatives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anyshot.models.batch_norm import batch_norm, batch_norm_by_arithmetic

EPS = 1e-3


def make_inputs(scale=True):
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(4, 3, 5, 2, generator=generator, dtype=torch.float64)
    scales = torch.rand(3, generator=generator, dtype=torch.float64) + 0.5
    shift = torch.randn(3, generator=generator, dtype=torch.float64)
    return [t.requires_grad_() for t in ([y, scales, shift] if scale else [y, shift])]


def derivatives(function, inputs):
    """Value, first and second derivatives of a non-linear function of the output."""
    z = function(*inputs)
    first = torch.autograd.grad(z.sin().sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(g.cos().sum() for g in first), inputs)
    return [z, *first, *second]


def with_scale(function):
    return lambda y, scale, shift: function(y, scale, shift)


def without_scale(function):
    return lambda y, shift: function(y, None, shift)


def ours(y, scale, shift):
    return batch_norm(y, scale, shift, EPS)


def torchs(y, scale, shift):
    return F.batch_norm(y, None, None, scale, shift, training=True, eps=EPS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_two_derivatives_have_the_bits_of_torch(dtype):
    inputs = [t.detach().to(dtype).requires_grad_() for t in make_inputs()]
    found, expected = derivatives(ours, inputs), derivatives(torchs, inputs)
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


def test_without_a_scale_second_derivatives_of_y_have_the_bits_of_torch():
    y, shift = make_inputs(scale=False)
    found = derivatives(lambda t: ours(t, None, shift.detach()), [y])
    expected = derivatives(lambda t: torchs(t, None, shift.detach()), [y])
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))


def test_without_a_scale_second_derivatives_of_the_shift_exist():
    """torch's own double backward fails here."""
    y, shift = make_inputs(scale=False)
    found = derivatives(lambda t, b: ours(t, None, b), [y, shift])
    ones = torch.ones(3, dtype=torch.float64)
    expected = derivatives(lambda t, b: torchs(t, ones, b), [y, shift])
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("wrap", [with_scale, without_scale])
def test_third_derivatives_equal_finite_differences_of_second_ones(wrap):
    inputs = make_inputs(wrap is with_scale)

    def second(*given):
        z = wrap(ours)(*given)
        first = torch.autograd.grad(z.sin().sum(), given, create_graph=True)
        return torch.autograd.grad(sum(g.cos().sum() for g in first), given, create_graph=True)

    assert torch.autograd.gradcheck(second, inputs)


def test_torchs_own_third_derivatives_are_wrong():
    """The reason for this module: remove it when this test fails."""
    inputs = make_inputs()

    def second(*given):
        first = torch.autograd.grad(torchs(*given).sin().sum(), given, create_graph=True)
        return torch.autograd.grad(sum(g.cos().sum() for g in first), given, create_graph=True)

    assert not torch.autograd.gradcheck(second, inputs, raise_exception=False)


def test_without_gradients_and_inside_transforms_the_values_are_the_same():
    y, scale, shift = (t.detach() for t in make_inputs())
    expected = torchs(y, scale, shift)
    assert torch.equal(ours(y, scale, shift), expected)
    torch.testing.assert_close(batch_norm_by_arithmetic(y, scale, shift, EPS, len(y)), expected)
    found = torch.func.vmap(ours)(y[None], scale[None], shift[None])[0]
    torch.testing.assert_close(found, expected)


def test_a_single_value_per_channel_is_an_error():
    y = torch.zeros(1, 3, 1, 1, requires_grad=True)
    with pytest.raises(ValueError, match="more than 1 value"):
        ours(y, None, None)
