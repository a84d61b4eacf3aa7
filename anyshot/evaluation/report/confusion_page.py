"""The confusion matrix as HTML: shaded, with the accuracy of each class, above its photos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from anyshot.evaluation.report.html import foldable, sheet

STYLE = """
.overview { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; align-items: flex-start; }
.confusion { min-width: 0; max-width: 100%; }
.lines { white-space: pre-line; }
.calibration p { max-width: 19rem; font-size: .85rem; }
.matrix { font-size: .82rem; }
.matrix th, .matrix td { border-color: var(--ground); padding: 0 .15rem; }
.matrix td { min-width: 1.55rem; height: 1.75rem; text-align: center; }
.matrix td.right { background: color-mix(in srgb, var(--right) calc(60% * var(--p)), var(--soft)); }
.matrix td.wrong { background: color-mix(in srgb, var(--wrong) calc(12% + 48% * var(--p)),
  var(--soft)); }
.matrix td.none { background: var(--soft); color: #8886; }
.matrix td.accuracy { min-width: 3rem; text-align: right; font-weight: 600; }
.matrix thead th:last-child { text-align: right; }
.matrix th { max-width: 10rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.matrix thead th { vertical-align: bottom; }
.matrix thead th span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 9rem;
  overflow: hidden; text-overflow: ellipsis; display: inline-block; }
.cells { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.cell { scroll-margin-top: 3rem; }
.cell:target { outline: 3px solid var(--right); outline-offset: 4px; border-radius: .5rem; }
.cells > .wrong { max-width: 100%; }
.cells > .wrong > .sheet { display: flex; flex-wrap: wrap; }
.cells > .wrong figure { width: 7.5rem; border-color: var(--wrong); }
.wrong meter::-webkit-meter-optimum-value { background: var(--wrong); }
.wrong meter::-moz-meter-bar { background: var(--wrong); }
.wrong h3, h2.wrong, .wrong figcaption b { color: var(--wrong); }
"""

FOLDED_FROM = 400  # photos from which right and certain answers are folded: a shorter page
Cells = Mapping[tuple[int, int], Sequence[str]]


def confusion_table(names: Sequence[str], counts: NDArray[np.int64]) -> str:
    """The matrix; shades are shares of the true class, and the last column is its accuracy."""
    head = "".join(
        f'<th scope="col" title="{escape(name)}"><span>{escape(name)}</span></th>' for name in names
    )
    rows = []
    for i, name in enumerate(names):
        total = int(counts[i].sum())
        shades = "".join(_cell(names, (i, j), int(n), total) for j, n in enumerate(counts[i]))
        accuracy = f"{counts[i, i] / total:.0%}" if total else "–"
        rows.append(
            f'<tr><th scope="row" title="{escape(name)}">{escape(name)}</th>{shades}'
            f'<td class="accuracy">{accuracy}</td></tr>'
        )
    return (
        '<div class="confusion"><p><small>A number opens its photos.</small></p>'
        '<div class="scroll"><table class="matrix"><thead><tr><th>truth ↓ predicted →</th>'
        f'{head}<th scope="col"><span>accuracy</span></th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _cell(names: Sequence[str], cell: tuple[int, int], count: int, total: int) -> str:
    if not count:
        return '<td class="none">·</td>'
    i, j = cell
    kind = "right" if i == j else "wrong"
    label = escape(f"{count} of {names[i]} predicted as {names[j]}")
    link = f'<a href="#cell-{i}-{j}" aria-label="{label}">{count}</a>'
    return f'<td class="{kind}" style="--p:{count / total:.2f}">{link}</td>'


def confusion_cells(names: Sequence[str], cells: Cells) -> str:
    """The photos: wrong answers in red, the most frequent errors first; then the right ones.

    ``cells[i, j]`` are the figures of the photos of class i that were predicted as class j.
    """
    by_frequency = sorted(cells, key=lambda cell: (-len(cells[cell]), cell))
    wrong = [cell for cell in by_frequency if cell[0] != cell[1]]
    right = sorted(cell for cell in cells if cell[0] == cell[1])
    counts = [sum(len(cells[cell]) for cell in kind) for kind in (wrong, right)]
    parts = [f'<h2 class="wrong">Wrong answers: {counts[0]} of {sum(counts)}</h2>']
    sections = "\n".join(
        f'<section class="cell wrong" id="cell-{i}-{j}"><h3>{escape(names[i])} predicted as '
        f"{escape(names[j])} ({len(cells[i, j])})</h3>{sheet(cells[i, j])}</section>"
        for i, j in wrong
    )
    parts.append(f'<div class="cells">{sections}</div>')
    parts.extend(
        foldable(
            f"{escape(names[i])}: {len(cells[i, i])} right",
            f'<section class="cell right" id="cell-{i}-{i}">{sheet(cells[i, i])}</section>',
            is_open=sum(counts) <= FOLDED_FROM,
        )
        for i, _ in right
    )
    return "\n".join(parts)
