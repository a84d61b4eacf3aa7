"""anyshot export: a fitted classifier as one file, for anyshot or for ONNX runtimes."""

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
)
from anyshot.cli.common import TrustCode, check_files
from anyshot.cli.settings_options import Device

log = logging.getLogger(__name__)

ONNX, SAVED = ".onnx", ".anyshot"


def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"NAME{ONNX}: backbone and classifier as an ONNX graph, for other programs. "
            f"NAME{SAVED}: the classifier for anyshot, without photos.",
        ),
    ],
    support: Support,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    class_prior: Prior = None,
    unknown_threshold: UnknownThreshold = None,
) -> None:
    """Learn from folders of photos and write the classifier to one file.

    Other commands take a file NAME.anyshot as --support. The docs show how other programs use an
    ONNX file.

    Example: anyshot export trees.onnx --support trees
    """
    from anyshot.classifier.onnx_export import check_onnx_installed
    from anyshot.core.errors import SettingsError

    if file.suffix.lower() not in (ONNX, SAVED):
        raise SettingsError(f"{file} ends neither in {ONNX} nor in {SAVED}; choose one of them.")
    check_files(file)
    if file.suffix.lower() == ONNX:
        check_onnx_installed()
    classifier, _ = fit_support(
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
    if file.suffix.lower() == ONNX:
        log.info("Making the ONNX graph and comparing its answers: about half a minute.")
        classifier.export_onnx(file)
    else:
        classifier.save(file)
    log.info("Wrote %s (%.1f MB).", file, file.stat().st_size / 1e6)
