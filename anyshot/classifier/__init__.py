"""The classifier for a person's own images: a scikit-learn estimator, and folders of pictures through it."""

from __future__ import annotations

from anyshot.classifier.estimator import AnyShotClassifier

__all__ = ["AnyShotClassifier"]
