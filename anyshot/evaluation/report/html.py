"""Pages of pictures that need nothing but a browser: a contact sheet of answers, and a confusion matrix that opens."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.core.text import readable
from anyshot.data.decode import UnreadableImage, decode

SIDE = 120  # of a thumbnail

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --warn: #c60; }
body { font: 16px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .8rem; padding: 0; }
figure { margin: 0; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem; overflow-wrap: anywhere; }
figure img { width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: .3rem; display: block; }
figcaption { font-size: .85rem; } figcaption b { display: block; font-size: 1rem; }
meter { width: 100%; } .unknown b { color: var(--warn); } small { opacity: .75; }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .35rem .6rem; text-align: right; }
td { white-space: nowrap; } th { text-align: left; font-weight: 600; } td a { display: block; color: inherit; }
section.cell { display: none; } section.cell:target { display: block; }
.scroll { overflow-x: auto; } img.plot { max-width: 100%; background: #fff; padding: .4rem; border-radius: .4rem; }
"""


def page(title: str, body: str) -> str:
    """A whole page with everything in it."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def thumbnail(path: Path) -> str:
    """A picture as a data address, or an empty one where it cannot be read any more."""
    try:
        pixels = decode(path, SIDE)
    except UnreadableImage:
        return ""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def figure(path: Path, label: str, probability: float, unknown: bool = False) -> str:
    """One picture with its answer."""
    said = f"unknown? <small>else {escape(label)}</small>" if unknown else escape(label)
    name = escape(readable(path.name))
    return (
        f'<figure class="{"unknown" if unknown else "known"}"><img src="{thumbnail(path)}" alt="{name}">'
        f'<figcaption><b>{said}</b><meter min="0" max="1" value="{probability:.3f}">{probability:.0%}</meter>'
        f"{probability:.0%} <small>{name}</small></figcaption></figure>"
    )


def picture(title: str, png: bytes) -> str:
    """A figure of a report, inside the page."""
    data = base64.b64encode(png).decode()
    return (
        f'<h2>{escape(title)}</h2><div class="scroll"><img class="plot" alt="{escape(title)}" '
        f'src="data:image/png;base64,{data}"></div>'
    )


def sheet(figures: Sequence[str]) -> str:
    """Figures in a grid."""
    return '<div class="sheet">\n' + "\n".join(figures) + "\n</div>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text cells; the first of each row is its heading. Cells must be escaped already."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(
        f"<tr><th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{lines}</table></div>'


def confusion_page(
    names: Sequence[str], counts: NDArray[np.int64], cells: dict[tuple[int, int], list[str]]
) -> str:
    """The matrix, rows the truth; each number opens the figures of its pictures."""
    rows = []
    for i, name in enumerate(names):
        links = [
            f'<a href="#cell-{i}-{j}">{n}</a>' if n else "0"
            for j, n in enumerate(counts[i].tolist())
        ]
        rows.append([escape(name), *links])
    head = ["truth ↓ taken for →", *map(escape, names)]
    opened = "\n".join(
        f'<section class="cell" id="cell-{i}-{j}"><h2>{escape(names[i])} taken for {escape(names[j])}</h2>'
        f"{sheet(figures)}</section>"
        for (i, j), figures in sorted(cells.items())
    )
    return table(head, rows) + "\n<p>Choose a number to see its pictures.</p>\n" + opened
