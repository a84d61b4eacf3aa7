"""A device that this machine does not have: its tensors say that they are elsewhere, and are computed on the CPU.

As on a GPU, an operator that is given tensors of two places raises, unless one is a single number; and what is on the
device is reached by ``.cpu()`` or ``.item()`` alone. So code that makes a tensor in the wrong place fails here, too. It
cannot tell how fast anything is, nor that a device has every operator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
_setup_privateuseone_for_python_backend(NAME)
aten = torch.ops.aten
BETWEEN = {
    aten.copy_.default,
    aten.index.Tensor,
}  # operators that real devices, too, allow between two places


class Elsewhere(torch.Tensor):
    """A tensor of the device, held by one of the CPU."""

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> Elsewhere:
        return torch.Tensor._make_wrapper_subclass(
            cls, raw.shape, strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )  # fmt: skip

    def __init__(self, raw: torch.Tensor) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        return f"{NAME} {self.raw}"

    def tolist(self) -> Any:
        return self.raw.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(operator, args, kwargs or {})


def _compute(operator: Any, args: Any, kwargs: Any) -> Any:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    here = [t for t in tensors if isinstance(t, Elsewhere)]
    strange = [t for t in tensors if not isinstance(t, Elsewhere) and t.dim() > 0]
    if here and strange and operator not in BETWEEN:
        raise RuntimeError(
            f"{operator} is given tensors of two devices, one of the CPU {list(strange[0].shape)}."
        )
    out = _on_cpu(operator, tree_map(_raw, args), tree_map(_raw, kwargs))
    target = kwargs.get("device")
    if torch.device(target).type != NAME if target is not None else not here:
        return out
    known = {id(t.raw): t for t in here}  # what was changed in place is given back as it is
    return tree_map(
        lambda o: known.get(id(o), Elsewhere(o)) if isinstance(o, torch.Tensor) else o, out
    )


def _raw(value: Any) -> Any:
    if isinstance(value, Elsewhere):
        return value.raw
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _on_cpu(operator: Any, args: Any, kwargs: Any) -> Any:
    if operator is aten.convolution_overrideable.default:
        return aten.convolution.default(*args)
    if operator is aten.convolution_backward_overrideable.default:
        gradient, x, weight, *others = args
        return aten.convolution_backward.default(gradient, x, weight, [len(weight)], *others)
    return operator(*args, **kwargs)


_library = torch.library.Library("_", "IMPL")
_library.fallback(lambda operator, *args, **kwargs: _compute(operator, args, kwargs), "PrivateUse1")
