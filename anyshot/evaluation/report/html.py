"""HTML pages: photos with predictions, figures, tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from anyshot.core.text import readable
from anyshot.data.encode import data_url

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882;
  --warn: light-dark(#a85200, #ffb45e);
  --wrong: light-dark(#b3261e, #ff8a80); --right: light-dark(#3f51c9, #93a2ff);
  --ground: light-dark(#fff, #16181d); }
body { font: 16px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 80rem;
  padding: 0 1rem; background: var(--ground); }
h1 { font-size: 1.4rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; padding: .4rem 0; position: sticky; top: 0;
  z-index: 2; background: var(--ground); }
summary { margin: 2rem 0 .6rem; padding: .4rem 0; position: sticky; top: 0; z-index: 2;
  background: var(--ground); cursor: pointer; }
summary h2 { display: inline; position: static; margin: 0; }
h3 { font-size: .9rem; margin: 0 0 .3rem; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr));
  gap: .8rem; padding: 0; }
figure { margin: 0; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem;
  overflow-wrap: anywhere; }
details figure { content-visibility: auto; contain-intrinsic-size: auto 12rem; }
figure img { width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: .3rem;
  display: block; background: var(--soft); }
figcaption { font-size: .85rem; } figcaption b { display: block; font-size: .9rem; }
meter { width: 100%; }
meter::-webkit-meter-optimum-value { background: var(--right); }
meter::-moz-meter-bar { background: var(--right); }
.unknown b { color: var(--warn); } small { opacity: .75; }
.unknown b small { display: block; opacity: 1; }
table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: .35rem .6rem; text-align: right; }
td { white-space: nowrap; } th { text-align: left; font-weight: 600; }
td a { display: block; color: inherit; }
.scroll { overflow: auto; max-height: 90vh; }
.scroll thead th { position: sticky; top: 0; background: var(--ground); }
.scroll tr > th:first-child { position: sticky; left: 0; background: var(--ground); }
img.plot { max-width: 100%; background: #fff; padding: .4rem; border-radius: .4rem; }
"""


def page(title: str, body: str, style: str = "") -> str:
    """A complete page with the style sheet in it. ``body`` is HTML, ``style`` is more CSS."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{style}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


def figure(source: str, path: Path, label: str, probability: float, unknown: bool = False) -> str:
    """One photo with its predicted label and probability; ``source`` is the URL of a thumbnail."""
    text = f"None of these? <small>Most like {escape(label)}</small>" if unknown else escape(label)
    name = escape(readable(path.name))
    percent = escape(round_percent(probability))
    meter = f'<meter min="0" max="1" value="{probability:.3f}">{percent}</meter>'
    return (
        f'<figure class="{"unknown" if unknown else "known"}">'
        f'<img src="{escape(source)}" alt="{name}" loading="lazy">'
        f"<figcaption><b>{text}</b>{meter}"
        f"{percent} <small>{name}</small></figcaption></figure>"
    )


def round_percent(p: float) -> str:
    """A probability in per cent, as the page writes it: neither 0% nor 100% if it is not certain.

    >>> round_percent(0.996), round_percent(0.42), round_percent(0.001)
    ('>99%', '42%', '<1%')
    """
    if 0.995 < p < 1:
        return ">99%"
    return "<1%" if 0 < p < 0.005 else f"{p:.0%}"


def plot(title: str, png: bytes) -> str:
    """A figure (the content of a PNG file) under a heading."""
    return (
        f'<h2>{escape(title)}</h2><div class="scroll">'
        f'<img class="plot" alt="{escape(title)}" src="{data_url(png)}"></div>'
    )


def sheet(figures: Sequence[str]) -> str:
    """Figures in a grid."""
    return '<div class="sheet">\n' + "\n".join(figures) + "\n</div>"


def foldable(heading: str, content: str, is_open: bool) -> str:
    """Content under a heading that opens and closes it; the heading stays in view."""
    return f"<details{' open' * is_open}><summary><h2>{heading}</h2></summary>{content}</details>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first cell of each row is its heading. Cells are HTML, already escaped."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(
        f"<tr><th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    head_row = f"<thead><tr>{top}</tr></thead>"
    return f'<div class="scroll" tabindex="0"><table>{head_row}<tbody>{lines}</tbody></table></div>'
