"""Create a body by its name or import path."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from torch import nn

from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.registry import BODIES
from anyshot.models.network import Body


def create_body(name: str, image_size: tuple[int, int], channels: int | None = None) -> Body:
    """Create a backbone for images of a given size.

    Parameters
    ----------
    name : str
        A name in :data:`anyshot.BODIES` ("conv4", "resnet12") or an import path
        (``FILE.py:NAME``, ``MODULE:NAME``) of a function (image size, channels) -> Body.
    image_size : (int, int)
        Height and width in pixels.
    channels : int, optional
        Channels of the first layer. Default: that of the function (32 for conv4, 64 for resnet12).

    Returns
    -------
    Body

    Raises
    ------
    SettingsError
        If there is no body of that name, or the image size is not a pair of positive numbers.
    CodeError
        If the object is not such a function.

    Examples
    --------
    >>> [layer.channels for layer in create_body("conv4", (32, 32), channels=64).layers]
    [64, 64, 64, 64]
    """
    if not (isinstance(image_size, Sequence) and len(image_size) == 2 and min(image_size) > 0):
        raise SettingsError(
            f"The image size is {image_size!r}; expected (height, width) in pixels."
        )
    function = BODIES[name]
    arguments = (image_size,) if channels is None else (image_size, channels)
    expected = "expected a function (image_size, channels) that returns an anyshot.Body"
    if isinstance(function, nn.Module) or (
        isinstance(function, type) and not issubclass(function, Body)
    ):
        kind = "class" if isinstance(function, type) else "module"
        raise CodeError(f"{name!r} is a {kind}; {expected}.")
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise CodeError(f"{name!r} cannot create a body ({error}); {expected}.") from error
    body = function(*arguments)
    if not isinstance(body, Body):
        raise CodeError(f"{name!r} returned {type(body).__name__}, not a body; {expected}.")
    return body
