"""Errors that a user can act on: one base class and one family for each kind of cause."""

from __future__ import annotations

import errno


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


#: parts of the messages of torch's RuntimeErrors for exhausted memory, on the CPU and on a GPU
OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "out of memory", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory is exhausted.

    Python and NumPy raise MemoryError, torch a RuntimeError, the operating system ENOMEM.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in OUT_OF_MEMORY)
