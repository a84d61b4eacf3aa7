"""Tables, result files, figures and HTML pages of what ``evaluation`` measures.

The package imports ``core``, ``data``, ``methods``, ``runs`` and the rest of ``evaluation``.
"""
