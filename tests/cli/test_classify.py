"""The commands for a person with folders of pictures, in process and with a stand-in for the backbone."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from anyshot.cli import app
from anyshot.features import backbones


def colours(pixels):
    x = pixels.astype(np.float32)
    return np.concatenate([x.mean((1, 2)), x.std((1, 2))], 1)


@pytest.fixture(autouse=True)
def quick_backbone(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    quick = backbones.Backbone("quick", 16, "quick", colours)
    monkeypatch.setattr(backbones, "_lite", lambda size, side, device: quick)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for part, n in (("train", 4), ("test", 3)):
        for channel, name in enumerate(("red", "green & blue")):
            (root / part / name).mkdir(parents=True)
            for i in range(n):
                x = rng.integers(0, 120, (20, 24, 3), np.uint8)
                x[..., channel] += np.uint8(110)
                Image.fromarray(x).save(root / part / name / f"{i}.png")
    (root / "test" / "red" / "notes.txt").write_text("not a picture")
    return root


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_classify_prints_answers_and_writes_a_table_and_a_page(folders, tmp_path):
    done = run("classify", "--support", folders / "train", "--query", folders / "test",
               "--csv", tmp_path / "out.csv", "--html", tmp_path / "out.html")  # fmt: skip
    assert done.exit_code == 0
    assert "notes.txt (not an image)" in done.stderr
    assert "Expected accuracy on new images" in done.stdout
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 6
    for row in rows:
        assert row["class"] in row["path"]
        assert float(row["p(red)"]) + float(row["p(green & blue)"]) == pytest.approx(1, abs=1e-5)
    page = (tmp_path / "out.html").read_text()
    assert page.count("<figure") == 6
    assert "green &amp; blue" in page
    assert "green & blue" not in page
    assert "notes.txt: not an image" in page


def test_one_file_can_be_asked_about(folders):
    done = run("classify", "--support", folders / "train", "--query", folders / "test" / "red" / "0.png")
    assert "0.png" in done.stdout


def test_evaluate_counts_every_picture_once(folders, tmp_path):
    done = run("evaluate", "--support", folders / "train", "--test", folders / "test", "--json", tmp_path / "out.json",
               "--png", tmp_path / "out.png", "--html", tmp_path / "out.html")  # fmt: skip
    assert done.exit_code == 0
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    counts = np.array(results["confusion"])
    assert counts.sum(1).tolist() == [3, 3]
    assert results["summary"]["accuracy"] == pytest.approx(np.trace(counts) / 6)
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size[0] > 100
    page = (tmp_path / "out.html").read_text()
    assert page.count("<figure") == 6
    assert page.count('href="#cell-') == page.count('id="cell-') == (counts > 0).sum()


def test_label_names_pictures_of_the_pool(folders):
    done = run("label", "--support", folders / "train", "--pool", folders / "test", "--count", 2)
    lines = done.stdout.strip().splitlines()
    assert len(set(lines)) == 2
    assert all(line.endswith(".png") for line in lines)


@pytest.mark.parametrize(
    ("support", "query", "sentence"),
    [
        ("nowhere", "test", "There is no folder"),
        ("train", "nowhere", "There is no folder"),
        ("test/red", "test", "holds no class folders"),
    ],
)
def test_what_cannot_be_is_one_sentence(folders, support, query, sentence):
    from anyshot.errors import AnyshotError

    with pytest.raises(AnyshotError, match=sentence):
        run("classify", "--support", folders / support, "--query", folders / query)


def test_a_single_class_is_refused(folders, tmp_path):
    from anyshot.errors import AnyshotError

    (tmp_path / "one" / "red").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "one" / "red" / "a.png")
    with pytest.raises(AnyshotError, match="at least two"):
        run("classify", "--support", tmp_path / "one", "--query", folders / "test")


def test_test_classes_that_were_not_learned_are_named(folders, tmp_path):
    from anyshot.errors import AnyshotError

    (tmp_path / "t" / "violet").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "t" / "violet" / "a.png")
    with pytest.raises(AnyshotError, match="violet"):
        run("evaluate", "--support", folders / "train", "--test", tmp_path / "t")


def test_the_weights_are_listed_with_their_card():
    assert "photos-lite0" in run("weights").stdout
    assert "photos-lite0" in run("weights", "show", "photos-lite0").stdout
