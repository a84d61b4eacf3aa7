"""Active learning: accuracy after 20 labels chosen by `label_next`, by uncertainty and at random.

    python benchmarks/labelling.py OUT [--tasks 60] [--side 224] [--sets A,B,C]

Tasks of five classes with 1-3 labelled images each and 40 unlabelled ones, of which five are
labelled in each of four rounds. The learners are those of OUT/weights, which benchmarks/heads.py
writes; the sets are left out of them. Writes OUT/labelling.json.
"""

from __future__ import annotations

import numpy as np
import torch
from heads_baselines import open_features, options

from anyshot.classifier.active_learning import choose_images
from anyshot.classifier.meta_training.episodes import QUERY
from anyshot.classifier.weights import open_weights
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng

WAY, POOL, ROUNDS, LABELS = 5, 40, 4, 5


def by_doubt(adapted, pool, count, rng):
    return adapted(pool).max(1).values.argsort()[:count].tolist()


def at_random(adapted, pool, count, rng):
    return rng.permutation(len(pool))[:count].tolist()


def by_label_next(adapted, pool, count, rng):
    return choose_images(adapted, pool, count)


CHOICES = {"label_next": by_label_next, "uncertainty": by_doubt, "random": at_random}


def task(data, i):
    """Labelled images, pool and query, each with labels."""
    rng = numpy_rng(2, data.name, i)
    parts = [], [], []
    for label, c in enumerate(rng.permutation(len(data.classes))[:WAY]):
        images = torch.from_numpy(data.classes[c])[rng.permutation(len(data.classes[c]))]
        n = int(rng.integers(1, 3, endpoint=True))
        pool = min(POOL, len(images) - QUERY - n)
        for part, x in zip(parts, images[: n + pool + QUERY].split([n, pool, QUERY]), strict=True):
            part.append((x, torch.full((len(x),), label)))
    return [tuple(torch.cat(column) for column in zip(*part, strict=True)) for part in parts]


def accuracies(data, learner, i):
    """Accuracy before, and after the labels of each strategy."""
    known, pool, (query, truth) = task(data, i)
    found = {}
    for name, pick in CHOICES.items():
        (x, y), (left, left_y), rng = known, pool, numpy_rng(3, data.name, i)
        adapted = learner.adapt_for_use(x, y)
        found.setdefault("before", accuracy(adapted, query, truth))
        for _ in range(ROUNDS):
            picked = torch.tensor(pick(adapted, left, LABELS, rng))
            x, y = torch.cat([x, left[picked]]), torch.cat([y, left_y[picked]])
            kept = torch.ones(len(left), dtype=torch.bool).index_fill(0, picked, False)
            left, left_y = left[kept], left_y[kept]
            adapted = learner.adapt_for_use(x, y)
        found[name] = accuracy(adapted, query, truth)
    return found


def accuracy(adapted, query, truth):
    return float((adapted(query).argmax(1) == truth).double().mean())


def main():
    parser = options(__doc__.split("\n")[0])
    parser.set_defaults(tasks=60, sets="cifar-fs,gtsrb,vgg-flower")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    for name in arguments.sets.split(","):
        data, learner = (
            open_features(name, arguments),
            open_weights(arguments.out / "weights" / name).learner,
        )
        rows[name] = [accuracies(data, learner, i) for i in range(arguments.tasks)]
        print(
            name,
            {k: round(100 * float(np.mean([r[k] for r in rows[name]])), 1) for k in rows[name][0]},
            flush=True,
        )
    for other in ("uncertainty", "random"):
        deltas = [np.array([r["label_next"] - r[other] for r in found]) for found in rows.values()]
        error = np.sqrt(sum(d.var(ddof=1) / len(d) for d in deltas)) / len(deltas)
        difference = 100 * np.mean([d.mean() for d in deltas])
        print(f"label_next minus {other}: {difference:+.1f} ± {196 * error:.1f} points")
    write_json(arguments.out / "labelling.json", rows)


if __name__ == "__main__":
    main()
