"""anyshot serve: a local page to classify your own photos."""

from __future__ import annotations

from typing import Annotated

import typer

from anyshot.cli.classifier_options import (
    DEFAULT,
    LEARNER,
    Backbone,
    Quality,
    Side,
    Weights,
    resolve_backbone,
)
from anyshot.cli.common import TrustCode
from anyshot.cli.settings_options import Device
from anyshot.core.errors import AnyshotError


def serve(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on; only this computer can reach the default.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 takes any free one.")
    ] = 8765,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    quality: Quality = "fast",
    side: Side = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Open a local page: add classes, drop photos on them, and classify new photos.

    Photos stay in this computer's memory. They are never written to disk, and are forgotten when
    the page is stopped.

    Example: anyshot serve
    """
    import webbrowser

    try:
        from anyshot.classifier.web.server import (
            host_names,
            is_loopback,
            open_socket,
            run,
            url_of,
        )
    except ImportError as error:
        raise AnyshotError(
            f"The page needs {error.name}, which is not installed; run: pip install 'anyshot[web]'"
        ) from error
    from anyshot.classifier.backbones.backbone import backbone_of_quality
    from anyshot.classifier.web.app import make_app
    from anyshot.classifier.web.uploads import UploadReader

    backbone, weights = resolve_backbone(backbone, weights)
    chosen = backbone_of_quality(quality, backbone)
    with open_socket(host, port) as listening:
        reader = UploadReader(
            chosen, weights=weights, side=side, device=device, trust_code=trust_code
        )
        app = make_app(reader, names=host_names(host))
        url = url_of(listening)

        def ready() -> None:
            print(f"The page is at {url} until you press Ctrl-C.", flush=True)
            if not is_loopback(host):
                print(
                    "Everyone who can reach this computer can use it; there is no password.",
                    flush=True,
                )
            if show:
                webbrowser.open(url)

        run(app, listening, ready)
