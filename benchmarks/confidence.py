"""Expected accuracy and unknown images, with each data set left out of meta-training in turn.

    python benchmarks/confidence.py OUT [--tasks 60] [--side 224] [--photos FOLDER] [--sets A,B]
                                    [--backbone NAME]

Heads, mixture and confidence model are trained without the set and saved to OUT/weights/SET, those
of benchmarks/heads.py. 5-way any-shot tasks of 1-50 images, the same too. Then tasks of 12 images a
class, of which more and more are taken away. Writes OUT/confidence/SET.json, OUT/confidence.json,
and prints both tables. Existing files are not computed again.
"""

from __future__ import annotations

import functools
import json

import numpy as np
import torch
from heads import train_without
from heads_baselines import BACKBONE, open_features, options, set_names, test_task

from anyshot.classifier.confidence.unknown_tradeoff import estimate_tradeoff
from anyshot.classifier.heads.near_copies import merge_groups
from anyshot.classifier.meta_training.episodes import sample_task
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng

REMAINING = (12, 8, 4, 2, 1)  # images of each class
SHARES = {
    "inside the 90% interval, %": ("held", 100),
    "width, points": ("width", 100),
    "error, points": ("error", 100),
    "unfamiliar, %": ("unfamiliar", 100),
    "AUROC": ("auroc", 1),
    "AUROC of doubt": ("auroc of doubt", 1),
    "known flagged, %": ("flagged", 100),
    "known flagged, estimated, %": ("flagged, estimated", 100),
    "unknown found, %": ("found", 100),
    "unknown found, estimated, %": ("found, estimated", 100),
}


def measure_task(learned, task, tradeoff, native):
    """Expected and measured accuracy; unknown images, if `tradeoff` with its estimates."""
    learner, confidence = learned.learner, learned.confidence
    adapted = learner.adapt_for_use(task.support, task.labels, native, task.widths)
    p = adapted(task.query).exp().numpy()
    row = check_confidence(confidence, adapted, task, p)
    row["error"] = abs(row["expected"] - row["accuracy"])
    if "kept" in row:
        row["flagged"] = 1 - row.pop("kept")
    if tradeoff and len(task.unknown):
        threshold = float(confidence.threshold)
        features, support = merge_groups(task.support, adapted.group_of_image), adapted.support
        fit = functools.partial(
            learner.adapt_for_use, native=native, widths=task.widths, merge=False
        )
        found = estimate_tradeoff(
            confidence, features, support.labels, support.folds, fit, threshold
        )
        row["flagged, estimated"], row["found, estimated"] = found.at(threshold)
    return row


def check_confidence(confidence, adapted, task, p):
    """Expected and measured accuracy, unknown images, and whether the task is unfamiliar."""
    expected, hits = confidence.expected_accuracy(adapted), p.argmax(1) == task.query_labels.numpy()
    half = 0.5 / len(hits)  # a measured accuracy is exact to half an image
    found = {
        "expected": expected.overall,
        "accuracy": hits.mean(),
        "width": expected.high - expected.low,
        "held": bool(expected.low - half <= hits.mean() <= expected.high + half),
        "unfamiliar": bool(confidence.unfamiliarity(adapted) > 1),
    }
    if len(task.unknown):
        inside, outside = (
            confidence.unknown_score(adapted, x).numpy() for x in (task.query, task.unknown)
        )
        doubt = 1 - adapted(task.unknown).exp().max(1).values.numpy()
        threshold = float(confidence.threshold)
        found |= {
            "auroc": auroc(inside, outside), "auroc of doubt": auroc(1 - p.max(1), doubt),
            "kept": (inside <= threshold).mean(), "found": (outside > threshold).mean(),
        }  # fmt: skip
    return {key: value if isinstance(value, bool) else float(value) for key, value in found.items()}


def auroc(inside, outside):
    return (outside[:, None] > inside).mean() + (outside[:, None] == inside).mean() / 2


def take_away(data, learned, tasks, native):
    """Expected and measured accuracy [tasks, 2] for each number of remaining images a class."""
    rows = {n: [] for n in REMAINING}
    for i in range(tasks):
        rng = numpy_rng(3, data.name, i)
        task = sample_task(data, np.full(min(5, len(data.classes)), REMAINING[0]), rng)
        rank = torch.cat([torch.arange(n) for n in torch.bincount(task.labels).tolist()])
        for n, pairs in rows.items():
            some = rank < n
            adapted = learned.learner.adapt_for_use(
                task.support[some], task.labels[some], native, task.widths
            )
            hits = (adapted(task.query).argmax(1) == task.query_labels).double().mean()
            pairs.append([learned.confidence.expected_accuracy(adapted).overall, float(hits)])
    return rows


def summarise(results):
    """By set: means over tasks, the correlation, and means by remaining images."""
    summary = {"by set": {}, "remaining": {}}
    for name, result in results.items():
        rows = result["tasks"]
        found = {
            title: factor * float(np.mean([r[key] for r in rows if key in r]))
            for title, (key, factor) in SHARES.items()
            if any(key in r for r in rows)
        }
        pairs = np.array([[r["expected"], r["accuracy"]] for r in rows])
        found["correlation"] = float(np.corrcoef(pairs.T)[0, 1])
        summary["by set"][name] = found
        summary["remaining"][name] = {
            n: [100 * float(v) for v in np.mean(pairs, 0)]
            for n, pairs in result["remaining"].items()
        }
    return summary


def show(summary):
    names = list(summary["by set"])
    print("| |", " | ".join(names), "| mean |\n" + "|---" * (len(names) + 2) + "|")
    for title in [*SHARES, "correlation"]:
        values = [summary["by set"][name].get(title, np.nan) for name in names]
        digits = 1 if title.endswith(("%", "points")) else 2
        cells = [f"{v:.{digits}f}" for v in (*values, np.nanmean(values))]
        print(f"| {title} |", " | ".join(cells), "|")
    print("\nexpected / reached, by images a class")
    for name, rows in summary["remaining"].items():
        print(f"| {name} |", " | ".join(f"{e:.0f} / {a:.0f}" for e, a in rows.values()), "|")


def main():
    parser = options(__doc__.split("\n")[0], tasks=60)
    parser.add_argument("--tradeoffs", type=int, default=15, help="tasks with estimated trade-off")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name in set_names(arguments):
        path = arguments.out / "confidence" / f"{name}.json"
        if not path.exists():
            learned = train_without(name, arguments.out)
            data, native = open_features(name, arguments), arguments.backbone == BACKBONE
            found = {
                "tasks": [
                    measure_task(learned, test_task(data, i), i < arguments.tradeoffs, native)
                    for i in range(arguments.tasks)
                ],
                "remaining": take_away(data, learned, arguments.tasks // 4, native),
            }
            write_json(path, found)
            print(name, "measured", flush=True)
        results[name] = json.loads(path.read_text())
    summary = summarise(results)
    write_json(arguments.out / "confidence.json", summary)
    show(summary)


if __name__ == "__main__":
    main()
