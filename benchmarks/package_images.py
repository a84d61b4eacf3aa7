"""Folders of labelled images from packages: sets for benchmarks/unseen_sets.py --folders.

    apt-get download tuxpaint-stamps-default openarena-081-textures    # then dpkg -x FILE PACKAGES
    pip download --no-deps scikit-image nilearn                        # then unzip FILE -d PACKAGES
    python benchmarks/package_images.py PACKAGES OUT

Writes OUT/SET/CLASS/*.png: stamps (clip art and cut-out photos), game-textures, closeups (pieces of
one picture are one class), faces (25 x 25 pixels, faces and other pieces of photos), brain-lesions
(slices of the MNI152 template with simulated lesions) and cells (simulated).
"""

from __future__ import annotations

import argparse
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

STAMPS = (
    "animals/birds", "food/fruit", "plants/flowers", "town/houses/cartoon",
    "symbols/alphabets/asl", "food/vegetables", "town/roadsigns", "animals/mammals/bovines",
    "seasonal/christmas", "seasonal/halloween",
)  # fmt: skip
TEXTURES = (
    "skies", "liquids", "gothic_floor", "gothic_block", "base_floor", "base_wall", "base_light",
    "gothic_trim", "clown", "oquartz",
)  # fmt: skip
CLOSEUPS = (
    "brick.png", "grass.png", "gravel.png", "retina.jpg", "hubble_deep_field.jpg", "ihc.png",
    "moon.png", "coins.png",
)  # fmt: skip
IMAGES, SIDE, SMALLEST = 60, 400, 24  # most images of a class; largest and smallest side
CELLS = {"round": 1.0, "long": 2.2, "lobed": 1.0, "granular": 1.0}  # how long
HEADER = 352  # bytes of a NIfTI file before its values


def find(packages, name):
    return next(path for path in sorted(packages.rglob(name)))


def stamps(packages):
    home = find(packages, "tuxpaint") / "stamps"
    for folder in STAMPS:
        for file in sorted((home / folder).glob("*.png")):
            image = Image.open(file).convert("RGBA")
            yield (
                folder.replace("/", "_"),
                Image.alpha_composite(Image.new("RGBA", image.size, "white"), image),
            )


def game_textures(packages):
    archive = zipfile.ZipFile(find(packages, "pak4-textures.pk3"))
    for name in sorted(archive.namelist()):
        parts = name.split("/")
        if len(parts) == 3 and parts[1] in TEXTURES and name[-4:].lower() in (".jpg", ".tga"):
            yield parts[1], Image.open(io.BytesIO(archive.read(name)))


def closeups(packages):
    for name in CLOSEUPS:
        pixels = np.asarray(Image.open(find(packages / "skimage", name)).convert("RGB"))
        side = 96 if min(pixels.shape[:2]) < 700 else 160
        for y in range(0, pixels.shape[0] - side + 1, side):
            for x in range(0, pixels.shape[1] - side + 1, side):
                piece = pixels[y : y + side, x : x + side]
                if piece.mean() >= 12:  # not black
                    yield name.split(".")[0], Image.fromarray(piece)


def faces(packages):
    images = np.load(find(packages, "lfw_subset.npy"))  # 100 faces, then 100 others
    for i, image in enumerate((images * 255).astype(np.uint8)):
        yield ("face" if i < 100 else "none"), Image.fromarray(image)


def brain_lesions(packages):
    rng, volume = np.random.default_rng(0), read_template(packages)
    for kind in ("healthy", "dark", "bright", "ring"):
        for _ in range(IMAGES):
            yield kind, draw_lesion(volume, kind, rng)


def read_template(packages):
    """The T1 template as a volume of 0 to 255."""
    content = gzip.decompress(find(packages, "mni_icbm152_t1*converted.nii.gz").read_bytes())
    shape = np.frombuffer(content[42:48], "<i2")
    kind = {2: "u1", 4: "<i2", 16: "<f4", 64: "<f8"}[int(np.frombuffer(content[70:72], "<i2")[0])]
    values = np.frombuffer(content[HEADER:], kind)[: np.prod(shape, dtype=int)]
    volume = values.reshape(shape, order="F").astype(float)
    return volume / volume.max() * 255


