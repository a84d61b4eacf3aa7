"""Foundations without machine learning: errors, files, settings, registries, progress and random.

The sub-package ``parallel`` has threads, ranks, collectives and devices. Imports no other package.
"""
