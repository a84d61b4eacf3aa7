"""Expected accuracy: held-out images and the prior guess, combined by inverse variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier.confidence.expected_accuracy import (
    TEST_IMAGES,
    AccuracyModel,
    angle_of_share,
    class_separation,
    task_evidence,
    to_angle,
)
from anyshot.classifier.confidence.model import ConfidenceModel, shift_to_mean
from anyshot.classifier.heads.learner import AdaptedLearner, Learner, TaskView
from anyshot.classifier.heads.support_set import SupportSet
from anyshot.classifier.meta_training.calibrate import (
    TaskRecord,
    _equal_set_weights,
    _fit_accuracy,
    _weighted_quantile,
    train_confidence_model,
)
from anyshot.classifier.meta_training.episodes import FeatureSet, sample_task, sample_wide_task
from anyshot.classifier.weights import open_weights


def adapted_task(sizes, shares, confidence=0.8):
    """An adapted task with these shares of held-out hits by class, and this confidence."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    p = torch.full((len(labels), len(sizes)), (1 - confidence) / (len(sizes) - 1)).double()
    rank = torch.cat([torch.arange(n) / n for n in sizes])
    predicted = torch.where(rank < torch.tensor(shares)[labels], labels, (labels + 1) % len(sizes))
    p[torch.arange(len(p)), predicted] = confidence
    n = torch.tensor(sizes).double()
    view = TaskView(None, SupportSet(p, labels, n, labels, len(sizes)))
    return AdaptedLearner((view,), (), None, p.log())


def model_with_guess(share, log_variance=-3.0, correction=0.0):
    """An accuracy model whose prior guess is this share for every task."""
    accuracy = AccuracyModel().requires_grad_(False)
    accuracy.guess.bias.fill_(float(to_angle(torch.tensor(share))))
    accuracy.doubt.fill_(log_variance)
    accuracy.mend.fill_(correction)
    accuracy.blur.fill_(-7.0)
    return accuracy


def make_feature_set(name, seed, apart, classes=10, width=24, images=50):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.8, apart, (classes, width))
    return FeatureSet(
        name,
        [np.maximum(rng.normal(c, 0.4, (images, width)), 0).astype(np.float32) for c in centres],
    )


def test_many_held_out_images_outweigh_the_prior_guess():
    accuracy = model_with_guess(0.9)
    many, few = (accuracy.interval(adapted_task([n] * 4, [0.5] * 4)) for n in (500, 2))
    assert many[0] == pytest.approx(0.5, abs=0.02)
    assert few[0] > 0.6
    assert many[2] - many[1] < few[2] - few[1]


def test_combination_is_the_product_of_both_densities():
    accuracy, sizes = model_with_guess(0.9, log_variance=-2.5), [4, 8, 8]
    x = task_evidence(adapted_task(sizes, [0.5, 0.75, 0.5])).float()[None]
    mean, variance = accuracy(x, accuracy.prior_guess(x), torch.tensor([1e9]))
    grid = torch.linspace(-3, 5, 200_001).double()
    images, penalty = 9 / sum(1 / n for n in sizes), np.mean([np.log(n / (n - 1)) for n in sizes])
    variance_held_out = 1 / (4 * images + 2) + np.exp(-7) * (1 + penalty**2)
    held_out = np.arcsin(np.sqrt((images * 1.75 / 3 + 0.375) / (images + 0.75)))
    prior = np.arcsin(np.sqrt(0.9))
    log_density = -((grid - held_out) ** 2) / variance_held_out
    log_density = log_density - (grid - prior) ** 2 / np.exp(-2.5)
    density = (log_density / 2).softmax(0)
    assert float(mean) == pytest.approx(float(density @ grid), abs=1e-4)
    assert float(variance) == pytest.approx(
        float(density @ grid**2 - (density @ grid) ** 2), rel=1e-3
    )


def test_variance_of_the_share_of_hits():
    rng, sizes = np.random.default_rng(0), np.array([3, 10, 40])
    shares = (rng.binomial(sizes, 0.7, (20_000, 3)) / sizes).mean(1)
    images = float(task_evidence(adapted_task(sizes.tolist(), [0.7] * 3))[1])
    angles = angle_of_share(torch.from_numpy(shares * images), torch.tensor(images))
    assert float(angles.var()) == pytest.approx(1 / (4 * images + 2), rel=0.15)


def test_all_hits_of_few_images_are_not_certain():
    expected, low, high = model_with_guess(0.5, log_variance=5.0).interval(
        adapted_task([3, 3], [1.0, 1.0])
    )
    assert 0.8 < expected < 1
    assert low < 0.75
    assert high == 1


