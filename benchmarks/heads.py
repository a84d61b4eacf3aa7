"""The classifier's heads and mixture against baselines, with each data set left out in turn.

    python benchmarks/heads_baselines.py OUT …
    python benchmarks/heads.py OUT [--tasks 600] [--side 224] [--photos FOLDER] [--sets A,B]
                                   [--accuracy] [--backbone NAME]

All methods get the same tasks and features. The learner that was trained without SET is saved to
OUT/weights/SET, its results to OUT/ours/SET.json; existing files are not computed again. Prints and
writes (OUT/summary.json) the means over sets and paired differences with 95% intervals. With
--accuracy, there is no confidence model and no file of weights. With --backbone, the tasks have the
features of another backbone; the learner is still trained on those of EfficientNet-Lite0.

"As given" is the accuracy if the classes are as common in the test as in the support set. Every
method answers with its own probabilities and with p · n_c (Bayes' rule); the more accurate counts.
"""

from __future__ import annotations

import functools
import json
import time

import numpy as np
import torch
from heads_baselines import (
    BACKBONE,
    Tally,
    open_features,
    options,
    set_names,
    test_task,
)

from anyshot.classifier.heads.learner import HEADS
from anyshot.classifier.meta_training.build import (
    all_feature_sets,
    build_learner,
    train_learner,
    wide_tasks,
)
from anyshot.classifier.meta_training.within_class import estimate_damping
from anyshot.classifier.weights import ClassifierWeights, open_weights
from anyshot.core.files import write_json
from anyshot.core.version import VERSION

OURS = "mixture"
LAST = "mixture, last layer only"
BEST = "balanced logistic regression"


def measure(data, learned, tasks, native=True):
    """Results of the mixture and its heads on each task, and how confident it was."""
    tally, confidence, seconds = Tally(), [], []
    for i in range(tasks):
        task = test_task(data, i)
        start = time.process_time()
        adapted = learned.learner.adapt_for_use(task.support, task.labels, native, task.widths)
        answers = {OURS: adapted(task.query).exp().numpy()}
        seconds.append(time.process_time() - start)
        outputs = adapted.head_outputs(task.query).exp().numpy()
        heads = dict(zip(HEADS, outputs, strict=True))
        answers[LAST] = answer_by_last_layer(learned.learner, task, native)
        answers |= {f"head: {name}": p for name, p in heads.items()}
        answers["heads, plain mean"] = np.mean(list(heads.values()), 0)
        labels = task.query_labels.numpy()
        for name, p in answers.items():
            tally.add(i, name, p, labels, np.bincount(task.labels.numpy()))
        if learned.confidence:
            confidence.append(check_confidence(learned.confidence, adapted, task, answers[OURS]))
    return {
        "set": data.name, "tasks": tasks, "methods": tally.as_dict(), "confidence": confidence,
        "cpu_seconds": float(np.median(seconds)),
    }  # fmt: skip


def answer_by_last_layer(learner, task, native):
    """Probabilities of the same learner if it sees the last layer's features only."""
    width = task.widths[0] if task.widths else None
    adapted = learner.adapt_for_use(task.support[:, :width], task.labels, native)
    return adapted(task.query[:, :width]).exp().numpy()


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


@functools.cache
def load_tasks():
    """The damping, and the tasks of all sets."""
    sets = all_feature_sets(BACKBONE)
    damping = estimate_damping(sets)
    return damping, [wide_tasks(data, damping) for data in sets]


def train_without(name, out):
    """Weights that are trained without a set, from a folder if there is one."""
    folder = out / "weights" / name
    if not (folder / "config.json").exists():
        damping, sets = load_tasks()
        sets = [t for t in sets if t.name != name]
        learner, confidence = build_learner(sets, damping)
        config = {"backbone": BACKBONE, "sets": sorted({t.name for t in sets}), "version": VERSION}
        ClassifierWeights(learner, confidence, config).save(folder)
    return open_weights(folder)


def main():
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--accuracy", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in set_names(arguments):
        path = arguments.out / "ours" / f"{name}.json"
        if not path.exists():
            if arguments.accuracy:
                damping, sets = load_tasks()
                learner = train_learner([t for t in sets if t.name != name], damping)
                learned = ClassifierWeights(learner, None, {})
            else:
                learned = train_without(name, arguments.out)
            data, native = open_features(name, arguments), arguments.backbone == BACKBONE
            write_json(path, measure(data, learned, arguments.tasks, native))
            print(name, "measured", flush=True)
    summary = summarise([read_results(arguments.out, name) for name in set_names(arguments)])
    write_json(arguments.out / "summary.json", summary)
    show(summary)


