"""What `anyshot` and `python -m anyshot` start: Ctrl-C ends it in one line from the first moment, imports included."""

from __future__ import annotations

import signal

from anyshot.cli.interrupt import leave


def main() -> None:
    """Load the command and run it."""
    heard = (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )  # a shell may start its jobs deaf to Ctrl-C
    if heard:
        signal.signal(signal.SIGINT, leave)
    from anyshot.cli.main import main as run

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        if heard:
            signal.signal(signal.SIGINT, leave)  # threads may need a moment to end


if __name__ == "__main__":
    main()
