"""Tasks and the seeded stream they come from: a task is a function of (seed, stream, index) and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.random import Rng, numpy_rng, torch_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.settings import TaskSettings, parse_shots
from anyshot.data.augment import augment, resolve_augmentations
from anyshot.data.image_set import ImageSet
from anyshot.data.shots import ShotRule


@dataclass(frozen=True)
class Task:
    """Labelled support images to learn from, query images to be tested on; labels are 0..way−1, never shared images."""

    support: Tensor  #: uint8 [N, height, width, 3], grouped by class
    support_labels: Tensor  #: int64 [N]
    query: Tensor  #: uint8 [M, height, width, 3]
    query_labels: Tensor  #: int64 [M]
    classes: tuple[str, ...] = ()  #: names, [way]
    imageset: str = ""  #: where the images are from
    seed: tuple[int | str, ...] = (
        0,
    )  #: (seed, stream, index), from which the task and its noise are made
    flip_invariant: bool = True  #: whether the mirror image of an image is still one of its class

    @property
    def way(self) -> int:
        """Number of classes C."""
        return int(self.support_labels.max()) + 1

    @property
    def shots(self) -> tuple[int, ...]:
        """Support images of each class, N_c."""
        return tuple(torch.bincount(self.support_labels, minlength=self.way).tolist())

    def __len__(self) -> int:
        return len(self.support_labels)

    def noise(self) -> torch.Generator:
        """A fresh generator for whatever is random in learning this task: always the same numbers."""
        seed, *names = self.seed
        return torch_rng(int(seed), *names, "noise")


@dataclass(frozen=True)
class TaskIndices:
    """Which images a task of a stream is made of; they are not read yet."""

    index: int
    imageset: ImageSet
    classes: np.ndarray  #: numbers in the set, [way]
    support: list[np.ndarray]  #: rows of the set, for each class
    query: list[np.ndarray]

    def __len__(self) -> int:
        return sum(map(len, self.support))


class TaskStream:
    """An endless stream of tasks over one or several image sets; any task of it can be had alone.

    ``run`` is how many tasks in a row come from one image set when sets are mixed in turn (the meta-batch). ``augment``
    names what is done to images (:mod:`anyshot.data.augment`), each time anew.

    >>> from anyshot.data import ImageSet
    >>> classes = {name: np.zeros((20, 32, 32, 3), np.uint8) for name in "abcdef"}
    >>> stream = TaskStream(ImageSet.from_arrays("tiny", classes, {"train": list("abcdef")}), "train")
    >>> len(stream.task(7).query)
    75
    """

    def __init__(
        self,
        imagesets: ImageSet | Sequence[ImageSet],
        split: str,
        settings: TaskSettings | None = None,
        seed: int = 0,
        mixing: str = "random",
        run: int = 1,
        augment: Sequence[str] = (),
    ) -> None:
        self.imagesets = [imagesets] if isinstance(imagesets, ImageSet) else list(imagesets)
        self.settings = settings or TaskSettings()
        self.split, self.seed, self.mixing, self.run, self.augment = (
            split,
            seed,
            mixing,
            run,
            augment,
        )
        rule, self.least, self.most = parse_shots(self.settings.shots)
        self.draw_shots: ShotRule = SHOT_RULES[rule]
        for imageset in self.imagesets:
            self._check(imageset)

    def _check(self, imageset: ImageSet) -> None:
        classes = imageset.splits.get(self.split, ())
        if len(classes) < self.settings.way:
            there = ", ".join(
                f"{len(members)} in {split}" for split, members in imageset.splits.items()
            )
            raise AnyshotError(
                f"{imageset.name} has {len(classes)} classes in its {self.split} split, but a task needs "
                f"{self.settings.way}; lower the way or choose another split or image set (its classes: {there})."
            )
        small = [imageset.classes[c] for c in classes if imageset.counts[c] < 2]
        if small:
            raise AnyshotError(
                f"{imageset.name}: {len(small)} classes of the {self.split} split have fewer than two images (for "
                f"instance {small[0]!r}); a class needs one to learn from and one to be tested on."
            )

    def class_names(self) -> tuple[str, ...]:
        """The classes that tasks are made of."""
        return tuple(i.classes[c] for i in self.imagesets for c in i.splits[self.split])

    def class_sizes(self, size: int, wanted: int) -> tuple[int, int]:
        """Support and query images of a class of ``size`` images; a small one keeps its query images."""
        support = min(wanted, max(1, size - self.settings.query))
        return support, min(self.settings.query, size - support)

    def size_warnings(self) -> list[str]:
        """What the classes do not allow: a sentence for each image set that has too few images for the settings."""
        return [
            sentence for imageset in self.imagesets if (sentence := self._size_warning(imageset))
        ]

    def _size_warning(self, imageset: ImageSet) -> str:
        s, sizes = self.settings, imageset.counts[list(imageset.splits[self.split])]
        small = sizes[sizes < self.most + s.query]
        if not small.size:
            return ""
        ends = sorted({int(small.min()), int(small.max())})
        given = [(size, *self.class_sizes(size, self.most)) for size in ends]
        each = [
            f"one of {size} images gives at most {n} support and {m} query images"
            for size, n, m in given
        ]
        return (
            f"{imageset.name}: {small.size} of {sizes.size} {self.split} classes are too small for {s.shots} beside "
            f"{s.query} query images: {', '.join(each)}."
        )

    def task(self, index: int) -> Task:
        """The stream's task number ``index``."""
        return self.load_task(self.sample_indices(index))

    def sample_indices(self, index: int) -> TaskIndices:
        """Which images the task number ``index`` is made of."""
        rng, s = numpy_rng(self.seed, self.split, index), self.settings
        imageset = self.imagesets[
            (index // self.run) % len(self.imagesets)
            if self.mixing == "turn"
            else int(rng.integers(len(self.imagesets)))
        ]
        classes = rng.permutation(np.asarray(imageset.splits[self.split]))[: s.way]
        shots = self.draw_shots(rng, s.way, self.least, self.most)
        support, query = [], []
        for c, wanted in zip(classes, shots, strict=True):
            size = int(imageset.counts[c])
            n, m = self.class_sizes(size, int(wanted))
            chosen = imageset.starts[c] + rng.choice(size, n + m, replace=False)
            support.append(chosen[:n])
            query.append(chosen[n:])
        return TaskIndices(index, imageset, classes, support, query)

    def load_task(self, draw: TaskIndices) -> Task:
        """The task of these images, read and augmented."""
        name, imageset = (self.seed, self.split, draw.index), draw.imageset
        how, rng = resolve_augmentations(self.augment, imageset), numpy_rng(*name, "augment")
        return Task(
            *_gather(imageset, draw.support, how, rng),
            *_gather(imageset, draw.query, how, rng),
            classes=tuple(imageset.classes[c] for c in draw.classes),
            imageset=imageset.name,
            seed=name,
            flip_invariant=imageset.flip_invariant,
        )

    def __iter__(self) -> Iterator[Task]:
        index = 0
        while True:
            yield self.task(index)
            index += 1


def _gather(
    imageset: ImageSet, rows: list[np.ndarray], how: Sequence[str], rng: Rng
) -> tuple[Tensor, Tensor]:
    images = imageset.images[np.concatenate(rows)]  # a copy: the memory map stays untouched
    labels = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(r) for r in rows]))
    return torch.from_numpy(augment(images, how, rng)), labels