def test_classes_of_one_image_add_no_held_out_evidence():
    accuracy = model_with_guess(0.6)
    assert accuracy.interval(adapted_task([1, 1, 1], [1.0] * 3)) == accuracy.interval(
        adapted_task([1, 1, 1], [0.0] * 3)
    )
    mixed = [task_evidence(adapted_task([1, 8, 8], [share, 0.5, 0.5])) for share in (0.0, 1.0)]
    torch.testing.assert_close(mixed[0][:8], mixed[1][:8])  # the others are distances
    assert float(mixed[0][3]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("sizes", [[1, 50], [1, 1, 1, 9]])
def test_a_single_class_of_several_images_has_two_readings(sizes):
    right, wrong = (adapted_task(sizes, [share] * len(sizes)) for share in (1.0, 0.0))
    torch.testing.assert_close(task_evidence(right), task_evidence(wrong))
    torch.testing.assert_close(
        task_evidence(right), task_evidence(adapted_task([1] * len(sizes), [1.0] * len(sizes)))
    )
    assert float(task_evidence(right, lone=True)[1]) == pytest.approx(max(sizes))
    confidence = open_weights("photos-lite0").confidence
    found = confidence.expected_accuracy(right)
    without, with_it = (confidence.accuracy.interval(right, lone) for lone in (False, True))
    assert found.overall == pytest.approx((without[0] + with_it[0]) / 2)
    assert (found.low, found.high) == (without[1], with_it[2])


@pytest.mark.parametrize("way", [2, 5, 40])
def test_tasks_of_one_image_a_class_have_a_wide_interval(way):
    actual = open_weights("photos-lite0").confidence.expected_accuracy(
        adapted_task([1] * way, [1.0] * way)
    )
    assert 0 <= actual.low < actual.overall < actual.high <= 1
    assert actual.high - actual.low > 0.25
    torch.testing.assert_close(actual.classes, torch.full((way,), actual.overall))


def test_class_accuracies_average_to_the_expected_accuracy():
    actual = open_weights("photos-lite0").confidence.expected_accuracy(
        adapted_task([20, 20, 20, 1], [1.0, 0.9, 0.4, 1.0])
    )
    assert float(actual.classes.mean()) == pytest.approx(actual.overall, abs=1e-5)
    assert actual.classes[0] >= actual.classes[1] > actual.classes[2]
    assert actual.classes[3] < actual.classes[1]  # one image, of which nothing was held out


def test_class_separation_is_unbiased_and_counts_classes_that_overlap():
    """Three classes in a line, of which the last two coincide; means are sampled with noise."""
    rng, centres, sizes = np.random.default_rng(0), np.array([0.0, 6.0, 6.0]), [40, 40, 40]
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    z = torch.from_numpy(rng.normal(size=(120, 4)))
    z[:, 0] += torch.from_numpy(centres)[labels]
    support = SupportSet(z, labels, torch.tensor(sizes).double(), labels, 4)
    log_distance, inseparable = class_separation(support)
    images = [z[labels == c].numpy() for c in range(3)]
    means = np.array([x.mean(0) for x in images])
    within = (sum(((x - m) ** 2).sum() for x, m in zip(images, means, strict=True)) + 0.7) / 118
    nearest = []
    for a in range(3):
        others = [b for b in range(3) if b != a]
        distances = [((means[a] - means[b]) ** 2).sum() / float(within) - 2 / 40 for b in others]
        nearest.append(max(min(distances), 1e-3))
    assert float(log_distance) == pytest.approx(np.log(nearest).mean())
    assert float(inseparable) == pytest.approx(np.mean(np.array(nearest) < 0.02))


@pytest.mark.parametrize("mean", [0.001, 0.4, 0.999])
def test_shift_to_mean_keeps_the_order(mean):
    shares = shift_to_mean(torch.tensor([3.0, -9.0, 0.5]), mean)
    assert float(shares.mean()) == pytest.approx(mean, abs=1e-5)
    assert shares[0] > shares[2] > shares[1]


def sample_record(rng, name, shift):
    """A task sampled from the model: c = (0.3, −0.4), b = exp(−5), τ² = 0.04, 200 queries."""
    x = torch.zeros(10)
    x[1], x[2], x[3], x[4] = (
        rng.uniform(5, 200),
        rng.uniform(0, 0.5),
        rng.uniform(0, 0.5),
        rng.uniform(0.5, 1.2),
    )
    truth = 0.2 + 0.7 * x[4] + rng.normal(shift, 0.2)
    x[0] = (
        truth
        - 0.3 * x[2]
        + 0.4 * x[3]
        + rng.normal(0, float(1 / (4 * x[1] + 2) + np.exp(-5)) ** 0.5)
    )
    y = truth + rng.normal(0, 802**-0.5)
    none = torch.zeros(0)
    return TaskRecord(
        name, x, torch.zeros(1, 3), none, y, torch.tensor(200.0), torch.zeros(1), *[none] * 4
    )


def test_fit_recovers_the_true_parameters():
    rng = np.random.default_rng(0)
    confidence = ConfidenceModel()
    _fit_accuracy(
        confidence, [sample_record(rng, name, 0.0) for name in "abcd" for _ in range(400)]
    )
    actual = confidence.accuracy.requires_grad_(False)
    np.testing.assert_allclose(actual.mend, [0.3, -0.4], atol=0.06)
    assert float(actual.doubt[0].exp()) == pytest.approx(0.04, rel=0.2)
    assert float(actual.blur.exp()[0]) < 0.02
    assert float(actual.margin) == pytest.approx(1, abs=0.1)


def test_prior_guess_is_trusted_less_if_data_sets_disagree():
    prior_variances = []
    for apart in (0.0, 0.3):
        rng, confidence = np.random.default_rng(0), ConfidenceModel()
        shifts = dict(zip("abcd", (-apart, apart, -apart, apart), strict=True))
        _fit_accuracy(
            confidence,
            [sample_record(rng, name, shift) for name, shift in shifts.items() for _ in range(100)],
        )
        prior_variances.append(confidence.accuracy.doubt[0].exp().item())
    assert prior_variances[1] > 2 * prior_variances[0]


def test_every_data_set_counts_the_same():
    records = [type("J", (), {"image_set": name})() for name in "aaab"]
    torch.testing.assert_close(
        _equal_set_weights(records), torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    )
    values, weight = torch.tensor([4.0, 1.0, 3.0, 2.0]), torch.tensor([0.1, 0.5, 0.2, 0.2])
    assert [
        float(_weighted_quantile(values, weight, share)) for share in (0.5, 0.6, 0.9, 0.95)
    ] == [
        1,
        2,
        3,
        4,
    ]


@pytest.fixture(scope="module")
def learned():
    """A learner and its confidence model, trained on five data sets of different difficulty."""
    learner = Learner().requires_grad_(False)
    sets = [
        make_feature_set(str(apart), seed, apart)
        for seed, apart in enumerate((0.15, 0.25, 0.35, 0.5, 0.8))
    ]
    return learner, train_confidence_model(
        learner, ((data.name, sample_wide_task(data, 1, i)) for data in sets for i in range(25))
    )


@pytest.mark.parametrize("apart", [0.1, 0.2, 0.4])
def test_intervals_hold_on_a_new_data_set(learned, apart):
    """At 0.1, classes are closer together than in any training set."""
    learner, confidence = learned
    rng, data, rows = np.random.default_rng(5), make_feature_set("new", 99, apart), []
    for _ in range(60):
        task = sample_task(data, rng.integers(1, 30, 5), rng)
        adapted = learner.adapt(task.support, task.labels)
        accuracy = float((adapted(task.query).argmax(1) == task.query_labels).double().mean())
        actual, half = confidence.expected_accuracy(adapted), 0.5 / (5 * TEST_IMAGES)
        held = actual.low - half <= accuracy <= actual.high + half
        rows.append([accuracy, actual.overall, held, actual.high - actual.low])
    accuracy, expected, held, width = np.array(rows).T
    assert 0.8 <= held.mean() <= 0.99
    assert abs(expected.mean() - accuracy.mean()) < 0.05
    assert width.mean() < 0.4


def test_the_expected_accuracy_falls_with_the_images_that_are_taken_away(learned):
    """Also on a data set where classes are closer than usual, and the prior guess is too high."""
    learner, confidence = learned
    rng, data = np.random.default_rng(5), make_feature_set("new", 99, 0.15)
    expected = {n: [] for n in (16, 6, 2)}
    for _ in range(20):
        task = sample_task(data, [16] * 5, rng)
        rank = torch.arange(16).repeat(5)
        for n, values in expected.items():
            adapted = learner.adapt(task.support[rank < n], task.labels[rank < n])
            values.append(confidence.expected_accuracy(adapted).overall)
    means = [float(np.mean(values)) for values in expected.values()]
    assert means == sorted(means, reverse=True)
