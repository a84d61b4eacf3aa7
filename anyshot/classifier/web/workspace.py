"""The classes and photos of one visitor, how they change, and how changes are undone."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyshot.classifier.web.arrangement import POOL, Arrangement, ClassGroup
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.memory import PhotoMemory
from anyshot.classifier.web.state import Answers
from anyshot.classifier.web.uploads import Photo, UploadReader
from anyshot.core.text import readable

STEPS = 30  # changes that can be undone


@dataclass(frozen=True)
class Step:
    """An arrangement before a change, and what the change did."""

    before: Arrangement
    what: str
    batch: str


class Workspace:
    """Classes and photos; every change happens completely or is refused.

    Changes of the same `batch`, one after another, are undone together: the uploads of one drop, or
    the positions of a slider.
    """

    def __init__(
        self, reader: UploadReader, limits: Limits, memory: PhotoMemory | None = None
    ) -> None:
        self.reader = reader
        self.limits = limits
        self.memory = memory or PhotoMemory(limits)
        self.lock = threading.RLock()
        self.now = Arrangement()
        self.past: list[Step] = []
        self.future: list[Step] = []
        self.photos: dict[str, Photo] = {}  # also those that undoing brings back
        self.file_bytes = 0  # of the files of these photos that are kept
        self.answers = Answers(reader)
        self._state: dict[str, Any] | None = None

    @property
    def groups(self) -> Mapping[str, ClassGroup]:
        """The classes by id."""
        return self.now.groups

    @property
    def pool(self) -> tuple[str, ...]:
        """The ids of photos without a class."""
        return self.now.pool

    # ---------- changes of classes
    def add_class(self, name: str, batch: str = "") -> None:
        """Add a class without photos."""
        with self.lock:
            name = self._check_name(name)
            if len(self.groups) >= self.limits.classes:
                raise RequestRefused(
                    f"There are {len(self.groups)} classes, the most for one page; "
                    "remove one first."
                )
            key = secrets.token_urlsafe(6)
            what = "add classes and photos" if batch else f"add {name}"
            self._change(what, self.now.with_group(key, ClassGroup(name)), batch)

    def rename_class(self, key: str, name: str) -> None:
        """Give a class another name."""
        with self.lock:
            group = self.now.group(key)
            name = self._check_name(name, current=group)
            self._change(
                f"rename {group.name}", self.now.with_group(key, replace(group, name=name))
            )

    def use_photos(self, key: str, count: int, batch: str = "") -> None:
        """Learn only from the first ``count`` photos of a class."""
        with self.lock:
            group = self.now.group(key)
            have = len(group.photos)
            if not 1 <= count <= have:
                raise RequestRefused(
                    f"{group.name} has {have} photos; {count} of them cannot be used."
                )
            group = replace(group, used=count if count < have else None)
            what = f"learn from fewer photos of {group.name}"
            self._change(what, self.now.with_group(key, group), batch or f"use {key}")

    def remove_class(self, key: str) -> None:
        """Remove a class and its photos."""
        with self.lock:
            self._change(f"remove {self.now.group(key).name}", self.now.without_group(key))

    def start_project(
        self, names: Sequence[str], as_given: bool, threshold: float | None, batch: str
    ) -> None:
        """Replace everything by classes without photos; uploads of the same batch follow."""
        with self.lock:
            other = Workspace(self.reader, self.limits, self.memory)
            other.choose_prior(as_given)
            if threshold is not None:
                other.choose_threshold(threshold)
            for name in names:
                other.add_class(name)
            self._change("open the project", other.now, batch)

    # ---------- changes of photos
    def add_photo(
        self, name: str, data: bytes, target: str, batch: str = "", confirmed: bool = False
    ) -> None:
        """Read an upload and add it to a target; is its label right even if it looks wrong?"""
        self.check_room(target)
        photo = self.reader.read(name, data, self.limits)  # takes time, so without the lock
        with self.lock:
            self.check_room(target)
            if self.file_bytes + len(data) <= 1_000_000 * self.limits.file_megabytes:
                photo = replace(photo, file=data)
            self.memory.hold(photo)
            self.photos[photo.id] = photo
            self.file_bytes += len(photo.file)
            after = self.now.with_photos([photo.id], target)
            if confirmed:
                after = replace(after, confirmed=after.confirmed | {(photo.id, target)})
            self._change("add photos", after, batch)

    def check_room(self, target: str) -> None:
        """Refuse a photo that would not fit. To make room, the oldest changes are forgotten."""
        with self.lock:
            self.now.photos_of(target)
            if len(self.photos) < self.limits.pictures:
                return
            shown = sum(1 for _ in self.now.photos())
            while len(self.photos) >= self.limits.pictures and len(self.photos) > shown:
                (self.past or self.future).pop(0)
                self._forget_photos()
            if len(self.photos) >= self.limits.pictures:
                raise RequestRefused(
                    f"There are {len(self.photos)} photos, the most for one page; "
                    "remove some first.",
                    409,
                )

    def move_photos(self, photos: Sequence[str], target: str) -> None:
        """Move photos to a target."""
        with self.lock:
            self.now.photos_of(target)  # refuses an unknown target first
            photos = list(dict.fromkeys(photos))
            moved = self.now.without_photos(photos).with_photos(photos, target)
            what = (
                f"move {_photos(photos)}"
                if target == POOL
                else (f"put {_photos(photos)} into {self.groups[target].name}")
            )
            self._change(what, moved)

    def remove_photos(self, photos: Collection[str]) -> None:
        """Remove photos."""
        with self.lock:
            self._change(f"remove {_photos(photos)}", self.now.without_photos(photos))

    def photo(self, key: str) -> Photo:
        """Return the photo with this id; a removed one exists only for `undo`."""
        with self.lock:
            if key not in self.now:
                raise RequestRefused("This photo does not exist any more; reload the page.", 404)
            return self.photos[key]

    # ---------- choices
    def choose_prior(self, as_given: bool) -> None:
        """Whether new photos are as uneven as the classes, or all classes are as common."""
        with self.lock:
            self._change("how common the classes are", replace(self.now, as_given=as_given))

    def choose_threshold(self, threshold: float) -> None:
        """From which unknown score on a photo belongs to none of the classes."""
        with self.lock:
            if not 0 <= threshold <= 1:
                raise RequestRefused(
                    f"The threshold is {threshold}; expected a number from 0 to 1."
                )
            after = replace(self.now, threshold=threshold)
            self._change("what belongs to none of the classes", after, "threshold")

    def confirm_labels(self, photos: Sequence[str]) -> None:
        """These labels are right although they look wrong."""
        with self.lock:
            right = {(p, key) for key, g in self.groups.items() for p in g.photos if p in photos}
            after = replace(self.now, confirmed=self.now.confirmed | right)
            self._change(f"keep the label of {_photos(photos)}", after)

    # ---------- undo
    def undo(self) -> None:
        """Take back the last change."""
        self._step(self.past, self.future, "undo")

    def redo(self) -> None:
        """Make the last change again that was taken back."""
        self._step(self.future, self.past, "redo")

    def _step(self, source: list[Step], target: list[Step], verb: str) -> None:
        with self.lock:
            if not source:
                raise RequestRefused(f"There is nothing to {verb}.", 409)
            step = source.pop()
            target.append(replace(step, before=self.now, batch=""))
            self.now = step.before
            self._state = None

    def _change(self, what: str, after: Arrangement, batch: str = "") -> None:
        if not (batch and self.past and self.past[-1].batch == batch):
            self.past.append(Step(self.now, what, batch))
        self.now = after
        self._state = None
        if self.future or len(self.past) > STEPS:
            self.future.clear()
            del self.past[:-STEPS]
            self._forget_photos()

    def _forget_photos(self) -> None:
        """Forget the photos that are in no arrangement any more."""
        arrangements = [self.now, *(step.before for step in (*self.past, *self.future))]
        needed = {photo for arrangement in arrangements for photo in arrangement.photos()}
        self.photos = {key: photo for key, photo in self.photos.items() if key in needed}
        self.file_bytes = sum(len(photo.file) for photo in self.photos.values())

    def _check_name(self, name: str, current: ClassGroup | None = None) -> str:
        name = " ".join(name.split())
        if not name or len(name) > self.limits.name:
            raise RequestRefused(
                f"A class name has 1 to {self.limits.name} characters; "
                f"{readable(name)!r} has {len(name)}."
            )
        others = [group.name for group in self.groups.values() if group is not current]
        if name.casefold() in map(str.casefold, others):
            raise RequestRefused(f"There is already a class {name}; choose another name.")
        return name

    # ---------- answers
    def state(self) -> dict[str, Any]:
        """The classes, photos and answers, and what can be undone."""
        with self.lock:
            if self._state is None:
                self._state = self.answers.state(self.now, self.photos) | {
                    "undo": self.past[-1].what if self.past else "",
                    "redo": self.future[-1].what if self.future else "",
                }
            return self._state

    def answers_csv(self) -> bytes:
        """The answers as a CSV file."""
        with self.lock:
            return self.answers.csv(self.now, self.photos)

    def tradeoff(self) -> dict[str, Any]:
        """What thresholds of the unknown score cost and find."""
        with self.lock:
            learned = self.answers.learn(self.now, self.photos)
        if learned is None:
            raise RequestRefused("There are no answers yet.", 409)
        return learned.tradeoff()  # takes time, so without the lock

    def snapshot(self) -> tuple[Arrangement, dict[str, Photo]]:
        """The arrangement and the photos, which later changes do not touch."""
        with self.lock:
            return self.now, dict(self.photos)


def _photos(photos: Iterable[str]) -> str:
    count = len(list(photos))
    return f"{count} photo{'s' * (count != 1)}"
