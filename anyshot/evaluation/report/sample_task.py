"""A task as HTML: its support images and the predictions of each run for the query images."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
from numpy.typing import NDArray

from anyshot.data.encode import data_url, encode_image
from anyshot.data.tasks import Task

SUPPORT = 6  #: support images shown of each class
QUERIES = 4  #: query images shown of each class
STYLE = """<style>
.task img { width: 3.4rem; image-rendering: pixelated; border-radius: .25rem; margin: .1rem;
  vertical-align: middle; }
.task td { text-align: left; vertical-align: top; white-space: normal; }
.query { display: inline-block; vertical-align: top; width: 11rem; margin: 0 .6rem .5rem 0; }
.query span { display: block; font-size: .75rem; }
.right::before { content: "✓ "; } .wrong::before { content: "✗ "; }
.wrong { font-weight: 600; color: var(--warn); }
</style>"""


def sample_task(task: Task, predictions: Mapping[str, NDArray[np.float64]]) -> str:
    """A table with one row per class: some support images, then query images with predictions.

    ``predictions`` maps the name of a run to probabilities [M, way] of the M query images.
    """
    rows = []
    for label, name in enumerate(task.classes):
        support = task.support[task.support_labels == label].numpy()
        total = f" <small>of {len(support)}</small>" if len(support) > SUPPORT else ""
        shown = (task.query_labels == label).nonzero().flatten().tolist()[:QUERIES]
        queries = "".join(_query(task, index, label, predictions) for index in shown)
        images = "".join(map(_image, support[:SUPPORT]))
        rows.append(f"<tr><th>{escape(name)}</th><td>{images}{total}</td><td>{queries}</td></tr>")
    head = "<tr><th>class</th><th>support images</th><th>query images and predictions</th></tr>"
    return f'<div class="scroll"><table class="task">{head}{"".join(rows)}</table></div>'


def _query(
    task: Task, index: int, label: int, predictions: Mapping[str, NDArray[np.float64]]
) -> str:
    """A query image with the prediction of each run."""
    lines = []
    for run, probabilities in predictions.items():
        best = int(probabilities[index].argmax())
        name = f"{escape(run)}: " if len(predictions) > 1 else ""
        mark = "right" if best == label else "wrong"
        text = f"{name}{escape(task.classes[best])}, {probabilities[index, best]:.0%}"
        lines.append(f'<span class="{mark}">{text}</span>')
    return f'<div class="query">{_image(task.query[index].numpy())}{"".join(lines)}</div>'


def _image(pixels: NDArray[np.uint8]) -> str:
    return f'<img alt="" src="{data_url(encode_image(pixels))}">'
