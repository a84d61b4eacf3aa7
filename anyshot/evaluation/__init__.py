"""Evaluate, compare and inspect trained methods.

``metrics/`` computes numbers, ``report/`` makes tables, figures and pages. Imports ``core``, ``data``,
``methods`` and ``runs``.
"""
