"""Classifiers on frozen features, and the mixture that combines them."""
