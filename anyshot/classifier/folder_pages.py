"""HTML pages about classified photos: answers, and the test on photos whose class is known."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from anyshot.classifier.confidence.explanation import Explanation
from anyshot.classifier.folder_report import (
    MAX_CLASSES,
    FolderEvaluation,
    describe_evaluation,
    describe_next,
)
from anyshot.classifier.folders import Classification, LabelledFiles
from anyshot.core.files import write_bytes
from anyshot.evaluation.report.calibration_plot import calibration_plot
from anyshot.evaluation.report.confusion_page import (
    FOLDED_FROM,
    STYLE,
    confusion_cells,
    confusion_table,
)
from anyshot.evaluation.report.html import figure, foldable, page, sheet, table
from anyshot.evaluation.report.thumbnails import thumbnail_urls

MEANING = (
    "<p><small>Influence: how much a class counts when classes compete for a photo; ×1 is an even "
    "share. Gain: points of overall accuracy that five more photos of the class add, roughly."
    "</small></p>"
)
CERTAIN = 0.8  # probability from which an answer counts as certain


def write_predictions_page(
    path: Path, answers: Sequence[Classification], explanation: Explanation, photos: LabelledFiles
) -> None:
    """Write a page with all photos: unlike all classes, uncertain, certain; in the given order."""
    urls = thumbnail_urls(path, [answer.path for answer in answers])
    kinds: dict[str, list[str]] = {
        "Unlike all classes": [],
        f"Uncertain: below {CERTAIN:.0%}": [],
        f"Certain: {CERTAIN:.0%} and more": [],
    }
    names = list(kinds)
    for url, a in zip(urls, answers, strict=True):
        kind = names[0] if a.unknown else names[1 + (a.probability >= CERTAIN)]
        kinds[kind].append(figure(url, a.path, a.label, a.probability, a.unknown))
    body = [explanation_html(explanation)]
    body.extend(
        foldable(
            f"{name} ({len(figures)})",
            sheet(figures),
            is_open=name != names[-1] or len(answers) <= FOLDED_FROM,
        )
        for name, figures in kinds.items()
        if figures
    )
    if photos.skipped:
        items = "".join(
            f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in photos.skipped
        )
        body.append(f"<h2>Skipped files</h2><ul>{items}</ul>")
    write_bytes(path, page("Predicted classes", "\n".join(body)).encode())


def write_evaluation_page(
    path: Path, evaluation: FolderEvaluation, explanation: Explanation
) -> None:
    """Write a page with confusion matrix, calibration plot and all photos, wrong answers first.

    The surest of the wrong answers and the least sure of the right ones come first.
    """
    answers, truth, names = evaluation.answers, evaluation.truth, evaluation.names
    urls = thumbnail_urls(path, [answer.path for answer in answers])
    rows = list(zip(answers, truth, urls, strict=True))
    rows.sort(key=lambda row: row[0].probability * (1 if row[0].label == row[1] else -1))
    cells: dict[tuple[int, int], list[str]] = {}
    for a, label, url in rows:
        cell = names.index(label), names.index(a.label)
        cells.setdefault(cell, []).append(figure(url, a.path, a.label, a.probability))
    body = (
        f'<p class="lines">{escape(describe_evaluation(evaluation, explanation))}</p>'
        f'<div class="overview">{confusion_table(names, evaluation.counts)}'
        f'<div class="calibration">{calibration_plot(evaluation.summary.bins)}<p>Calibration: on '
        "the dashed line, answers are right as often as they are sure. Larger dots are more "
        "photos.</p></div></div>"
        f"{confusion_cells(names, cells)}<h2>What was expected</h2>{explanation_html(explanation)}"
    )
    write_bytes(path, page("Test of the classifier", body, STYLE).encode())


def explanation_html(explanation: Explanation) -> str:
    """Expected accuracy, and a table with a row for each class."""
    rows = [
        [
            escape(c.name),
            str(c.images),
            f"×{c.weight:.2f}",
            f"{c.expected:.0%}",
            f"{100 * c.gain:.1f}",
        ]
        for c in explanation.classes
    ]
    head = [
        "class",
        "photos",
        "influence",
        "expected accuracy",
        "gain of 5 more, points",
    ]
    return (
        f"<p>Expected accuracy on new photos: <b>{explanation.expected:.0%}</b> (90% interval "
        f"{explanation.low:.0%} to {explanation.high:.0%}). {escape(describe_next(explanation))} "
        f"{explanation.near_copies} {explanation.caution}</p>"
        + foldable("Classes", table(head, rows) + MEANING, is_open=len(rows) <= MAX_CLASSES)
    )
