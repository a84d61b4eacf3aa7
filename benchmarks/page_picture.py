"""The picture of the page in README.md: photos of folders in a headless Chromium.

python benchmarks/page_picture.py --support DIR --query DIR --png docs/figures/page.png

The picture has 5 photos of ants, one of which is of a bee, and 12 of bees to learn from and 10 to
classify, of PyTorch's data set for transfer learning. Chromium and `tests/helpers/browser.py` are
needed.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.server import Server, open_socket, url_of
from anyshot.classifier.web.uploads import UploadReader

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from browser import MOUSE, Browser

WIDTH, HEIGHT = 1280, 1290
COLOURS = 256  # of the picture: a quarter of the file's size

# all images that the picture shows
LOADED = """[...document.images].filter((image) => image.checkVisibility())
  .filter((image) => [image.getBoundingClientRect()]
    .some(({ top, left }) => top < innerHeight && left < innerWidth))
  .every((image) => image.complete)"""


def take_picture(url, support, query):
    """The page as a PNG file after the photos were added with its buttons."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile), MOUSE)
        try:
            browser.open(url, width=WIDTH, height=HEIGHT)
            browser.wait("document.querySelector('#about').textContent")
            idle = "document.querySelector('#work').hidden"
            browser.choose("#folder", support)
            browser.wait(f"!document.querySelector('#accuracy').hidden && {idle}")
            browser.choose("#pool-folder", query)
            browser.wait(f"document.querySelectorAll('.suggestion').length && {idle}")
            browser.wait("!document.documentElement.classList.contains('busy')")
            browser.wait(LOADED)
            browser.picture(Path(profile) / "page.png")
            return (Path(profile) / "page.png").read_bytes()
        finally:
            browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--support", type=Path, required=True, help="folders of photos to learn")
    parser.add_argument("--query", type=Path, required=True, help="folder of photos to classify")
    parser.add_argument("--png", type=Path, required=True)
    args = parser.parse_args()
    listening = open_socket("127.0.0.1", 0)
    ready = threading.Event()
    server = Server(make_app(UploadReader("efficientnet-lite0")), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        ready.wait()
        data = take_picture(url_of(listening), args.support, args.query)
    finally:
        server.should_exit = True
        thread.join()
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    palette = picture.quantize(COLOURS, kmeans=1)  # keeps white white
    picture.quantize(COLOURS, palette=palette).save(args.png, optimize=True)  # with dithering


if __name__ == "__main__":
    main()
