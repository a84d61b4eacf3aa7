"""Where the engine cannot do something: an error if it is required, else one log line."""

from __future__ import annotations

import logging

from anyshot.core.errors import SettingsError

log = logging.getLogger(__name__)
_logged_reasons: set[str] = set()


def fall_back_to_autograd(reason: str, engine: str) -> None:
    """Log the reason once, or raise it as an error if the caller requires the engine."""
    if engine == "engine":
        raise SettingsError(
            f"The engine cannot do this: {reason}. Use engine='autograd' (or 'auto')."
        )
    if reason not in _logged_reasons:
        _logged_reasons.add(reason)
        log.warning("Falling back to autograd (slower, same results): %s.", reason)
