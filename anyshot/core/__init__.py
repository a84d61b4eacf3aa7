"""Foundations that know nothing about learning: errors, files, settings, the registry, progress bars and random streams.

The sub-package ``parallel`` holds threads, ranks, collectives and devices. Imports no other package.
"""
