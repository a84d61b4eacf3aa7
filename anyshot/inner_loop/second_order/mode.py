"""The context in which operators are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyshot.inner_loop.autograd import autocast_active, transforms_active
from anyshot.inner_loop.second_order import elementwise, norms, products
from anyshot.inner_loop.second_order.trace import Trace

Operator = Callable[..., Any]

#: torch's operator → its replacement; it returns NotImplemented for arguments it does not support
REPLACEMENTS: dict[Operator, Operator] = {
    F.batch_norm: norms.batch_norm,
    F.layer_norm: norms.layer_norm,
    F.gelu: elementwise.gelu,
    F.scaled_dot_product_attention: elementwise.attention,
}
#: the same for operators with a weight; the replacement takes the trace first
PRODUCTS: dict[Operator, Operator] = {
    torch.conv1d: products.conv1d,
    torch.conv2d: products.conv2d,
    torch.conv3d: products.conv3d,
    F.linear: products.linear,
}


class FastSecondOrder(TorchFunctionMode):
    """A context in which operators are replaced by those with fast second derivatives.

    Tensors of other devices or of lower precision, autocast and torch.func transforms keep torch's
    own operators. So do operators that another Python function of torch calls, such as those of
    ``nn.MultiheadAttention``.

    Parameters
    ----------
    trace : Trace, optional
        What is known of the evaluation.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        super().__init__()
        self.trace = trace or Trace([])

    def __torch_function__(
        self,
        func: Operator,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the replacement of ``func`` if there is one and it supports the arguments."""
        kwargs = kwargs or {}
        result = NotImplemented
        if func in REPLACEMENTS and _supported(args, kwargs):
            result = REPLACEMENTS[func](*args, **kwargs)
        elif func in PRODUCTS and _supported(args, kwargs):
            result = PRODUCTS[func](self.trace, *args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result


def _supported(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all tensors are on the CPU and of one precision, without autocast or transforms."""
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
    dtypes = {t.dtype for t in tensors}
    return (
        (dtypes == {torch.float32} or dtypes == {torch.float64})
        and all(t.device.type == "cpu" for t in tensors)
        and not autocast_active(tensors[0].device)
        and not transforms_active()
    )
