"""Tables and files about the labels of a folder of photos."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from anyshot.classifier.confidence.label_check import LabelCheck
from anyshot.classifier.folders import LabelledFiles
from anyshot.core.files import write_csv_rows
from anyshot.core.text import readable

MAX_SHOWN = 40  # photos or pairs on the screen; the CSV file has all photos


def suspects_table(found: LabelCheck, files: LabelledFiles, root: Path) -> Table:
    """Photos whose label looks wrong, the most suspicious first."""
    title = "Labels that look wrong, the most suspicious first"
    result = Table("photo", "class", "probability", "looks like", title=title)
    for image in found.suspects[:MAX_SHOWN]:
        result.add_row(
            readable(files.paths[image.index].relative_to(root)),
            readable(image.label),
            f"{image.probability:.1%}",
            readable(image.suggested),
        )
    if len(found.suspects) > MAX_SHOWN:
        result.add_row(f"… {len(found.suspects) - MAX_SHOWN} more, less suspicious", *[""] * 3)
    return result


def duplicates_table(found: LabelCheck, files: LabelledFiles, root: Path) -> Table:
    """Pairs of photos that look the same; those in two classes first."""
    title = "Photos that look the same"
    result = Table("photo", "also", "similarity", "classes", title=title)
    for pair in found.duplicates[:MAX_SHOWN]:
        paths = (files.paths[i].relative_to(root) for i in (pair.first, pair.second))
        classes = "one" if pair.same_label else "two"
        result.add_row(*map(readable, paths), f"{pair.similarity:.3f}", classes)
    if len(found.duplicates) > MAX_SHOWN:
        result.add_row(f"… {len(found.duplicates) - MAX_SHOWN} more", *[""] * 3)
    return result


def describe_check(found: LabelCheck) -> str:
    """One sentence on the numbers of suspects and pairs."""
    labels = f"{len(found.suspects)} of {len(found.images)} labels look wrong"
    if not found.duplicates:
        return f"{labels}; no two photos look the same."
    count, two = len(found.duplicates), sum(not pair.same_label for pair in found.duplicates)
    pairs = f"{count} pairs of photos look" if count > 1 else "1 pair of photos looks"
    return f"{labels}; {pairs} the same, {two} of them in two classes."


def write_check(path: Path, found: LabelCheck, files: LabelledFiles) -> None:
    """Write a CSV file with all photos, the most suspicious first."""
    same: dict[int, list[str]] = {}
    for pair in found.duplicates:
        for image, other in ((pair.first, pair.second), (pair.second, pair.first)):
            same.setdefault(image, []).append(str(files.paths[other]))
    suspects = {image.index for image in found.suspects}
    write_csv_rows(
        path,
        [
            {
                "path": files.paths[image.index],
                "class": image.label,
                "suggested": image.suggested,
                "p(class)": f"{image.probability:.6f}",
                "suspicion": f"{image.suspicion:.4f}",
                "looks_wrong": image.index in suspects,
                "same_as": "; ".join(same.get(image.index, [])),
            }
            for image in found.images
        ],
    )
