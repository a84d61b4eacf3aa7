"""A body made of any ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from anyshot.core.errors import CodeError
from anyshot.models.module_checks import check_features, check_layers
from anyshot.models.module_features import ModuleFeatures, module_features, parameter_key
from anyshot.models.network import HEAD_PARAMETERS, Body, Layer, Norm, Parameters

#: layers whose weight does not have its outputs first: z and MT-net leave them as they are
NO_OUTPUT_CHANNELS = (_ConvTransposeNd, nn.Embedding, nn.EmbeddingBag)


@dataclass(frozen=True)
class ModuleBody(Body):
    """A body made of a module; :meth:`anyshot.Body.from_module` creates one."""

    features: ModuleFeatures
    initial: Parameters = field(kw_only=True, repr=False, compare=False)
    constants: Parameters = field(kw_only=True, repr=False, compare=False)
    feature_width: int = field(kw_only=True)
    create: Callable[[], nn.Module] | None = field(default=None, kw_only=True, repr=False)

    @property
    def layer_parameters(self) -> dict[str, tuple[str, ...]]:
        """Names of the parameters of each layer of the module, and of the head."""
        groups: dict[str, tuple[str, ...]] = {}
        for key, name in self.features.parameters.items():
            group = layer_name(name)
            groups[group] = (*groups.get(group, ()), key)
        return {**groups, "head": HEAD_PARAMETERS}

    @property
    def width(self) -> int:
        """Length of a feature vector."""
        return self.feature_width

    def norm(self) -> Norm:
        """The module's buffers and frozen parameters; its batch norms are layers of the module."""
        return Norm([], constants=self.constants)

    def init_parameters(self, generator: torch.Generator, start: str = "paper") -> Parameters:
        """Return the module's own initialisation: of a new module, if the body has its class.

        torch's global generator is seeded from ``generator`` for the module's constructor and
        restored after it. ``start`` has no effect.
        """
        if self.create is None:
            return {key: value.clone() for key, value in self.initial.items()}
        seed = int(torch.randint(2**62, (), generator=generator))
        own = dict(construct(self.create, seed).named_parameters())
        return {key: own[name].detach().clone() for key, name in self.features.parameters.items()}

    def draw_seed(self, noise: torch.Generator | None) -> int | None:
        """The seed of a training task, for dropout."""
        return None if noise is None else int(torch.randint(2**62, (), generator=noise))


def layer_name(parameter: str) -> str:
    """The layer of a module's parameter; a parameter of the module itself is a layer of its own.

    >>> [layer_name(name) for name in ("blocks.0.in_proj_weight", "position", "head.bias")]
    ['blocks.0', 'position', 'head of the module']
    """
    owner, parametrized, _ = parameter.partition(".parametrizations.")
    layer = owner if parametrized else owner.rpartition(".")[0] or owner
    return "head of the module" if layer == "head" else layer


def construct(create: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A new module whose random initialisation is a function of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return create()


def module_body(
    module: nn.Module,
    image_size: tuple[int, int],
    image_channels: int,
    create: Callable[[], nn.Module] | None = None,
) -> ModuleBody:
    """The body of a module; ``create`` makes a new one with another initialisation."""
    check_layers(module)
    try:
        features = module_features(module)
    except (RuntimeError, TypeError) as error:
        place = ", ".join(find_computed_tensors(module)) or error
        raise CodeError(
            f"The module {type(module).__name__} cannot be copied ({place}); keep tensors that "
            "are computed out of its attributes."
        ) from error
    own: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    initial = {key: own[name].detach().clone() for key, name in features.parameters.items()}
    constants = {key: own[name].detach().clone() for key, name in features.constants.items()}
    norm = Norm([], constants=constants)
    width = check_features(module, features, initial, norm, (image_channels, *image_size))
    return ModuleBody(
        features,
        find_layers(module),
        image_size,
        image_channels,
        initial=initial,
        constants=constants,
        feature_width=width,
        create=create,
    )


def find_computed_tensors(module: nn.Module) -> list[str]:
    """Attributes of layers that have been computed from parameters; torch cannot copy them."""
    return [
        f"{name}.{key} of {type(layer).__name__}".lstrip(".")
        for name, layer in module.named_modules()
        for key, value in vars(layer).items()
        if isinstance(value, Tensor) and value.grad_fn is not None
    ]


def find_layers(module: nn.Module) -> tuple[Layer, ...]:
    """The layers that z modulates: those with a weight [outputs, …], such as convolutions."""
    names = {name: value for name, value in module.named_parameters() if value.requires_grad}
    layers = []
    for owner_name, owner in module.named_modules():
        for leaf, weight in owner.named_parameters(recurse=False):
            name = f"{owner_name}.{leaf}".lstrip(".")
            if name not in names or weight.dim() < 2 or not leaf.endswith("weight"):
                continue
            if isinstance(owner, NO_OUTPUT_CHANNELS):
                continue
            bias = names.get(name.removesuffix("weight") + "bias")
            has_bias = bias is not None and bias.shape == weight.shape[:1]
            layers.append(
                Layer(
                    parameter_key(name),
                    tuple(weight.shape),
                    layer_name(name),
                    parameter_key(name.removesuffix("weight") + "bias") if has_bias else None,
                    groups=getattr(owner, "groups", 1),
                )
            )
    return tuple(layers)
