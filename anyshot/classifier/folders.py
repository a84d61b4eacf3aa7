"""A person's folders through the classifier: what is in them, what could not be read, an answer for each picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.classifier.estimator import AnyShotClassifier
from anyshot.core.errors import AnyshotError
from anyshot.core.text import readable
from anyshot.data.decode import decode_all
from anyshot.data.folder import list_folder
from anyshot.data.walk import walk_files

CHECK_SIDE = 32  # side at which a picture is read to see whether it can be


@dataclass(frozen=True)
class LabelledFiles:
    """Files that can be read, their classes (empty text where not known), and the others with the reason why not."""

    paths: list[Path]
    labels: list[str]
    skipped: list[tuple[str, str]]


@dataclass(frozen=True)
class Classification:
    """A picture, what it is taken for and how surely, and whether it is like none of the classes."""

    path: Path
    label: str
    probability: float
    unknown: bool
    unknown_score: float
    probabilities: dict[str, float]

    @property
    def doubt(self) -> float:
        """From 0, sure, to 1; what is like no class comes first."""
        return 1 + self.unknown_score if self.unknown else 1 - self.probability


def find_labelled_images(root: Path) -> LabelledFiles:
    """A folder of class folders."""
    _must_be_folder(root)
    listing = list_folder(root)
    pairs = [(path, label) for label, paths in listing.files.items() for path in paths]
    if not pairs:
        raise AnyshotError(
            f"{root} holds no class folders with pictures; expected {root}/CLASS/*.jpg."
        )
    paths, labels = [list(column) for column in zip(*pairs, strict=True)]
    return _keep_readable(root, paths, labels, listing.skipped)


def find_images(root: Path) -> LabelledFiles:
    """A folder of pictures at any depth, or one picture."""
    if root.is_file():
        return _keep_readable(root.parent, [root], [""], [])
    _must_be_folder(root)
    skipped: list[tuple[str, str]] = []
    paths = sorted(walk_files(root, root, skipped))
    return _keep_readable(root, paths, [""] * len(paths), skipped)


def fit_folder(classifier: AnyShotClassifier, support: LabelledFiles) -> AnyShotClassifier:
    """The classifier, fitted to a folder of class folders; it takes two classes at least."""
    if len(set(support.labels)) < 2:
        raise AnyshotError(
            f"The folder holds pictures of {len(set(support.labels))} class; to tell classes apart, give at least two "
            "class folders."
        )
    return classifier.fit(support.paths, support.labels)


def classify_images(classifier: AnyShotClassifier, paths: Sequence[Path]) -> list[Classification]:
    """Classify pictures, with one pass of the backbone; the results keep their order."""
    found = classifier.classify(paths)
    names = [str(c) for c in found.classes]
    rows = zip(paths, found.probabilities, found.unknown, found.unknown_scores, strict=True)
    return [
        Classification(
            path=path,
            label=names[int(row.argmax())],
            probability=float(row.max()),
            unknown=bool(unknown),
            unknown_score=float(score),
            probabilities=dict(zip(names, map(float, row), strict=True)),
        )
        for path, row, unknown, score in rows
    ]


def confusion(
    names: Sequence[str], truth: Sequence[str], answers: Sequence[Classification]
) -> NDArray[np.int64]:
    """How many pictures of each class (rows) were taken for each (columns), [classes, classes]."""
    place = {name: c for c, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    for label, given in zip(truth, answers, strict=True):
        counts[place[label], place[given.label]] += 1
    return counts


def _keep_readable(
    root: Path, paths: list[Path], labels: list[str], skipped: list[tuple[str, str]]
) -> LabelledFiles:
    good: list[tuple[Path, str]] = []
    bad = list(skipped)
    for path, label, pixels in zip(paths, labels, decode_all(paths, CHECK_SIDE), strict=True):
        if isinstance(pixels, str):
            bad.append((readable(path.relative_to(root)), pixels))
        else:
            good.append((path, label))
    if not good:
        raise AnyshotError(
            f"{root} holds no picture that can be read ({len(bad)} files were looked at)."
        )
    return LabelledFiles([path for path, _ in good], [label for _, label in good], bad)


def _must_be_folder(root: Path) -> None:
    if not root.is_dir():
        raise AnyshotError(f"There is no folder {root}; give a folder of pictures.")
