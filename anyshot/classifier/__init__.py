"""The classifier for a person's own photos: a scikit-learn estimator on frozen features.

backbones/ compute features, heads/ classify them, confidence/ says how far to trust the answers,
meta_training/ trains the weights, folder*.py and label_report.py serve the commands, web/ is the
page. Imports anyshot.core, anyshot.data and anyshot.runs; only folder_report.py and folder_pages.py
import anyshot.evaluation.
"""

from __future__ import annotations

from anyshot.classifier.estimator import AnyShotClassifier

__all__ = ["AnyShotClassifier"]
