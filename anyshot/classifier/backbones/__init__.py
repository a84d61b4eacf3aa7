"""Frozen backbones: images to feature vectors, computed once and cached by content.

Imports anyshot.core, anyshot.data (decoding) and, for bodies of runs, anyshot.runs.
"""

from __future__ import annotations

from anyshot.classifier.backbones.backbone import BACKBONES, Backbone, block_widths, open_backbone
from anyshot.classifier.backbones.compute import compute_features
from anyshot.classifier.backbones.image_input import ImageLike, to_pixels

__all__ = [
    "BACKBONES",
    "Backbone",
    "ImageLike",
    "block_widths",
    "compute_features",
    "open_backbone",
    "to_pixels",
]
