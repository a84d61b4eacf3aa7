"""The meta-trained body of a run as a backbone; it borrows the statistics of the images that a task is learned from."""

from __future__ import annotations

from pathlib import Path

import torch

from anyshot.classifier.backbones.backbone import Backbone, Features, Pixels
from anyshot.runs.run import Run


def open_body(source: str | Path, device: str = "cpu") -> Backbone:
    """The body of a run, to be bound to the images that a task is learned from before it is used."""
    run = Run(source)
    method = run.load_method(device)

    def bind(reference: Pixels) -> Backbone:
        lent = method.to_input(reference)

        def compute(pixels: Pixels) -> Features:
            with torch.inference_mode():
                return method.embed(method.to_input(pixels), reference=lent).cpu().numpy()

        return Backbone(run.folder.name, run.image_size[0], "", compute)

    return Backbone(run.folder.name, run.image_size[0], "", _unbound, bind)


def _unbound(pixels: Pixels) -> Features:
    raise AssertionError("a body needs images to borrow statistics from")
