"""Errors that a user can act on: one base class and one family for each kind of cause."""

from __future__ import annotations


class AnyshotError(Exception):
    """Base class of all errors that a user can act on.

    The message says what was found, what was expected and what to do. The command line prints it
    and exits with code 1. Any other exception is a bug.

    >>> raise AnyshotError("'cats' has no images; expected cats/CLASS/*.png.")
    Traceback (most recent call last):
    anyshot.core.errors.AnyshotError: 'cats' has no images; expected cats/CLASS/*.png.
    """


class SettingsError(AnyshotError):
    """A setting, option or argument has a value that is not allowed."""


class DataError(AnyshotError):
    """An image, an image set or a data set file is missing, damaged or unsuitable."""


class NotPreparedError(DataError):
    """A published image set is not prepared on this machine yet."""


class RunError(AnyshotError):
    """A run folder, checkpoint or weights file is missing, damaged or does not fit."""


class CodeError(AnyshotError):
    """User code (a method, body, statistic or metric) cannot be loaded or used."""


class FileError(AnyshotError):
    """A file or folder cannot be read, written or locked."""


class ClassifierError(AnyshotError):
    """The classifier was given photos, labels or features that it cannot use."""
