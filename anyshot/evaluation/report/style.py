"""The style of all figures: colours, axes, legends, and saving as PNG and SVG without a screen."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from anyshot.core.files import PathLike, write_bytes

# Colours of Okabe and Ito, which colour-blind readers can distinguish; the markers help in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888")
MARKERS = ("o", "s", "^", "D", "v", "<", ">", "P")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "anyshot",  # the same figure, the same bytes
}


def save_figure(figure: Figure, stem: PathLike) -> list[Path]:
    """Write ``stem``.png and ``stem``.svg; return both paths."""
    paths = [Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    contents = (figure_png(figure), _encode(figure, "svg", Date=None))
    for path, content in zip(paths, contents, strict=True):
        write_bytes(path, content)
    return paths


def figure_png(figure: Figure) -> bytes:
    """The figure as the content of a PNG file."""
    return _encode(figure, "png", Software=None)


def _encode(figure: Figure, kind: str, **metadata: None) -> bytes:
    """The figure in a file format; metadata set to None is left out, so that files repeat."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def use_style(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate a drawing function so that it draws in anyshot's style."""

    @wraps(draw)
    def draw_in_style(*arguments: Any, **options: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return draw_in_style


def nth_style(index: int) -> tuple[str, str]:
    """Colour and marker of the ``index``-th line or group of a figure."""
    return COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]


def set_size_axis(axes: Axes) -> None:
    """Make x a logarithmic axis of sizes whose ticks are plain numbers."""
    low, high = axes.dataLim.intervalx
    if high < 1.001 * low:  # a single size
        axes.set_xlim(low / 2, high * 2)
    axes.set_xscale("log")
    # within one octave, the ticks 1, 2, 5 of a logarithmic axis may all fall outside
    narrow = low < high < 2 * low
    axes.xaxis.set_major_locator(MaxNLocator(3) if narrow else LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def set_ratio_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make y a logarithmic axis that holds all ``values`` and at least the range from ½ to 2.

    The minimum range keeps values near 1 from looking as if they differed much.
    """
    axes.set_yscale("log", base=2)
    axes.set_ylim(min(0.5, 0.9 * min(values)), max(2, 1.1 * max(values)))
    axes.yaxis.set_major_locator(LogLocator(base=2, subs=(1, 1.5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def add_note(figure: Figure, text: str) -> None:
    """Explain dots, bars and lines below the panels."""
    width = int(14 * figure.get_figwidth())  # letters that fit into a line
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=8.5, color="#555555")


def add_legend_above(figure: Figure, axes: Axes, columns: int) -> None:
    """Put a legend above the panels, where it covers no data; none for a single entry."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(handles), columns))


def shorten(name: str, length: int = 18) -> str:
    """The name of an image set as a label: the last part of a path, its end if it is long."""
    name = Path(name).name or name
    return escape_math(name if len(name) <= length else "…" + name[1 - length :])


def escape_math(name: str) -> str:
    """Escape dollar signs, which matplotlib would read as formulas."""
    return name.replace("$", r"\$")
