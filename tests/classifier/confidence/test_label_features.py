"""Evidence against labels, against loops over images; and the model that is fitted to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier.confidence import label_features as module
from anyshot.classifier.confidence.label_features import label_features
from anyshot.classifier.heads.learner import HEADS, Learner
from anyshot.classifier.meta_training.calibrate import train_confidence_model
from anyshot.classifier.meta_training.episodes import (
    FeatureSet,
    change_labels,
    sample_task,
    sample_wide_task,
)


def make_feature_set(name, seed=0, apart=0.6):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.8, apart, (8, 24))
    return FeatureSet(
        name, [np.maximum(rng.normal(c, 0.4, (40, 24)), 0).astype(np.float32) for c in centres]
    )


@pytest.fixture(scope="module")
def learner():
    return Learner().requires_grad_(False)


@pytest.mark.parametrize("shots", [(1, 1, 1), (5, 1, 8)])
def test_features_equal_their_definition_image_by_image(learner, shots, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)
    task = sample_task(make_feature_set("a"), shots, np.random.default_rng(0))
    adapted = learner.adapt(task.support, task.labels)
    head = adapted.heads[HEADS.index("discriminant")]
    labels, sizes = task.labels.numpy(), np.bincount(task.labels.numpy())
    log_p = adapted.held_out.double().numpy()
    distances = head.squared_distances(adapted.support.points).numpy()
    z = adapted.support.z.numpy()
    rows = range(len(labels))
    several = sizes[labels] > 1
    nearest_other = np.array([np.delete(distances[i], labels[i]).min() for i in rows])
    held_out = head.held_out_distance.numpy()
    usual = np.sort(held_out[several] if several.any() else nearest_other)
    usual = usual[(len(usual) - 1) // 2]
    p_own = np.exp(log_p[rows, labels])
    expected = []
    for i in rows:
        others = [j for j in np.argsort(np.linalg.norm(z - z[i], axis=1)) if j != i][:5]
        strange = np.mean([labels[j] != labels[i] for j in others])
        odds = np.clip(np.delete(log_p[i], labels[i]).max() - log_p[i, labels[i]], -8, 8)
        gap = np.log(held_out[i] / usual) - np.log(nearest_other[i] / usual)
        close = -np.log(nearest_other[i] / usual)
        level = p_own[several].mean() if several.any() else 0
        own = (odds, gap, 0, 0) if several[i] else (0, 0, close, 1)
        expected.append([*own, strange - 0.5, np.log(sizes[labels[i]]), level - 0.5])
    np.testing.assert_allclose(label_features(adapted), expected, rtol=1e-5, atol=1e-5)


def test_trained_suspicions_rank_changed_labels_first_and_are_calibrated(learner):
    sets = [make_feature_set(name, seed) for seed, name in enumerate("ab")]
    confidence = train_confidence_model(
        learner, [(data.name, sample_wide_task(data, 1, i)) for data in sets for i in range(12)]
    )
    suspicions, wrong = [], []
    for i in range(12):
        rng = np.random.default_rng(i)
        task = sample_task(make_feature_set("new", 9), (6, 12, 9, 4), rng)
        labels = change_labels(task.labels, 0.12, rng)
        with torch.no_grad():
            features = label_features(learner.adapt(task.support, labels))
        suspicions.append(confidence.label_suspicion(features))
        wrong.append(labels != task.labels)
    suspicion, changed = torch.cat(suspicions), torch.cat(wrong)
    inside, outside = suspicion[~changed], suspicion[changed]
    assert (outside[:, None] > inside).float().mean() > 0.9
    assert abs(float(suspicion.mean() - changed.float().mean())) < 0.06


def test_changed_labels_are_other_classes_and_no_class_is_emptied():
    labels = torch.tensor([0] * 10 + [1] + [2] * 9)
    for seed in range(30):
        changed = change_labels(labels, 0.3, np.random.default_rng(seed))
        assert set(changed.tolist()) == {0, 1, 2}
        assert 4 <= (changed != labels).sum() <= 6
    assert (change_labels(labels, 0.001, np.random.default_rng(0)) != labels).sum() <= 1
