"""anyshot evaluate: how good is it on pictures whose class is known?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyshot.cli.classify import (
    DEFAULT,
    LEARNER,
    Backbone,
    Side,
    Support,
    Weights,
    explanation_html,
    learn_from_folder,
    print_skipped,
)
from anyshot.cli.common import check_files
from anyshot.cli.settings_options import Device, Json
from anyshot.core.errors import AnyshotError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyshot.classifier.confidence.explanation import Explanation
    from anyshot.classifier.folders import Classification, LabelledFiles
    from anyshot.evaluation.metrics import Summary


def evaluate(
    support: Support,
    test: Annotated[
        Path, typer.Option(metavar="DIR", help="Pictures to be tested on: DIR/CLASS/*.jpg.")
    ],
    json: Json = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the confusion matrix to this file.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a page whose confusion matrix opens its pictures."
        ),
    ] = None,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    side: Side = None,
    device: Device = "auto",
) -> None:
    """Accuracy, calibration and confusion matrix on a test folder, after learning from a support folder.

    Example: anyshot evaluate --support trees/train --test trees/val --html confusion.html
    """
    from anyshot.classifier.folders import classify_images, confusion, find_labelled_images

    check_files(json, png, html)
    classifier, explanation = learn_from_folder(support, backbone, weights, side, device)
    asked = find_labelled_images(test)
    print_skipped(test, asked)
    names = [str(c) for c in classifier.classes_]
    if strangers := sorted(set(asked.labels) - set(names)):
        raise AnyshotError(
            f"{test} has classes that {support} has not ({', '.join(strangers)}); take them out of it."
        )
    answers = classify_images(classifier, asked.paths)
    counts = confusion(names, asked.labels, answers)
    summary = evaluate_folder(names, explanation, asked, answers)
    print_summary(names, counts, summary, explanation)
    if json:
        write_figures(json, names, counts, summary, explanation)
    if png:
        from anyshot.evaluation.report.confusion_matrix import confusion_figure

        confusion_figure(names, counts, png)
    if html:
        write_page(html, names, counts, asked, answers, explanation)


def evaluate_folder(
    names: list[str], explanation: Explanation, asked: LabelledFiles, answers: list[Classification]
) -> Summary:
    """The test's numbers, as of one task."""
    from anyshot.evaluation.metrics import Metrics, TaskResult

    p = [[a.probabilities[name] for name in names] for a in answers]
    metrics = Metrics()
    labels = [names.index(label) for label in asked.labels]
    metrics.update(TaskResult(0, p, labels, [c.images for c in explanation.classes]))
    return metrics.compute()


def print_summary(
    names: list[str], counts: NDArray[np.int64], summary: Summary, explanation: Explanation
) -> None:
    """A table of the classes and the totals."""
    from rich.table import Table

    from anyshot.evaluation.report.tables import print_tables

    table = Table(
        "class", "to learn from", "tested", "right", "accuracy", title="Accuracy of each class"
    )
    for i, c in enumerate(explanation.classes):
        total = int(counts[i].sum())
        share = f"{counts[i, i] / total:.1%}" if total else "–"
        table.add_row(c.name, str(c.images), str(total), str(counts[i, i]), share)
    print_tables(table)
    print(f"Accuracy {summary.accuracy:.1%}, worst class {summary.worst_class:.1%}, NLL {summary.nll:.3f}, "
          f"calibration error {summary.ece:.1%}; expected before testing: {explanation.expected:.1%} "
          f"({explanation.low:.1%} to {explanation.high:.1%}).")  # fmt: skip


def write_figures(
    path: Path,
    names: list[str],
    counts: NDArray[np.int64],
    summary: Summary,
    explanation: Explanation,
) -> None:
    """All numbers as JSON."""
    from anyshot.evaluation.report.result_files import write_results

    write_results(
        path,
        {
            "classes": names,
            "confusion": counts,
            "summary": summary.as_dict(),
            "explanation": explanation,
        },
    )


def write_page(
    path: Path,
    names: list[str],
    counts: NDArray[np.int64],
    asked: LabelledFiles,
    answers: list[Classification],
    explanation: Explanation,
) -> None:
    """The matrix whose cells open their pictures, the most uncertain first."""
    from anyshot.core.files import write_bytes
    from anyshot.evaluation.report.html import confusion_page, figure, page

    cells: dict[tuple[int, int], list[str]] = {}
    for a, label in sorted(
        zip(answers, asked.labels, strict=True), key=lambda pair: pair[0].probability
    ):
        place = names.index(label), names.index(a.label)
        cells.setdefault(place, []).append(figure(a.path, a.label, a.probability))
    right = sum(int(counts[i, i]) for i in range(len(names)))
    body = f"<p>{right} of {len(answers)} right ({right / len(answers):.1%}).</p>"
    body += confusion_page(names, counts, cells) + explanation_html(explanation)
    write_bytes(path, page("Confusion matrix", body).encode())
