"""anyshot data: image sets, from official files or a person's own to what the learner sees."""

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
    help="Image sets: list them, prepare them, look at them.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `anyshot data list` shows.")]


@app.command("list")
def list_(json: Json = None) -> None:
    """Show every image set: size, splits, terms, source, and whether it is ready on this machine.

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
            help="Official archive, a folder that holds it, or the folder unpacked from it. Default: download.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Prepare anew what is ready already.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only verify, pixel by pixel, what was prepared.")
    ] = False,
    json: Json = None,
) -> None:
    """Make an image set ready: find or download its official files, verify, unpack and convert them.

    What is ready stays as it is. An interrupted preparation leaves nothing behind but a download that resumes.

    Example: anyshot data prepare cifar-fs --source ~/Downloads/cifar-100-python.tar.gz
    """
    from rich.console import Console

    from anyshot.data.published import CATALOGUE
    from anyshot.data.summary import describe_image_set

    if check and (source or again):
        raise typer.BadParameter("--check only reads; leave out --source and --again.")
    _check(json)
    facts = describe_image_set(_ready(name, source, again, check))
    whole = CATALOGUE[name].images if name in CATALOGUE else 0
    remark = f" (A part: the official files hold {whole:,}.)" if facts["images"] < whole else ""
    sentence = _sentence(facts, "verified" if check else "ready") + remark
    Console().print(sentence, markup=False, highlight=False, soft_wrap=True)
    if json:
        _write(json, facts)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="An image set that is ready, or a folder of images."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The picture. Default: NAME.png.")
    ] = None,
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        typer.Option(help="Of the task. Default: the first there is."),
    ] = None,
    way: Annotated[
        int, typer.Option(min=2, metavar="N", help="Classes in the task, if there are as many.")
    ] = 5,
    shots: Annotated[
        str, typer.Option(metavar="TEXT", help="Support images a class, as in training.")
    ] = "any-shot",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Of the task, and of a split made by seed.")
    ] = 0,
) -> None:
    """Draw a contact sheet (PNG): classes of every split, and one task as the learner gets it.

    Example: anyshot data show glyphs --shots fixed:5
    """
    from rich.console import Console

    from anyshot.core.files import check_writable, write_bytes
    from anyshot.data import open_images
    from anyshot.data.class_splits import test_only, training_shares
    from anyshot.data.contact_sheet import class_sheet, stack_sheets

    def split_policy(name: str, classes: int) -> Mapping[str, float]:
        return (training_shares(way) if classes >= 2 * way else test_only)(
            name, classes
        )  # as training would, if it could

    images = open_images(name, seed=seed, split_policy=split_policy)
    out = out or Path(
        f"{Path(images.name).name}.png"
    )  # a set that was given away may be called ../../something
    check_writable(out)
    sheets = [class_sheet(images)]
    if len(images.classes) > 1:  # one alone makes no task
        sheets.append(_task_sheet(images, split, way, shots, seed))
    picture = BytesIO()
    stack_sheets(*sheets).save(picture, "PNG")
    write_bytes(out, picture.getvalue())
    Console().print(
        f"{images.name}: {'classes and a task are' if len(sheets) > 1 else 'its only class is'} drawn in {out}.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def table_of(sets: list[dict[str, Any]]) -> Table:
    """The listing as a table of two lines a set."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        caption="Classes are train/validation/test; MB under Ready are those on this disk.",
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
    """How much is to be fetched, and how it is checked; nothing for embedded sets."""
    if one["download"] == 0:
        return ""
    if one["download"] is None:
        return " (no download)"
    return f" (download: {one['download'] / 1e6:,.0f} MB, checksum: {one['checksum']})"


def _ready(name: str, source: Path | None, again: bool, check: bool) -> ImageSet:
    from anyshot.data import EMBEDDED, open_images
    from anyshot.data import published as catalogue

    if name not in EMBEDDED:
        entry = catalogue.find_dataset(name)
        return (
            catalogue.verify_prepared(entry)
            if check
            else catalogue.prepare(entry, source, again=again)
        )
    if source or again:
        raise typer.BadParameter(f"{name} is embedded; leave out --source and --again.")
    images = open_images(name)
    images.check()
    return images


def _sentence(facts: dict[str, Any], state: str) -> str:
    splits = ", ".join(f"{split} {count}" for split, count in facts["splits"].items())
    least, most = facts["images_per_class"]
    height, width = facts["size"]
    each = str(least) if least == most else f"{least} to {most}"
    where = f", in {facts['folder']}" if facts["folder"] else ""
    return (
        f"{facts['name']} is {state}: {facts['images']:,} images of {height}x{width}, {facts['classes']} classes "
        f"({splits}) of {each} images{where}."
    )


def _task_sheet(images: ImageSet, split: str | None, way: int, shots: str, seed: int) -> Image:
    from anyshot.core.settings import TaskSettings
    from anyshot.data.contact_sheet import task_sheet
    from anyshot.data.tasks import TaskStream

    split = split or next(iter(images.splits))
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
    """Whether the results can be written, before there are any."""
    from anyshot.core.files import check_writable

    if json:
        check_writable(json)


def _write(path: Path, facts: dict[str, Any]) -> None:
    from anyshot.evaluation.report.result_files import write_results

    write_results(path, facts)
