"""Frozen backbones: images to vectors, computed once and kept in the cache by content."""

from __future__ import annotations

from anyshot.classifier.backbones.backbone import BACKBONES, Backbone, open_backbone
from anyshot.classifier.backbones.feature_cache import compute_features
from anyshot.classifier.backbones.image_input import Picture, to_pixels

__all__ = ["BACKBONES", "Backbone", "Picture", "compute_features", "open_backbone", "to_pixels"]
