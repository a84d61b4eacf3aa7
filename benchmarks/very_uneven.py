"""Tasks in which one class has many images and the other one to five.

    python benchmarks/very_uneven.py OUT --photos FOLDER [--tasks 60]

Two classes of the photographs, of scikit-learn's digits and of the simulated scans
(benchmarks/unseen_sets.py), none of which the shipped learner met; up to 50 images of the large
class. Writes OUT/very-uneven.json: accuracy, NLL and accuracy of the small class, and how far the
expected accuracy holds.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from heads_baselines import (
    BACKBONE,
    all_blocks_baselines,
    balanced,
    by_means,
    folder_features,
    in_span,
    normalise_blocks,
    options,
)
from unseen_sets import digits, scans

from anyshot.classifier.backbones import block_widths, compute_features, open_backbone
from anyshot.classifier.meta_training.episodes import FeatureSet, sample_task
from anyshot.classifier.weights import open_weights
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng

SIZES = ((1, 1), (1, 5), (1, 50), (2, 50), (5, 50))


def rivals(support, labels, query, widths):
    """Probabilities of the baselines that are strongest here."""
    s, q = in_span(support[:, : widths[0]], query[:, : widths[0]])
    blocks = [normalise_blocks(x, widths) for x in (support, query)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "balanced logistic regression": balanced(s, labels).predict_proba(q),
            "cosine to centred means": by_means(s, labels, q)["cosine to centred means"],
            **all_blocks_baselines(blocks[0], labels, blocks[1]),
        }


def measure(data, sizes, learned, tasks):
    """Means over tasks by method; for anyshot also what it expected."""
    rows, expected = {}, []
    for i in range(tasks):
        task = sample_task(data, sizes, numpy_rng(3, data.name, str(sizes), i))
        arrays = (task.support.numpy(), task.labels.numpy(), task.query.numpy())
        labels = task.query_labels.numpy()
        adapted = learned.learner.adapt_for_use(task.support, task.labels, True, task.widths)
        answers = {"anyshot": adapted(task.query).exp().numpy()} | rivals(*arrays, task.widths)
        for name, p in answers.items():
            hits = p.argmax(1) == labels
            truth = np.maximum(p[np.arange(len(labels)), labels], 1e-30)
            small = hits[labels == 0].mean()
            rows.setdefault(name, []).append([hits.mean(), -np.log(truth).mean(), small])
        e, accuracy = learned.confidence.expected_accuracy(adapted), rows["anyshot"][-1][0]
        half = 0.5 / len(labels)
        expected.append([e.overall, e.low - half <= accuracy <= e.high + half])
    names = ("accuracy", "nll", "small class")
    found = {m: dict(zip(names, np.mean(r, 0).tolist(), strict=True)) for m, r in rows.items()}
    held = dict(
        zip(("expected", "inside the interval"), np.mean(expected, 0).tolist(), strict=True)
    )
    return found | {"anyshot": found["anyshot"] | held}


def main():
    parser = options(__doc__.split("\n")[0], tasks=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    learned, backbone = open_weights("photos-lite0"), open_backbone(BACKBONE)
    sets = [folder_features(arguments.photos, BACKBONE, arguments.side)]
    for name, make in (("digits", digits), ("scans", scans)):
        classes = [compute_features(images, backbone) for images in make()]
        sets.append(FeatureSet(name, classes, block_widths(BACKBONE, classes[0].shape[1])))
    summary = {}
    for data in sets:
        for sizes in SIZES:
            key = f"{data.name}, {sizes[0]} and {sizes[1]}"
            summary[key] = measure(data, np.array(sizes), learned, arguments.tasks)
            shown = {m: {k: round(v, 3) for k, v in r.items()} for m, r in summary[key].items()}
            print(key, shown, flush=True)
    write_json(arguments.out / "very-uneven.json", summary)


if __name__ == "__main__":
    main()
