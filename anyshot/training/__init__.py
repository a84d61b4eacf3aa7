"""Pre-training, meta-training, the optimizer, presets and the training recipe.

Imports everything from ``core`` to ``evaluation``.
"""
