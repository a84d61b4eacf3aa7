from __future__ import annotations

import gzip
import json
import struct

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from anyshot.cli.data import app
from anyshot.errors import AnyshotError
from anyshot.images import glyphs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "cache"


@pytest.fixture
def garments(tmp_path):
    """Fashion-MNIST's official files, with 20 made-up images of each class."""
    labels = np.tile(np.arange(10), 20).astype(np.uint8)
    images = np.repeat(labels * 20, 784).astype(np.uint8)
    folder = tmp_path / "garments"
    folder.mkdir()
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 200, 28, 28) + images.tobytes())
    )
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">HBBI", 0, 8, 1, 200) + labels.tobytes())
    )
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_list_shows_every_set_with_terms_source_and_splits(tmp_path):
    result = run("list", "--json", tmp_path / "list.json")
    assert result.exit_code == 0
    for word in ("glyphs", "digits", "cifar-fs", "64/16/20", "60,000", "84x84", "CC BY 4.0", "kriz", "none published"):
        assert word in result.output
    sets = json.loads((tmp_path / "list.json").read_text())["results"]["sets"]
    assert len(sets) == 11
    assert [one["name"] for one in sets if one["ready"]] == ["digits"]


def test_a_set_is_prepared_listed_as_ready_and_checked(garments, tmp_path):
    result = run("prepare", "fashion-mnist", "--source", garments, "--json", tmp_path / "facts.json")
    assert "fashion-mnist is ready: 200 images of 32x32, 10 classes (test 10) of 20 images" in result.output
    assert "the official files hold 10,000" in result.output
    facts = json.loads((tmp_path / "facts.json").read_text())["results"]
    assert facts["splits"] == {"test": 10}
    assert "is ready" in run("prepare", "fashion-mnist").output
    assert "fashion-mnist is verified" in run("prepare", "fashion-mnist", "--check").output
    run("list", "--json", tmp_path / "list.json")
    ready = {one["name"]: one["bytes"] for one in json.loads((tmp_path / "list.json").read_text())["results"]["sets"]}
    assert ready["fashion-mnist"] > 200 * 3072


def test_embedded_sets_are_ready_as_they_are():
    assert "digits is ready: 1,797 images" in run("prepare", "digits").output
    assert "digits is verified" in run("prepare", "digits", "--check").output
    assert "embedded; leave out --source" in run("prepare", "digits", "--again").output


def test_wrong_usage_and_failures_are_sentences(tmp_path):
    result = run("prepare", "cub", "--check", "--again")
    assert result.exit_code == 2
    assert "leave out --source and --again" in result.output
    with pytest.raises(AnyshotError, match="did you mean quickdraw"):
        run("prepare", "quickdraws")
    with pytest.raises(AnyshotError, match="not prepared on this machine"):
        run("prepare", "cub", "--check")
    with pytest.raises(AnyshotError, match="does not hold"):
        run("prepare", "cub", "--source", tmp_path)


def test_a_contact_sheet_is_drawn(tmp_path):
    result = run("show", "digits", "--out", tmp_path / "deep" / "sheet.png", "--shots", "fixed:5", "--way", 3)
    assert result.exit_code == 0
    with Image.open(tmp_path / "deep" / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 1000


def test_a_folder_of_ones_own_is_shown_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "abcde":
        (tmp_path / "pets" / "test" / name).mkdir(parents=True)
        for n in range(4):
            Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8)).save(
                tmp_path / "pets" / "test" / name / f"{n}.png"
            )
    result = run("show", tmp_path / "pets", "--way", 5)
    assert "pets.png" in result.output
    assert (tmp_path / "pets.png").is_file()


def test_glyphs_are_drawn_by_prepare(monkeypatch, tmp_path):
    monkeypatch.setattr(glyphs, "characters", lambda: "ABCDEFG")
    monkeypatch.setattr(glyphs.build, "__defaults__", (2, 1))
    assert "glyphs is ready: 14 images" in run("prepare", "glyphs").output
