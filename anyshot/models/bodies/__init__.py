"""The bodies: what turns images into features, each a function of the image size that gives a :class:`anyshot.Body`."""

from __future__ import annotations

from anyshot.core.errors import AnyshotError
from anyshot.core.registry import BODIES
from anyshot.models.network import Body


def create_body(name: str, image_size: tuple[int, int], channels: int | None = None) -> Body:
    """A body by name, with its own number of channels unless another is given.

    >>> [unit.channels for unit in create_body("conv4", (32, 32), channels=64).units]
    [64, 64, 64, 64]
    """
    make = BODIES[name]
    body = make(image_size) if channels is None else make(image_size, channels)
    if not isinstance(body, Body):
        raise AnyshotError(
            f"{name!r} is no body; expected a function of (image size, channels) that gives a Body."
        )
    return body
