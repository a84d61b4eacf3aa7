"""anyshot label: which photos to label next (active learning)."""

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
    print_skipped,
)
from anyshot.cli.common import TrustCode
from anyshot.cli.settings_options import Device

log = logging.getLogger(__name__)


def label(
    support: Support,
    pool: Annotated[Path, typer.Option(metavar="DIR", help="Photos without labels.")],
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of photos.")] = 20,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    class_prior: Prior = None,
) -> None:
    """Print the photos whose labels would help most, the most useful first, one path per line.

    Example: anyshot label --support trees --pool unsorted --count 10
    """
    from anyshot.classifier.folder_report import describe_next
    from anyshot.classifier.folders import find_images
    from anyshot.core.text import readable

    classifier, _ = fit_support(
        support, backbone, weights, side, device, trust_code, class_prior, quality=quality
    )
    photos = find_images(pool)
    print_skipped(pool, photos)
    for index in classifier.label_next(photos.paths, count):
        print(readable(photos.paths[index]))
    log.info("%s", describe_next(classifier.explain()))
