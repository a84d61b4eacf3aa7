"""`glyphs`, the embedded image set: characters of many scripts, drawn from the fonts of matplotlib.

classes   the characters of glyphs.txt; no two of them have nearly the same shape (see docs/data.md)
images    200 of each, 32 x 32 x 3; they depend on (SEED, character, image number) alone
splits    60 / 15 / 25 % of the classes, assigned by SEED
"""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from anyshot.core.files import cache_folder
from anyshot.core.progress import progress
from anyshot.data.class_splits import split_by_seed
from anyshot.data.embedded.glyph_drawing import draw_images
from anyshot.data.embedded.glyph_shapes import class_name, distance_field, faces_with
from anyshot.data.image_set import ImageSet
from anyshot.data.storage import write_image_set

VERSION = 1  # part of the folder name: increase it when pixels change
SEED = 2020
SIDE = 32
COUNT = 200
SHARES = {"train": 0.60, "validation": 0.15, "test": 0.25}
MAX_FACES = 8


def open_glyphs() -> ImageSet:
    """Open the glyphs; the first time, they are drawn into the cache folder (under a minute)."""
    folder = glyphs_folder()
    if not (folder / "set.json").is_file():
        build_glyphs(folder, characters())
    return ImageSet.open(folder)


def open_letters() -> ImageSet:
    """Open the glyphs without digits and other numbers, in their splits.

    What is trained on them has seen no digit, so that sets of digits are new to it.
    """
    glyphs = open_glyphs()
    numbers = [c for c, name in enumerate(glyphs.classes) if is_number(name)]
    splits = {
        split: tuple(sorted(set(members) - set(numbers)))
        for split, members in glyphs.splits.items()
    }
    return replace(glyphs, name="letters", splits=splits)


def is_number(name: str) -> bool:
    """Whether a class ("0030 DIGIT ZERO") is a digit, a Roman numeral or another number."""
    return unicodedata.category(chr(int(name.split()[0], 16))).startswith("N")


def glyphs_folder() -> Path:
    """Return the folder of the drawn glyphs, whether or not it exists."""
    return cache_folder() / f"glyphs-{VERSION}"


def glyph_splits() -> dict[str, list[str]]:
    """Return the class names of each split."""
    return split_by_seed([class_name(character) for character in characters()], SHARES, SEED)


def characters() -> str:
    """Return all characters, in the order of their classes."""
    lines = files("anyshot.data.embedded").joinpath("glyphs.txt").read_text("utf-8").splitlines()
    return "".join(
        chr(int(line.split()[0], 16)) for line in lines if line and not line.startswith("#")
    )


def build_glyphs(folder: Path, text: str, count: int = COUNT, workers: int = 2) -> None:
    """Draw `count` images of each character; the number of workers does not change them."""
    names = [class_name(character) for character in text]
    notes = {
        "source": "fonts shipped with matplotlib",
        "seed": SEED,
        "split": "by seed, 60/15/25 % of classes",
    }
    splits = split_by_seed(names, SHARES, SEED)
    with (
        progress("Drawing glyphs", len(text)) as advance,
        write_image_set(folder, "glyphs", (SIDE, SIDE), splits, notes, "characters") as writer,
        ThreadPoolExecutor(workers) as pool,
    ):
        for name, images in zip(
            names, pool.map(lambda character: draw_character(character, count), text), strict=True
        ):
            writer.add(name, images)
            advance()


def draw_character(character: str, count: int = COUNT) -> np.ndarray:
    """Draw images of one character, uint8 [count, SIDE, SIDE, 3]; always the same ones."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([SEED, ord(character)])))
    faces = faces_with(character)
    chosen = sorted(rng.permutation(len(faces))[:MAX_FACES])
    fields = np.stack([distance_field(character, faces[f]) for f in chosen])
    return draw_images(fields, count, SIDE, rng)
