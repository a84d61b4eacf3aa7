"""Folders of photos: which files are used, and what the classifier says about each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.classifier.estimator import AnyShotClassifier
from anyshot.core.errors import ClassifierError
from anyshot.core.progress import progress
from anyshot.core.text import readable
from anyshot.data.decode import decode_all
from anyshot.data.folder import PART_NAMES, list_folder
from anyshot.data.storage import SPLIT_NAMES
from anyshot.data.walk import list_visible, walk_files

CHECK_SIDE = 32  # files are decoded at this size to see whether they are readable
PROGRESS_FROM = 200  # files: fewer need no progress bar
REASONS = 5  # unreadable files that an error names


@dataclass(frozen=True)
class LabelledFiles:
    """Readable files with their labels ("" if unknown), and skipped files with the reason."""

    paths: list[Path]
    labels: list[str]
    skipped: list[tuple[str, str]]


@dataclass(frozen=True)
class Classification:
    """The answer for one photo."""

    path: Path
    label: str
    probability: float
    unknown: bool
    unknown_score: float
    probabilities: dict[str, float]
    support_index: int | None = None  # the support photo that is the same image

    @property
    def uncertainty(self) -> float:
        """0 (sure) to 1; above 1 for photos that look unlike all classes."""
        return 1 + self.unknown_score if self.unknown else 1 - self.probability


def find_labelled_images(root: Path) -> LabelledFiles:
    """The photos of a folder of class folders."""
    _check_folder(root)
    _check_one_split(root)
    listing = list_folder(root)
    _check_level(root, listing.files)
    pairs = [(path, label) for label, paths in listing.files.items() for path in paths]
    if not pairs:
        raise ClassifierError(
            f"{root} has no class folders with photos; expected {root}/CLASS/*.jpg."
        )
    paths = [path for path, _ in pairs]
    photos = _keep_readable(root, paths, [label for _, label in pairs], listing.skipped)
    empty = sorted(set(listing.files) - set(photos.labels))
    return LabelledFiles(
        photos.paths,
        photos.labels,
        [*photos.skipped, *((label, "a class without readable photos") for label in empty)],
    )


def find_images(root: Path) -> LabelledFiles:
    """The photos of a folder at any depth, or a single photo."""
    if root.is_file():
        return _keep_readable(root.parent, [root], [""], [], single=root)
    _check_folder(root)
    skipped: list[tuple[str, str]] = []
    paths = sorted(walk_files(root, root, skipped))
    return _keep_readable(root, paths, [""] * len(paths), skipped)


def fit_folder(classifier: AnyShotClassifier, support: LabelledFiles) -> AnyShotClassifier:
    """Fit a classifier to a folder of class folders; it needs two classes."""
    classes = set(support.labels)
    if len(classes) < 2:
        raise ClassifierError(
            f"The folder has photos of {len(classes)} class ({', '.join(classes)}); "
            "give at least two class folders."
        )
    return classifier.fit(support.paths, support.labels)


def classify_images(classifier: AnyShotClassifier, paths: Sequence[Path]) -> list[Classification]:
    """Classify photos with one pass of the backbone; the results keep their order."""
    predictions = classifier.classify(paths)
    names = [str(c) for c in predictions.classes]
    return [
        Classification(
            path=path,
            label=names[int(row.argmax())],
            probability=float(row.max()),
            unknown=bool(predictions.unknown[i]),
            unknown_score=float(predictions.unknown_scores[i]),
            probabilities=dict(zip(names, map(float, row), strict=True)),
            support_index=int(match) if match >= 0 else None,
        )
        for i, (path, row, match) in enumerate(
            zip(paths, predictions.probabilities, predictions.support_matches, strict=True)
        )
    ]


def confusion(
    names: Sequence[str], truth: Sequence[str], answers: Sequence[Classification]
) -> NDArray[np.int64]:
    """The confusion matrix [true class, predicted class]: numbers of photos."""
    index = {name: c for c, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    for label, answer in zip(truth, answers, strict=True):
        counts[index[label], index[answer.label]] += 1
    return counts


def _keep_readable(
    root: Path,
    paths: list[Path],
    labels: list[str],
    skipped: list[tuple[str, str]],
    single: Path | None = None,
) -> LabelledFiles:
    """The photos that can be decoded; ``single`` was given instead of a folder."""
    good: list[tuple[Path, str]] = []
    bad = list(skipped)
    decoded = decode_all(paths, CHECK_SIDE)
    many = len(paths) >= PROGRESS_FROM
    with progress("Checking photos", len(paths)) if many else nullcontext() as advance:
        for path, label, pixels in zip(paths, labels, decoded, strict=True):
            if isinstance(pixels, str):
                bad.append((readable(path.relative_to(root)), pixels))
            else:
                good.append((path, label))
            if advance:
                advance(1)
    if not good:
        if single:
            raise ClassifierError(f"{readable(single)} cannot be read as a photo: {bad[0][1]}.")
        files = "; ".join(f"{name}: {reason}" for name, reason in bad[:REASONS]) or "it is empty"
        more = f"; and {len(bad) - REASONS} more" if len(bad) > REASONS else ""
        raise ClassifierError(f"{root} has no readable photos ({files}{more}).")
    return LabelledFiles([path for path, _ in good], [label for _, label in good], bad)


def _check_folder(root: Path) -> None:
    if not root.is_dir():
        raise ClassifierError(f"There is no folder {root}; give a folder of photos.")


def _check_one_split(root: Path) -> None:
    """A folder of train, val and test folders has every class several times: one must be chosen."""
    folders = [path for path in list_visible(root) if os.path.isdir(path)]
    if len(folders) > 1 and all(path.name.lower() in SPLIT_NAMES for path in folders):
        names = ", ".join(readable(path.name) for path in folders)
        raise ClassifierError(
            f"{root} contains {names} instead of class folders; give one of them, "
            f"for example {folders[0]}."
        )


def _check_level(root: Path, files: dict[str, list[Path]]) -> None:
    """Refuse "train" or "query" as a class if it contains folders of photos: one level too high."""
    for label, paths in files.items():
        depths = {len(path.relative_to(root).parts) for path in paths}
        if label.lower() in PART_NAMES and min(depths, default=0) > 2:
            raise ClassifierError(
                f"The folder {root / label} contains class folders, but it would be used as a "
                f"class itself. To learn its classes, give {root / label} instead of {root}."
            )
