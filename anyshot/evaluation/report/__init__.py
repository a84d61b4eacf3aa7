"""Numbers for people: tables on the screen, CSV and JSON on disk, and figures."""

import anyshot.core.progress  # noqa: F401 (the one who imports Rich without touching a generator)
