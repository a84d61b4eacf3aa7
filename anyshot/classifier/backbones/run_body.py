"""The meta-trained body of a run as a backbone.

Its batch norm uses the statistics of the images that a task is learned from.
"""

from __future__ import annotations

from pathlib import Path

import torch

from anyshot.classifier.backbones.backbone import Backbone, Features, Pixels
from anyshot.runs.run import Run


def open_body(source: str | Path, device: str = "cpu", trust_code: bool = False) -> Backbone:
    """The body of a run; call its `bind` with the images that a task is learned from."""
    run = Run(source, trust_code)
    method = run.load_method(device)

    def bind(reference: Pixels) -> Backbone:
        reference_input = method.to_input(reference)

        def compute(pixels: Pixels) -> Features:
            with torch.inference_mode():
                features = method.embed(method.to_input(pixels), reference=reference_input)
                return features.cpu().numpy()

        return Backbone(run.folder.name, run.image_size[0], "", compute)

    return Backbone(run.folder.name, run.image_size[0], "", _compute_unbound, bind)


def _compute_unbound(pixels: Pixels) -> Features:
    raise AssertionError("bind the body to the support images first")
