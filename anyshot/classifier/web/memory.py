"""How much memory the photos of all visitors take."""

from __future__ import annotations

import threading
import weakref

from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.uploads import Photo


class PhotoMemory:
    """Counts the bytes of photos from `hold` until nothing refers to a photo any more.

    A photo that was removed counts as long as the removal can be undone.
    """

    def __init__(self, limits: Limits) -> None:
        self.most = 1_000_000 * limits.photo_megabytes
        self.held = 0
        self.lock = threading.RLock()  # photos may be released while the lock is held

    def hold(self, photo: Photo) -> None:
        """Count a photo, or refuse it if the photos of all visitors would take too much."""
        with self.lock:
            if self.held + photo.size > self.most:
                raise RequestRefused(
                    f"The photos of all visitors take {self.held // 1_000_000} MB, the most for "
                    "this page; remove some, or try again later.",
                    409,
                )
            self.held += photo.size
        weakref.finalize(photo, self._release, photo.size).atexit = False

    def _release(self, size: int) -> None:
        with self.lock:
            self.held -= size
