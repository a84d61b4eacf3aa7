"""A task on a page: what was learned from, and what each run made of the query images."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.data.tasks import Task

SUPPORT, QUERIES = 6, 4  #: images shown of each class
STYLE = """<style>
.task img { width: 3.4rem; image-rendering: pixelated; border-radius: .25rem; margin: .1rem; vertical-align: middle; }
.task td { text-align: left; vertical-align: top; white-space: normal; }
.query { display: inline-block; vertical-align: top; width: 11rem; margin: 0 .6rem .5rem 0; }
.query span { display: block; font-size: .75rem; } .right::before { content: "✓ "; } .wrong::before { content: "✗ "; }
.wrong { font-weight: 600; color: var(--warn); }
</style>"""


def sample_task(task: Task, answers: Mapping[str, NDArray[np.float64]]) -> str:
    """A row a class: some support images, then query images with each run's answer; ``answers`` are probabilities
    [M, way] by run."""
    rows = []
    for c, name in enumerate(task.classes):
        support = task.support[task.support_labels == c].numpy()
        more = f" <small>of {len(support)}</small>" if len(support) > SUPPORT else ""
        chosen = (task.query_labels == c).nonzero().flatten().tolist()[:QUERIES]
        queries = "".join(_query(task, m, c, answers) for m in chosen)
        learned = "".join(map(_image, support[:SUPPORT]))
        rows.append(f"<tr><th>{escape(name)}</th><td>{learned}{more}</td><td>{queries}</td></tr>")
    head = "<tr><th>class</th><th>learned from</th><th>asked, and answered</th></tr>"
    return f'<div class="scroll"><table class="task">{head}{"".join(rows)}</table></div>'


def _query(task: Task, m: int, c: int, answers: Mapping[str, NDArray[np.float64]]) -> str:
    said = []
    for run, probabilities in answers.items():
        best = int(probabilities[m].argmax())
        whose = f"{escape(run)}: " if len(answers) > 1 else ""
        mark = "right" if best == c else "wrong"
        said.append(
            f'<span class="{mark}">{whose}{escape(task.classes[best])}, {probabilities[m, best]:.0%}</span>'
        )
    return f'<div class="query">{_image(task.query[m].numpy())}{"".join(said)}</div>'


def _image(pixels: NDArray[np.uint8]) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'
