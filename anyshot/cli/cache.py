"""anyshot cache: the cache of image features."""

from __future__ import annotations

import typer

from anyshot.cli.help import PlainHelp

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=False,
    invoke_without_command=True,
    help="The cache of image features: show, clear.",
)


@app.callback()
def cache(context: typer.Context) -> None:
    """Show the size of the feature cache."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def show() -> None:
    """Show where the feature cache is, and how many images of which backbone it holds."""
    from rich.table import Table

    from anyshot.classifier.backbones.feature_cache import MAX_BYTES, cache_contents, cache_path
    from anyshot.evaluation.report.tables import print_tables

    contents = cache_contents()
    if contents:
        table = Table("backbone", "images", "MB")
        for name, (images, size) in sorted(contents.items()):
            table.add_row(name, f"{images:,}", f"{size / 1e6:.1f}")
        print_tables(table)
    used = cache_path().stat().st_size if contents else 0
    print(f"{cache_path()}: {used / 1e6:.1f} MB of at most {MAX_BYTES / 1e6:,.0f} MB.")


@app.command()
def clear() -> None:
    """Remove the feature cache; features are computed again when they are needed."""
    from anyshot.classifier.backbones.feature_cache import clear_cache

    print(f"Removed {clear_cache() / 1e6:.1f} MB.")
