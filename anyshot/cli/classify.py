"""anyshot classify: classify photos after a few examples of each class."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.classifier_options import (
    DEFAULT,
    LEARNER,
    Backbone,
    Prior,
    Quality,
    Side,
    Support,
    UnknownThreshold,
    Weights,
    fit_support,
    log_shift,
    print_skipped,
)
from anyshot.cli.common import Csv, TrustCode, check_files, log_written
from anyshot.cli.settings_options import Device

log = logging.getLogger(__name__)

Html = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a page with all photos, the most uncertain first. With more than 400, "
        "their thumbnails go into a folder next to it.",
    ),
]


def classify(
    support: Support,
    query: Annotated[
        Path, typer.Option(metavar="DIR", help="Photos to classify: a folder, or one file.")
    ],
    csv: Csv = None,
    html: Html = None,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    class_prior: Prior = None,
    unknown_threshold: UnknownThreshold = None,
) -> None:
    """Classify photos after a few examples of each class, in folders DIR/spruce, DIR/pine, ….

    Classes may have any number of photos. The output says how certain each prediction is, which
    photos look unlike all classes, the expected accuracy, and which class needs more photos.

    Example: anyshot classify --support trees --query new --html answers.html
    """
    from anyshot.classifier.folder_pages import write_predictions_page
    from anyshot.classifier.folder_report import (
        classes_table,
        describe_expectation,
        describe_repeated,
        predictions_table,
        write_predictions,
    )
    from anyshot.classifier.folders import classify_images, find_images
    from anyshot.evaluation.report.tables import print_tables

    check_files(csv, html)
    classifier, files = fit_support(
        support,
        backbone,
        weights,
        side,
        device,
        trust_code,
        class_prior,
        unknown_threshold,
        quality=quality,
    )
    photos = find_images(query)
    print_skipped(query, photos)
    answers = sorted(classify_images(classifier, photos.paths), key=lambda a: -a.uncertainty)
    if repeated := describe_repeated(answers, files.paths, "query"):
        log.warning("%s", repeated)
    explanation = classifier.explain()
    print_tables(predictions_table(answers, query), classes_table(explanation))
    print(describe_expectation(explanation, files if support.is_dir() else None))
    if classifier.unknown_threshold is None:
        log_shift(answers)
    if csv:
        write_predictions(csv, answers)
    if html:
        write_predictions_page(html, answers, explanation, photos)
    log_written(csv, html)
