"""Limits of the page, and the error of a refused request."""

from __future__ import annotations

from dataclasses import dataclass

from anyshot.core.errors import ClassifierError


@dataclass(frozen=True)
class Limits:
    """The most that the page accepts.

    A photo takes 20 to 40 kB of memory once it is read. Its file is kept as well, for the project
    file, as long as the files of the visitor fit into ``file_megabytes``.
    """

    megabytes: int = 20  #: of one upload
    megapixels: int = 25  #: of one image; of formats that take less memory, more: uploads.FRUGAL
    pictures: int = 10_000  #: of one visitor
    file_megabytes: int = 1000  #: of the files that are kept for one visitor
    photo_megabytes: int = 4000  #: of the photos of all visitors, with the files that are kept
    classes: int = 50  #: of one visitor; the classifier was measured up to this number
    name: int = 60  #: characters of a class's name
    visitors: int = 20
    idle_hours: float = 6  #: after which the photos of a visitor are forgotten
    stall_seconds: float = 10  #: without a byte of a request
    request_seconds: float = 120  #: for the whole of a request

    @property
    def upload_bytes(self) -> int:
        """The largest size of one upload."""
        return self.megabytes * 1_000_000

    @property
    def memory_bytes(self) -> int:
        """The most that all uploads hold until they are read: one upload for each visitor."""
        return self.visitors * self.upload_bytes


class RequestRefused(ClassifierError):
    """A request that the page refuses; the page shows the message. ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
