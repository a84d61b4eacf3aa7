"""Which photo is in which class, as a value: every change makes a new arrangement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anyshot.classifier.web.limits import RequestRefused

POOL = "pool"  # the target of photos that have no class


@dataclass(frozen=True)
class ClassGroup:
    """A class: the ids of its photos, of which the first ``used`` are learned from (None: all)."""

    name: str
    photos: tuple[str, ...] = ()
    used: int | None = None

    @property
    def support(self) -> tuple[str, ...]:
        """The photos that are learned from."""
        return self.photos[: self.used]


@dataclass(frozen=True)
class Arrangement:
    """Classes by id, photos without a class, and the visitor's choices.

    A *target* is the id of a class, or POOL. Photos are known by their ids.
    """

    groups: Mapping[str, ClassGroup] = field(default_factory=dict)
    pool: tuple[str, ...] = ()
    as_given: bool = False  #: new photos are as uneven as the classes; otherwise all are as common
    threshold: float | None = None  #: of the unknown score; None: the calibrated one
    confirmed: frozenset[tuple[str, str]] = frozenset()  #: photo and class of labels that are right

    def photos(self) -> Iterator[str]:
        """The ids of all photos."""
        for group in self.groups.values():
            yield from group.photos
        yield from self.pool

    def __contains__(self, photo: str) -> bool:
        return photo in self.pool or any(photo in g.photos for g in self.groups.values())

    def group(self, key: str) -> ClassGroup:
        """The class with this id."""
        if key not in self.groups:
            raise RequestRefused("This class does not exist any more; reload the page.", 404)
        return self.groups[key]

    def photos_of(self, target: str) -> tuple[str, ...]:
        """The photos of a class or of the pool."""
        return self.pool if target == POOL else self.group(target).photos

    def with_group(self, key: str, group: ClassGroup) -> Arrangement:
        """Add a class or replace it."""
        return replace(self, groups={**self.groups, key: group})

    def without_group(self, key: str) -> Arrangement:
        """Remove a class with its photos."""
        self.group(key)
        return replace(self, groups={k: g for k, g in self.groups.items() if k != key})

    def with_photos(self, photos: Sequence[str], target: str) -> Arrangement:
        """Add photos that are nowhere yet at the end of a target; all its photos are then used."""
        if target == POOL:
            return replace(self, pool=(*self.pool, *photos))
        group = self.group(target)
        return self.with_group(target, replace(group, photos=(*group.photos, *photos), used=None))

    def without_photos(self, photos: Collection[str]) -> Arrangement:
        """Remove photos; each must be somewhere. A class uses at most all photos it has left."""
        gone = set(photos)
        if not gone <= set(self.photos()):
            raise RequestRefused("This photo does not exist any more; reload the page.", 404)
        groups = {}
        for key, group in self.groups.items():
            left = tuple(photo for photo in group.photos if photo not in gone)
            used = group.used if group.used is not None and group.used < len(left) else None
            groups[key] = replace(group, photos=left, used=used)
        return replace(
            self, groups=groups, pool=tuple(photo for photo in self.pool if photo not in gone)
        )
