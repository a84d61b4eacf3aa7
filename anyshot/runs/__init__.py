"""Run folders: settings, log, checkpoints, recorded image sets, user code, pretrained weights.

Imports ``core``, ``data``, ``models`` and ``methods``.
"""
