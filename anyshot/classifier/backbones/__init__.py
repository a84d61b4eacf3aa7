"""Frozen backbones: images to vectors, computed once and kept in the cache by content."""

from __future__ import annotations

from anyshot.classifier.backbones.backbone import BACKBONES, Backbone, open_backbone
from anyshot.classifier.backbones.feature_cache import features_of
from anyshot.classifier.backbones.image_input import Picture, to_pixels

__all__ = ["BACKBONES", "Backbone", "Picture", "features_of", "open_backbone", "to_pixels"]
