"""The classes and photos of one visitor, and how they change."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.state import ClassGroup, workspace_state
from anyshot.classifier.web.uploads import Photo, UploadReader

POOL = "pool"  # the target of photos that have no class


class Workspace:
    """Classes and photos; every change happens completely or is refused.

    A *target* is the id of a class, or POOL.
    """

    def __init__(self, reader: UploadReader, limits: Limits) -> None:
        self.reader = reader
        self.limits = limits
        self.lock = threading.RLock()
        self.groups: dict[str, ClassGroup] = {}
        self.pool: dict[str, Photo] = {}
        self._state: dict[str, Any] | None = None

    # ---------- changes
    def add_class(self, name: str) -> None:
        """Add a class without photos."""
        with self.lock:
            name = self._check_name(name)
            if len(self.groups) >= self.limits.classes:
                raise RequestRefused(
                    f"There are {len(self.groups)} classes, the most for one page; "
                    "remove one first."
                )
            self.groups[secrets.token_urlsafe(6)] = ClassGroup(name)
            self._state = None

    def rename_class(self, key: str, name: str) -> None:
        """Give a class another name."""
        with self.lock:
            group = self._group(key)
            group.name = self._check_name(name, current=group)
            self._state = None

    def use_photos(self, key: str, count: int) -> None:
        """Learn only from the first ``count`` photos of a class."""
        with self.lock:
            group = self._group(key)
            if not 1 <= count <= len(group.photos):
                raise RequestRefused(
                    f"{group.name} has {len(group.photos)} photos; {count} of them cannot be used."
                )
            group.used = count
            self._discard_state()

    def remove_class(self, key: str) -> None:
        """Remove a class and its photos."""
        with self.lock:
            self._group(key)
            del self.groups[key]
            self._state = None

    def add_photo(self, name: str, data: bytes, target: str) -> None:
        """Read an upload and add it to a target."""
        self.check_room(target)
        photo = self.reader.read(name, data, self.limits)  # takes time, so without the lock
        with self.lock:
            self.check_room(target)
            self._put(photo, target)

    def check_room(self, target: str) -> None:
        """Refuse a photo that would not fit."""
        with self.lock:
            self._photos_of(target)
            count = len(self.pool) + sum(len(group.photos) for group in self.groups.values())
            if count >= self.limits.pictures:
                raise RequestRefused(
                    f"There are {count} photos, the most for one page; remove some first.", 409
                )

    def move_photo(self, key: str, target: str) -> None:
        """Move a photo to a target."""
        with self.lock:
            self._photos_of(target)  # refuses an unknown target before the photo is taken
            self._put(self._photos_with(key).pop(key), target)

    def remove_photo(self, key: str) -> None:
        """Remove a photo."""
        with self.lock:
            del self._photos_with(key)[key]
            self._discard_state()

    def photo(self, key: str) -> Photo:
        """Return the photo with this id."""
        with self.lock:
            return self._photos_with(key)[key]

    def _check_name(self, name: str, current: ClassGroup | None = None) -> str:
        name = " ".join(name.split())
        if not name or len(name) > self.limits.name:
            raise RequestRefused(
                f"A class name has 1 to {self.limits.name} characters; this one has {len(name)}."
            )
        others = [group.name for group in self.groups.values() if group is not current]
        if name.casefold() in map(str.casefold, others):
            raise RequestRefused(f"There is already a class {name}; choose another name.")
        return name

    def _group(self, key: str) -> ClassGroup:
        if key not in self.groups:
            raise RequestRefused("This class does not exist any more; reload the page.", 404)
        return self.groups[key]

    def _photos_of(self, target: str) -> dict[str, Photo]:
        return self.pool if target == POOL else self._group(target).photos

    def _photos_with(self, key: str) -> dict[str, Photo]:
        """The photos of the class, or the pool, that holds this photo."""
        for photos in (self.pool, *(group.photos for group in self.groups.values())):
            if key in photos:
                return photos
        raise RequestRefused("This photo does not exist any more; reload the page.", 404)

    def _put(self, photo: Photo, target: str) -> None:
        self._photos_of(target)[photo.id] = photo
        if target != POOL:
            self.groups[target].used = None  # a photo that was just added is learned from
        self._discard_state()

    def _discard_state(self) -> None:
        """Compute the state anew when it is next needed; a class uses at most all its photos."""
        for group in self.groups.values():
            if group.used is not None and group.used >= len(group.photos):
                group.used = None
        self._state = None

    # ---------- answers
    def state(self) -> dict[str, Any]:
        """The classes, photos and answers, see :func:`workspace_state`."""
        with self.lock:
            if self._state is None:
                self._state = workspace_state(self.groups, list(self.pool.values()), self.reader)
            return self._state
