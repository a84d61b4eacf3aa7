"""Evaluate, compare and inspect trained methods.

``metrics/`` computes numbers, ``report/`` makes tables, figures and pages. The package imports
``core``, ``data``, ``methods`` and ``runs``.
"""