def read_results(out, name):
    """Results of the baselines and of the mixture on a set."""
    ours, baselines = (
        json.loads((out / part / f"{name}.json").read_text()) for part in ("ours", "baselines")
    )
    return {**ours, "methods": baselines["methods"] | ours["methods"]}


def summarise(results):
    """Means over sets, and paired differences with intervals; each set counts the same."""
    methods, confidence = {}, {}
    for name in results[0]["methods"]:
        rows = [np.array(r["methods"][name]["rows"]) for r in results]
        ours = [
            np.array(r["methods"][OURS]["rows"])[: len(row)]
            for r, row in zip(results, rows, strict=True)
        ]
        found = {
            "tasks": [len(row) for row in rows],
            "ece": mean(r["methods"][name]["ece"] for r in results),
        }
        own, bayes = (mean(row[:, column].mean() for row in rows) for column in (7, 9))
        given = 7 if own > bayes else 9
        columns = {
            "accuracy": 0,
            "nll": 1,
            "worst_class": 2,
            "given": given,
            "given_nll": given + 1,
        }
        for key, column in columns.items():
            found[key] = mean(row[:, column].mean() for row in rows)
            ours_column = column + 2 if column in (7, 8) else column  # ours: always by Bayes' rule
            deltas = [a[:, ours_column] - b[:, column] for a, b in zip(ours, rows, strict=True)]
            error = np.sqrt(sum(d.var(ddof=1) / len(d) for d in deltas)) / len(deltas)
            found[f"{key}: ours minus this"] = [mean(d.mean() for d in deltas), float(1.96 * error)]
        for column, key in ((3, "few"), (5, "many")):
            counted = [row[:, column : column + 2].sum(0) for row in rows]
            found[key] = mean(hits / asked for hits, asked in counted if asked)
        for key, column in (("by set", 0), ("nll by set", 1), ("given by set", given)):
            found[key] = {
                r["set"]: float(row[:, column].mean()) for r, row in zip(results, rows, strict=True)
            }
        methods[name] = found
    if not results[0]["confidence"]:
        seconds = {r["set"]: r["cpu_seconds"] for r in results}
        return {"methods": methods, "confidence": {}, "cpu_seconds": seconds}
    for key in ("held", "width", "unfamiliar", "auroc", "auroc of doubt", "kept", "found"):
        confidence[key] = {
            r["set"]: mean(o[key] for o in r["confidence"])
            for r in results
            if key in r["confidence"][0]
        }
    confidence["error"] = {
        r["set"]: mean(abs(o["expected"] - o["accuracy"]) for o in r["confidence"]) for r in results
    }
    seconds = {r["set"]: r["cpu_seconds"] for r in results}
    return {"methods": methods, "confidence": confidence, "cpu_seconds": seconds}


def mean(values):
    return float(np.mean(list(values)))


def show(summary):
    keys = ("accuracy", "nll", "worst_class", "given", "given_nll")
    names = ("accuracy", "NLL", "worst class", "as given: accuracy", "as given: NLL")
    print(f"| | {' | '.join(names)} | ECE | of 1–5 | of 16–50 | ahead: {' | '.join(names)} |")
    print("|---" * 14 + "|")
    for name, c in summary["methods"].items():
        levels = [f"{c[k]:.3f}" if "nll" in k else f"{100 * c[k]:.1f}" for k in keys]
        levels += [f"{100 * c[k]:.1f}" for k in ("ece", "few", "many")]
        ahead = [
            f"{d:+.3f} ± {half:.3f}" if "nll" in k else f"{100 * d:+.1f} ± {100 * half:.1f}"
            for k in keys
            for d, half in [c[f"{k}: ours minus this"]]
        ]
        print(f"| {name} | {' | '.join(levels)} | {' | '.join(ahead) if name != OURS else ''} |")
    for key in (OURS, LAST, BEST):
        found = summary["methods"][key]
        for part in ("by set", "given by set", "nll by set"):
            print(f"{part}, {key}:", {s: round(v, 3) for s, v in found[part].items()})
    for key, values in summary["confidence"].items():
        print(
            f"{key}:",
            {s: round(v, 3) for s, v in values.items()},
            "mean",
            round(mean(values.values()), 3),
        )
    print("processor seconds to adapt and answer:", summary["cpu_seconds"])


if __name__ == "__main__":
    main()
