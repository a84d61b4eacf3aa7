from __future__ import annotations

import gzip
import io
import json
import struct

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from anyshot.cli.data import app, table_of
from anyshot.core.errors import AnyshotError
from anyshot.data import ImageSet
from anyshot.data.class_splits import split_by_seed
from anyshot.data.embedded import glyphs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
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
    for word in (
        "glyphs",
        "digits",
        "cifar-fs",
        "64/16/20",
        "60,000",
        "84x84",
        "CC BY 4.0",
        "kriz",
        "none published",
    ):
        assert word in result.output
    sets = json.loads((tmp_path / "list.json").read_text())["results"]["sets"]
    assert len(sets) == 13
    assert [one["name"] for one in sets if one["ready"]] == ["digits"]


def test_a_set_is_prepared_listed_as_ready_and_checked(garments, tmp_path):
    result = run(
        "prepare", "fashion-mnist", "--source", garments, "--json", tmp_path / "facts.json"
    )
    assert (
        "fashion-mnist is ready: 200 images of 32x32, 10 classes (test 10) of 20 images"
        in result.output
    )
    assert "200 of 10,000 official test images" in result.output
    facts = json.loads((tmp_path / "facts.json").read_text())["results"]
    assert facts["splits"] == {"test": 10}
    assert "is ready" in run("prepare", "fashion-mnist").output
    assert "fashion-mnist is verified" in run("prepare", "fashion-mnist", "--check").output
    run("list", "--json", tmp_path / "list.json")
    ready = {
        one["name"]: one["bytes"]
        for one in json.loads((tmp_path / "list.json").read_text())["results"]["sets"]
    }
    assert ready["fashion-mnist"] > 200 * 3072


def test_embedded_sets_need_no_preparation():
    assert "digits is ready: 1,797 images" in run("prepare", "digits").output
    assert "digits is verified" in run("prepare", "digits", "--check").output
    assert "embedded; omit --source" in run("prepare", "digits", "--again").output


def test_wrong_usage_and_failures_get_a_message(tmp_path):
    result = run("prepare", "cub", "--check", "--again")
    assert result.exit_code == 2
    assert "omit --source and --again" in result.output
    with pytest.raises(AnyshotError, match="'quickdraw'"):
        run("prepare", "quickdraws")
    with pytest.raises(AnyshotError, match="not prepared on this machine"):
        run("prepare", "cub", "--check")
    with pytest.raises(AnyshotError, match="does not contain"):
        run("prepare", "cub", "--source", tmp_path)


def test_a_contact_sheet_is_drawn(tmp_path):
    result = run(
        "show", "digits", "--out", tmp_path / "deep" / "sheet.png", "--shots", "fixed:5", "--way", 3
    )
    assert result.exit_code == 0
    with Image.open(tmp_path / "deep" / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 1000


def test_folder_of_images_is_shown(tmp_path, monkeypatch):
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
    monkeypatch.setattr(glyphs.build_glyphs, "__defaults__", (2, 1))
    assert "glyphs is ready: 14 images" in run("prepare", "glyphs").output


def own_set(folder, name):
    arrays = {
        label: np.zeros((20, 8, 8, 3), np.uint8) for label in ("[/b]", "[bold]", "c", "d", "e")
    }
    return ImageSet.from_arrays(name, arrays, {"test": list(arrays)}).save(folder)


def test_names_are_not_interpreted_as_markup(tmp_path):
    own_set(tmp_path / "[/b]", "[/b]")
    result = run("show", tmp_path / "[/b]", "--shots", "fixed:2", "--out", tmp_path / "[red].png")
    assert "[red].png: classes and a task of [/b]" in result.output
    assert "[red].png" in result.output
    facts = {
        "name": "[/b]",
        "title": "[/x]",
        "splits": {},
        "images": 1,
        "side": 1,
        "terms": "[/]",
        "source": "[/]",
    }
    table = table_of([{**facts, "checksum": "MD5", "ready": True, "bytes": 0, "download": 10**6}])
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert all(word in text for word in ("[/b]", "[/x]", "[/] (download: 1 MB, checksum: MD5)"))


def test_name_of_a_set_does_not_choose_the_output_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    own_set(tmp_path / "gift", "../../escaped")
    run("show", tmp_path / "gift", "--shots", "fixed:2")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["escaped.png"]


def test_unwritable_output_is_reported_before_drawing(tmp_path, monkeypatch):
    monkeypatch.setattr("anyshot.data.contact_sheet.class_sheet", None)
    (tmp_path / "file").touch()
    with pytest.raises(AnyshotError, match=r"Cannot write .*Not a directory"):
        run("show", "digits", "--out", tmp_path / "file" / "x.png")


def test_list_shows_the_size_of_downloads(tmp_path):
    output = " ".join(run("list", "--json", tmp_path / "list.json").output.split())
    assert "cifar.html (download: 169 MB, checksum: MD5)" in output
    assert "(no download)" in output
    sets = {
        one["name"]: one
        for one in json.loads((tmp_path / "list.json").read_text())["results"]["sets"]
    }
    assert sets["glyphs"]["download"] == 0
    assert sets["miniimagenet"]["download"] is None
    assert sets["quickdraw"]["download"] == 345 * (128 + 200 * 784)
    assert all(
        sets[name]["download"] > 10**6
        for name in ("svhn", "cub", "aircraft", "vgg-flower", "gtsrb")
    )


@pytest.mark.parametrize(
    ("classes", "words"), [("ab", "classes and a task of pets"), ("a", "the only class of pets")]
)
def test_a_folder_of_few_classes_is_shown(classes, words, tmp_path):
    for name in classes:
        (tmp_path / "pets" / name).mkdir(parents=True)
        for n in range(4):
            Image.new("RGB", (20, 20), (60 * n, 0, 0)).save(tmp_path / "pets" / name / f"{n}.png")
    assert words in run("show", tmp_path / "pets", "--out", tmp_path / "x.png").output


def test_a_seed_is_not_negative():
    result = run("show", "digits", "--seed", -1)
    assert result.exit_code == 2
    with pytest.raises(AnyshotError, match="The seed of a split is -1"):
        split_by_seed("abc", {"train": 1.0}, seed=-1)


def test_unwritable_results_are_reported_before_the_work(garments, cache, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AnyshotError, match="Not a directory"):
        run(
            "prepare", "fashion-mnist", "--source", garments, "--json", tmp_path / "file" / "x.json"
        )
    assert not cache.exists()
