"""The classifier's heads and mixture against baselines, with each data set left out in turn.

    python benchmarks/heads_baselines.py OUT …
    python benchmarks/metaqda_baseline.py OUT …    # if wanted
    python benchmarks/heads.py OUT [--tasks 600] [--side 224] [--photos FOLDER] [--sets A,B]
                                   [--backbone NAME]

All methods get the same tasks and features. The learner that was trained without SET is saved to
OUT/learners/SET, its results to OUT/ours/SET.json; existing files are not computed again. Prints
and writes (OUT/summary.json) the means over sets and paired differences with 95% intervals. With
--backbone, the tasks have the features of another backbone, and results are in OUT/NAME; the
learner is still trained on those of EfficientNet-Lite0.

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
    results_folder,
    set_names,
    test_task,
)

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import HEADS
from anyshot.classifier.meta_training.build import (
    all_feature_sets,
    prepare_tasks,
    train_confidence,
    train_learner,
)
from anyshot.classifier.meta_training.within_class import estimate_damping
from anyshot.classifier.weights import ClassifierWeights, open_weights
from anyshot.core.files import write_json
from anyshot.core.version import VERSION

OURS = "mixture"
LAST = "mixture, last layer only"
BEST = "balanced logistic regression"
RIVALS = ("metaqda", "baselines")  # folders of results; the first need not be there


def measure(data, learner, tasks, native=True):
    """Results of the mixture and its heads on each task."""
    tally, seconds = Tally(), []
    for i in range(tasks):
        task = test_task(data, i)
        start = time.process_time()
        adapted = learner.adapt_for_use(task.support, task.labels, native, task.widths)
        answers = {OURS: adapted(task.query).exp().numpy()}
        seconds.append(time.process_time() - start)
        outputs = adapted.head_outputs(task.query).exp().numpy()
        heads = dict(zip(HEADS, outputs, strict=True))
        answers[LAST] = answer_by_last_layer(learner, task, native)
        answers |= {f"head: {name}": p for name, p in heads.items()}
        answers["heads, plain mean"] = np.mean(list(heads.values()), 0)
        labels = task.query_labels.numpy()
        for name, p in answers.items():
            tally.add(i, name, p, labels, np.bincount(task.labels.numpy()))
    methods = tally.as_dict()
    cpu = float(np.median(seconds))
    return {"set": data.name, "tasks": tasks, "methods": methods, "cpu_seconds": cpu}


def answer_by_last_layer(learner, task, native):
    """Probabilities of the same learner if it sees the last layer's features only."""
    width = task.widths[0] if task.widths else None
    adapted = learner.adapt_for_use(task.support[:, :width], task.labels, native)
    return adapted(task.query[:, :width]).exp().numpy()


@functools.cache
def load_tasks():
    """The damping, and the tasks of all sets."""
    sets = all_feature_sets(BACKBONE)
    damping = estimate_damping(sets)
    return damping, [prepare_tasks(data, damping) for data in sets]


def learner_without(name, out):
    """The learner that is trained without a set, from OUT/learners if it is there."""
    folder = out / "learners" / name
    if not (folder / "config.json").exists():
        damping, sets = load_tasks()
        learner = train_learner([t for t in sets if t.name != name], damping)
        ClassifierWeights(learner, ConfidenceModel(), {"backbone": BACKBONE}).save(folder)
    return open_weights(folder).learner


def train_without(name, out):
    """The same with a confidence model, from OUT/weights if it is there."""
    folder = out / "weights" / name
    if not (folder / "config.json").exists():
        learner, sets = learner_without(name, out), [t for t in load_tasks()[1] if t.name != name]
        config = {"backbone": BACKBONE, "sets": sorted({t.name for t in sets}), "version": VERSION}
        ClassifierWeights(learner, train_confidence(learner, sets), config).save(folder)
    return open_weights(folder)


def main():
    arguments = options(__doc__.split("\n")[0]).parse_args()
    torch.set_num_threads(1)
    out = results_folder(arguments)
    for name in set_names(arguments):
        path = out / "ours" / f"{name}.json"
        if not path.exists():
            learner = learner_without(name, arguments.out)
            data, native = open_features(name, arguments), arguments.backbone == BACKBONE
            write_json(path, measure(data, learner, arguments.tasks, native))
            print(name, "measured", flush=True)
    summary = summarise([read_results(out, name) for name in set_names(arguments)])
    write_json(out / "summary.json", summary)
    show(summary)


def read_results(out, name):
    """Results of all rivals that were measured and of the mixture on a set."""
    files = [out / part / f"{name}.json" for part in (*RIVALS, "ours")]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    return results[-1] | {"methods": {k: v for r in results for k, v in r["methods"].items()}}


def summarise(results):
    """Means over sets, and paired differences with intervals; each set counts the same."""
    methods = {}
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
    seconds = {r["set"]: r["cpu_seconds"] for r in results}
    return {"methods": methods, "cpu_seconds": seconds}


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
    print("processor seconds to adapt and answer:", summary["cpu_seconds"])


if __name__ == "__main__":
    main()
