"""What the page shows of classes and pictures, as JSON: evidence, probabilities, accuracy to expect, what to label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.web.uploads import Photo

SUGGESTED = 6  # pictures to label next


@dataclass(eq=False)
class ClassGroup:
    """A class: its pictures, of which the first `used` are learned from (None: all)."""

    name: str
    photos: dict[str, Photo] = field(default_factory=dict)
    used: int | None = None

    @property
    def learned(self) -> list[Photo]:
        """The pictures that are learned from."""
        return list(self.photos.values())[: self.used]


def workspace_state(
    groups: Mapping[str, ClassGroup], pool: Sequence[Photo], classifier: AnyShotClassifier
) -> dict[str, Any]:
    """The state of a workspace; a new classifier learns it, if two classes have pictures."""
    classes = {key: {"id": key, "name": g.name, "used": len(g.learned), "pictures": _named(g.photos.values())}
               for key, g in groups.items()}  # fmt: skip
    pictures = _named(pool)
    state: dict[str, Any] = {
        "classes": list(classes.values()),
        "pool": pictures,
        "suggested": [],
        "expected": None,
    }
    keys = [key for key, group in groups.items() if group.photos]
    if len(keys) < 2:
        return state
    labels = np.repeat(np.arange(len(keys)), [len(groups[key].learned) for key in keys])
    classifier.fit(_stack([photo for key in keys for photo in groups[key].learned]), labels)
    explanation = classifier.explain()
    for key, c in zip(keys, explanation.classes, strict=True):
        classes[key] |= {"weight": c.weight, "expected": c.expected, "gain": c.gain}
    expected: dict[str, Any] = {
        "overall": explanation.expected,
        "low": explanation.low,
        "high": explanation.high,
    }
    state["expected"] = expected | {
        "next": keys[int(explanation.next)],
        "caution": explanation.caution,
    }
    if pool:
        x = _stack(pool)
        answers = zip(classifier.predict_proba(x), classifier.is_unknown(x), strict=True)
        for picture, (p, unknown) in zip(pictures, answers, strict=True):
            picture |= {
                "probabilities": dict(zip(keys, p.tolist(), strict=True)),
                "unknown": bool(unknown),
            }
        state["suggested"] = [pictures[i]["id"] for i in classifier.label_next(x, SUGGESTED)]
    return state


def _named(photos: Any) -> list[dict[str, Any]]:
    return [{"id": photo.id, "name": photo.name} for photo in photos]


def _stack(photos: Sequence[Photo]) -> NDArray[Any]:
    return np.stack([photo.content for photo in photos])
