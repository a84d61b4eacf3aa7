"""The state of a workspace as JSON: classes with their evidence, photos with their answers."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from anyshot.classifier.confidence.label_check import CheckedLabel
from anyshot.classifier.confidence.unknown_tradeoff import UnknownTradeoff
from anyshot.classifier.heads.mixture import compared_classes
from anyshot.classifier.predictions import describe_shift
from anyshot.classifier.repeated_images import describe_conflicts, describe_copies
from anyshot.classifier.web.arrangement import Arrangement
from anyshot.classifier.web.limits import RequestRefused
from anyshot.classifier.web.uploads import Photo, UploadReader
from anyshot.core.files import csv_bytes

SUGGESTIONS = 6  # photos to label next
CANDIDATES = 500  # the most uncertain photos, from which they are chosen
LEARNED = 1000  # photos that are learned from, the same number of each large class
SHOWN = 6  # probabilities of a photo that the page gets; ten thousand photos have 50 each

Photos = Mapping[str, Photo]


class Answers:
    """The answers for the photos of a workspace.

    The classifier is fitted again only if what it learns from has changed, and a photo is
    classified once for each fit.
    """

    def __init__(self, reader: UploadReader) -> None:
        self.reader = reader
        self.learned: Learned | None = None

    def learn(self, now: Arrangement, photos: Photos) -> Learned | None:
        """The classifier of an arrangement; None if fewer than two classes have photos."""
        most = most_of_a_class([len(group.support) for group in now.groups.values()])
        support = {key: group.support[:most] for key, group in now.groups.items() if group.photos}
        if len(support) < 2:
            self.learned = None
        elif self.learned is None or self.learned.support != support:
            self.learned = Learned(self.reader, support, photos)
        if self.learned is not None:
            counts = [len(now.groups[key].photos) for key in self.learned.keys]
            self.learned.expect(counts if now.as_given else None)
        return self.learned

    def state(self, now: Arrangement, photos: Photos) -> dict[str, Any]:
        """Describe classes and photos, with answers if two classes have photos."""
        most = most_of_a_class([len(group.support) for group in now.groups.values()])
        classes: dict[str, dict[str, Any]] = {
            key: {
                "id": key,
                "name": group.name,
                "used": min(len(group.support), most),
                "pictures": _photo_rows(group.photos, photos),
            }
            for key, group in now.groups.items()
        }
        pool = _photo_rows(now.pool, photos)
        state: dict[str, Any] = {
            "classes": list(classes.values()),
            "pool": pool,
            "suggested": [],
            "suspects": [],
            "expected": None,
            "most": most,
            "as_given": now.as_given,
        }
        learned = self.learn(now, photos)
        if learned is None:
            return state
        for key, evidence in zip(learned.support, learned.explanation.classes, strict=True):
            classes[key] |= {
                "weight": evidence.weight,
                "expected": evidence.expected,
                "gain": evidence.gain,
            }
            for row in classes[key]["pictures"]:
                row |= learned.held_out.get(row["id"], {})
        state["expected"] = learned.expected({key: now.groups[key].name for key in now.groups})
        state["threshold"] = learned.threshold if now.threshold is None else now.threshold
        state["suspects"] = learned.suspects(now.confirmed)
        learned.classify(now.pool, photos)
        for row in pool:
            row |= learned.answer(row["id"])
            row["unknown"] = row["score"] > state["threshold"]
        if now.threshold is None:
            state["expected"]["shift"] = describe_shift(
                sum(row["unknown"] for row in pool), len(pool)
            )
        state["suggested"] = learned.suggest(now.pool, photos)
        return state

    def csv(self, now: Arrangement, photos: Photos) -> bytes:
        """The answers for the photos without a class, in the columns of ``anyshot classify``."""
        learned = self.learn(now, photos)
        if learned is None or not now.pool:
            raise RequestRefused("There are no answers yet.", 409)
        learned.classify(now.pool, photos)
        threshold = learned.threshold if now.threshold is None else now.threshold
        names = [now.groups[key].name for key in learned.keys]
        rows = []
        for photo in now.pool:
            p = dict(zip(names, learned.probabilities[photo], strict=True))
            label = max(p, key=lambda name: p[name])
            rows.append(
                {
                    "photo": photos[photo].name,
                    "class": label,
                    "probability": f"{p[label]:.6f}",
                    "unknown": learned.rows[photo]["score"] > threshold,
                    "unknown_score": f"{learned.rows[photo]['score']:.4f}",
                    **{f"p({name})": f"{value:.6f}" for name, value in p.items()},
                }
            )
        data = csv_bytes(rows)  # Excel reads other letters than ASCII only after this mark
        return data if data.isascii() else codecs.BOM_UTF8 + data


class Learned:
    """A classifier fitted to the photos of some classes, and its answers so far."""

    def __init__(
        self, reader: UploadReader, support: Mapping[str, Sequence[str]], photos: Photos
    ) -> None:
        self.reader = reader
        self.support = dict(support)
        self.keys = list(support)
        self.files = [photos[photo].name for ids in support.values() for photo in ids]
        self.labels = np.repeat(np.arange(len(support)), [len(ids) for ids in support.values()])
        learned_from = [photos[photo] for ids in support.values() for photo in ids]
        self.classifier = reader.fit(learned_from, self.labels)
        self.explanation = self.classifier.explain()
        self.threshold = float(self.classifier.weights_.confidence.threshold)
        self.held_out = self._held_out_answers()
        self.shares: list[float] | None = None  # of the classes among new photos; None: even
        self.lock = threading.Lock()
        self._tradeoff: UnknownTradeoff | None = None
        self.rows: dict[str, dict[str, Any]] = {}  # answers by photo
        self.probabilities: dict[str, list[float]] = {}  # all of them, by photo

    def _held_out_answers(self) -> dict[str, dict[str, Any]]:
        """What each photo would be called if it were new, if this says something.

        Near-copies count as one photo and have the same answer. Photos of classes of one have none,
        and so have all if only one class has several.
        """
        adapted = self.classifier.adapted_
        p = adapted.held_out[adapted.group_of_image].exp().numpy()
        ids = [photo for photos in self.support.values() for photo in photos]
        counts = compared_classes(adapted.support.counts)
        return {
            photo: {
                "guess": self.keys[int(row.argmax())],
                "sure": round(float(row.max()), 4),
                "own": round(float(row[label]), 4),
            }
            for photo, label, row in zip(ids, self.labels, p, strict=True)
            if counts[label]
        }

    def expect(self, counts: Sequence[int] | None) -> None:
        """New photos are of the classes in these numbers; None: of all equally often."""
        shares = None if counts is None else [count / sum(counts) for count in counts]
        if shares != self.shares:
            self.shares = shares
            self.classifier.set_class_prior("even" if shares is None else dict(enumerate(shares)))
            self.rows.clear()
            self.probabilities.clear()

    def suspects(self, confirmed: Collection[tuple[str, str]]) -> list[dict[str, Any]]:
        """Photos whose label looks wrong, the most suspicious first, with the class to look at."""
        ids = [photo for photos in self.support.values() for photo in photos]
        return [
            {"id": ids[image.index], "suggested": self.keys[image.suggested]}
            for image in self.checked
            if (ids[image.index], self.keys[image.label]) not in confirmed
        ]

    @cached_property
    def checked(self) -> tuple[CheckedLabel, ...]:
        """The labels that look wrong."""
        return self.classifier.check_labels().suspects

    def tradeoff(self) -> dict[str, Any]:
        """Share of known photos flagged and of foreign photos found at each threshold."""
        with self.lock:
            if self._tradeoff is None:
                self._tradeoff = self.classifier.unknown_tradeoff()
        found = self._tradeoff
        several = np.isfinite(found.unknown_found).all()
        return {
            "thresholds": found.thresholds.tolist(),
            "flagged": found.known_flagged.tolist(),
            "found": found.unknown_found.tolist() if several else None,  # two classes
        }

    def expected(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The expected accuracy, and what to know about it."""
        explanation = self.explanation
        labels = [names[self.keys[label]] for label in self.labels]
        conflicts, copies = self.classifier.conflicts_, self.classifier.copies_
        repeated = [describe_conflicts(conflicts, self.files, labels)] if conflicts else []
        repeated += [describe_copies(copies, self.files)] if copies else []
        repeated += [explanation.near_copies] if explanation.near_copies else []
        return {
            "overall": explanation.expected,
            "low": explanation.low,
            "high": explanation.high,
            "next": self.keys[int(explanation.next_class)],
            "caution": explanation.caution,
            "repeated": "\n".join(repeated),
        }

    def classify(self, pool: Sequence[str], photos: Photos) -> None:
        """Classify the photos that have no answer yet."""
        new = [photo for photo in pool if photo not in self.rows]
        if not new:
            return
        found = self.classifier.classify_features(self._features(new, photos))
        for i, photo in enumerate(new):
            self.probabilities[photo] = found.probabilities[i].tolist()
            self.rows[photo] = {
                "score": float(found.unknown_scores[i]),
                "repeated": bool(found.support_matches[i] >= 0),
            }

    def answer(self, photo: str) -> dict[str, Any]:
        """The answer for a photo that was classified, with its largest probabilities."""
        ranked = sorted(zip(self.keys, self.probabilities[photo], strict=True), key=_probability)
        return {"probabilities": dict(ranked[:SHOWN]), **self.rows[photo]}

    def suggest(self, pool: Sequence[str], photos: Photos) -> list[str]:
        """The photos to label next, the most useful first."""
        if not pool:
            return []
        candidates = sorted(pool, key=lambda photo: _margin(self.probabilities[photo]))
        candidates = candidates[:CANDIDATES]
        features = self._features(candidates, photos)
        return [candidates[i] for i in self.classifier.label_next_features(features, SUGGESTIONS)]

    def _features(self, ids: Iterable[str], photos: Photos) -> Any:
        return self.reader.features(self.classifier, [photos[photo] for photo in ids])


def most_of_a_class(counts: Sequence[int]) -> int:
    """The largest number m for which min(count, m) over all classes add up to at most LEARNED.

    >>> most_of_a_class([10, 2000, 3000])
    495
    """
    if sum(counts) <= LEARNED:
        return LEARNED
    left, most = LEARNED, 0
    for i, count in enumerate(sorted(counts)):
        most = left // (len(counts) - i)
        if count > most:
            break
        left -= count
    return most


def _margin(probabilities: Sequence[float]) -> float:
    """The difference between the two largest probabilities."""
    second, first = sorted(probabilities)[-2:]
    return first - second


def _probability(pair: tuple[str, float]) -> float:
    return -pair[1]


def _photo_rows(ids: Iterable[str], photos: Photos) -> list[dict[str, Any]]:
    """Id and file name of each photo."""
    return [{"id": photo, "name": photos[photo].name} for photo in ids]
