"""The one family of errors that anyshot raises on purpose."""

from __future__ import annotations


class AnyshotError(Exception):
    """What was found, what was expected and what to do about it, in plain words.

    The command line prints the message as it stands and ends with exit code 1; any other exception is a bug.

    >>> raise AnyshotError("The folder 'cats' holds no images; expected root/class/*.png. Give the folder above it.")
    Traceback (most recent call last):
    anyshot.core.errors.AnyshotError: The folder 'cats' holds no images; expected root/class/*.png. Give the folder above it.
    """


class NotPreparedError(AnyshotError):
    """A known image set is not on this machine yet."""
