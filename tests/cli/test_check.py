"""anyshot check on folders with a wrong label and a photo in two classes."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pytest
from PIL import Image
from support import wide_colours
from typer.testing import CliRunner

from anyshot.classifier import label_report
from anyshot.classifier.backbones import backbone as backbones
from anyshot.cli.main import app
from anyshot.core.errors import DataError


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    quick = backbones.Backbone("quick", 16, "quick", wide_colours)
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)
    root, rng = tmp_path / "photos", np.random.default_rng(0)
    for channel, name in enumerate(("red", "green")):
        (root / name).mkdir(parents=True)
        for i in range(8):
            x = rng.integers(0, 120, (20, 24, 3), np.uint8)
            x[..., channel] += np.uint8(110)
            Image.fromarray(x).save(root / name / f"{name}{i}.png")
    return root


def check(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)], catch_exceptions=False)


def test_a_photo_in_the_wrong_folder_is_listed_with_its_class(folder, tmp_path):
    shutil.move(folder / "red" / "red3.png", folder / "green" / "red3.png")
    shutil.copy(folder / "red" / "red5.png", folder / "red" / "copy.png")
    done = check(folder, "--csv", tmp_path / "out.csv")
    assert done.exit_code == 0
    assert "green/red3.png" in done.stdout
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 17
    assert [rows[0][key] for key in ("class", "suggested", "looks_wrong")] == [
        "green", "red", "True"
    ]  # fmt: skip
    assert rows[0]["path"].endswith("red3.png")
    copies = {row["path"]: row["same_as"] for row in rows}
    assert str(folder / "red" / "red5.png") in copies[str(folder / "red" / "copy.png")]


def test_folders_without_anything_to_list_are_not_an_error(folder):
    done = check(folder)
    assert done.exit_code == 0
    assert "0 of 16 labels look wrong; no two photos look the same" in done.stdout


def test_a_photo_in_two_classes_is_named(folder):
    shutil.copy(folder / "red" / "red5.png", folder / "green" / "red5.png")
    done = check(folder)
    assert "1 of them in two classes" in done.stdout


def test_long_tables_say_how_much_they_leave_out(folder, monkeypatch):
    for number in (3, 4):
        shutil.move(folder / "red" / f"red{number}.png", folder / "green")
    for copy in ("copy1.png", "copy2.png"):
        shutil.copy(folder / "red" / "red5.png", folder / "red" / copy)
    whole = check(folder).stdout
    assert "more" not in whole
    monkeypatch.setattr(label_report, "MAX_SHOWN", 3)  # of 2 suspects and 3 pairs
    assert "more" not in check(folder).stdout
    monkeypatch.setattr(label_report, "MAX_SHOWN", 2)
    done = check(folder).stdout
    assert "… 1 more" in done
    assert "less suspicious" not in done
    monkeypatch.setattr(label_report, "MAX_SHOWN", 1)
    done = check(folder).stdout
    assert "… 1 more, less suspicious" in done
    assert "… 2 more" in done
    pairs = [line for line in done.splitlines() if "red/copy" in line]
    assert len(pairs) == 1


def test_a_file_instead_of_a_folder_is_refused(tmp_path):
    saved = tmp_path / "trees.anyshot"
    saved.write_bytes(b"")
    with pytest.raises(DataError, match="Labels are checked in a folder"):
        check(saved)
