"""FGVC-Aircraft 2013b: 100 variants of aircraft, 100 images each, 32 x 32, split 70/15/15 by class."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import PICTURES, class_names, decode_groups, group_by_folder
from anyshot.data.published.readers import damaged_file

SIDE = 32
BANNER = 20  # rows at the bottom that name the photographer


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`fgvc-aircraft-2013b.tar.gz`: lists images_variant_*.txt ("0034309 F-16A/B") and pictures; or class folders."""
    lists = tree.matching("images_variant_trainval.txt", "images_variant_test.txt")
    if len(lists) == 2:
        return decode_groups(_listed(tree, lists, class_names(splits)), SIDE, bottom=BANNER)
    folders = group_by_folder(tree, class_names(splits))
    return decode_groups(folders, SIDE) if folders else None


def _listed(tree: SourceFiles, lists: list[Path], names: list[str]) -> dict[str, list[Path]]:
    pictures = {path.stem: path for path in tree.matching(*PICTURES)}
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for path in lists:
        for line in path.read_text("utf-8", errors="replace").splitlines():
            picture, _, name = line.strip().partition(" ")
            if name not in groups or picture not in pictures:
                raise damaged_file(
                    path,
                    f"the line {line[:60]!r} names no known variant or no picture in the source",
                )
            groups[name].append(pictures[picture])
    return groups


DATASET = PublishedDataset(
    name="aircraft",
    title="FGVC-Aircraft 2013b",
    images=10_000,
    side=SIDE,
    terms="non-commercial research only",
    homepage="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
    source_files="fgvc-aircraft-2013b.tar.gz",
    patterns=("images_variant_*.txt", *PICTURES),
    read=read,
    remotes=(
        RemoteFile(
            "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
            "d4acdd33327262359767eeaa97a4f732",
            size=2_753_340_328,
        ),
    ),
)
