"""Few-shot tasks and the seeded streams that draw them.

A task depends on (seed, split, index) alone. It is the same in any process, in any order of calls
and on any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from anyshot.core.code_loading import check_call
from anyshot.core.errors import DataError, SettingsError
from anyshot.core.options import suggestion
from anyshot.core.random import Rng, numpy_rng, torch_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.settings import MIXINGS, TaskSettings
from anyshot.core.task_settings import parse_shots
from anyshot.data.augment import augment, check_augmentations, resolve_augmentations
from anyshot.data.image_set import ImageSet
from anyshot.data.shots import ShotRule, draw_sizes
from anyshot.data.storage import canonical_split
from anyshot.data.unfamiliar import draw_transformation

UNFAMILIAR_SHARE = 0.5  #: of the tasks, if the augmentation "unfamiliar" is used


@dataclass(frozen=True)
class Task:
    """A classification task: labelled support images to learn from, query images to test on.

    No image is in both sets.

    Parameters
    ----------
    support : Tensor, uint8 [N, height, width, 3]
        Support images, grouped by class.
    support_labels : Tensor, int64 [N]
        Their labels, 0 to way - 1.
    query : Tensor, uint8 [M, height, width, 3]
        Query images.
    query_labels : Tensor, int64 [M]
        Their labels.
    classes : tuple of str
        Class names, [way].
    imageset : str
        Name of the image set.
    seed : tuple
        (seed, split, index), from which the task and its noise are drawn.
    flip_invariant : bool
        Whether a mirrored image still belongs to its class.

    Examples
    --------
    >>> images = torch.zeros(3, 8, 8, 3, dtype=torch.uint8)
    >>> task = Task(images, torch.tensor([0, 0, 1]), images[:2], torch.tensor([0, 1]))
    >>> task.way, task.shots, len(task)
    (2, (2, 1), 3)
    """

    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor
    classes: tuple[str, ...] = ()
    imageset: str = ""
    seed: tuple[int | str, ...] = (0,)
    flip_invariant: bool = True

    @property
    def way(self) -> int:
        """Number of classes C."""
        return int(self.support_labels.max()) + 1

    @property
    def shots(self) -> tuple[int, ...]:
        """Number of support images N_c of each class, [way]."""
        return tuple(torch.bincount(self.support_labels, minlength=self.way).tolist())

    def __len__(self) -> int:
        return len(self.support_labels)

    def noise(self, purpose: str = "noise") -> torch.Generator:
        """Return a new generator for learning this task; it always gives the same numbers.

        Generators for different purposes give different numbers.
        """
        seed, *names = self.seed
        return torch_rng(int(seed), *names, purpose)


@dataclass(frozen=True)
class TaskIndices:
    """The images of a task by index, before they are read."""

    index: int
    imageset: ImageSet
    classes: np.ndarray  #: class indices of the set, [way]
    support: list[np.ndarray]  #: image indices of the set, one array per class
    query: list[np.ndarray]

    def __len__(self) -> int:
        return sum(map(len, self.support))


class TaskStream(Dataset[Task]):
    """Tasks of one or several image sets, as a map-style PyTorch data set.

    `stream[index]` and `stream.task(index)` draw the same task each time. Without `tasks` the
    stream is endless: it can be indexed and iterated, but has no length.

    Parameters
    ----------
    imagesets : ImageSet or sequence of ImageSet
        Images to draw from.
    split : {"train", "validation", "val", "test"}
        Split whose classes are drawn.
    settings : TaskSettings, optional
        Way, shots and query images. Default: 5-way, any-shot:1-50, 15 query images.
    seed : int
        Seed of the stream.
    mixing : {"random", "turn"}
        With several image sets: draw one at random for each task, or take turns.
    tasks_per_set : int
        With `mixing="turn"`: number of consecutive tasks from one image set (the meta-batch size).
    augment : sequence of str
        Augmentations (see :mod:`anyshot.data.augment`).
    tasks : int, optional
        Number of tasks, `len(stream)`.

    Raises
    ------
    DataError
        The split has fewer classes than the way, or a class has fewer than two images.
    SettingsError
        There is no such mixing or augmentation, or the settings or the seed are of another type.

    Examples
    --------
    >>> classes = {name: np.zeros((20, 32, 32, 3), np.uint8) for name in "abcdef"}
    >>> images = ImageSet.from_arrays("tiny", classes, {"train": list("abcdef")})
    >>> stream = TaskStream(images, "train", tasks=100)
    >>> stream[7].query.shape
    torch.Size([75, 32, 32, 3])

    A data loader reads tasks in worker processes. Tasks have different sizes, so that they are
    returned one by one or collected in lists:

    >>> from torch.utils.data import DataLoader
    >>> [len(batch) for batch in DataLoader(stream, batch_size=40, collate_fn=list)]
    [40, 40, 20]
    """

    def __init__(
        self,
        imagesets: ImageSet | Sequence[ImageSet],
        split: str,
        settings: TaskSettings | None = None,
        seed: int = 0,
        mixing: str = "random",
        tasks_per_set: int = 1,
        augment: Sequence[str] = (),
        tasks: int | None = None,
    ) -> None:
        if tasks is not None and tasks < 1:
            raise SettingsError(f"A stream of {tasks} tasks is empty; give tasks=1 or more.")
        self.imagesets = [imagesets] if isinstance(imagesets, ImageSet) else list(imagesets)
        wrong = [one for one in self.imagesets if not isinstance(one, ImageSet)]
        if wrong or not self.imagesets:
            given = type(wrong[0]).__name__ if wrong else "an empty list"
            raise DataError(f"A TaskStream needs image sets, not {given}; see anyshot.open_images.")
        self.split = canonical_split(split)
        self.settings = settings or TaskSettings()
        if not isinstance(self.settings, TaskSettings):
            raise SettingsError(
                f"The task settings are {settings!r}; give anyshot.TaskSettings(…)."
            )
        if mixing not in MIXINGS:
            raise SettingsError(f"There is no mixing {mixing!r}{suggestion(mixing, MIXINGS)}")
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise SettingsError(f"The seed is {seed!r}; expected an integer of at least 0.")
        check_augmentations(augment)
        self.seed = seed
        self.mixing = mixing
        self.tasks_per_set = tasks_per_set
        self.augment = augment
        self.tasks = tasks
        rule, self.least, self.most = parse_shots(self.settings.shots)
        self.rule: ShotRule = SHOT_RULES[rule]
        check_call(f"The shot rule {rule!r}", self.rule, "rng, way, least, most")
        for imageset in self.imagesets:
            self._check(imageset)

    def __len__(self) -> int:
        if self.tasks is None:
            raise TypeError("This TaskStream is endless; TaskStream(..., tasks=N) has a length.")
        return self.tasks

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Task:
        if index < 0 or (self.tasks is not None and index >= self.tasks):
            raise IndexError(f"task index {index} is out of range")
        return self.task(index)

    def __iter__(self) -> Iterator[Task]:
        index = 0
        while self.tasks is None or index < self.tasks:
            yield self.task(index)
            index += 1

    def task(self, index: int) -> Task:
        """Return the task number `index`."""
        return self.load_task(self.sample_indices(index))

    def sample_indices(self, index: int) -> TaskIndices:
        """Draw the classes and images of the task number `index` without reading them."""
        rng = numpy_rng(self.seed, self.split, index)
        imageset = self._choose_set(index, rng)
        way = self.settings.way
        classes = rng.permutation(np.asarray(imageset.splits[self.split]))[:way]
        shots = draw_sizes(self.rule, rng, way, self.least, self.most)
        support, query = [], []
        for c, shot in zip(classes, shots, strict=True):
            size = int(imageset.counts[c])
            n, m = self.class_sizes(size, int(shot))
            chosen = imageset.starts[c] + rng.choice(size, n + m, replace=False)
            support.append(chosen[:n])
            query.append(chosen[n:])
        return TaskIndices(index, imageset, classes, support, query)

    def load_task(self, indices: TaskIndices) -> Task:
        """Read and augment the images of a task."""
        imageset = indices.imageset
        seed = (self.seed, self.split, indices.index)
        rng = numpy_rng(*seed, "augment")
        augmentations = resolve_augmentations(self.augment, imageset)
        support, support_labels = _read_images(imageset, indices.support, augmentations, rng)
        query, query_labels = _read_images(imageset, indices.query, augmentations, rng)
        if "unfamiliar" in augmentations and rng.random() < UNFAMILIAR_SHARE:
            transform = draw_transformation(rng)
            support, query = transform(support), transform(query)
        return Task(
            torch.from_numpy(support),
            support_labels,
            torch.from_numpy(query),
            query_labels,
            classes=tuple(imageset.classes[c] for c in indices.classes),
            imageset=imageset.name,
            seed=seed,
            flip_invariant=imageset.flip_invariant,
        )

    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes that tasks are drawn from."""
        return tuple(i.classes[c] for i in self.imagesets for c in i.splits[self.split])

    def class_sizes(self, size: int, shots: int) -> tuple[int, int]:
        """Return the support and query images of a class of `size` images.

        A small class keeps its query images and has fewer support images than `shots`, at least
        one.
        """
        support = min(shots, max(1, size - self.settings.query))
        return support, min(self.settings.query, size - support)

    def size_warnings(self) -> list[str]:
        """Return one sentence for each image set whose classes are too small for the settings."""
        return [
            sentence for imageset in self.imagesets if (sentence := self._size_warning(imageset))
        ]

    def _size_warning(self, imageset: ImageSet) -> str:
        settings = self.settings
        sizes = imageset.counts[list(imageset.splits[self.split])]
        small = sizes[sizes < self.most + settings.query]
        if not small.size:
            return ""
        examples = []
        for size in sorted({int(small.min()), int(small.max())}):
            n, m = self.class_sizes(size, self.most)
            examples.append(
                f"a class of {size} images gives at most {n} support and {m} query images"
            )
        return (
            f"{imageset.name}: {small.size} of {sizes.size} {self.split} classes are too small for "
            f"{settings.shots} and {settings.query} query images: {', '.join(examples)}."
        )

    def _choose_set(self, index: int, rng: Rng) -> ImageSet:
        if self.mixing == "turn":
            return self.imagesets[(index // self.tasks_per_set) % len(self.imagesets)]
        return self.imagesets[int(rng.integers(len(self.imagesets)))]

    def _check(self, imageset: ImageSet) -> None:
        classes = imageset.splits.get(self.split, ())
        way = self.settings.way
        if len(classes) < way:
            counts = [f"{len(members)} in {split}" for split, members in imageset.splits.items()]
            raise DataError(
                f"{imageset.name} has {len(classes)} classes in its {self.split} split, but a "
                f"task needs {way}; lower the way or choose another split or image set (its "
                f"classes: {', '.join(counts) or 'in no split'})."
            )
        small = [imageset.classes[c] for c in classes if imageset.counts[c] < 2]
        if small:
            raise DataError(
                f"{imageset.name}: {len(small)} classes of the {self.split} split have fewer "
                f"than two images (for instance {small[0]!r}); a class needs one support and "
                "one query image."
            )


def _read_images(
    imageset: ImageSet, indices: list[np.ndarray], augmentations: Sequence[str], rng: Rng
) -> tuple[np.ndarray, Tensor]:
    """Return images uint8 [n, height, width, 3] and labels int64 [n]."""
    images = imageset.images[np.concatenate(indices)]  # a copy: the file stays unchanged
    counts = torch.tensor([len(rows) for rows in indices])
    labels = torch.repeat_interleave(torch.arange(len(indices)), counts)
    return augment(images, augmentations, rng), labels
