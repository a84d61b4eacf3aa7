"""Folders of photos: which files are used, and how answers are sorted and counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from anyshot.classifier.backbones import to_pixels
from anyshot.classifier.folders import (
    REASONS,
    Classification,
    confusion,
    find_images,
    find_labelled_images,
)
from anyshot.core.errors import ClassifierError


def save_photo(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), 50, np.uint8)).save(path)


def answer(label="a", probability=0.9, unknown=False, unknown_score=0.25):
    return Classification(Path("x.png"), label, probability, unknown, unknown_score, {})


def test_uncertainty_is_above_1_for_unknown_photos_only():
    assert answer(probability=0.9).uncertainty == pytest.approx(0.1)
    assert answer(probability=0.9, unknown=True).uncertainty == pytest.approx(1.25)


def test_confusion_counts_pairs_of_true_and_predicted_class():
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    truth, given = rng.choice(names, (2, 50)).tolist()
    counts = confusion(names, truth, [answer(label) for label in given])
    pairs = Counter(zip(truth, given, strict=True))
    assert counts.tolist() == [[pairs[t, g] for g in names] for t in names]


@pytest.mark.parametrize("extra", [0, 3])
def test_a_long_list_of_unreadable_files_is_shortened(tmp_path, extra):
    for i in range(REASONS + extra):
        (tmp_path / f"{i}.png").write_text("no photo")
    with pytest.raises(ClassifierError) as error:
        find_images(tmp_path)
    assert str(error.value).count(".png:") == REASONS
    assert ("more" in str(error.value)) == (extra > 0)
    assert extra == 0 or f"{extra} more" in str(error.value)


def test_a_class_may_have_the_name_of_a_part_if_its_photos_are_inside(tmp_path):
    for name in ("train", "bus"):
        save_photo(tmp_path / name / "0.png")
    save_photo(tmp_path / "train" / "old" / "1.png")
    assert sorted(find_labelled_images(tmp_path).labels) == ["bus", "train", "train"]
    (tmp_path / "train" / "0.png").unlink()
    with pytest.raises(ClassifierError, match=str(tmp_path / "train")):
        find_labelled_images(tmp_path)


def test_folders_of_splits_only_are_refused(tmp_path):
    save_photo(tmp_path / "test" / "0.png")
    with pytest.raises(ClassifierError, match="CLASS"):
        find_labelled_images(tmp_path)
    save_photo(tmp_path / "val" / "0.png")
    with pytest.raises(ClassifierError, match="test, val"):
        find_labelled_images(tmp_path)
    save_photo(tmp_path / "bus" / "0.png")
    assert "bus" in find_labelled_images(tmp_path).labels


def test_photos_of_a_phone_are_read_and_videos_are_skipped_by_name(tmp_path):
    (tmp_path / "dog").mkdir()
    pillow_heif.from_pillow(Image.new("RGB", (64, 48), "red")).save(tmp_path / "dog" / "1.HEIC")
    (tmp_path / "dog" / "1.MOV").write_bytes(b"\0\0\0\x14ftypqt  " + bytes(40))
    found = find_labelled_images(tmp_path)
    assert [path.name for path in found.paths] == ["1.HEIC"]
    ((name, reason),) = found.skipped
    assert name == str(Path("dog", "1.MOV"))
    assert "video" in reason
    assert to_pixels(found.paths[0], 8)[4, 4, 0] > 240


def test_checking_many_files_shows_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("anyshot.classifier.folders.PROGRESS_FROM", 3)
    for i in range(2):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.png")
    find_images(tmp_path)
    assert "Checking photos" not in capsys.readouterr().err
    Image.new("RGB", (8, 8)).save(tmp_path / "2.png")
    assert len(find_images(tmp_path).paths) == 3
    assert "Checking photos" in capsys.readouterr().err
