"""What the tests of several figures share."""

from __future__ import annotations

import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


def shown_texts(figure) -> list[Text]:
    """Titles, labels, legends and the tick labels within the axes' limits."""
    texts = figure.findobj(Text)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                texts = [text for text in texts if text not in (tick.label1, tick.label2)]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def assert_no_text_overlaps(figure) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in shown_texts(figure)
    ]
    assert len(boxes) > 5
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        # a pixel of touching edges is not an overlap
        apart = a.x1 - 1 < b.x0 or b.x1 - 1 < a.x0 or a.y1 - 1 < b.y0 or b.y1 - 1 < a.y0
        assert apart, f"{one!r} and {two!r} overlap"
    for text, box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, f"{text!r} is cut off"  # noqa: PT018


def words(figure) -> str:
    """All texts of a figure."""
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))
