"""The mixture's inputs, computed class by class with loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier.heads.mixture import (
    DEFAULT_TASK_LEVEL,
    MIN_LOG_PROBABILITY,
    PSEUDO_COUNT,
    class_evidence,
)
from anyshot.classifier.heads.support_set import make_support_set


def make_task(sizes, width=12, heads=3, seed=0):
    """A support set of these class sizes, and held-out log-probabilities [K, N, C]."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(0.8, 0.4, (len(sizes), width))
    features = np.maximum(centres[labels] + rng.normal(0, 0.3, (len(labels), width)), 0)
    support = make_support_set(torch.from_numpy(features), torch.from_numpy(labels))[1]
    logits = torch.from_numpy(3 * rng.normal(size=(heads, len(labels), len(sizes))))
    return support, logits.log_softmax(2)


def evidence_by_loops(support, held_out):
    z, labels = support.z.numpy(), support.labels.numpy()
    way, images = support.way, len(labels)
    members = [np.flatnonzero(labels == c) for c in range(way)]
    sizes = np.array([len(m) for m in members])
    means = np.array([z[m].mean(0) for m in members])
    spreads = [((z[m] - means[c]) ** 2).sum() for c, m in enumerate(members)]
    p = held_out.exp().numpy()
    truth = np.maximum(
        held_out.numpy()[:, np.arange(images), labels], MIN_LOG_PROBABILITY
    ) / np.log(way)
    rows = []
    for c in range(way):
        row = [
            np.log(sizes[c]) / 2 - 1,
            (np.log(sizes[c]) - np.log(sizes).mean()) / 1.5,
            np.log(images) / 2 - 2,
            np.log(way) / 2 - 1,
            np.mean(sizes == 1),
            (spreads[c] + sum(spreads) / images) / (sizes[c] + 1) - 0.7,
            min(np.linalg.norm(means[c] - means[d]) for d in range(way) if d != c) - 0.8,
        ]
        levels, relative, false_alarms = [], [], []
        for k in range(len(held_out)):
            by_class = [truth[k, m].mean() for m in members if len(m) > 1]
            compared = len(by_class) > 1  # a single class says nothing about mix-ups
            level = np.mean(by_class) if compared else DEFAULT_TASK_LEVEL
            count = sizes[c] if compared and sizes[c] > 1 else 0
            total = truth[k, members[c]].sum() if count else 0.0
            levels.append(level - DEFAULT_TASK_LEVEL)
            relative.append(2 * ((total + PSEUDO_COUNT * level) / (count + PSEUDO_COUNT) - level))
            others = [p[k, members[d], c].mean() for d in range(way) if d != c]
            false_alarms.append(np.mean(others) * way - 0.5)
        rows.append([*row, *levels, *relative, *false_alarms])
    return np.array(rows)


@pytest.mark.parametrize("sizes", [(4, 1, 7), (2, 2), (1, 1, 1, 1), (20, 3, 1, 6, 2), (1, 50)])
def test_class_evidence_equals_a_computation_by_loops(sizes):
    support, held_out = make_task(sizes)
    found = class_evidence(support, held_out).numpy()
    np.testing.assert_allclose(found, evidence_by_loops(support, held_out), atol=1e-9)


def test_fold_masks_leave_out_one_fold_each():
    support, _ = make_task((4, 1, 7, 12))
    masks = support.fold_masks().numpy()
    folds = support.folds.numpy()
    assert masks.shape == (1 + folds.max() + 1, len(folds))
    assert masks[0].all()
    for fold in range(folds.max() + 1):
        np.testing.assert_array_equal(masks[1 + fold], folds != fold)
    outputs = torch.arange(len(masks)).double()[:, None, None].expand(*masks.shape, 3)
    np.testing.assert_array_equal(support.select_held_out(outputs)[:, 0], folds + 1)
