"""Entry point of `anyshot` and `python -m anyshot`."""

from __future__ import annotations

from anyshot.cli.interrupt import exit_on_interrupt


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    exit_on_interrupt()
    from anyshot.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
