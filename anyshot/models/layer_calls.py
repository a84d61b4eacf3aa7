"""Find the layer of a module that is to blame: random, not differentiable, or failing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

LAYER_NAME = "_anyshot_layer_name"  #: attribute of a module's layers: their names in the module
FUNCTIONS = "torch.nn.functional"
UNKNOWN = "by a computation of its own"


@dataclass(frozen=True)
class Call:
    """A call of a layer."""

    layer: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]


@dataclass
class LayerCalls:
    """The layers that were called."""

    finished: list[Call] = field(default_factory=list)  #: in order of their end
    active: list[str] = field(default_factory=list)  #: begun and not ended, the innermost last
    assigned: list[str] = field(default_factory=list)  #: buffers that a call has replaced

    @property
    def innermost(self) -> str:
        """The layer that was active when an error occurred."""
        return self.active[-1] if self.active else UNKNOWN


@contextmanager
def record_calls() -> Iterator[LayerCalls]:
    """Collect the modules and the functions of torch.nn that are called."""
    calls = LayerCalls()
    buffers: list[dict[str, Tensor | None]] = []  # of the active layers

    def begin(module: nn.Module, inputs: Any) -> None:
        calls.active.append(getattr(module, LAYER_NAME, repr(module)))
        buffers.append(dict(module._buffers))

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        layer, before = calls.active.pop(), buffers.pop()
        calls.finished.append(Call(layer, tree_leaves(inputs), tree_leaves(output)))
        for name, value in module._buffers.items():
            if value is not before.get(name):
                calls.assigned.append(f"{name} of {layer}")

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            output = function(*args, **(kwargs or {}))
            if getattr(function, "__module__", "") == FUNCTIONS:
                layer = f"{FUNCTIONS}.{function.__name__}"
                calls.finished.append(Call(layer, tree_leaves((args, kwargs)), tree_leaves(output)))
            return output

    handles = [register_module_forward_pre_hook(begin), register_module_forward_hook(end)]
    try:
        with Functions():
            yield calls
    finally:
        for handle in handles:
            handle.remove()


def first_difference(
    first: Iterable[Call],
    second: Iterable[Call],
    differ: Callable[[Sequence[Any], Sequence[Any]], bool],
) -> str:
    """The first layer whose outputs differ in two calls of a body, though its inputs do not."""
    return describe(
        one
        for one, two in zip(first, second, strict=False)
        if one.layer == two.layer
        and not differ(one.inputs, two.inputs)
        and differ(one.outputs, two.outputs)
    )


def describe(guilty: Iterable[Call]) -> str:
    """The innermost function of torch.nn, and the innermost module that it belongs to."""
    names: list[str] = []
    for call in guilty:
        names.append(call.layer)
        if not call.layer.startswith(FUNCTIONS):
            break
    inner = [name for name in names[:1] + names[-1:] if name != UNKNOWN]
    return " in ".join(dict.fromkeys(inner)) or UNKNOWN


def tensor_pairs(first: Iterable[Any], second: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of numbers at the same places of two lists."""
    for a, b in zip(first, second, strict=False):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point():
            yield a, b
