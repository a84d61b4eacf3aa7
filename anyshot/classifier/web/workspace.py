"""A visitor's classes and pictures, and how they change."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from anyshot.classifier.web.limits import Limits, Refused
from anyshot.classifier.web.state import ClassGroup, workspace_state
from anyshot.classifier.web.uploads import Photo, UploadReader

POOL = "pool"  # the place of pictures that have no class yet


class Workspace:
    """Every change is made at once or refused with a sentence; `state` is what the page shows, as JSON."""

    def __init__(self, darkroom: UploadReader, limits: Limits) -> None:
        self.darkroom, self.limits = darkroom, limits
        self.lock = threading.RLock()
        self.groups: dict[str, ClassGroup] = {}
        self.pool: dict[str, Photo] = {}
        self._state: dict[str, Any] | None = None

    # ------------------------------------------------------------------------------------------------ changes
    def add_class(self, name: str) -> None:
        """A new class without pictures."""
        with self.lock:
            name = self._name(name)
            if len(self.groups) >= self.limits.classes:
                raise Refused(
                    f"There are {len(self.groups)} classes already, the most for one page; remove one first."
                )
            self.groups[secrets.token_urlsafe(6)] = ClassGroup(name)
            self._state = None

    def rename_class(self, key: str, name: str) -> None:
        """Another name for a class."""
        with self.lock:
            group = self._group(key)
            group.name = self._name(name, but=group)
            self._state = None

    def use(self, key: str, count: int) -> None:
        """Learn from a class's first `count` pictures only."""
        with self.lock:
            group = self._group(key)
            if not 1 <= count <= len(group.photos):
                raise Refused(
                    f"{group.name} has {len(group.photos)} pictures, so it cannot be learned from {count}."
                )
            group.used = count
            self._tidy()

    def remove_class(self, key: str) -> None:
        """A class and its pictures."""
        with self.lock:
            self._group(key)
            del self.groups[key]
            self._state = None

    def add_photo(self, name: str, data: bytes, place: str) -> None:
        """An upload into a class, or into the pool."""
        self.check_room(place)
        photo = self.darkroom.read(name, data)  # takes time: others may work meanwhile
        with self.lock:
            self.check_room(place)
            self._put(photo, place)

    def check_room(self, place: str) -> None:
        """Refuse what would not fit, before it is read."""
        with self.lock:
            self._place(place)
            there = len(self.pool) + sum(len(group.photos) for group in self.groups.values())
            if there >= self.limits.pictures:
                raise Refused(
                    f"There are {there} pictures already, the most for one page; remove some first.",
                    409,
                )

    def move_photo(self, key: str, place: str) -> None:
        """Into a class, or back into the pool."""
        with self.lock:
            self._place(place)  # refused before anything is moved
            self._put(self._home(key).pop(key), place)

    def remove_photo(self, key: str) -> None:
        """Forget a picture."""
        with self.lock:
            del self._home(key)[key]
            self._tidy()

    def photo(self, key: str) -> Photo:
        """A picture by its key."""
        with self.lock:
            return self._home(key)[key]

    def _name(self, name: str, but: ClassGroup | None = None) -> str:
        name = " ".join(name.split())
        if not name or len(name) > self.limits.name:
            raise Refused(
                f"The name of a class has 1 to {self.limits.name} characters; this one has {len(name)}."
            )
        if name.casefold() in {g.name.casefold() for g in self.groups.values() if g is not but}:
            raise Refused(f"There is a class {name} already; choose another name.")
        return name

    def _group(self, key: str) -> ClassGroup:
        if key not in self.groups:
            raise Refused("That class is not here any more; reload the page.", 404)
        return self.groups[key]

    def _place(self, place: str) -> dict[str, Photo]:
        return self.pool if place == POOL else self._group(place).photos

    def _home(self, key: str) -> dict[str, Photo]:
        for photos in (self.pool, *(group.photos for group in self.groups.values())):
            if key in photos:
                return photos
        raise Refused("That picture is not here any more; reload the page.", 404)

    def _put(self, photo: Photo, place: str) -> None:
        self._place(place)[photo.id] = photo
        if place != POOL:
            self.groups[place].used = None  # what is added to a class is learned from
        self._tidy()

    def _tidy(self) -> None:
        for group in self.groups.values():
            if group.used is not None and group.used >= len(group.photos):
                group.used = None
        self._state = None

    # ------------------------------------------------------------------------------------------------ answers
    def state(self) -> dict[str, Any]:
        """Classes with their evidence, pictures with their probabilities, what to label next, accuracy to expect."""
        with self.lock:
            if self._state is None:
                self._state = workspace_state(
                    self.groups, list(self.pool.values()), self.darkroom.classifier()
                )
            return self._state
