"""Heads at several depths: which columns they see, and how the evidence weighs them."""

from __future__ import annotations

import numpy as np
import torch

from anyshot.classifier.heads.discriminant import Discriminant
from anyshot.classifier.heads.learner import DEEPER, HEADS, VIEWS, Learner, make_views
from anyshot.classifier.heads.mixture import Mixture, class_evidence
from anyshot.classifier.heads.support_set import View, WithinClassDamping, make_support_set
from anyshot.classifier.meta_training.train import HeadOutputs, mixture_loss

WIDTHS = (12, 8, 6, 5)
COUNTS = (6, 3, 1, 5)
LABELS = torch.repeat_interleave(torch.arange(4), torch.tensor(COUNTS))


def make_features(images, seed=0, useful=range(4)):
    """Blocks of random features; those in `useful` depend on the class."""
    rng = np.random.default_rng(seed)
    labels = LABELS if images is None else torch.arange(images) % 4
    blocks = []
    for b, width in enumerate(WIDTHS):
        centres = np.random.default_rng(b).normal(1, 1.0 * (b in useful), (4, width))
        blocks.append(centres[labels] + rng.normal(0, 0.4, (len(labels), width)))
    return torch.from_numpy(np.concatenate(blocks, 1).astype(np.float32)), labels


def adapted_learner(features, labels):
    return Learner().requires_grad_(False).adapt(features, labels, widths=WIDTHS)


def test_a_view_normalises_each_of_its_blocks():
    x = make_features(5)[0]
    found = View(((0, 12), (20, 26)))(x).numpy()
    for part, columns in ((found[:, :12], x[:, :12]), (found[:, 12:], x[:, 20:26])):
        root = np.sign(columns.numpy()) * np.sqrt(np.abs(columns.numpy()))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        np.testing.assert_allclose(part, root / np.sqrt(2), atol=1e-6)


def test_every_head_sees_its_own_blocks_only():
    features, labels = make_features(None)
    query = make_features(9, seed=1)[0]
    adapted = adapted_learner(features, labels)
    before = adapted.head_outputs(query)
    start = 0
    for block, width in enumerate(WIDTHS):
        changed = query.clone()
        changed[:, start : start + width] += 1.0
        start += width
        differs = (adapted.head_outputs(changed) - before).abs().amax((1, 2)) > 1e-6
        views = [VIEWS[0]] * 5 + [*VIEWS[1:], VIEWS[-1]]
        assert differs.tolist() == [block in blocks for blocks in views]


def test_a_deeper_head_is_a_discriminant_on_its_columns():
    features, labels = make_features(None)
    query = make_features(9, seed=1)[0]
    found = adapted_learner(features, labels).head_outputs(query)[HEADS.index("third block")]
    frame, support = make_support_set(features[:, 20:26], labels)
    head = Discriminant(log_nu=6.0).requires_grad_(False)(support)[0]
    torch.testing.assert_close(found, head(frame(query[:, 20:26])).double(), rtol=1e-3, atol=1e-4)


def test_one_block_gives_one_view_for_all_heads():
    features, labels = make_features(None)
    adapted = Learner().requires_grad_(False).adapt(features, labels)
    assert len(adapted.views) == 1
    outputs = adapted.head_outputs(features)
    deeper = outputs[[HEADS.index(name) for name in DEEPER]]
    torch.testing.assert_close(deeper, deeper[:1].expand_as(deeper))
    torch.testing.assert_close(outputs[-1], outputs[HEADS.index("kernel")])


def test_the_damping_applies_to_the_last_layer_only():
    features, labels = make_features(None)
    damping = WithinClassDamping(torch.eye(12)[:, :3], torch.full((3,), 0.5))
    plain, damped = (make_views(features, labels, WIDTHS, d) for d in (None, damping))
    differs = [
        not torch.equal(a.support.z, b.support.z) for a, b in zip(plain, damped, strict=True)
    ]
    assert differs == [0 in blocks for blocks in VIEWS]


def test_the_evidence_trusts_the_depth_that_separates_the_classes():
    for block, head in ((2, "third block"), (3, "fourth block")):
        features, labels = make_features(None, useful=(block,))
        trust = adapted_learner(features, labels).weights.trust[:, torch.tensor(COUNTS) > 2]
        single = {name: trust[HEADS.index(name)].mean() for name in DEEPER[:3]}
        assert max(single, key=single.get) == head


def test_the_untrained_trust_is_a_softmax_of_the_evidence():
    features, labels = make_features(None)
    views = make_views(features, labels, WIDTHS)
    held_out = Learner().requires_grad_(False).fit_heads([v.support for v in views])[1]
    evidence = class_evidence(views[0].support, held_out)
    heads = len(HEADS)
    level = evidence[:, 7 : 7 + heads] + evidence[:, 7 + heads : 7 + 2 * heads] / 2
    mixture = Mixture(heads).requires_grad_(False)
    mixture.log_evidence.fill_(np.log(2.0))
    several = np.array([n for n in COUNTS if n > 1])
    factor = 2 * np.sqrt(len(several) ** 2 / (1 / several).sum() / 10)  # more images, more trust
    trust = mixture(evidence, torch.tensor(COUNTS).float()).trust
    torch.testing.assert_close(trust, (factor * level).softmax(1).t())


def test_the_loss_is_the_mean_of_both_readings_of_the_class_prior():
    """By loops over images: even classes, and classes as common as in the support set."""
    features, labels = make_features(None)
    views = make_views(features, labels, WIDTHS)
    learner = Learner().requires_grad_(False)
    heads, held_out = learner.fit_heads([v.support for v in views])
    query, query_labels = make_features(10, seed=3)  # classes have 3, 3, 2 and 2 images
    outputs = torch.stack([head(views[0].frame(query)) for head in heads[:5]])
    outputs = torch.cat([outputs] * 3)[: len(HEADS)]
    evidence = class_evidence(views[0].support, held_out)
    counts = torch.tensor(COUNTS).float()
    task = HeadOutputs(evidence, outputs, query_labels, counts)
    even = learner.mixture(evidence, counts)(outputs).exp().double().numpy()
    per_reading = []
    for shares in (np.full(4, 0.25), np.array(COUNTS) / sum(COUNTS)):
        total = 0.0
        for c in range(4):
            rows = even[query_labels.numpy() == c]
            posterior = rows[:, c] * shares[c] / (rows * shares).sum(1)
            total -= shares[c] * np.log(posterior).mean()
        per_reading.append(total)
    np.testing.assert_allclose(mixture_loss(learner.mixture, task), np.mean(per_reading), rtol=1e-4)
