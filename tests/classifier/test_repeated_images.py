"""The same image with two labels, or learned from and classified."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from support import colours

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.repeated_images import (
    SHOWN,
    TOLERANCE,
    describe_conflicts,
    find_matches,
    find_repeated,
)


def labelled_images(seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 120, (9, 8, 8, 3), np.uint8)
    for i in range(9):
        images[i, ..., i % 3] += np.uint8(100)
    return list(images), np.array(["red", "green", "blue"])[np.arange(9) % 3]


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_matches_equal_a_search_through_all_pairs(noise):
    rng = np.random.default_rng(0)
    known = np.repeat(rng.normal(size=(40, 16)), rng.integers(1, 3, 40), 0)
    rows = np.concatenate([known[[7, 3, 11]], rng.normal(size=(20, 16)), known[[0]]])
    rows = rows * (1 + noise * rng.normal(size=rows.shape))
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (rows, known)]
    expected = []
    for row in unit[0]:
        equal = [j for j, other in enumerate(unit[1]) if np.linalg.norm(row - other) < 1e-5]
        expected.append(min(equal, default=-1))
    assert find_matches(rows, known).tolist() == expected
    assert expected.count(-1) == 20


def test_similar_features_are_not_equal():
    row = np.random.default_rng(0).normal(size=(1, 16))
    assert find_matches(row * (1 + 1e-3 * np.arange(16)), row).tolist() == [-1]
    assert find_matches(np.zeros((1, 16)), row).tolist() == [-1]


def test_rows_match_up_to_the_tolerance_in_every_direction():
    rng = np.random.default_rng(1)
    known = rng.normal(size=(30, 16))
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    away = np.random.default_rng(0).standard_normal(16)  # the direction that rows are sorted along
    away = away - known * (known @ away)[:, None]
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    for share, expected in ((0.9, list(range(30))), (1.1, [-1] * 30)):
        for sign in (-1, 1):
            moved = known + sign * share * TOLERANCE * away
            assert find_matches(moved, known).tolist() == expected


def test_equal_rows_are_conflicts_or_copies():
    rows = np.eye(5)[[0, 1, 0, 2, 0, 1]]
    conflicts, copies = find_repeated(rows, np.array([0, 1, 1, 0, 0, 1]))
    assert conflicts == [(0, 2)]
    assert copies == [(0, 4), (1, 5)]


def test_a_long_list_of_conflicts_is_shortened():
    conflicts = [(i, i + 1) for i in range(SHOWN + 3)]
    names = [f"{i}.png" for i in range(20)]
    text = describe_conflicts(conflicts, names, ["a", "b"] * 10)
    assert text.count(".png") == 2 * SHOWN
    assert "3 more" in text
    assert "more" not in describe_conflicts(conflicts[:SHOWN], names, ["a", "b"] * 10)


def test_the_same_image_with_two_labels_is_named(tmp_path, caplog):
    x, y = labelled_images()
    for i, image in enumerate(x):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "3.png").read_bytes())
    paths = [*(tmp_path / f"{i}.png" for i in range(len(x))), tmp_path / "copy.png"]
    clf = AnyShotClassifier(colours, side=8).fit(paths, [*y, "blue"])
    assert clf.conflicts_ == [(3, len(x))]
    (message,) = (r.getMessage() for r in caplog.records)
    assert f"{tmp_path / '3.png'} (red) and {tmp_path / 'copy.png'} (blue)" in message
    caplog.clear()
    clf = AnyShotClassifier(colours, side=8).fit([*paths], [*y, "red"])
    assert clf.conflicts_ == []
    assert clf.copies_ == [(3, len(x))]
    (message,) = (r.getMessage() for r in caplog.records)
    assert f"{tmp_path / 'copy.png'} is {tmp_path / '3.png'}" in message
    caplog.clear()
    AnyShotClassifier(colours, side=8).fit(paths[:-1], y)
    assert not caplog.records


def test_partial_fit_names_files_only_while_it_knows_all_of_them(tmp_path, caplog):
    x, y = labelled_images()
    for i, image in enumerate(x[:4]):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    paths = [tmp_path / f"{i}.png" for i in range(4)]
    clf = AnyShotClassifier(colours, side=8).partial_fit([*paths, paths[1]], [*y[:4], "red"])
    assert f"{paths[1]} (green) and {paths[1]} (red)" in caplog.text
    caplog.clear()
    clf.partial_fit([paths[2]], ["red"])
    assert clf.conflicts_ == [(1, 4), (2, 5)]
    assert "image 2 (blue) and image 5 (red)" in caplog.text
    assert str(tmp_path) not in caplog.text


def test_images_that_were_learned_from_are_marked():
    x, y = labelled_images()
    new, _ = labelled_images(seed=60)
    actual = AnyShotClassifier(colours, side=8).fit(x, y).classify([*new[:3], x[4], x[0]])
    assert actual.support_matches.tolist() == [-1, -1, -1, 4, 0]
