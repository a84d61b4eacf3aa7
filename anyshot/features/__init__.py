"""Frozen backbones: images to vectors, computed once and kept in the cache by content."""

from __future__ import annotations

from anyshot.features.backbones import BACKBONES, Backbone, open_backbone
from anyshot.features.cache import features_of
from anyshot.features.pictures import Picture, as_pixels

__all__ = ["BACKBONES", "Backbone", "Picture", "as_pixels", "features_of", "open_backbone"]
