"""anyshot label: which pictures to label next?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.classify import (
    DEFAULT,
    LEARNER,
    Backbone,
    Side,
    Support,
    Weights,
    learn_from_folder,
    print_skipped,
)
from anyshot.cli.settings_options import Device


def label(
    support: Support,
    pool: Annotated[Path, typer.Option(metavar="DIR", help="Pictures without labels.")],
    count: Annotated[int, typer.Option(min=1, metavar="N", help="How many to name.")] = 20,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    side: Side = None,
    device: Device = "auto",
) -> None:
    """Name the pictures whose labels would help most, the most useful first, one path a line.

    Example: anyshot label --support trees --pool unsorted --count 10
    """
    from anyshot.classifier.folders import find_images
    from anyshot.core.text import readable

    classifier, explanation = learn_from_folder(support, backbone, weights, side, device)
    asked = find_images(pool)
    print_skipped(pool, asked)
    for index in classifier.label_next(asked.paths, count):
        print(readable(asked.paths[index]))
    typer.echo(f"More pictures of {explanation.next} would help most.", err=True)
