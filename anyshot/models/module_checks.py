"""Refuse modules that cannot be a pure function of parameters and images; name the layer."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.random import torch_rng
from anyshot.models.layer_calls import Call, describe, first_difference, record_calls, tensor_pairs
from anyshot.models.math_attention import math_attention
from anyshot.models.module_features import ModuleFeatures, Worker
from anyshot.models.network import Norm, Parameters
from anyshot.models.seeded_random import SeededRandom

IMAGES = 4  # of the trial
SEED = 0  # of the trial in training mode
REPETITIONS = 64  # of a random call, until a layer gives another output


def check_layers(module: nn.Module) -> None:
    """Refuse what can be seen without a call: lazy and compiled layers, nothing to learn."""
    for name, layer in module.named_modules():
        label = f"{name or 'the module'} ({type(layer).__name__})"
        own = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        if any(is_lazy(value) for value in own):
            raise CodeError(
                f"The layer {label} has no parameters yet; call the module once before, or use "
                "the layer that is not lazy."
            )
        if isinstance(layer, torch.jit.ScriptModule):
            raise CodeError(f"The layer {label} is compiled; use the module before torch.jit.")
    if not any(value.requires_grad for value in module.parameters()):
        raise CodeError(
            f"The module {type(module).__name__} has no parameter that requires a gradient, so "
            "there is nothing to learn."
        )


def check_features(
    module: nn.Module,
    features: ModuleFeatures,
    theta: Parameters,
    norm: Norm,
    image_shape: tuple[int, int, int],
) -> int:
    """Call the module in both modes, refuse what does not work, and return its feature width.

    Also finds out whether the module draws random numbers in training mode.
    """
    name = type(module).__name__
    images = torch.rand(IMAGES, *image_shape, generator=torch_rng(0, "check module"))
    channels, height, width = image_shape
    copies = {key: value.clone() for key, value in norm.constants.items()}
    # other parameters, as after an inner step: a buffer may be in equilibrium with the initial ones
    theta = {key: _perturb(value) for key, value in theta.items()}
    state = _foreign_state()
    with torch.random.fork_rng(devices=[]):
        training = Norm([], constants=copies, seed=SEED)
        outputs, calls, assigned = [], [], []
        for norm_of_call in (Norm([], constants=copies), training, training):
            with torch.no_grad(), record_calls() as layers:
                try:
                    outputs.append(features(theta, norm_of_call, images))
                except CodeError as error:
                    raise CodeError(f"{name}, layer {layers.innermost}: {error}") from error
                except Exception as error:  # a module may raise anything
                    raise SettingsError(
                        f"The module {name} cannot process {IMAGES} images of {height}×{width} "
                        f"pixels with {channels} channels (layer {layers.innermost}, "
                        f"{type(error).__name__}: {error})."
                    ) from error
            calls.append(layers.finished)
            assigned += layers.assigned
            _check_shape(name, outputs[-1])
        changed = [key for key, value in copies.items() if not _equal(value, norm.constants[key])]
        if changed or assigned:
            layer = _layers(features, changed) or assigned[0]
            raise CodeError(
                f"The module {name} changes its buffers in a call ({layer}), "
                "so that results would depend on earlier calls; remove that layer."
            )
        if not _equal(*outputs[1:]) or _foreign_state() != state:
            layer = _random_layer(features, theta, training, images)
            raise CodeError(
                f"The module {name} draws random numbers that are not torch's in training mode "
                f"({layer}), so that runs could not be repeated; use torch.rand, torch.randn or "
                "dropout."
            )
        features.draws_random_numbers = _draws_random_numbers(features, theta, training, images)
        _check_gradients(module, features, theta, norm, images)
    return outputs[0].shape[1]


def _perturb(value: Tensor) -> Tensor:
    noise = torch.rand(value.shape, generator=torch_rng(0, "check module")).to(value)
    return value * (0.5 + noise)


def _check_shape(name: str, output: object) -> None:
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != IMAGES:
        shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise CodeError(
            f"The module {name} returns {shape} for {IMAGES} images; expected features "
            f"[{IMAGES}, width]. Flatten them or take their mean over positions."
        )


def _foreign_state() -> tuple[Any, ...]:
    """The state of the global random generators of Python and NumPy."""
    numbers: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - a module may use it
    return random.getstate(), numbers["state"]["key"].tobytes(), numbers["state"]["pos"]


def _random_layer(features: ModuleFeatures, theta: Parameters, norm: Norm, images: Tensor) -> str:
    """The first layer whose outputs change from call to call, perhaps rarely (drop path)."""
    calls: list[Sequence[Call]] = []
    for _ in range(REPETITIONS):
        with torch.no_grad(), record_calls() as layers:
            features(theta, norm, images)
        calls.append(layers.finished)
        if _differ(calls[0][-1].outputs, calls[-1][-1].outputs):
            break
    return first_difference(calls[0], calls[-1], _differ)


def _draws_random_numbers(
    features: ModuleFeatures, theta: Parameters, norm: Norm, images: Tensor
) -> bool:
    features.draws_random_numbers = False  # so that only this context counts
    with torch.no_grad(), SeededRandom(SEED) as random:
        features(theta, norm, images)
    return random.is_used


def _check_gradients(
    module: nn.Module, features: ModuleFeatures, theta: Parameters, norm: Norm, images: Tensor
) -> None:
    """Compare with the gradients of the module itself: a parameter must not have been copied."""
    own = Worker(copy.deepcopy(module), len(images)).module.eval()
    parameters = dict(own.named_parameters())
    with torch.no_grad():
        for key, name in features.parameters.items():
            parameters[name].copy_(theta[key])
    mine = {key: value.clone().requires_grad_() for key, value in theta.items()}
    try:
        with SeededRandom(SEED):
            actual = _gradients(features(mine, norm, images), mine.values())
        with SeededRandom(SEED), math_attention:
            output = own(images)
        expected = _gradients(output, [parameters[n] for n in features.parameters.values()])
    except RuntimeError as error:
        with record_calls() as layers, SeededRandom(SEED):
            features(mine, norm, images.clone().requires_grad_())
        layer = describe(call for call in layers.finished if _has_no_gradient(call))
        raise CodeError(
            f"The module {type(module).__name__} cannot be differentiated ({layer}; torch: "
            f"{error})."
        ) from error
    wrong = [key for key, a, b in zip(mine, actual, expected, strict=True) if not _close(a, b)]
    if wrong:
        raise CodeError(
            f"The module {type(module).__name__} does not use the parameters that it is given "
            f"({_layers(features, wrong)}): it keeps a second reference to them, or changes them "
            "in a call; read them from their layer in forward()."
        )


def _has_no_gradient(call: Call) -> bool:
    """Whether a layer's outputs cannot be differentiated by its inputs."""
    inputs = [t for t in call.inputs if isinstance(t, Tensor) and t.requires_grad]
    outputs = [t for t in call.outputs if isinstance(t, Tensor)]
    try:
        for output in outputs:
            _gradients(output, inputs)
    except RuntimeError:
        return bool(inputs)
    return False


def _gradients(output: Tensor, parameters: Iterable[Tensor]) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 1, output.numel()).view_as(output).to(output)
    return torch.autograd.grad(
        (output * weights).sum(), list(parameters), allow_unused=True, materialize_grads=True
    )


def _differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return any(not _equal(a, b) for a, b in tensor_pairs(first, second))


def _equal(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.nan_to_num(), b.nan_to_num())


def _close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 1e-3 * b.abs().max() + 1e-6) if b.numel() else True


def _layers(features: ModuleFeatures, keys: Iterable[str]) -> str:
    names = {**features.parameters, **features.constants}
    layers = dict(features.template.named_modules())
    found = []
    for key in keys:
        owner = names[key].rpartition(".")[0]
        found.append(f"{names[key]} of {type(layers[owner]).__name__}")
    return ", ".join(found[:3])
