"""Backbones: each is a function (image size, channels) that returns a :class:`anyshot.Body`.

Imports ``core`` and ``models.network``.
"""

from anyshot.models.bodies.create import create_body

__all__ = ["create_body"]
