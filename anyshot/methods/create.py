"""Create a method from its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.options import parse_method_options
from anyshot.core.random import torch_rng
from anyshot.core.registry import METHODS
from anyshot.core.settings import MethodSettings
from anyshot.methods.base import Method
from anyshot.models.bodies import create_body


def create_method(
    settings: MethodSettings,
    image_size: tuple[int, int] = (32, 32),
    seed: int = 0,
    way: int | None = None,
) -> Method:
    """Create an untrained method.

    Parameters
    ----------
    settings : MethodSettings
        Name of the method (one of ``list(METHODS)``, ``FILE.py:NAME`` or ``MODULE:NAME``), body and
        inner loop.
    image_size : tuple of int
        Height and width of the images, in pixels.
    seed : int
        Seed of the initial parameters.
    way : int, optional
        Classes of a training task, which the method finds in ``self.way``. MAML with a learned head
        needs it.

    Returns
    -------
    Method
        The method with float32 parameters on the CPU.

    Raises
    ------
    SettingsError
        If ``settings`` is not a ``MethodSettings``, or the method does not exist.
    CodeError
        If the name leads to an object that is not a subclass of ``Method``, or the body has random
        features in tests, normalises query images that must not influence each other, or has no
        second derivative where the method needs it.

    Examples
    --------
    >>> method = create_method(MethodSettings(name="maml"), image_size=(28, 28))
    >>> method.name, method.body.image_size
    ('maml', (28, 28))
    """
    if not isinstance(settings, MethodSettings):
        raise SettingsError(
            f"create_method needs MethodSettings, but got {settings!r}; "
            "write for example create_method(MethodSettings(name='maml'))."
        )
    cls = method_class(settings)
    with _float32_by_default():
        body = create_body(settings.body, image_size, settings.channels)
        method = cls.__new__(cls)
        method.way = way  # here, so that constructors of subclasses need no further argument
        method.__init__(settings, body, torch_rng(seed, "start"))  # type: ignore[misc]
        return method


def method_class(settings: MethodSettings) -> type[Method]:
    """Find the class of the method and check the method's own options."""
    cls = METHODS[settings.name]
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise CodeError(
            f"{settings.name!r} is not a method; it must be a subclass of anyshot.Method."
        )
    parse_method_options(cls.Options, settings.options)
    return cls


@contextmanager
def _float32_by_default() -> Iterator[None]:
    """Create parameters in float32, whatever default dtype the program has set."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
