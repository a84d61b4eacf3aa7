"""anyshot evaluate: test the classifier on photos whose class is known."""

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
    Weights,
    fit_support,
    log_shift,
    print_skipped,
)
from anyshot.cli.common import TrustCode, check_files, log_written
from anyshot.cli.settings_options import Device, Json

log = logging.getLogger(__name__)


def evaluate(
    support: Support,
    test: Annotated[Path, typer.Option(metavar="DIR", help="Photos to test on: DIR/CLASS/*.jpg.")],
    json: Json = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the confusion matrix to this file.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a page with confusion matrix, calibration and photos. With more than 400, "
            "their thumbnails go into a folder next to it.",
        ),
    ] = None,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    class_prior: Prior = None,
) -> None:
    """Accuracy, calibration and confusion matrix on a test folder, after learning a support folder.

    Example: anyshot evaluate --support trees/train --test trees/val --html confusion.html
    """
    from anyshot.classifier.folder_pages import write_evaluation_page
    from anyshot.classifier.folder_report import (
        class_accuracy_table,
        confusion_table,
        describe_evaluation,
        describe_repeated,
        evaluate_folder,
        write_evaluation,
    )
    from anyshot.classifier.folders import classify_images, find_labelled_images
    from anyshot.core.errors import SettingsError
    from anyshot.evaluation.report.confusion_matrix import confusion_figure
    from anyshot.evaluation.report.tables import print_tables

    if png and png.suffix.lower() != ".png":
        raise SettingsError(f"--png {png} would be a PNG file; give it a name that ends in .png.")
    check_files(json, png, html)
    classifier, files = fit_support(
        support, backbone, weights, side, device, trust_code, class_prior, quality=quality
    )
    photos = find_labelled_images(test)
    print_skipped(test, photos)
    explanation = classifier.explain()
    found = evaluate_folder(explanation, photos, classify_images(classifier, photos.paths))
    if repeated := describe_repeated(found.answers, files.paths, "test"):
        log.warning("%s", repeated)
    print_tables(class_accuracy_table(found, explanation), confusion_table(found))
    print(describe_evaluation(found, explanation))
    if classifier.unknown_threshold is None:
        log_shift(found.answers)
    if json:
        write_evaluation(json, found, explanation)
    if png:
        confusion_figure(found.names, found.counts, png)
    if html:
        write_evaluation_page(html, found, explanation)
    log_written(json, png, html)
