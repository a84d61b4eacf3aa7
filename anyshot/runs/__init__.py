"""A run's folder: settings, log, checkpoints, recorded image sets, and the pretrained runs in ``weights/``.

Imports ``core``, ``data``, ``models`` and ``methods``.
"""
