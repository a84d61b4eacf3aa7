"""Tables and files about classified photos; `folder_pages` has the HTML pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from anyshot.classifier.confidence.explanation import Explanation
from anyshot.classifier.folders import Classification, LabelledFiles, confusion
from anyshot.core.errors import ClassifierError
from anyshot.core.files import write_csv_rows
from anyshot.core.text import readable
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.evaluation.report.result_files import write_results

MAX_SHOWN = 40  # photos on the screen; files have all
MAX_CLASSES = 12  # confusion matrices of more classes are listed by their largest errors
MAX_ERRORS = 10  # errors in that list
MAX_REPEATED = 5  # repeated photos, or suspicious labels, that a message names


@dataclass(frozen=True)
class FolderEvaluation:
    """Results on a folder of labelled photos.

    `counts` is the confusion matrix [true class, predicted class]. `repeated` are the photos that
    were also learned from; `without_repeated` are the results on the others, if there are both.
    """

    names: list[str]
    truth: list[str]
    answers: list[Classification]
    counts: NDArray[np.int64]
    summary: Summary
    repeated: list[Classification]
    without_repeated: Summary | None


def evaluate_folder(
    explanation: Explanation, photos: LabelledFiles, answers: list[Classification]
) -> FolderEvaluation:
    """Compare answers with the labels of the photos."""
    names = list(answers[0].probabilities)
    unknown = sorted(set(photos.labels) - set(names))
    if unknown:
        raise ClassifierError(
            f"The test folder has classes without support photos ({', '.join(unknown)}); "
            "remove them, or add support photos."
        )
    new = [i for i, answer in enumerate(answers) if answer.support_index is None]
    has_both = 0 < len(new) < len(answers)
    return FolderEvaluation(
        names=names,
        truth=photos.labels,
        answers=answers,
        counts=confusion(names, photos.labels, answers),
        summary=_summary(names, explanation, photos.labels, answers),
        repeated=[answer for answer in answers if answer.support_index is not None],
        without_repeated=_summary(
            names, explanation, [photos.labels[i] for i in new], [answers[i] for i in new]
        )
        if has_both
        else None,
    )


def _summary(
    names: list[str], explanation: Explanation, truth: list[str], answers: list[Classification]
) -> Summary:
    """The metrics of the photos, as those of one task."""
    images = {c.name: c.images for c in explanation.classes}
    p = [[answer.probabilities[name] for name in names] for answer in answers]
    metrics = Metrics()
    labels = [names.index(label) for label in truth]
    metrics.update(TaskResult(0, p, labels, [images.get(name, 0) for name in names]))
    return metrics.compute()


# ---------------------------------------------------------------------------------------- screen
def predictions_table(answers: Sequence[Classification], root: Path) -> Table:
    """Photos with their predicted classes, in the given order."""
    title = f"{len(answers)} photos, the most uncertain first" if len(answers) > 1 else None
    result = Table("photo", "class", "probability", title=title)
    for answer in answers[:MAX_SHOWN]:
        name = answer.path.relative_to(root) if root.is_dir() else answer.path.name
        label = f"none of these? most like {answer.label}" if answer.unknown else answer.label
        result.add_row(readable(name), readable(label), f"{answer.probability:.1%}")
    if len(answers) > MAX_SHOWN:
        result.add_row(f"… {len(answers) - MAX_SHOWN} more, less uncertain", "", "")
    return result


def classes_table(explanation: Explanation) -> Table:
    """What was learned: photos, influence and expected accuracy of each class."""
    result = Table("class", "photos", "influence", "expected accuracy", title="Learned classes")
    for c in explanation.classes:
        cells = (str(c.images), f"×{c.weight:.2f}", f"{c.expected:.0%}")
        result.add_row(readable(c.name), *cells)
    return result


def describe_expectation(explanation: Explanation, support: LabelledFiles | None) -> str:
    """Expected accuracy, the class to photograph next, and photos whose label looks wrong.

    Labels are named only if their photos are there: a saved classifier has no `support`.
    """
    lines = [
        f"Expected accuracy on new photos: {explanation.expected:.0%} "
        f"(90% interval {explanation.low:.0%} to {explanation.high:.0%}).",
        describe_next(explanation),
    ]
    suspects = explanation.suspects
    if support and suspects:
        named = [
            f"{readable(support.paths[s.index])} (perhaps {readable(s.suggested)})"
            for s in suspects[:MAX_REPEATED]
        ]
        more = f"; and {len(suspects) - len(named)} more" if len(suspects) > len(named) else ""
        lines.append(f"Labels that look wrong: {'; '.join(named)}{more}.")
    return "\n".join([*lines, *filter(None, [explanation.near_copies, explanation.caution])])


def describe_next(explanation: Explanation) -> str:
    """The class to photograph next and what it would bring, if that shows."""
    gain = f"{100 * max(c.gain for c in explanation.classes):.1f}"
    effect = (
        ", but five more hardly change the accuracy"
        if gain == "0.0"
        else f": five more add about {gain} points"
    )
    return f"More photos of {readable(explanation.next_class)} would help most{effect}."


def class_accuracy_table(evaluation: FolderEvaluation, explanation: Explanation) -> Table:
    """Photos learned from, test photos and accuracy of each class."""
    head = ("class", "learned from", "tested", "right", "accuracy")
    result = Table(*head, title="Accuracy by class")
    images = {c.name: c.images for c in explanation.classes}
    for i, name in enumerate(evaluation.names):
        total = int(evaluation.counts[i].sum())
        share = f"{evaluation.counts[i, i] / total:.1%}" if total else "–"
        cells = (images.get(name, 0), total, evaluation.counts[i, i], share)
        result.add_row(readable(name), *map(str, cells))
    return result


def confusion_table(evaluation: FolderEvaluation) -> Table:
    """The confusion matrix, or its largest errors if there are many classes."""
    names = [readable(name) for name in evaluation.names]
    if len(names) <= MAX_CLASSES:
        result = Table("true ↓ predicted →", *names, title="Confusion matrix")
        for name, row in zip(names, evaluation.counts.tolist(), strict=True):
            result.add_row(name, *map(str, row))
        return result
    result = Table("true class", "predicted", "photos", title="Most frequent errors")
    errors = evaluation.counts * (1 - np.eye(len(names), dtype=np.int64))
    for index in np.argsort(-errors, axis=None, kind="stable")[:MAX_ERRORS]:
        i, j = divmod(int(index), len(names))
        if errors[i, j]:
            result.add_row(names[i], names[j], str(errors[i, j]))
    return result


def describe_evaluation(evaluation: FolderEvaluation, explanation: Explanation) -> str:
    """Accuracy, the accuracy that was expected, calibration, and the effect of repeated photos."""
    summary, counts = evaluation.summary, evaluation.counts
    with np.errstate(invalid="ignore"):
        worst = int(np.nanargmin(counts.diagonal() / counts.sum(1)))  # NaN: not tested
    lines = [
        f"{counts.trace()} of {counts.sum()} photos are right: accuracy {summary.accuracy:.1%}. "
        f"Expected before the test: {explanation.expected:.0%} (90% interval "
        f"{explanation.low:.0%} to {explanation.high:.0%}).",
        f"The worst class is {readable(evaluation.names[worst])} with {summary.worst_class:.1%}. "
        f"The probabilities have a calibration error of {summary.ece:.1%} and an NLL of "
        f"{summary.nll:.3f}.",
    ]
    lines += filter(None, [explanation.near_copies, explanation.caution])
    if evaluation.without_repeated:
        lines.append(
            f"Accuracy without the {len(evaluation.repeated)} photos that were also learned from: "
            f"{evaluation.without_repeated.accuracy:.1%} "
            f"({len(evaluation.answers) - len(evaluation.repeated)} photos)."
        )
    return "\n".join(lines)


def describe_repeated(answers: Sequence[Classification], support: Sequence[Path], kind: str) -> str:
    """One sentence on photos that were also learned from; empty if there are none."""
    pairs = [
        f"{readable(answer.path)} is {readable(support[answer.support_index])}"
        for answer in answers
        if answer.support_index is not None
    ]
    if not pairs:
        return ""
    more = f"; and {len(pairs) - MAX_REPEATED} more" if len(pairs) > MAX_REPEATED else ""
    return (
        f"{len(pairs)} of {len(answers)} {kind} photos are also support photos: "
        f"{'; '.join(pairs[:MAX_REPEATED])}{more}."
    )


# ----------------------------------------------------------------------------------------- files
def write_predictions(path: Path, answers: Sequence[Classification]) -> None:
    """Write a CSV file: path, class, probability, unknown, unknown_score, p(CLASS) …"""
    rows: list[Mapping[str, Any]] = []
    for answer in answers:
        row = {
            "path": answer.path,
            "class": answer.label,
            "probability": f"{answer.probability:.6f}",
            "unknown": answer.unknown,
            "unknown_score": f"{answer.unknown_score:.4f}",
        }
        probabilities = {f"p({name})": f"{p:.6f}" for name, p in answer.probabilities.items()}
        rows.append({**row, **probabilities})
    write_csv_rows(path, rows)


def write_evaluation(path: Path, evaluation: FolderEvaluation, explanation: Explanation) -> None:
    """Write all numbers of an evaluation as JSON."""
    write_results(
        path,
        {
            "classes": evaluation.names,
            "confusion": evaluation.counts,
            "summary": evaluation.summary.as_dict(),
            "repeated": [str(answer.path) for answer in evaluation.repeated],
            "summary_without_repeated": evaluation.without_repeated
            and evaluation.without_repeated.as_dict(),
            "explanation": explanation,
        },
    )
