"""A fake device: its tensors claim to be on another device and are computed on the CPU.

As on a GPU, an operator with tensors of two devices raises an error unless one is a single number,
and values are read by ``.cpu()`` or ``.item()`` only. So code that creates a tensor on the wrong
device fails here, too. It says nothing about speed or about missing operators of real devices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "fake"
_setup_privateuseone_for_python_backend(NAME)
aten = torch.ops.aten
# operators that real devices allow with tensors of two devices
MIXED_DEVICES = {aten.copy_.default, aten.index.Tensor}


class FakeTensor(torch.Tensor):
    """A tensor of the fake device with its values in a tensor on the CPU."""

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> FakeTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )

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
    on_fake = [t for t in tensors if isinstance(t, FakeTensor)]
    on_cpu = [t for t in tensors if not isinstance(t, FakeTensor) and t.dim() > 0]
    if on_fake and on_cpu and operator not in MIXED_DEVICES:
        raise RuntimeError(
            f"{operator} is given tensors of two devices, one of the CPU {list(on_cpu[0].shape)}."
        )
    out = _compute_on_cpu(operator, tree_map(_raw, args), tree_map(_raw, kwargs))
    target = kwargs.get("device")
    if torch.device(target).type != NAME if target is not None else not on_fake:
        return out
    known = {id(t.raw): t for t in on_fake}  # in-place operators return their argument
    return tree_map(
        lambda o: known.get(id(o), FakeTensor(o)) if isinstance(o, torch.Tensor) else o, out
    )


def _raw(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return value.raw
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _compute_on_cpu(operator: Any, args: Any, kwargs: Any) -> Any:
    if operator is aten.convolution_overrideable.default:
        return aten.convolution.default(*args)
    if operator is aten.convolution_backward_overrideable.default:
        gradient, x, weight, *others = args
        return aten.convolution_backward.default(gradient, x, weight, [len(weight)], *others)
    return operator(*args, **kwargs)


_library = torch.library.Library("_", "IMPL")
_library.fallback(lambda operator, *args, **kwargs: _compute(operator, args, kwargs), "PrivateUse1")
