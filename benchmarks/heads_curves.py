"""Accuracy of the mixture and of baselines by number of classes and images: a figure in docs.

    python benchmarks/heads_curves.py OUT docs/figures/heads [--share 1.0]

The learners are those of OUT/weights, which benchmarks/heads.py writes; the sets are left out of
them. By way: any-shot 1-50 tasks. By shots: five classes of equally many images. Points in
OUT/curves are not computed again; --share takes a part of the tasks.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from heads_baselines import (
    BACKBONE,
    Tally,
    all_blocks_baselines,
    balanced,
    by_means,
    in_span,
    normalise_blocks,
)

from anyshot.classifier.meta_training.episodes import sample_task
from anyshot.classifier.meta_training.feature_sets import ImageSubset, subset_features
from anyshot.classifier.weights import open_weights
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng
from anyshot.data.shots import any_shot
from anyshot.evaluation.report.style import COLOURS, MARKERS, STYLE, save_figure

SIDE = 224
WAYS = {2: 60, 5: 60, 10: 30, 20: 15, 50: 6}  # tasks of each set
SHOTS = {1: 60, 2: 60, 5: 60, 10: 60, 20: 30, 50: 30}
PARTS = [ImageSubset("cifar-fs", 65, 2)]  # fifty classes, whose features meta-training needs too
KINDS = {
    "way": (WAYS, PARTS, "classes, of 1–50 images each"),
    "shots": (SHOTS, PARTS, "images of each of 5 classes"),
}


def predict_all(task, learner):
    """Probabilities of the mixture, of three baselines on the last layer and one on all blocks."""
    blocks = [normalise_blocks(x.numpy(), task.widths) for x in (task.support, task.query)]
    last = slice(0, task.widths[0] if task.widths else None)
    S, Y, Q = task.support.numpy()[:, last], task.labels.numpy(), task.query.numpy()[:, last]
    s, q = in_span(S, Q)
    return {
        "mixture": learner.adapt_for_use(task.support, task.labels)(task.query).exp().numpy(),
        "balanced logistic regression": balanced(s, Y).predict_proba(q),
        "the same, all blocks": all_blocks_baselines(blocks[0], Y, blocks[1])[
            "balanced logistic regression, all blocks"
        ],
        **by_means(S, Y, Q),
    }


def point(data, learner, kind, value, tasks):
    tally = Tally()
    for i in range(tasks):
        rng = numpy_rng(4, data.name, kind, value, i)
        shots = any_shot(rng, value, 1, 50) if kind == "way" else np.full(5, value)
        task = sample_task(data, shots, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = predict_all(task, learner)
        for name, p in answers.items():
            tally.add(i, name, p, task.query_labels.numpy(), np.bincount(task.labels.numpy()))
    return tally.as_dict()


def measure(out, share):
    found = {}
    for kind, (values, parts, _) in KINDS.items():
        for part in parts:
            learner = open_weights(out / "weights" / part.name).learner
            data = None
            for value, tasks in values.items():
                path = out / "curves" / f"{kind}-{value}-{part.name}.json"
                if not path.exists():
                    data = data or subset_features(part, BACKBONE, SIDE)
                    write_json(
                        path, point(data, learner, kind, value, max(2, round(share * tasks)))
                    )
                    print(path.name, flush=True)
                found[kind, value, part.name] = json.loads(path.read_text())
    return found


def curves(found):
    """kind → method → [(value, accuracy, NLL)], the mean over sets."""
    made = {}
    for kind, (values, parts, _) in KINDS.items():
        names = list(found[kind, next(iter(values)), parts[0].name])
        for name in names:
            for value in values:
                rows = [
                    np.mean(found[kind, value, part.name][name]["rows"], 0)[:2] for part in parts
                ]
                made.setdefault(kind, {}).setdefault(name, []).append(
                    [value, *map(float, np.mean(rows, 0))]
                )
    return made


def draw(made):
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6))
        for axes, (kind, (values, parts, label)) in zip(
            figure.subplots(1, 2), KINDS.items(), strict=True
        ):
            for (name, rows), colour, marker in zip(
                made[kind].items(), COLOURS, MARKERS, strict=False
            ):
                x, y = [r[0] for r in rows], [100 * r[1] for r in rows]
                axes.plot(x, y, marker=marker, ms=4, color=colour, label=name)
            axes.set(
                xscale="log",
                xlabel=label,
                ylabel="accuracy, %",
                title=" and ".join(part.name for part in parts),
            )
            axes.set_xticks(list(values), [str(v) for v in values])
            axes.minorticks_off()
        axes.legend(loc="lower right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("figure", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = curves(measure(arguments.out, arguments.share))
    write_json(arguments.figure.with_suffix(".json"), made)
    save_figure(draw(made), arguments.figure)
    for kind, of in made.items():
        for name, rows in of.items():
            print(
                f"{kind:5} {name:30}",
                "  ".join(f"{v}: {100 * a:.1f} / {nll:.2f}" for v, a, nll in rows),
            )


if __name__ == "__main__":
    main()
