"""Small files in the layout of each official data set: drawn here, never real images."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from anyshot.data.published import CATALOGUE

EACH = 3  # images of each class


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def official() -> dict[str, Callable[[Path], Path]]:
    """{data set: function that writes small official files into a folder, returns the source}."""
    return {
        "cifar-fs": cifar_fs,
        "svhn": svhn,
        "miniimagenet": miniimagenet,
        "cub": cub,
        "aircraft": aircraft,
        "quickdraw": quickdraw,
        "vgg-flower": vgg_flower,
        "gtsrb": gtsrb,
        "fashion-mnist": fashion_mnist,
        "omniglot": omniglot,
        "tieredimagenet": tieredimagenet,
    }


def names_of(name: str) -> list[str]:
    return [label for members in CATALOGUE[name].splits().values() for label in members]


def colour(number: int) -> tuple[int, int, int]:
    """A colour by which the class is known again after conversion."""
    return number % 8 * 32 + 16, number // 8 % 8 * 32 + 16, number // 64 * 32 + 16


def picture(number: int, kind: str = "JPEG", size: tuple[int, int] = (40, 30)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour(number)).save(
        buffer, kind, **({"quality": 95} if kind == "JPEG" else {})
    )
    return buffer.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def cifar_fs(folder: Path) -> Path:
    names = sorted(names_of("cifar-fs"))
    parts = {"meta": {b"fine_label_names": [name.encode() for name in names]}}
    for part, count in (("train", EACH - 1), ("test", 1)):
        labels = np.random.default_rng(0).permutation(np.repeat(np.arange(100), count))
        planes = np.stack([np.repeat(colour(label), 1024) for label in labels]).astype(np.uint8)
        parts[part] = {b"data": planes, b"fine_labels": labels.tolist(), b"batch_label": b"made up"}
    members = {
        f"cifar-100-python/{part}": pickle.dumps(content, protocol=2)
        for part, content in parts.items()
    }
    return tar(folder / "my download.tgz", members)


def svhn(folder: Path) -> Path:
    for part, count in (("test", EACH), ("train", 605)):
        labels = np.tile(np.arange(1, 11), count)  # 10 means zero
        images = np.broadcast_to(
            np.array([colour(label % 10) for label in labels], np.uint8).T, (32, 32, 3, len(labels))
        )
        savemat(
            folder / f"{part}_32x32.mat",
            {"X": images, "y": labels[:, None].astype(np.uint8)},
            do_compression=True,
        )
    return folder


def miniimagenet(folder: Path) -> Path:
    number = 0
    for part, (_, names) in zip(
        ("train", "val", "test"), CATALOGUE["miniimagenet"].splits().items(), strict=True
    ):
        images = np.zeros((EACH * len(names), 84, 84, 3), np.uint8)
        classes = {}
        for name in names:
            rows = list(range(len(classes) * EACH, (len(classes) + 1) * EACH))
            images[rows] = colour(number)
            classes[name] = rows
            number += 1
        content = pickle.dumps({"image_data": images, "class_dict": classes})
        (folder / f"mini-imagenet-cache-{part}.pkl").write_bytes(content)
    return folder


def cub(folder: Path) -> Path:
    members = {
        f"CUB_200_2011/images/{name}/{name}_{n:04}.jpg": picture(c)
        for c, name in enumerate(names_of("cub"))
        for n in range(EACH)
    }
    return tar(folder / "CUB_200_2011.tgz", {"CUB_200_2011/README": b"birds", **members})


def aircraft(folder: Path) -> Path:
    lists, members = {"trainval": "", "test": ""}, {}
    boxes = ""
    for c, name in enumerate(names_of("aircraft")):
        for n in range(EACH):
            image = Image.new("RGB", (90, 60), (255, 255, 255))
            image.paste(colour(c), (5, 20, 85, 40))  # a wide aircraft; pixels are counted from 1
            boxes += f"{c:04}{n:03} 6 21 85 40\n"
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=95)
            members[f"fgvc-aircraft-2013b/data/images/{c:04}{n:03}.jpg"] = buffer.getvalue()
            lists["test" if n == 0 else "trainval"] += f"{c:04}{n:03} {name}\n"
    members["fgvc-aircraft-2013b/data/images_box.txt"] = boxes.encode()
    for part, text in lists.items():
        members[f"fgvc-aircraft-2013b/data/images_variant_{part}.txt"] = text.encode()
    return tar(folder / "fgvc-aircraft-2013b.tar.gz", members)


def quickdraw(folder: Path) -> Path:
    (folder / "numpy_bitmap").mkdir()
    for c, name in enumerate(names_of("quickdraw")):
        np.save(folder / "numpy_bitmap" / f"{name}.npy", np.full((EACH, 784), c % 256, np.uint8))
    return folder / "numpy_bitmap"


def vgg_flower(folder: Path) -> Path:
    labels = np.tile(np.arange(1, 103), EACH)
    names = names_of("vgg-flower")
    index = {int(name[:3]): c for c, name in enumerate(names)}
    pictures = {
        f"jpg/image_{n:05}.jpg": picture(index[label]) for n, label in enumerate(labels, start=1)
    }
    savemat(folder / "imagelabels.mat", {"labels": labels[None]})
    return tar(folder / "102flowers.tgz", pictures)


def gtsrb(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "GTSRB_Final_Training_Images.zip", "w") as archive:
        archive.writestr("GTSRB/Readme.txt", "signs")
        for c in range(43):
            archive.writestr(
                f"GTSRB/Final_Training/Images/{c:05}/GT-{c:05}.csv", "Filename;Width;Height"
            )
            for n in range(EACH):
                data = picture(c, "PPM", (33, 31))
                archive.writestr(f"GTSRB/Final_Training/Images/{c:05}/00000_{n:05}.ppm", data)
    return folder


def fashion_mnist(folder: Path) -> Path:
    labels = np.tile(np.arange(10), EACH).astype(np.uint8)
    images = np.repeat(labels * 20, 784).astype(np.uint8)
    header = struct.pack(">HBBIII", 0, 8, 3, len(labels), 28, 28)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + images.tobytes()))
    header = struct.pack(">HBBI", 0, 8, 1, len(labels))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + labels.tobytes()))
    return folder


def omniglot(folder: Path) -> Path:
    splits = CATALOGUE["omniglot"].splits()
    parts = {"background": splits["train"] + splits["validation"], "evaluation": splits["test"]}
    number = 0
    for part, names in parts.items():
        with zipfile.ZipFile(folder / f"images_{part}.zip", "w") as archive:
            for name in names:
                buffer = io.BytesIO()
                Image.new("1", (105, 105), number % 2).save(buffer, "PNG")
                for n in (1, 2):
                    file = f"images_{part}/{name}/{number + 1:04}_{n:02}.png"
                    archive.writestr(file, buffer.getvalue())
                number += 1
    return folder


def tieredimagenet(folder: Path) -> Path:
    for c, name in enumerate(names_of("tieredimagenet")):
        (folder / "train" / name).mkdir(parents=True)
        image = Image.new("RGB", (80, 40), "white")
        image.paste(colour(c % 512), (5, 0, 75, 40))
        image.save(folder / "train" / name / f"{name}_1.JPEG", quality=95)
    return folder / "train"
