"""Self-contained HTML pages: photos with predictions, figures, tables, a confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.core.text import readable
from anyshot.data.decode import UnreadableImage, decode
from anyshot.data.encode import data_url, encode_image

SIDE = 120  # pixels of a thumbnail

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --warn: #c60; }
body { font: 16px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem;
  padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr));
  gap: .8rem; padding: 0; }
figure { margin: 0; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem;
  overflow-wrap: anywhere; }
figure img { width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: .3rem;
  display: block; }
figcaption { font-size: .85rem; } figcaption b { display: block; font-size: 1rem; }
meter { width: 100%; } .unknown b { color: var(--warn); } small { opacity: .75; }
table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: .35rem .6rem; text-align: right; }
td { white-space: nowrap; } th { text-align: left; font-weight: 600; }
td a { display: block; color: inherit; }
section.cell { display: none; } section.cell:target { display: block; }
.scroll { overflow-x: auto; }
img.plot { max-width: 100%; background: #fff; padding: .4rem; border-radius: .4rem; }
"""


def page(title: str, body: str) -> str:
    """A complete page with the style sheet in it. ``body`` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def thumbnail(path: Path) -> str:
    """A photo as a data URL; empty if the file cannot be read any more."""
    try:
        pixels = decode(path, SIDE)
    except UnreadableImage:
        return ""
    return data_url(encode_image(pixels, "jpeg", quality=82), "jpeg")


def figure(path: Path, label: str, probability: float, unknown: bool = False) -> str:
    """One photo with its predicted label and probability."""
    text = f"unknown? <small>else {escape(label)}</small>" if unknown else escape(label)
    name = escape(readable(path.name))
    meter = f'<meter min="0" max="1" value="{probability:.3f}">{probability:.0%}</meter>'
    return (
        f'<figure class="{"unknown" if unknown else "known"}">'
        f'<img src="{thumbnail(path)}" alt="{name}">'
        f"<figcaption><b>{text}</b>{meter}"
        f"{probability:.0%} <small>{name}</small></figcaption></figure>"
    )


def plot(title: str, png: bytes) -> str:
    """A figure (the content of a PNG file) under a heading."""
    return (
        f'<h2>{escape(title)}</h2><div class="scroll">'
        f'<img class="plot" alt="{escape(title)}" src="{data_url(png)}"></div>'
    )


def sheet(figures: Sequence[str]) -> str:
    """Figures in a grid."""
    return '<div class="sheet">\n' + "\n".join(figures) + "\n</div>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first cell of each row is its heading. Cells are HTML, already escaped."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(
        f"<tr><th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{lines}</table></div>'


def confusion_page(
    names: Sequence[str], counts: NDArray[np.int64], cells: dict[tuple[int, int], list[str]]
) -> str:
    """The confusion matrix ``counts`` [true class, predicted class].

    Each count links to the figures ``cells[i, j]`` of its photos.
    """
    rows = []
    for i, name in enumerate(names):
        links = [
            f'<a href="#cell-{i}-{j}">{n}</a>' if n else "0"
            for j, n in enumerate(counts[i].tolist())
        ]
        rows.append([escape(name), *links])
    head = ["truth ↓ predicted →", *map(escape, names)]
    sections = "\n".join(
        f'<section class="cell" id="cell-{i}-{j}">'
        f"<h2>{escape(names[i])} predicted as {escape(names[j])}</h2>{sheet(figures)}</section>"
        for (i, j), figures in sorted(cells.items())
    )
    return table(head, rows) + "\n<p>Click a number to see its photos.</p>\n" + sections
