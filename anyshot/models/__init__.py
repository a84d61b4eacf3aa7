"""Networks as pure functions of (parameters, images).

``network.py`` has the building blocks, ``bodies/`` the backbones. Imports ``core`` only.
"""
