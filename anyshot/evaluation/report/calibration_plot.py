"""A calibration plot as SVG, which takes the colours of its page."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

SIZE = 220.0  # pixels of the square from 0 to 1
LEFT, TOP, RIGHT, BOTTOM = 58.0, 26.0, 26.0, 40.0  # margins; the largest disc has a radius of 23


def calibration_plot(bins: Sequence[Sequence[float]]) -> str:
    """Accuracy against confidence. ``bins``: images, correct answers and the sum of confidences.

    The area of a disc grows with the number of images of its bin.

    >>> "<circle" in calibration_plot([(4, 3, 3.2)])
    True
    """
    total = sum(images for images, _, _ in bins)
    discs = "".join(
        _disc(confidence / images, correct / images, images / total)
        for images, correct, confidence in bins
        if images
    )
    ticks = "".join(
        f'<text x="{_x(t)}" y="{_y(0) + 15}" text-anchor="middle">{t:.0%}</text>'
        f'<text x="{_x(0) - 5}" y="{_y(t) + 4}" text-anchor="end">{t:.0%}</text>'
        for t in (0.5, 1.0)
    )
    width, height = LEFT + SIZE + RIGHT, TOP + SIZE + BOTTOM
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-label="Calibration: accuracy against confidence" font-size="11" '
        'fill="currentColor">'
        f'<rect x="{_x(0)}" y="{_y(1)}" width="{SIZE}" height="{SIZE}" fill="none" '
        'stroke="#8888"/>'
        f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#888" stroke-dasharray="4 4"/>'
        f'<g fill="var(--right)" fill-opacity=".55" stroke="var(--right)">{discs}</g>{ticks}'
        f'<text x="{_x(0.5)}" y="{_y(0) + 29}" text-anchor="middle">how sure the answer was</text>'
        f'<text transform="translate(14 {_y(0.5)}) rotate(-90)" text-anchor="middle">'
        "share that was right</text></svg>"
    )


def _disc(confidence: float, accuracy: float, share: float) -> str:
    text = f"{accuracy:.0%} right at {confidence:.0%} ({share:.0%} of the photos)"
    return (
        f'<circle cx="{_x(confidence):.1f}" cy="{_y(accuracy):.1f}" r="{3 + 20 * sqrt(share):.1f}">'
        f"<title>{text}</title></circle>"
    )


def _x(value: float) -> float:
    return LEFT + SIZE * value


def _y(value: float) -> float:
    return TOP + SIZE * (1 - value)
