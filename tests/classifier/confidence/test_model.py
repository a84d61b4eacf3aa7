"""The confidence model: unknown images, unfamiliar tasks, and margins for new data sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier.confidence.model import (
    class_accuracy_features,
    task_descriptor,
)
from anyshot.classifier.confidence.novelty_features import (
    NOVELTY_FEATURES,
    nearest_distances,
    novelty_features,
)
from anyshot.classifier.heads.learner import HEADS, Learner
from anyshot.classifier.heads.support_set import View, make_support_set, signed_sqrt_normalize
from anyshot.classifier.meta_training.calibrate import (
    RIDGE,
    _least_squares,
    _leave_one_set_out,
    _predict,
    train_confidence_model,
)
from anyshot.classifier.meta_training.episodes import FeatureSet, sample_task, sample_wide_task
from anyshot.classifier.meta_training.within_class import estimate_damping


def make_feature_set(name, classes=10, width=24, seed=0, apart=0.5, images=40):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.8, apart, (classes, width))
    return FeatureSet(
        name,
        [np.maximum(rng.normal(c, 0.4, (images, width)), 0).astype(np.float32) for c in centres],
    )


@pytest.fixture(scope="module")
def learner():
    return Learner().requires_grad_(False)


@pytest.fixture(scope="module")
def confidence(learner):
    sets = [
        make_feature_set(name, seed=k, apart=a)
        for k, (name, a) in enumerate((("a", 0.3), ("b", 0.5), ("c", 0.8)))
    ]
    return train_confidence_model(
        learner, [(data.name, sample_wide_task(data, 1, i)) for data in sets for i in range(12)]
    )


@pytest.mark.parametrize("shots", [(1, 1, 1), (5, 1, 8)])
def test_novelty_features_are_finite_and_do_not_depend_on_the_batch(learner, shots):
    task = sample_task(make_feature_set("a"), shots, np.random.default_rng(0))
    adapted = learner.adapt(task.support, task.labels)
    together = novelty_features(adapted, task.query)
    assert together.shape == (len(task.query), NOVELTY_FEATURES)
    assert torch.isfinite(together).all()
    torch.testing.assert_close(
        torch.cat([novelty_features(adapted, q[None]) for q in task.query]), together
    )


@pytest.mark.parametrize("shots", [(1, 1, 1), (5, 1, 8)])
def test_novelty_features_equal_their_formulas_in_full_dimensions(learner, shots):
    task = sample_task(make_feature_set("a"), shots, np.random.default_rng(0))
    adapted = learner.adapt(task.support, task.labels)
    labels = task.labels.numpy()
    sizes = np.bincount(labels)
    x, known = (adapted.frame.centre(f.double()).numpy() for f in (task.query, task.support))

    discriminant = adapted.heads[HEADS.index("discriminant")]
    points = adapted.frame(task.query.double())
    distance, second = np.sort(discriminant.squared_distances(points).numpy(), 1)[:, :2].T
    offset = points.z @ discriminant.whiten - discriminant.means.mean(0)
    outside = discriminant.residual_precision * points.residual
    centre = (offset.square().sum(1) + outside).numpy()
    if max(shots) > 1:
        chosen = sizes[labels] > 1
        held_out = discriminant.held_out_distance.numpy()[chosen]
        weights = 1 / sizes[labels][chosen] / (sizes > 1).sum()
    else:
        to_classes = discriminant.squared_distances(adapted.support.points).numpy()
        held_out = np.array(
            [np.delete(row, c).min() for row, c in zip(to_classes, labels, strict=True)]
        )
        weights = np.full(len(labels), 1 / len(labels))
    farther = np.array([weights[held_out >= d].sum() for d in distance])

    def lower_median(values):
        return np.sort(values)[(len(values) - 1) // 2]

    between = np.linalg.norm(known[:, None] - known, axis=2) + np.diag([np.inf] * len(known))
    to_known = np.linalg.norm(x[:, None] - known, axis=2)
    nearest = to_known.min(1)
    means = np.array([known[labels == c].mean(0) for c in range(len(sizes))])
    directions = means / np.linalg.norm(means, axis=1, keepdims=True)
    cosines = (x @ directions.T / np.linalg.norm(x, axis=1, keepdims=True)).max(1)
    logits = adapted.heads[HEADS.index("logistic")].logits(adapted.frame(task.query.double()))
    columns = [
        4 * np.log(distance / lower_median(held_out)),
        -np.log(farther + 0.02),
        4 * np.log(nearest / lower_median(between.min(1))),
        -cosines,
        -adapted(task.query).max(1).values.numpy(),
        -np.log(np.exp(logits.numpy()).sum(1)),
        np.full(len(x), np.log(len(labels)) / 2 - 2),
        np.full(len(x), np.log(len(sizes)) / 2 - 1),
        np.full(len(x), np.mean(sizes == 1)),
        4 * distance / second,
        4 * distance / centre,
        2 * np.log(nearest / between.min(1)[to_known.argmin(1)]),
    ]
    found = novelty_features(adapted, task.query)
    np.testing.assert_allclose(found, np.stack(columns, 1), rtol=1e-4, atol=1e-5)


def test_images_of_other_classes_score_higher(learner, confidence):
    shares = []
    for i in range(8):
        task = sample_task(make_feature_set("new", seed=9), (8, 8, 8), np.random.default_rng(i))
        adapted = learner.adapt(task.support, task.labels)
        inside, outside = (confidence.unknown_score(adapted, x) for x in (task.query, task.unknown))
        shares.append((outside[:, None] > inside).float().mean().item())
    assert np.mean(shares) > 0.75


def test_noise_is_unfamiliar_and_similar_tasks_are_not(learner, confidence):
    def unfamiliarity(data):
        tasks = [sample_task(data, (5, 8, 3), np.random.default_rng(i)) for i in range(8)]
        return [confidence.unfamiliarity(learner.adapt(t.support, t.labels)) for t in tasks]

    rng = np.random.default_rng(0)
    noise = FeatureSet("noise", [rng.normal(size=(40, 24)).astype(np.float32) for _ in range(4)])
    assert np.mean(np.array(unfamiliarity(make_feature_set("new", seed=9))) <= 1) >= 0.7
    assert min(unfamiliarity(noise)) > 1


def test_intervals_are_wider_if_data_sets_disagree(learner):
    """Shuffled query images make the held-out accuracy of one set misleading."""
    same = [
        (name, sample_wide_task(make_feature_set(name, seed=k), 1, i))
        for k, name in enumerate("ab")
        for i in range(10)
    ]
    shuffled = []
    for name, episode in same[10:]:
        order = torch.randperm(len(episode.query), generator=torch.Generator().manual_seed(0))
        shuffled.append((name, type(episode)(**{**vars(episode), "query": episode.query[order]})))
    widths = []
    for episodes in (same, same[:10] + shuffled):
        confidence = train_confidence_model(learner, episodes)
        expected = [
            confidence.expected_accuracy(learner.adapt(e.support, e.labels)) for _, e in same
        ]
        widths.append(np.mean([e.high - e.low for e in expected]))
    assert widths[1] > 1.5 * widths[0]


def test_every_data_set_is_left_out_once():
    records = [type("J", (), {"image_set": name})() for name in "abacb"]
    assert sorted(_leave_one_set_out(records)) == [
        ([0, 2], [1, 3, 4]),
        ([1, 4], [0, 2, 3]),
        ([3], [0, 1, 2, 4]),
    ]


def test_weighted_least_squares_equals_numpy_on_repeated_rows():
    rng = np.random.default_rng(0)
    x, y, times = rng.normal(size=(200, 3)), rng.normal(size=200), rng.integers(1, 5, 200)
    rows = np.repeat(np.c_[x, np.ones(200)], times, 0)
    rows = np.r_[rows, np.eye(4) * np.sqrt(RIDGE * times.sum())]  # the ridge as rows with target 0
    expected = np.linalg.lstsq(rows, np.r_[np.repeat(y, times), np.zeros(4)], rcond=None)[0]
    actual = _least_squares(
        torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(times).double()
    )
    np.testing.assert_allclose(
        _predict(actual, torch.from_numpy(x)), np.c_[x, np.ones(200)] @ expected
    )


def test_nearest_distance_excludes_the_image_itself():
    np.testing.assert_allclose(nearest_distances(torch.tensor([[0.0], [1.0], [4.0]])), [1, 1, 3])


def test_damping_shrinks_within_class_directions():
    rng = np.random.default_rng(0)
    along = np.eye(30)[3] * 3.0
    centres = rng.normal(2.0, 0.5, (12, 30))
    classes = [
        c + rng.normal(0, 0.2, (50, 30)) + rng.normal(size=(50, 1)) * along * 0.3 for c in centres
    ]
    data = FeatureSet("miniimagenet", [np.maximum(c, 0).astype(np.float32) for c in classes])
    damping = estimate_damping([data, FeatureSet("another", data.classes[:1])])
    x = signed_sqrt_normalize(torch.from_numpy(data.classes[0]))
    dense = torch.eye(30) - (damping.directions * damping.share @ damping.directions.t()).float()
    torch.testing.assert_close(damping(x), x @ dense, rtol=1e-4, atol=1e-5)
    shrunk = damping(x).std(0) / x.std(0)
    assert shrunk[3] < 0.7 * shrunk[torch.arange(30) != 3].mean()


def test_damping_applies_to_native_features_only():
    data = make_feature_set("miniimagenet", width=24)
    damping = estimate_damping([data])
    task = sample_task(data, (4, 6), np.random.default_rng(0))
    learner = Learner(damping).requires_grad_(False)
    frame, support = make_support_set(
        task.support, task.labels, View(((0, task.support.shape[1]),), learner.damping)
    )
    torch.testing.assert_close(frame(task.support).z, support.z)
    native, other = (
        learner.adapt(task.support, task.labels, native=n)(task.query) for n in (True, False)
    )
    plain = Learner().requires_grad_(False).adapt(task.support, task.labels)(task.query)
    torch.testing.assert_close(other, plain)
    assert not torch.allclose(native, plain)


@pytest.mark.parametrize("shots", [(8, 8, 8), (1, 1, 1, 1)])
def test_every_unknown_feature_grows_with_the_distance_from_the_classes(learner, shots):
    """Images move away from the class means, along a direction that no class has."""
    task = sample_task(make_feature_set("a", classes=6, width=40), shots, np.random.default_rng(0))
    adapted = learner.adapt(task.support, task.labels)
    away = torch.zeros(40)
    away[::2] = 1.0
    steps = torch.tensor([0.0, 0.5, 2.0, 8.0])
    means = []
    for step in steps:
        rows = novelty_features(adapted, task.query + step * away)
        means.append(rows[:, :6].mean(0))
    differences = torch.stack(means).diff(dim=0)
    assert (differences.sum(0) > 0).all(), differences


@pytest.mark.parametrize("shots", [(8, 3, 1), (2, 5, 1), (1, 1)])
def test_task_descriptor_and_class_features_equal_a_direct_computation(learner, shots):
    task = sample_task(make_feature_set("a"), shots, np.random.default_rng(0))
    adapted = learner.adapt(task.support, task.labels)
    z, labels = adapted.support.z.numpy(), task.labels.numpy()
    origin = adapted.frame.origin.numpy()
    values = np.linalg.eigvalsh(z @ z.T)
    distances = np.linalg.norm(z[:, None] - z, axis=2) + np.diag([np.inf] * len(z))
    cloud = [
        float(adapted.frame.unit),
        values.sum() ** 2 / (values**2).sum(),
        distances.min(1).mean(),
        np.abs(origin).sum() ** 2 / (len(origin) * (origin**2).sum()),
        len(z),
        len(shots),
    ]
    np.testing.assert_allclose(task_descriptor(adapted), np.log(cloud), rtol=1e-5)
    p = adapted.held_out.exp().numpy()[np.arange(len(z)), labels]
    sizes = np.bincount(labels)
    means = np.array([p[labels == c].mean() for c in range(len(sizes))])
    level = means[sizes > 1].mean() if (sizes > 1).any() else 0.5
    sure = np.where(sizes > 1, (sizes * means + 2 * level) / (sizes + 2), level)
    logit = np.log(np.clip(sure, 0.01, 0.99) / (1 - np.clip(sure, 0.01, 0.99)))
    columns = [logit - logit.mean(), np.log(sizes) - np.log(sizes).mean(), sizes == 1]
    found = class_accuracy_features(adapted)
    np.testing.assert_allclose(found, np.stack(columns, 1), rtol=1e-4, atol=1e-6)