def draw_lesion(volume, kind, rng):
    """A slice of a head of its own size and pose, with a bias field, noise and a lesion."""
    depth = volume.shape[2]
    grey = np.rot90(volume[:, :, rng.integers(int(0.35 * depth), int(0.72 * depth))])
    image = Image.fromarray(grey.astype(np.float32)).rotate(rng.uniform(-8, 8), Image.BICUBIC)
    size = (np.array(image.size) * rng.uniform(0.86, 1, 2)).astype(int)
    a = np.asarray(image.resize(size, Image.BICUBIC)).copy()
    y, x = np.mgrid[: a.shape[0], : a.shape[1]]
    inside = np.argwhere(a > 90)
    centre, radius = inside[rng.integers(len(inside))], rng.uniform(5, 12)
    distance = np.hypot((y - centre[0]) * rng.uniform(0.7, 1.4), x - centre[1])
    spot = 1 / (1 + np.exp((distance - radius) / 1.5))
    ring = 90 * np.exp(-(((distance - radius) / 2.5) ** 2)) - 50 * (distance < radius - 3)
    a = a + {"healthy": 0, "dark": -0.75 * spot * a, "bright": 110 * spot, "ring": ring}[kind]
    slopes = rng.normal(0, 0.12, 2)
    bias = 1 + slopes[0] * (y / a.shape[0] - 0.5) + slopes[1] * (x / a.shape[1] - 0.5)
    return Image.fromarray(np.clip(a * bias + rng.normal(0, 6, a.shape), 0, 255).astype(np.uint8))


def cells(packages):
    rng = np.random.default_rng(0)
    for kind in CELLS:
        for _ in range(50):
            yield kind, draw_cells(kind, rng)


def draw_cells(kind, rng):
    """Six to twelve stained cells with nuclei."""
    a = np.full((160, 160, 3), (225.0, 205.0, 225.0)) + rng.normal(0, 5, (160, 160, 3))
    y, x = np.mgrid[:160, :160]
    for _ in range(rng.integers(6, 13)):
        centre, radius, turn = rng.uniform(10, 150, 2), rng.uniform(8, 15), rng.uniform(0, np.pi)
        long = CELLS[kind] ** 0.5
        u = ((y - centre[0]) * np.cos(turn) + (x - centre[1]) * np.sin(turn)) * long
        v = ((x - centre[1]) * np.cos(turn) - (y - centre[0]) * np.sin(turn)) / long
        distance = np.hypot(u, v)
        lobes = 1 + 0.35 * np.cos(3 * np.arctan2(u, v)) if kind == "lobed" else 1
        body = 1 / (1 + np.exp((distance - radius * lobes) / 0.8))
        nucleus = 1 / (1 + np.exp((distance - radius * lobes * 0.45) / 0.8))
        grains = body * (rng.random(body.shape) < 0.12) * (kind == "granular")
        for part, colour in ((body, (40, 90, 40)), (nucleus, (70, 60, 10)), (grains, (80, 80, 60))):
            a -= part[..., None] * np.array(colour)
    return Image.fromarray(np.clip(a + rng.normal(0, 4, a.shape), 0, 255).astype(np.uint8))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    for make in (stamps, game_textures, closeups, faces, brain_lesions, cells):
        counts = {}
        for name, image in make(arguments.packages):
            folder = arguments.out / make.__name__.replace("_", "-") / name
            i = counts.setdefault(name, 0)
            if i < IMAGES and min(image.size) >= SMALLEST:
                folder.mkdir(parents=True, exist_ok=True)
                image = image.convert("RGB")
                image.thumbnail((SIDE, SIDE))
                image.save(folder / f"{i:03}.png")
                counts[name] += 1
        print(make.__name__, counts, flush=True)


if __name__ == "__main__":
    main()
