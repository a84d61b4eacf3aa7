"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A first call may compile, build or load something: no single example has a deadline, and a failure comes back.
settings.register_profile("anyshot", deadline=None, print_blob=True)
settings.load_profile("anyshot")
