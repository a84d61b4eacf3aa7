"""Inner loops for any module and any loss; memory does not grow with the number of steps.

:func:`loss_gradient` is the counterpart of :func:`anyshot.gradient` for any function of parameters.
A step keeps only θ_k, and all steps up to 40 MB of products (``second_order/trace.py``). The step's
graph is built again in the backward pass:

    cotangents δ of the loss ℓ and v of g:     θ: δ g + H v,      inputs x: δ ∇_x ℓ + ∇_x ⟨g, v⟩

So an update rule in plain torch around g (SGD, momentum, Adam, learned step sizes) has exact
second-order meta-gradients.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion
from anyshot.inner_loop.autograd import differentiable_views, transforms_active
from anyshot.inner_loop.second_order import FastSecondOrder, Kept, Trace
from anyshot.models.math_attention import math_attention
from anyshot.models.module_features import call_with_tensors
from anyshot.models.network import Parameters

Loss = Callable[..., Tensor]  #: (theta, *inputs) → scalar

_REGISTRY_LOCK = threading.Lock()
_MODULE_LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()


def call_module(module: nn.Module, theta: Parameters, *inputs: Any, **options: Any) -> Any:
    """Call a module with the parameters ``theta`` instead of its own.

    Buffers (running averages) are copied for the call, so the module itself never changes. Threads
    that share a module call it one after the other.

    Parameters
    ----------
    module : torch.nn.Module
        Any module.
    theta : dict of str to Tensor
        Parameters by the names of ``module.named_parameters()``. The module's own are used for
        missing names; names that the module does not have are refused.
    *inputs, **options
        Arguments of ``module.forward``.

    Returns
    -------
    Any
        What the module returns.

    Raises
    ------
    SettingsError
        If the module has no parameter or buffer of one of the names.

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> theta = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}
    >>> call_module(layer, theta, torch.tensor([[1.0, 1.0]]))
    tensor([[6.]])
    """
    own = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    own |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
    for name in theta.keys() - own:
        raise SettingsError(
            f"The module {type(module).__name__} has no parameter {name!r}{suggestion(name, own)}"
        )
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    with _lock_of(module):  # the call exchanges the module's parameters
        return call_with_tensors(module, {**buffers, **theta}, *inputs, **options)


def _lock_of(module: nn.Module) -> Any:
    with _REGISTRY_LOCK:
        return _MODULE_LOCKS.setdefault(module, threading.RLock())


def loss_gradient(loss: Loss, theta: Parameters, *inputs: Any) -> tuple[Parameters, Tensor]:
    """Gradient of a loss with respect to parameters, and the loss itself.

    Both are differentiable in θ and in all tensors of ``inputs``, any number of times. The graph is
    recomputed in the backward pass, with the same random numbers (dropout). Inside
    ``torch.no_grad()`` there is no graph: this is the first-order approximation.

    Parameters
    ----------
    loss : callable
        ``loss(theta, *inputs)`` returns a scalar. Every tensor that requires a gradient must be in
        ``theta`` or ``inputs``.
    theta : dict of str to Tensor
        θ.
    *inputs
        Further arguments of the loss: images, labels, weights, lists and dicts of tensors …

    Returns
    -------
    g : dict of str to Tensor
        One gradient for each entry of ``theta``; zero for parameters that the loss does not use.
    value : Tensor, []
        The loss.

    Raises
    ------
    SettingsError
        If the loss is not a scalar, or depends on a tensor that requires a gradient and is neither
        in ``theta`` nor in ``inputs``.

    Examples
    --------
    Two inner steps on a regression task with a learned step size:

    >>> from torch.nn.functional import mse_loss
    >>> rng = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    >>> rate = torch.tensor(0.1, requires_grad=True)
    >>> x, y = torch.rand(5, 1), torch.rand(5, 1)
    >>> def fit(theta, x, y):
    ...     return mse_loss(call_module(net, theta, x), y)
    >>> theta = dict(net.named_parameters())
    >>> for step in range(2):
    ...     g, loss = loss_gradient(fit, theta, x, y)
    ...     theta = {name: value - rate * g[name] for name, value in theta.items()}
    >>> fit(theta, x, y).backward()
    >>> rate.grad.shape, net[0].weight.grad.shape
    (torch.Size([]), torch.Size([8, 1]))
    """
    if not isinstance(theta, Mapping):
        raise SettingsError(
            f"theta is a {type(theta).__name__}; expected a dict of names to tensors, such as "
            "dict(module.named_parameters())."
        )
    if transforms_active():
        return torch.func.grad_and_value(loss)(theta, *inputs)
    leaves, structure = tree_flatten(inputs)
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = [*theta.values(), *(leaves[i] for i in positions)]
    evaluation = _Evaluation(loss, tuple(theta), leaves, structure, positions)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        value, *g = _LossGradient.apply(evaluation, *tensors)
    else:
        value, *g = evaluation.gradient(tensors)
    return dict(zip(theta, g, strict=True)), value


@dataclass
class _Evaluation:
    """A loss and its arguments; tensors are passed to its methods as one flat list."""

    loss: Loss
    names: tuple[str, ...]
    leaves: list[Any]  #: of ``inputs``, which may contain lists and dicts
    structure: Any
    positions: list[int]  #: of the tensors in ``leaves``
    rng_state: Tensor | None = None  #: before the first evaluation, if that drew random numbers
    kept: Kept | None = None  #: results of the first evaluation

    def value(self, tensors: Sequence[Tensor], trace: Trace) -> Tensor:
        """The loss."""
        count = len(self.names)
        leaves = list(self.leaves)
        for position, tensor in zip(self.positions, tensors[count:], strict=True):
            leaves[position] = tensor
        theta = dict(zip(self.names, tensors[:count], strict=True))
        with FastSecondOrder(trace), math_attention:
            value = self.loss(theta, *tree_unflatten(leaves, self.structure))
        if not isinstance(value, Tensor) or value.dim():
            kind = (
                f"has the shape {list(value.shape)}"
                if isinstance(value, Tensor)
                else f"is {value!r}"
            )
            raise SettingsError(f"The loss {kind}; expected a scalar tensor.")
        return value

    def gradient(self, tensors: Sequence[Tensor], keep: bool = False) -> list[Tensor]:
        """The loss and its gradient, without a graph; ``keep``: it will be evaluated again."""
        count = len(self.names)
        rng_state = torch.get_rng_state()
        with torch.inference_mode(False), torch.enable_grad():
            at = [t.clone() if t.is_inference() else t.detach() for t in tensors]
            for parameter in at[:count]:
                parameter.requires_grad_()
            trace = Trace(at[:count], keep=keep)
            value = self.value(at, trace)
            _check_captured_tensors(value, at)
            g = torch.autograd.grad(value, at[:count], materialize_grads=True)
        if not torch.equal(rng_state, torch.get_rng_state()):
            self.rng_state = rng_state
        if keep:
            self.kept = trace.kept
            self.kept.limit_memory()
        result = [value.detach(), *g]
        del value, g, at, trace  # frees the graph
        if self.kept is not None:
            self.kept.move()
        return [t.clone() for t in result]  # not scattered among its memory: it can be used again

    @contextlib.contextmanager
    def repeat(self) -> Iterator[None]:
        """A context in which the loss draws the same random numbers as the first time."""
        with torch.enable_grad():
            if self.rng_state is None:
                yield
                return
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self.rng_state)
                yield


class _LossGradient(torch.autograd.Function):
    """θ, inputs → ℓ, ∇_θ ℓ."""

    @staticmethod
    def forward(ctx: Any, evaluation: _Evaluation, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.evaluation = evaluation
        ctx.save_for_backward(*tensors)
        return tuple(evaluation.gradient(tensors, keep=True))

    @staticmethod
    def backward(ctx: Any, dvalue: Tensor | None, *v: Tensor | None) -> tuple[Tensor | None, ...]:
        evaluation: _Evaluation = ctx.evaluation
        graph = torch.is_grad_enabled()
        count = len(evaluation.names)
        needed = [i for i, wanted in enumerate(ctx.needs_input_grad[1:]) if wanted]
        at = list(ctx.saved_tensors)
        with evaluation.repeat():
            leaves = sorted({*needed, *range(count)})
            for i, leaf in zip(leaves, differentiable_views([at[i] for i in leaves]), strict=True):
                at[i] = leaf
            trace = Trace(at[:count], evaluation.kept)
            value = evaluation.value(at, trace)
            outputs, cotangents = [value], [dvalue]
            if any(d is not None for d in v):
                with trace.without_values():
                    outputs += torch.autograd.grad(
                        value, at[:count], create_graph=True, materialize_grads=True
                    )
                cotangents += v
            trace.kept.clear()  # kept gradients have the cotangent 1
            used = [
                (output, d)
                for output, d in zip(outputs, cotangents, strict=True)
                if d is not None and output.requires_grad
            ]
            found: Sequence[Tensor | None] = [None] * len(needed)
            if used:
                found = torch.autograd.grad(
                    [output for output, _ in used],
                    [at[i] for i in needed],
                    [d for _, d in used],
                    create_graph=graph,
                    allow_unused=True,
                )
        result: list[Tensor | None] = [None] * len(at)
        for i, gradient in zip(needed, found, strict=True):
            result[i] = gradient
        return (None, *result)


def _check_captured_tensors(value: Tensor, known: Sequence[Tensor]) -> None:
    """Raise an error if the loss depends on other tensors that require a gradient.

    Their gradient would be silently missing.
    """
    ids = {id(t) for t in known}
    nodes = [value.grad_fn]
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)  # of the nodes of leaves
        if variable is not None and id(variable) not in ids:
            raise SettingsError(
                f"The loss uses a tensor of the shape {list(variable.shape)} that requires a "
                "gradient but is neither in theta nor in inputs. Pass it, or detach() it."
            )
        nodes += [following for following, _ in node.next_functions]
