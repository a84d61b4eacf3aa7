"""Create a body by its name or import path."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.registry import BODIES
from anyshot.models.module_body import construct, module_body
from anyshot.models.network import Body

IMAGE_CHANNELS = 3


def create_body(name: str, image_size: tuple[int, int], channels: int | None = None) -> Body:
    """Create a backbone for images of a given size.

    Parameters
    ----------
    name : str
        A name in :data:`anyshot.BODIES` ("conv4", "resnet12") or an import path
        (``FILE.py:NAME``, ``MODULE:NAME``) of a function (image size, channels) -> Body, or of a
        subclass of ``nn.Module``; its constructor may have the arguments ``image_size`` and
        ``channels``.
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
    arguments = {"image_size": image_size} | ({} if channels is None else {"channels": channels})
    if isinstance(function, type) and issubclass(function, nn.Module):
        return _body_of_class(name, function, arguments)
    expected = (
        "expected a function (image_size, channels) that returns an anyshot.Body, or a module class"
    )
    if isinstance(function, nn.Module) or (
        isinstance(function, type) and not issubclass(function, Body)
    ):
        kind = "class" if isinstance(function, type) else "module"
        raise CodeError(f"{name!r} is a {kind}; {expected}.")
    try:
        inspect.signature(function).bind(*arguments.values())
    except (TypeError, ValueError) as error:
        raise CodeError(f"{name!r} cannot create a body ({error}); {expected}.") from error
    body = function(*arguments.values())
    if not isinstance(body, Body):
        raise CodeError(f"{name!r} returned {type(body).__name__}, not a body; {expected}.")
    return body


def _body_of_class(name: str, cls: type[nn.Module], arguments: dict[str, Any]) -> Body:
    """The body of a module class, which gets those of the arguments that its constructor names."""
    known = inspect.signature(cls).parameters
    given = {key: value for key, value in arguments.items() if key in known}
    if "channels" in arguments and "channels" not in known:
        raise CodeError(
            f"{name!r} has no argument channels; drop --channels, or add the argument to make an "
            "anyshot.Body of that width."
        )
    try:
        inspect.signature(cls).bind(**given)
    except TypeError as error:
        raise CodeError(
            f"{name!r} cannot create an anyshot.Body ({error}): the constructor of a module may "
            "have the arguments image_size and channels, and needs defaults for all others."
        ) from error
    create = functools.partial(cls, **given)
    try:
        module = construct(create, seed=0)
    except Exception as error:  # a constructor may raise anything
        raise CodeError(
            f"{name!r} cannot create an anyshot.Body: {type(error).__name__}: {error}."
        ) from error
    return module_body(module, arguments["image_size"], IMAGE_CHANNELS, create)
