"""anyshot check: photos whose label looks wrong, and near-duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.classifier_options import (
    DEFAULT,
    LEARNER,
    Backbone,
    Quality,
    Side,
    Weights,
    fit_support,
)
from anyshot.cli.common import Csv, TrustCode, check_files, log_written
from anyshot.cli.settings_options import Device
from anyshot.core.errors import DataError


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Labelled photos: DIR/CLASS/*.jpg")],
    csv: Csv = None,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """List photos whose label looks wrong, near-duplicates, and photos in two classes.

    Every photo is classified by heads that were fitted without it. The CSV file has all photos.

    Example: anyshot check trees --csv labels.csv
    """
    from anyshot.classifier.label_report import (
        describe_check,
        duplicates_table,
        suspects_table,
        write_check,
    )
    from anyshot.evaluation.report.tables import print_tables

    check_files(csv)
    if folder.is_file():
        raise DataError(
            f"{folder} is a file. Labels are checked in a folder of photos: DIR/CLASS/*.jpg."
        )
    classifier, files = fit_support(
        folder, backbone, weights, side, device, trust_code, quality=quality
    )
    found = classifier.check_labels()
    tables = [
        *([suspects_table(found, files, folder)] if found.suspects else []),
        *([duplicates_table(found, files, folder)] if found.duplicates else []),
    ]
    print_tables(*tables)
    print(describe_check(found))
    if csv:
        write_check(csv, found, files)
    log_written(csv)
