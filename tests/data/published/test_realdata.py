"""Real files: `pytest -m realdata`, with packed files in $ANYSHOT_SHARED_DATA or ../shared/data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anyshot.data import open_images
from anyshot.data.published import CATALOGUE, prepare, verify_prepared

pytestmark = pytest.mark.realdata

SHARED = Path(
    os.environ.get("ANYSHOT_SHARED_DATA") or Path(__file__).parents[4] / "shared" / "data"
)
GARMENTS = Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist
SETS = {  # packed set, classes by split, images, smallest and largest class
    "cifar-fs": ("cifar-100", (64, 16, 20), 60_000, (600, 600)),
    "svhn": ("svhn", (0, 10, 10), 8_800, (150, 1698)),
    "vgg-flower": ("vgg-flower", (71, 15, 16), 8_189, (40, 258)),
    "gtsrb": ("gtsrb", (0, 0, 43), 8_600, (200, 200)),
    "quickdraw": ("quickdraw", (241, 52, 52), 34_500, (100, 100)),
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """A function from the name of a packed set to a folder with its official files."""
    if not (SHARED / "unpack.py").is_file():
        pytest.skip(f"there are no real files in {SHARED}")
    folder = tmp_path_factory.mktemp("real")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            command = [sys.executable, str(SHARED / "unpack.py"), str(folder / name), name]
            subprocess.run(command, check=True, capture_output=True)
        return folder / name

    return unpack


@pytest.mark.parametrize("name", SETS)
def test_real_files_become_a_set_with_the_known_counts(name, unpacked):
    packed, splits, total, sizes = SETS[name]
    images = prepare(CATALOGUE[name], unpacked(packed))
    assert (
        tuple(len(images.splits.get(split, ())) for split in ("train", "validation", "test"))
        == splits
    )
    assert len(images) == total
    assert (images.counts.min(), images.counts.max()) == sizes
    assert images.size == (32, 32)
    assert images.images[::97].std() > 20
    assert verify_prepared(CATALOGUE[name]).classes == images.classes


PREPARE = """
import resource, sys
from anyshot.data.published import CATALOGUE, prepare
prepare(CATALOGUE["cifar-fs"], sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def test_cifar_is_prepared_in_less_than_a_gibibyte_and_has_its_known_mean_colour(unpacked):
    command = [
        sys.executable,
        "-c",
        PREPARE,
        str(unpacked("cifar-100")),
    ]  # a separate process, to measure its memory
    assert float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) < 1
    mean = open_images("cifar-fs").images.mean(axis=(0, 1, 2)) / 255
    assert mean == pytest.approx([0.507, 0.487, 0.441], abs=0.001)


def test_the_debian_package_of_fashion_mnist_is_read():
    if not GARMENTS.is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed")
    images = prepare(CATALOGUE["fashion-mnist"], GARMENTS)
    assert images.counts.tolist() == [1000] * 10
    assert images.images.mean() / 255 == pytest.approx(0.287, abs=0.002)
