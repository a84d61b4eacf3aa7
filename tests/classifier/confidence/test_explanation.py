"""The gain of more images, against the change of the mean accuracy."""

from __future__ import annotations

import pytest
import torch

from anyshot.classifier.confidence.explanation import (
    MORE_IMAGES,
    ClassEvidence,
    Explanation,
    accuracy_gain,
)


@pytest.mark.parametrize("way", [2, 5, 30])
def test_gain_is_the_change_of_the_mean_accuracy(way):
    generator = torch.Generator().manual_seed(way)
    expected = torch.rand(way, generator=generator).double()
    counts = torch.randint(1, 40, (way,), generator=generator).double()
    gains = accuracy_gain(expected, counts)
    for c in range(way):
        improved = expected.clone()
        errors = 1 - expected[c]
        improved[c] = 1 - errors * counts[c].sqrt() / (counts[c] + MORE_IMAGES).sqrt()
        assert float(gains[c]) == pytest.approx(float(improved.mean() - expected.mean()))


@pytest.mark.parametrize(("unfamiliarity", "cautious"), [(0.5, False), (1.0, False), (1.01, True)])
def test_only_unfamiliar_tasks_have_a_caution(unfamiliarity, cautious):
    assert bool(Explanation((), 0.5, 0.4, 0.6, unfamiliarity).caution) == cautious


@pytest.mark.parametrize(
    ("groups", "guess"),
    [([1, 1], True), ([1, 50], True), ([1, 1, 9], True), ([2, 2], False), ([1, 2, 2], False)],
)
def test_an_accuracy_without_compared_classes_is_called_a_guess(groups, guess):
    classes = tuple(ClassEvidence(str(n), n + 1, 1.0, {}, 0.5, 0.0, n) for n in groups)
    assert ("guess" in Explanation(classes, 0.5, 0.1, 0.9, 0.5).caution) == guess
