"""Meta-training on synthetic features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.meta_training.calibrate import train_confidence_model
from anyshot.classifier.meta_training.episodes import (
    QUERY,
    FeatureSet,
    prepare_episode,
    sample_lopsided_task,
    sample_task,
    sample_usual_task,
    sample_wide_task,
)
from anyshot.classifier.meta_training.train import (
    compute_head_outputs,
    heads_loss,
    meta_train,
    mixture_loss,
)


def make_feature_set(name, classes=12, width=24, seed=0, apart=0.5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.8, apart, (classes, width))
    return FeatureSet(
        name, [np.maximum(rng.normal(c, 0.5, (40, width)), 0).astype(np.float32) for c in centres]
    )


@pytest.fixture(scope="module")
def tasks():
    return [
        [prepare_episode(sample_wide_task(make_feature_set(name, seed=k), 0, i)) for i in range(6)]
        for k, name in enumerate("ab")
    ]


@pytest.fixture(scope="module")
def learner(tasks):
    return meta_train(tasks, head_steps=20, mixture_steps=60)


def test_support_query_and_unknown_images_are_disjoint():
    data = FeatureSet(
        "numbered", [np.full((20, 1), 20 * c) + np.arange(20)[:, None] for c in range(6)]
    )
    data = FeatureSet("numbered", [c.astype(np.float32) for c in data.classes])
    episode = sample_task(data, [1, 3, 50], np.random.default_rng(0))
    parts = [set(x.ravel().tolist()) for x in (episode.support, episode.query, episode.unknown)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    # half of a small class is reserved for the query
    assert torch.bincount(episode.labels).tolist() == [1, 3, 10]
    assert {int(v) // 20 for v in parts[2]}.isdisjoint({int(v) // 20 for v in parts[0]})
    assert torch.bincount(episode.query_labels).max() <= QUERY


def test_wide_tasks_depend_on_the_index_only():
    data = make_feature_set("a")
    torch.testing.assert_close(
        sample_wide_task(data, 0, 3).support, sample_wide_task(data, 0, 3).support
    )
    assert len({len(sample_wide_task(data, 0, i).labels) for i in range(8)}) > 3


def test_usual_tasks_have_two_to_six_classes_of_up_to_fifty_images():
    data = FeatureSet("many", [np.ones((70, 2), np.float32)] * 8)
    tasks = [sample_usual_task(data, 0, i) for i in range(40)]
    assert {int(t.labels.max()) + 1 for t in tasks} == {2, 3, 4, 5, 6}
    sizes = torch.cat([torch.bincount(t.labels) for t in tasks])
    assert sizes.min() < 4
    assert 40 < sizes.max() <= 50


def test_lopsided_tasks_have_classes_of_one_image_and_larger_ones():
    data = FeatureSet("many", [np.ones((70, 2), np.float32)] * 8)
    sizes = [torch.bincount(sample_lopsided_task(data, 0, i).labels) for i in range(60)]
    assert all(n.min() == 1 < n.max() for n in sizes)
    assert {len(n) for n in sizes} == {2, 3, 4, 5, 6}
    assert max(n.max() for n in sizes) > 30
    assert {(n == 1).sum().item() for n in sizes} >= {1, 2, 3}


def test_meta_training_lowers_the_loss_on_new_tasks(learner):
    new = [
        prepare_episode(sample_wide_task(make_feature_set("c", seed=9), 0, i)) for i in range(12)
    ]
    untrained = Learner()
    with torch.no_grad():
        assert sum(heads_loss(learner, task) for task in new) < sum(
            heads_loss(untrained, task) for task in new
        )
        answered = [compute_head_outputs(learner, task) for task in new]
        before, after = (
            sum(mixture_loss(net, task) for task in answered)
            for net in (untrained.mixture, learner.mixture)
        )
    assert after < before


def test_meta_training_is_deterministic(tasks):
    first, second = (meta_train(tasks, head_steps=3, mixture_steps=3) for _ in range(2))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_the_mixture_may_be_trained_on_other_tasks_than_the_heads(tasks):
    others = [
        [prepare_episode(sample_lopsided_task(make_feature_set("a"), 0, i)) for i in range(3)]
    ]
    same, other = (
        meta_train(tasks, head_steps=3, mixture_steps=3, mixture_sets=sets) for sets in ((), others)
    )
    for a, b in zip(same.learned.parameters(), other.learned.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert not torch.equal(same.mixture.out.weight, other.mixture.out.weight)


def test_confidence_model_holds_on_its_training_tasks(learner):
    sets = [make_feature_set("a", seed=0, apart=0.2), make_feature_set("b", seed=1, apart=0.6)]
    episodes = [sample_wide_task(data, 1, i) for data in sets for i in range(15)]
    confidence = train_confidence_model(
        learner, [(name, e) for name, e in zip(["a"] * 15 + ["b"] * 15, episodes, strict=True)]
    )
    inside, kept, inner, outer = [], [], [], []
    for e in episodes:
        adapted = learner.adapt(e.support, e.labels)
        expected = confidence.expected_accuracy(adapted)
        accuracy = (adapted(e.query).argmax(1) == e.query_labels).float().mean().item()
        inside.append(expected.low - 0.03 <= accuracy <= expected.high + 0.03)
        scores = confidence.unknown_score(adapted, e.query)
        kept.append((scores <= confidence.threshold).float().mean().item())
        if len(e.unknown):
            inner.append(scores.mean().item())
            outer.append(confidence.unknown_score(adapted, e.unknown).mean().item())
    assert np.mean(inside) > 0.8
    assert 0.85 < np.mean(kept) <= 1
    assert np.mean(outer) > np.mean(inner)
