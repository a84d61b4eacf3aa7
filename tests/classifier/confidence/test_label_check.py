"""Labels that look wrong: swapped labels come first; duplicates against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from support import colours

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.confidence import label_check
from anyshot.classifier.confidence.label_check import find_near_duplicates


def clusters(sizes, seed=0, apart=6.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(y), 12)) + apart * np.eye(12)[y], y


def test_changed_labels_are_the_most_suspicious_and_the_truth_is_suggested():
    x, y = clusters((12, 9, 6))
    truth = np.array(["a", "b", "c"])[y]
    given = truth.copy()
    given[[2, 15]] = "c", "a"
    found = AnyShotClassifier(backbone=None).fit(x, given).check_labels()
    assert {(i.index, i.label, i.suggested) for i in found.images[:2]} == {
        (2, "c", "a"), (15, "a", "b")
    }  # fmt: skip
    assert sorted(i.index for i in found.images) == list(range(27))
    suspicions = [i.suspicion for i in found.images]
    assert suspicions == sorted(suspicions, reverse=True)


def test_the_probability_is_that_of_the_label_without_the_image():
    x, y = clusters((5, 4))
    clf = AnyShotClassifier(backbone=None).fit(x, y)
    held_out = clf.adapted_.held_out.exp().numpy()
    for image in clf.check_labels().images:
        assert image.probability == pytest.approx(held_out[image.index, image.label])


def test_classes_without_images_are_not_suggested():
    x, y = clusters((5, 4))
    clf = AnyShotClassifier(backbone=None)
    clf.partial_fit(x, np.where(y == 0, "m", "z"), classes=["a", "m", "z"])
    assert {i.suggested for i in clf.check_labels().images} == {"m", "z"}


def test_the_explanation_names_the_suspects():
    x, y = clusters((8, 8))
    y[3] = 1
    text = str(AnyShotClassifier(backbone=None).fit(x, y).explain())
    assert "image 3 (1, perhaps 0)" in text
    assert "wrong" not in str(AnyShotClassifier(backbone=None).fit(*clusters((8, 8))).explain())


@pytest.mark.parametrize("chunk", [3, 1000])
def test_duplicates_are_all_pairs_with_a_large_cosine(chunk, monkeypatch):
    monkeypatch.setattr(label_check, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 6)).astype(np.float32)
    x[[4, 7, 9]] = x[[1, 1, 2]] * 3 + rng.normal(0, 0.01, (3, 6))
    y = np.arange(10) % 3
    root = np.sign(x) * np.sqrt(np.abs(x.astype(np.float64)))
    unit = root / np.linalg.norm(root, axis=1, keepdims=True)
    distance = np.linalg.norm(unit[:, None] - unit, axis=2)
    usual = np.quantile(np.where(np.eye(10), np.inf, distance).min(1), 0.75)
    expected = [
        (i, j, y[i] == y[j], pytest.approx(1 - distance[i, j] / usual, abs=1e-5))
        for i in range(10)
        for j in range(i + 1, 10)
        if distance[i, j] <= 0.48 * usual
    ]
    found = find_near_duplicates(x, y)
    assert sorted((p.first, p.second, p.same_label, p.similarity) for p in found) == sorted(
        expected, key=lambda pair: pair[:3]
    )
    assert len(expected) == 4
    assert [p.same_label for p in found] == sorted(p.same_label for p in found)


def test_images_but_not_vectors_are_compared_with_each_other():
    images = list(np.random.default_rng(0).integers(0, 255, (6, 8, 8, 3), np.uint8))
    images[5] = images[0]
    y = [0, 0, 0, 1, 1, 1]
    clf = AnyShotClassifier(backbone=colours, side=8).fit(images, y)
    pair = clf.check_labels().duplicates[0]
    assert (pair.first, pair.second, pair.same_label) == (0, 5, False)
    assert AnyShotClassifier(None).fit(clf.features_, y).check_labels().duplicates == ()


@pytest.mark.parametrize(("share", "found"), [(0.4, [(0, 7)]), (0.6, [])])
def test_pairs_look_the_same_up_to_half_the_usual_distance(share, found):
    x = np.eye(8, dtype=np.float32)[[0, 1, 2, 3, 4, 5, 6, 0]]  # usual distance: √2
    angle = 2 * np.arcsin(share / np.sqrt(2))  # of the pair after the square root
    x[7, :2] = np.cos(angle) ** 2, np.sin(angle) ** 2
    pairs = find_near_duplicates(x, np.arange(8))
    assert [(p.first, p.second) for p in pairs] == found
