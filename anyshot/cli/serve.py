"""anyshot serve: a page for one's own pictures."""

from __future__ import annotations

from typing import Annotated

import typer

from anyshot.cli.classifier_options import (
    DEFAULT,
    LEARNER,
    Backbone,
    Side,
    Weights,
    resolve_backbone,
)
from anyshot.cli.settings_options import Device
from anyshot.core.errors import AnyshotError


def serve(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen; the default is reached from this computer alone.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="0 takes any that is free.")
    ] = 8765,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    side: Side = None,
    device: Device = "auto",
) -> None:
    """Open a page: add classes, drop pictures on them, see what new pictures are and which to label next.

    Pictures stay in this computer's memory, are forgotten when the page is stopped, and are never written to disk.

    Example: anyshot serve
    """
    import webbrowser

    try:
        from anyshot.classifier.web.server import address, is_loopback, names_of, open_socket, run
    except ImportError as error:
        raise AnyshotError(
            f"The page needs {error.name}, which is not installed; pip install 'anyshot[web]' brings it."
        ) from error
    from anyshot.classifier.web.app import make_app
    from anyshot.classifier.web.uploads import UploadReader

    backbone, weights = resolve_backbone(backbone, weights)
    with open_socket(host, port) as listening:
        app = make_app(
            UploadReader(backbone, weights=weights, side=side, device=device), names=names_of(host)
        )
        place = address(listening)

        def ready() -> None:
            print(f"The page is at {place} until you press Ctrl-C.", flush=True)
            if not is_loopback(host):
                print(
                    "Whoever reaches this computer's address may use it; there is no password.",
                    flush=True,
                )
            if show:
                webbrowser.open(place)

        run(app, listening, ready)
