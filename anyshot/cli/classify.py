"""anyshot classify: what are these pictures?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyshot.cli.common import Csv, check_files
from anyshot.cli.settings_options import Device
from anyshot.core.errors import AnyshotError

if TYPE_CHECKING:
    from anyshot.classifier import AnyShotClassifier
    from anyshot.classifier.confidence.explanation import Explanation
    from anyshot.classifier.folders import Classification, LabelledFiles

Support = Annotated[
    Path, typer.Option(metavar="DIR", help="Pictures to learn from: DIR/CLASS/*.jpg.")
]
Backbone = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="efficientnet-lite0, -lite1, -lite2, conv4:RUN, timm:NAME or torchvision:NAME.",
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What meta-training learned: see anyshot weights; a folder of them, or a run.",
    ),
]
Side = Annotated[
    int | None,
    typer.Option(
        min=16, metavar="N", help="Pictures are resized to N x N. Default: the backbone's."
    ),
]
SHOWN = 40  # lines on the screen; the files have all
DEFAULT = "efficientnet-lite0"
LEARNER = "photos-lite0"


def classify(
    support: Support,
    query: Annotated[
        Path, typer.Option(metavar="DIR", help="Pictures to classify: a folder, or one file.")
    ],
    csv: Csv = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a page with all pictures, the most uncertain first."
        ),
    ] = None,
    backbone: Backbone = DEFAULT,
    weights: Weights = LEARNER,
    side: Side = None,
    device: Device = "auto",
) -> None:
    """Classify pictures after a few examples of each class, in folders such as DIR/spruce and DIR/pine.

    Any number of pictures a class. Says how sure each answer is, which pictures are like none of the classes, what
    accuracy to expect, and of which class more pictures would help most.

    Example: anyshot classify --support trees --query new --html answers.html
    """
    from anyshot.classifier.folders import classify_images, find_images

    check_files(csv, html)
    classifier, explanation = learn_from_folder(support, backbone, weights, side, device)
    asked = find_images(query)
    print_skipped(query, asked)
    answers = sorted(classify_images(classifier, asked.paths), key=lambda a: -a.doubt)
    print_answers(answers, query)
    print(explanation)
    if csv:
        write_csv(csv, answers)
    if html:
        write_page(html, answers, explanation, asked)


def learn_from_folder(
    support: Path, backbone: str, weights: str, side: int | None, device: str
) -> tuple[AnyShotClassifier, Explanation]:
    """A classifier of the support folder, and what it says of itself; what could not be read is said."""
    from anyshot.classifier import AnyShotClassifier
    from anyshot.classifier.folders import find_labelled_images, fit_folder

    backbone, weights = chosen(backbone, weights)
    given = find_labelled_images(support)
    print_skipped(support, given)
    classifier = fit_folder(
        AnyShotClassifier(backbone, weights=weights, side=side, device=device), given
    )
    return classifier, classifier.explain()


def chosen(backbone: str, weights: str) -> tuple[str, str]:
    """Backbone and learner; weights that are a trained method mean its body, under the usual learner."""
    from anyshot.runs import pretrained

    if weights not in pretrained.pretrained_models() and not (Path(weights) / "run.json").is_file():
        return backbone, weights
    if backbone != DEFAULT:
        raise AnyshotError(
            f"--weights {weights} brings a backbone of its own; leave --backbone {backbone} out."
        )
    return f"conv4:{weights}", LEARNER


def print_skipped(root: Path, found: LabelledFiles) -> None:
    """Name the files that could not be used."""
    for path, reason in found.skipped[:10]:
        typer.echo(f"{root}: skipped {path} ({reason})", err=True)
    if len(found.skipped) > 10:
        typer.echo(f"{root}: skipped {len(found.skipped) - 10} more", err=True)


def print_answers(answers: list[Classification], root: Path) -> None:
    """The most uncertain first."""
    from rich.table import Table

    from anyshot.core.text import readable
    from anyshot.evaluation.report.tables import print_tables

    table = Table(
        "picture",
        "class",
        "probability",
        title=f"{len(answers)} pictures, the most uncertain first",
    )
    for a in answers[:SHOWN]:
        name = a.path.relative_to(root) if root.is_dir() else a.path.name
        table.add_row(
            readable(name),
            f"unknown? else {a.label}" if a.unknown else a.label,
            f"{a.probability:.1%}",
        )
    if len(answers) > SHOWN:
        table.add_row(f"… {len(answers) - SHOWN} more, surer than these", "", "")
    print_tables(table)


def write_csv(path: Path, answers: list[Classification]) -> None:
    """path, class, probability, unknown, unknown_score, and a column of probabilities for each class."""
    from anyshot.core.files import write_csv_rows

    lines = []
    for a in answers:
        told = {
            "path": a.path,
            "class": a.label,
            "probability": f"{a.probability:.6f}",
            "unknown": a.unknown,
        }
        each = {f"p({name})": f"{p:.6f}" for name, p in a.probabilities.items()}
        lines.append({**told, "unknown_score": f"{a.unknown_score:.4f}", **each})
    write_csv_rows(path, lines)


def write_page(
    path: Path, answers: list[Classification], explanation: Explanation, asked: LabelledFiles
) -> None:
    """The contact sheet."""
    from html import escape

    from anyshot.core.files import write_bytes
    from anyshot.evaluation.report.html import figure, page, sheet

    body = [explanation_html(explanation), "<h2>Answers, the most uncertain first</h2>"]
    body.append(sheet([figure(a.path, a.label, a.probability, a.unknown) for a in answers]))
    if asked.skipped:
        items = "".join(
            f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in asked.skipped
        )
        body.append(f"<h2>Not read</h2><ul>{items}</ul>")
    write_bytes(path, page("What these pictures are", "\n".join(body)).encode())


def explanation_html(explanation: Explanation) -> str:
    """What to expect, and a row for each class."""
    from html import escape

    from anyshot.evaluation.report.html import table

    rows = [
        [
            escape(c.name),
            str(c.images),
            f"{c.weight:.2f}",
            f"{c.expected:.0%}",
            f"{100 * c.gain:.1f}",
        ]
        for c in explanation.classes
    ]
    head = ["class", "pictures", "weight ω", "expected accuracy", "gain of 5 more, points"]
    return (
        f"<p>Expected accuracy on new pictures: <b>{explanation.expected:.0%}</b> (90 % interval {explanation.low:.0%} "
        f"to {explanation.high:.0%}). To photograph next: <b>{escape(explanation.next)}</b>. {explanation.caution}</p>"
        + table(head, rows)
    )
