"""The state of a workspace as JSON: classes with their evidence, photos with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.repeated_images import describe_conflicts
from anyshot.classifier.web.uploads import Photo, UploadReader

SUGGESTIONS = 6  # photos to label next


@dataclass(eq=False)
class ClassGroup:
    """A class: its photos, of which the first ``used`` are learned from (None: all)."""

    name: str
    photos: dict[str, Photo] = field(default_factory=dict)
    used: int | None = None

    @property
    def support(self) -> list[Photo]:
        """The photos that are learned from."""
        return list(self.photos.values())[: self.used]


def workspace_state(
    groups: Mapping[str, ClassGroup], pool: Sequence[Photo], reader: UploadReader
) -> dict[str, Any]:
    """Describe classes (by id) and photos; fit a classifier if two classes have photos."""
    classes = {
        key: {
            "id": key,
            "name": group.name,
            "used": len(group.support),
            "pictures": _photo_rows(group.photos.values()),
        }
        for key, group in groups.items()
    }
    rows = _photo_rows(pool)
    state: dict[str, Any] = {
        "classes": list(classes.values()),
        "pool": rows,
        "suggested": [],
        "expected": None,
    }
    keys = [key for key, group in groups.items() if group.photos]
    if len(keys) < 2:
        return state
    labels = np.repeat(np.arange(len(keys)), [len(groups[key].support) for key in keys])
    support = [photo for key in keys for photo in groups[key].support]
    classifier = reader.fit(support, labels)
    names = [groups[keys[label]].name for label in labels]
    explanation = classifier.explain()
    for key, evidence in zip(keys, explanation.classes, strict=True):
        classes[key] |= {
            "weight": evidence.weight,
            "expected": evidence.expected,
            "gain": evidence.gain,
        }
    state["expected"] = {
        "overall": explanation.expected,
        "low": explanation.low,
        "high": explanation.high,
        "next": keys[int(explanation.next_class)],
        "caution": explanation.caution,
        "repeated": _describe_conflicts(classifier, support, names),
    }
    if pool:
        state["suggested"] = _classify(keys, pool, rows, classifier, reader)
    return state


def _classify(
    keys: Sequence[str],
    pool: Sequence[Photo],
    rows: Sequence[dict[str, Any]],
    classifier: AnyShotClassifier,
    reader: UploadReader,
) -> list[str]:
    """Add the answers to the rows of the pool; return the ids of the photos to label next."""
    features = reader.features(classifier, pool)
    predictions = classifier.classify_features(features)
    for i, row in enumerate(rows):
        probabilities = predictions.probabilities[i].tolist()
        row["probabilities"] = dict(zip(keys, probabilities, strict=True))
        row["unknown"] = bool(predictions.unknown[i])
        row["repeated"] = bool(predictions.support_matches[i] >= 0)
    return [rows[i]["id"] for i in classifier.label_next_features(features, SUGGESTIONS)]


def _describe_conflicts(
    classifier: AnyShotClassifier, support: Sequence[Photo], names: Sequence[str]
) -> str:
    """A sentence if the same photo is in two classes, otherwise an empty string."""
    if not classifier.conflicts_:
        return ""
    files = [photo.name for photo in support]
    return describe_conflicts(classifier.conflicts_, files, names)


def _photo_rows(photos: Iterable[Photo]) -> list[dict[str, Any]]:
    """Id and file name of each photo."""
    return [{"id": photo.id, "name": photo.name} for photo in photos]
