"""Random numbers inside a module (dropout, stochastic depth) from a seed of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anyshot.core.errors import CodeError

aten = torch.ops.aten
#: operators without a generator, and those that draw the same numbers with one
LIKE = {aten.rand_like.default: torch.rand, aten.randn_like.default: torch.randn}


class SeededRandom(TorchDispatchMode):
    """A context in which all random operators of this thread draw from one seed.

    torch's global generator belongs to all threads of the process, so a result that uses it depends
    on the other threads. Here it is not used.

    >>> with SeededRandom(3):
    ...     first = torch.nn.functional.dropout(torch.ones(4))
    >>> with SeededRandom(3) as random:
    ...     again = torch.nn.functional.dropout(torch.ones(4))
    >>> torch.equal(first, again), random.is_used
    (True, True)
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.generators: dict[torch.device, torch.Generator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler, which takes a second."""
        return False

    @property
    def is_used(self) -> bool:
        """Whether an operator has drawn random numbers."""
        return bool(self.generators)

    def generator(self, device: torch.device) -> torch.Generator:
        """The generator of a device."""
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **options)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device(options.get("device") or "cpu")
        generator = self.generator(device)
        if any(argument.name == "generator" for argument in function._schema.arguments):
            return function(*args, **{**options, "generator": generator})
        if function in LIKE:
            like = args[0]
            kind = {"dtype": options.get("dtype") or like.dtype, "device": like.device}
            return LIKE[function](like.shape, generator=generator, **kind)
        if function is aten.native_dropout.default:
            x, p, train = args
            return _native_dropout(x, p, train, generator)
        overload = function._overloadname
        name = "generator" if overload == "default" else f"{overload}_generator"
        if not hasattr(function.overloadpacket, name):
            raise CodeError(
                f"A module draws random numbers with {function}, which takes no generator; use "
                "torch.rand, torch.randn or dropout."
            )
        return getattr(function.overloadpacket, name)(*args, **options, generator=generator)


def _native_dropout(
    x: torch.Tensor, p: float, train: bool | None, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kept and scaled values, and which are kept."""
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = torch.empty_like(x).bernoulli_(1 - p, generator=generator)
    return x * kept / (1 - p) if p < 1 else torch.zeros_like(x), kept.bool()
