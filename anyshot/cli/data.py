"""anyshot data: list, prepare and show image sets."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.help import PlainHelp
from anyshot.cli.settings_options import Json

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.table import Table

    from anyshot.data import ImageSet

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="List, prepare and show image sets.",
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of an image set (see `anyshot data list`).")
]


@app.command("list")
def list_(json: Json = None) -> None:
    """List all image sets: size, splits, terms, source, and whether they are prepared.

    Example: anyshot data list
    """
    from rich.console import Console

    from anyshot.data.summary import describe_all

    _check(json)
    sets = describe_all()
    Console().print(table_of(sets))
    if json:
        _write(json, {"sets": sets})


@app.command()
def prepare(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Official archive, its folder, or the unpacked folder. Default: download.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Prepare a set again.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only verify all pixels of a prepared set.")
    ] = False,
    json: Json = None,
) -> None:
    """Prepare an image set: find or download its official files, verify, unpack and convert them.

    A prepared set is kept. An interrupted download resumes; nothing else is left behind.

    Example: anyshot data prepare cifar-fs --source ~/Downloads/cifar-100-python.tar.gz
    """
    from rich.console import Console

    from anyshot.data.summary import describe_image_set

    if check and (source or again):
        raise typer.BadParameter("--check only reads; omit --source and --again.")
    _check(json)
    images = _prepare_or_verify(name, source, again, check)
    facts = describe_image_set(images)
    sentence = _describe(facts, "verified" if check else "ready")
    parts = [images.part_of_official(split) for split in images.splits]
    if any(parts):
        sentence += f" It is a part: {', '.join(dict.fromkeys(filter(None, parts)))}."
    Console().print(sentence, markup=False, highlight=False, soft_wrap=True)
    if json:
        _write(json, facts)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A prepared image set, or a folder of images."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file. Default: NAME.png.")
    ] = None,
    split: Annotated[
        Literal["train", "validation", "val", "test"] | None,
        typer.Option(help="Split of the task. Default: the first one."),
    ] = None,
    way: Annotated[
        int,
        typer.Option(min=2, metavar="N", help="Classes in the task, at most those of the split."),
    ] = 5,
    shots: Annotated[
        str, typer.Option(metavar="TEXT", help="Support images per class, as in training.")
    ] = "any-shot",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the task, and of a split by seed.")
    ] = 0,
) -> None:
    """Draw a contact sheet (PNG): classes of every split, and one task.

    Example: anyshot data show glyphs --shots fixed:5
    """
    from rich.console import Console

    from anyshot.core.files import check_writable, write_bytes
    from anyshot.data import open_images
    from anyshot.data.class_splits import test_only, training_shares
    from anyshot.data.contact_sheet import class_sheet, stack_sheets

    def split_policy(name: str, classes: int) -> Mapping[str, float]:
        # Split as for training, if there are enough classes.
        return (training_shares(way) if classes >= 2 * way else test_only)(name, classes)

    images = open_images(name, seed=seed, split_policy=split_policy)
    out = out or Path(f"{Path(images.name).name}.png")  # a name can contain ../../
    check_writable(out)
    sheets = [class_sheet(images)]
    if len(images.classes) > 1:  # a task needs two classes
        sheets.append(_task_sheet(images, split, way, shots, seed))
    picture = BytesIO()
    stack_sheets(*sheets).save(picture, "PNG")
    write_bytes(out, picture.getvalue())
    content = "classes and a task" if len(sheets) > 1 else "the only class"
    Console().print(
        f"Wrote {out}: {content} of {images.name}.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def table_of(sets: list[dict[str, Any]]) -> Table:
    """Return the list as a table with two lines per set."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        caption="Classes: train/validation/test. Ready: prepared on this machine, MB on this disk.",
    )
    for heading in ("Set", "Classes", "Images", "Ready", "Terms, official source"):
        table.add_column(
            heading, justify="right" if heading == "Images" else "left", overflow="fold"
        )
    for one in sets:
        counts = [str(one["splits"].get(split, 0)) for split in ("train", "validation", "test")]
        table.add_row(
            f"[bold]{escape(one['name'])}[/]\n[dim]{escape(one['title'])}[/]",
            f"{sum(one['splits'].values())}\n[dim]{'/'.join(counts)}[/]",
            f"{one['images']:,}\n[dim]{one['side']}x{one['side']}[/]",
            f"{'[green]yes[/]' if one['ready'] else 'no'}\n[dim]{one['bytes'] / 1e6:,.0f} MB[/]",
            f"{escape(one['terms'])}\n[dim]{escape(one['source'])}{_download(one)}[/]",
        )
    return table


def _download(one: dict[str, Any]) -> str:
    """Describe the size and checksum of the download; empty for embedded sets."""
    if one["download"] == 0:
        return ""
    if one["download"] is None:
        return " (no download)"
    return f" (download: {one['download'] / 1e6:,.0f} MB, checksum: {one['checksum']})"


def _prepare_or_verify(name: str, source: Path | None, again: bool, check: bool) -> ImageSet:
    from anyshot.data import EMBEDDED, open_images, published

    if name not in EMBEDDED:
        dataset = published.find_dataset(name)
        if check:
            return published.verify_prepared(dataset)
        return published.prepare(dataset, source, again=again)
    if source or again:
        raise typer.BadParameter(f"{name} is embedded; omit --source and --again.")
    images = open_images(name)
    images.check()
    return images


def _describe(facts: dict[str, Any], state: str) -> str:
    splits = ", ".join(f"{split} {count}" for split, count in facts["splits"].items())
    least, most = facts["images_per_class"]
    height, width = facts["size"]
    each = str(least) if least == most else f"{least} to {most}"
    where = f", in {facts['folder']}" if facts["folder"] else ""
    return (
        f"{facts['name']} is {state}: {facts['images']:,} images of {height}x{width}, "
        f"{facts['classes']} classes ({splits}) of {each} images{where}."
    )


def _task_sheet(images: ImageSet, split: str | None, way: int, shots: str, seed: int) -> Image:
    from anyshot.core.settings import TaskSettings
    from anyshot.data.contact_sheet import task_sheet
    from anyshot.data.storage import canonical_split
    from anyshot.data.tasks import TaskStream

    split = canonical_split(split or next(iter(images.splits)))
    way = max(2, min(way, len(images.splits.get(split, ()))))
    task = TaskStream(images, split, TaskSettings(way=way, shots=shots), seed).task(0)
    return task_sheet(
        f"A {way}-way task of {split} classes ({shots}, seed {seed})",
        task.classes,
        task.support.numpy(),
        task.support_labels.numpy(),
        task.query.numpy(),
        task.query_labels.numpy(),
    )


def _check(json: Path | None) -> None:
    """Check that the results can be written before the work starts."""
    from anyshot.core.files import check_writable

    if json:
        check_writable(json)


def _write(path: Path, facts: dict[str, Any]) -> None:
    from anyshot.evaluation.report.result_files import write_results

    write_results(path, facts)
