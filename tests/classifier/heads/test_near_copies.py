"""Near-copies and series count as one image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import colours

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.confidence.explanation import explain
from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.near_copies import (
    LOOSE,
    NEAR,
    STRICT,
    group_near_copies,
    merge_groups,
)
from anyshot.classifier.heads.support_set import View

WIDTHS = (40, 30, 20)


def make_series(sizes, noise, seed=0):
    """Unit vectors of series: sizes[c] are the sizes of the series of class c."""
    rng = np.random.default_rng(seed)
    x, labels, series = [], [], []
    for c, of_class in enumerate(sizes):
        centre = rng.normal(size=90)
        for size in of_class:
            first = centre / 2 + rng.normal(size=90)
            x += list(first + noise * rng.normal(size=(size, 90)))
            labels += [c] * size
            series += [len(set(series))] * size
    x = np.array(x)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x).float(), torch.tensor(labels), torch.tensor(series)


def average_linkage(x, labels, threshold):
    """Groups by merging the two nearest clusters of a class again and again."""
    clusters = [[i] for i in range(len(x))]
    d = np.linalg.norm(x[:, None] - x, axis=2)
    d = d / np.median(d[labels[:, None] != labels])

    def distance(a, b):
        return np.inf if labels[a[0]] != labels[b[0]] else d[np.ix_(a, b)].mean()

    while True:
        pairs = [(distance(a, b), a, b) for i, a in enumerate(clusters) for b in clusters[:i]]
        least, a, b = min(pairs, key=lambda pair: pair[0])
        if least > threshold:
            clusters = sorted(sorted(cluster) for cluster in clusters)
            return [next(k for k, c in enumerate(clusters) if i in c) for i in range(len(x))]
        clusters = [c for c in clusters if c not in (a, b)] + [a + b]


def test_series_are_groups_and_usual_images_are_not():
    x, labels, series = make_series([(5, 1, 3), (2, 4), (1, 1)], noise=0.45)
    assert group_near_copies(x, labels)[1].tolist() == series.tolist()
    x, labels, _ = make_series([(1,) * 9, (1,) * 7], noise=0.2)
    for groups in group_near_copies(x, labels):
        assert groups.tolist() == list(range(16))


@pytest.mark.parametrize("noise", [0.45, 0.3, 0.0], ids=["frames", "bursts", "copies"])
def test_groups_are_those_of_average_linkage(noise):
    x, labels, _ = make_series([(6, 5, 4), (7, 3, 2)], noise, seed=2)
    for groups, threshold in zip(group_near_copies(x, labels), (STRICT, LOOSE), strict=True):
        expected = average_linkage(x.double().numpy(), labels.numpy(), threshold)
        assert groups.tolist() == expected


def test_many_usual_images_do_not_loosen_the_threshold():
    # of 300 images in few dimensions, many pairs are less than LOOSE apart, but none is a copy
    x = np.random.default_rng(0).normal(size=(300, 30))
    labels = np.arange(300) % 3
    d = np.linalg.norm(x[:, None] - x, axis=2)
    d = d[np.triu(labels[:, None] == labels, 1)] / np.median(d[labels[:, None] != labels])
    assert d.min() > STRICT
    assert (d < LOOSE).sum() > 100
    _, series = group_near_copies(torch.from_numpy(x), torch.from_numpy(labels))
    assert len(series.unique()) == 300


def test_images_of_a_homogeneous_class_are_no_series():
    # many are near each other, like frames of a video, but not in clusters that are apart
    rng = np.random.default_rng(0)
    centres, labels = 1.55 * rng.normal(size=(3, 90)), np.arange(60) % 3
    x = centres[labels] + rng.normal(size=(60, 90))
    d = np.linalg.norm(x[:, None] - x, axis=2)
    d = d[np.triu(labels[:, None] == labels, 1)] / np.median(d[labels[:, None] != labels])
    assert (d < NEAR).sum() > 0.2 * (d < LOOSE).sum()
    _, series = group_near_copies(torch.from_numpy(x), torch.from_numpy(labels))
    assert len(series.unique()) == 60


def test_images_of_two_classes_are_never_one_group():
    x, labels, _ = make_series([(2, 1), (2,)], noise=0.0)
    x[4] = x[0]  # the same photo with another label
    for groups in group_near_copies(x, labels):
        assert groups.tolist() == [0, 0, 1, 2, 3]


def test_with_copies_only_a_series_is_not_merged():
    x, labels, _ = make_series([(3, 2), (2,)], noise=0.2)
    for groups in group_near_copies(x, labels, copies_only=True):
        assert len(groups.unique()) == 7
    x[1] = x[0]
    for groups in group_near_copies(x, labels, copies_only=True):
        assert groups.tolist() == [0, 0, 1, 2, 3, 4, 5]


def test_the_learner_fits_the_means_of_the_groups():
    x, labels, series = make_series([(5, 1, 3), (2, 4), (1, 1)], noise=0.02)
    features = x.abs() + 0.1
    learner = Learner().requires_grad_(False)
    merged = learner.adapt_for_use(features, labels, widths=WIDTHS)
    assert merged.group_of_image.tolist() == series.tolist()
    means = torch.stack([features[series == g].mean(0) for g in range(7)])
    torch.testing.assert_close(merge_groups(features, series), means)
    by_hand = learner.adapt_for_use(
        means, torch.tensor([0, 0, 0, 1, 1, 2, 2]), widths=WIDTHS, merge=False
    )
    assert by_hand.groups is None
    torch.testing.assert_close(merged(features), by_hand(features), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(merged.held_out, by_hand.held_out, atol=1e-4, rtol=1e-3)


def test_series_change_no_answer_and_widen_the_interval():
    x, labels, _ = make_series([(5, 4, 3), (2, 4), (3, 3)], noise=0.45)
    features = x.abs() + 0.1
    learner, confidence = Learner().requires_grad_(False), ConfidenceModel().requires_grad_(False)
    adapted = learner.adapt_for_use(features, labels, widths=WIDTHS)
    each = learner.adapt_for_use(features, labels, widths=WIDTHS, merge=False)
    groups = group_near_copies(View(((0, 40), (40, 70), (70, 90)))(features), labels)
    assert len(groups[0].unique()) == len(labels) > len(groups[1].unique())
    assert adapted.as_series.group_of_image.tolist() == groups[1].tolist()
    torch.testing.assert_close(adapted(features), each(features))
    found, of_each, of_series = (
        confidence.accuracy.interval(task) for task in (adapted, each, adapted.as_series)
    )
    expected = confidence.expected_accuracy(adapted)
    assert found == of_each
    assert expected.overall == pytest.approx((of_each[0] + of_series[0]) / 2)
    assert (expected.low, expected.high) == (
        min(of_each[1], of_series[1]),
        max(of_each[2], of_series[2]),
    )
    tilted = adapted.under_prior(torch.tensor([0.5, 0.3, 0.2]))
    assert not torch.equal(tilted.as_series.held_out, adapted.as_series.held_out)
    sentence = f"only {len(groups[1].unique())} different ones"
    assert sentence in explain(adapted, confidence, "abc").near_copies


@pytest.fixture(scope="module")
def once_and_twice():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 120, (14, 8, 8, 3)).astype(np.uint8)
    labels = np.repeat([0, 1, 2], (6, 5, 3))
    images[np.arange(14), :, :, labels] += 100
    fit = AnyShotClassifier(backbone=colours, side=8).fit
    twice = np.concatenate([images, images[labels == 1]]), np.concatenate([labels, np.ones(5, int)])
    once = fit(list(images), labels)
    return once, AnyShotClassifier(backbone=colours, side=8).fit(list(twice[0]), twice[1]), images


def test_copies_change_no_answer_and_no_expected_accuracy(once_and_twice):
    once, twice, images = once_and_twice
    np.testing.assert_allclose(
        once.predict_proba(list(images)), twice.predict_proba(list(images)), atol=1e-5
    )
    assert twice.explain().expected == pytest.approx(once.explain().expected, abs=1e-5)
    known = [clf.unknown_tradeoff().known_flagged for clf in (once, twice)]
    np.testing.assert_allclose(*known, atol=1e-4)


def test_copies_are_counted_and_each_has_its_label_checked(once_and_twice):
    once, twice, _ = once_and_twice
    explanation = twice.explain()
    assert [(c.images, c.groups) for c in explanation.classes] == [(6, 6), (10, 5), (3, 3)]
    sentence = "19 images count as 14, because near-copies count as one."
    assert explanation.near_copies == sentence
    assert sentence in str(explanation)
    assert once.explain().near_copies == ""
    suspicion = {image.index: image.suspicion for image in twice.check_labels().images}
    assert len(suspicion) == 19
    for copy, image in enumerate(range(6, 11), start=14):
        assert suspicion[copy] == suspicion[image]
