"""Classify the unlabelled photos of a FiftyOne data set, and say what to look at next.

    pip install '.[photos]' fiftyone
    python examples/fiftyone_predictions.py my-dataset ground_truth

The field ground_truth holds Classifications of some samples, any number of each class. The samples
without one get `anyshot` (class and probability) and `anyshot_unknown` (score of photos that look
unlike all classes). Those to label first are tagged "label next", and labels that look wrong are
tagged "check label".
"""

from __future__ import annotations

import sys
from typing import Any

import fiftyone as fo

from anyshot import AnyShotClassifier


def add_predictions(
    dataset: Any, label_field: str, *, backbone: Any = "efficientnet-lite0", count: int = 20
) -> AnyShotClassifier:
    """Fit the labelled samples of a data set or view, and add predictions for the others."""
    ids, paths, labels = dataset.values(["id", "filepath", f"{label_field}.label"])
    known = [i for i, label in enumerate(labels) if label is not None]
    new = [i for i, label in enumerate(labels) if label is None]
    classifier = AnyShotClassifier(backbone)
    classifier.fit([paths[i] for i in known], [labels[i] for i in known])
    suspects = [ids[known[label.index]] for label in classifier.check_labels().suspects]
    _tag(dataset, suspects, "check label")
    if not new:
        return classifier
    answers = classifier.classify([paths[i] for i in new])
    predictions = {
        ids[i]: fo.Classification(label=str(label), confidence=float(row.max()))
        for i, label, row in zip(new, answers.labels, answers.probabilities, strict=True)
    }
    scores = {ids[i]: float(s) for i, s in zip(new, answers.unknown_scores, strict=True)}
    dataset.set_values("anyshot", predictions, key_field="id")
    dataset.set_values("anyshot_unknown", scores, key_field="id")
    first = classifier.label_next_features(answers.features, min(count, len(new)))
    _tag(dataset, [ids[new[i]] for i in first], "label next")
    return classifier


def _tag(dataset: Any, ids: list[str], tag: str) -> None:
    dataset.untag_samples(tag)
    if ids:
        dataset.select(ids).tag_samples(tag)


if __name__ == "__main__":
    chosen = fo.load_dataset(sys.argv[1])
    print(add_predictions(chosen, sys.argv[2]).explain())
    fo.launch_app(chosen).wait()
