"""The trade-off of thresholds, against scores of classifiers that are fitted again."""

from __future__ import annotations

import numpy as np
import pytest

from anyshot.classifier import AnyShotClassifier


def clusters(sizes, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(y), 12)) + 3 * np.eye(12)[y], y


def test_shares_are_those_of_images_and_classes_that_were_left_out():
    x, y = clusters((10, 6, 1, 8))
    clf = AnyShotClassifier(backbone=None, unknown_threshold=0.4).fit(x, y)
    found = clf.unknown_tradeoff()
    folds = clf.adapted_.support.folds.numpy()
    known, unknown = [[] for _ in range(4)], []
    for fold in range(5):
        other = AnyShotClassifier(None).fit(x[folds != fold], y[folds != fold])
        for image, label in zip(x[folds == fold], y[folds == fold], strict=True):
            known[label].extend(other.unknown_score([image]))
    for c in range(4):
        unknown.append(AnyShotClassifier(None).fit(x[y != c], y[y != c]).unknown_score(x[y == c]))
    usual = clf.weights_.confidence.curves.numpy()
    for i in (20, 50, 80):
        threshold = found.thresholds[i]
        flagged = np.mean([np.mean(np.array(s) > threshold) for s in known if s])
        found_share = np.mean([(scores > threshold).mean() for scores in unknown])
        expected = (
            (24 * flagged + 30 * usual[0, i]) / 54,  # 24 images were held out
            (25 * found_share + 30 * usual[1, i]) / 55,
        )
        assert (found.known_flagged[i], found.unknown_found[i]) == pytest.approx(expected)
        assert found.at(threshold) == pytest.approx(expected)
    assert found.threshold == 0.4


def test_higher_thresholds_flag_and_find_less():
    found = AnyShotClassifier(None).fit(*clusters((9, 5, 7))).unknown_tradeoff()
    for shares in (found.known_flagged, found.unknown_found):
        assert (np.diff(shares) <= 0).all()
    assert (np.diff(found.thresholds) > 0).all()
    assert found.unknown_found.mean() > found.known_flagged.mean()


def test_with_two_classes_the_usual_share_of_unknown_images_is_used():
    clf = AnyShotClassifier(None).fit(*clusters((9, 5)))
    found, usual = clf.unknown_tradeoff(), clf.weights_.confidence.curves.numpy()
    np.testing.assert_allclose(found.unknown_found, usual[1])
    assert np.abs(found.known_flagged - usual[0]).max() > 0
    alone = AnyShotClassifier(None).fit(*clusters((1, 1))).unknown_tradeoff()
    np.testing.assert_allclose(alone.known_flagged, usual[0])
