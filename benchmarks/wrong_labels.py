"""How well wrong labels are found, with each data set left out of meta-training in turn.

    python benchmarks/wrong_labels.py OUT [--tasks 20] [--side 224] [--photos FOLDER] [--sets A,B]

5-way any-shot tasks of 1-50 images, and of 1-5 images, in which 5% or 20% of the labels are changed
to another class (at least one). The learners are those of benchmarks/heads.py. Compared with
logistic regression on all blocks of features, cross-validated in five folds: its confidence in the
label, and cleanlab.
Writes OUT/labels/SET.json and OUT/labels.json; prints the means over sets.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import torch
from heads import train_without
from heads_baselines import normalise_blocks, open_features, options, set_names
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from anyshot.classifier.confidence.label_check import SUSPICIOUS, check_task_labels
from anyshot.classifier.meta_training.episodes import change_labels, sample_task
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng
from anyshot.data.shots import any_shot

OURS = "anyshot check"
RATES = (0.05, 0.2)
CEILINGS = (50, 5)  # largest class
FOLDS = 5


def our_scores(learned, features, labels):
    """Suspicions, and which labels look wrong."""
    adapted = learned.learner.adapt_for_use(features, labels)
    checked = check_task_labels(adapted, learned.confidence, range(adapted.support.way))
    scores = np.zeros(len(labels))
    for image in checked:
        scores[image.index] = image.suspicion
    return scores, scores >= SUSPICIOUS


def rival_scores(features, labels):
    """Scores and flags of cross-validated logistic regression, plain and by cleanlab."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    x, y = 10 * features, labels.numpy()  # about the length of a last layer, which C = 1 suits
    folds = min(FOLDS, np.bincount(y).max())
    if folds < 2:  # every class has one image: nothing can be cross-validated
        nothing = np.full(len(y), 0.5), np.zeros(len(y), bool)
        return {"logistic regression": nothing, "cleanlab": nothing}
    model = LogisticRegression(class_weight="balanced", max_iter=300)
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    p = cross_val_predict(model, x, y, cv=split, method="predict_proba")
    p = np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum(1, keepdims=True)
    issues = find_label_issues(y, p, n_jobs=1)
    return {
        "logistic regression": (1 - p[np.arange(len(y)), y], p.argmax(1) != y),
        "cleanlab": (1 - get_label_quality_scores(y, p, method="normalized_margin"), issues),
    }


def measure(data, learned, tasks):
    """Average precision, precision, recall and number of flags of each method and condition."""
    found = {}
    for ceiling in CEILINGS:
        for rate in RATES:
            rows = found[f"classes of 1-{ceiling}, {rate:.0%}"] = {}
            for i in range(tasks):
                rng = numpy_rng(2, data.name, ceiling, i)
                task = sample_task(data, any_shot(rng, min(5, len(data.classes)), 1, ceiling), rng)
                labels = change_labels(task.labels, rate, rng)
                wrong = (labels != task.labels).numpy()
                if not wrong.any():
                    continue
                scored = {OURS: our_scores(learned, task.support, labels)}
                scored |= rival_scores(normalise_blocks(task.support.numpy(), data.widths), labels)
                for name, (scores, flags) in scored.items():
                    rows.setdefault(name, []).append(
                        [
                            float(average_precision_score(wrong, scores)),
                            *map(int, (wrong.sum(), flags.sum(), (flags & wrong).sum())),
                            len(wrong),
                        ]
                    )
    return found


def summarise(results):
    """Means over sets of average precision, precision and recall; each set counts the same."""
    summary = {}
    for condition, methods in next(iter(results.values())).items():
        for name in methods:
            rows = {s: np.array(r[condition][name], float) for s, r in results.items()}
            sums = {s: row.sum(0) for s, row in rows.items()}
            by_set = {s: float(row[:, 0].mean()) for s, row in rows.items()}
            summary.setdefault(condition, {})[name] = {
                "average precision": float(np.mean(list(by_set.values()))),
                "precision": float(np.mean([t[3] / max(t[2], 1) for t in sums.values()])),
                "recall": float(np.mean([t[3] / t[1] for t in sums.values()])),
                "wrong": float(np.mean([t[1] / t[4] for t in sums.values()])),
                "by set": by_set,
                "tasks": [len(row) for row in rows.values()],
            }
    return summary


def main():
    parser = options(__doc__.split("\n")[0], tasks=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results = {}
    for name in set_names(arguments):
        path = arguments.out / "labels" / f"{name}.json"
        if not path.exists():
            learned = train_without(name, arguments.out)
            write_json(path, measure(open_features(name, arguments), learned, arguments.tasks))
            print(name, "measured", flush=True)
        results[name] = json.loads(path.read_text())
    summary = summarise(results)
    write_json(arguments.out / "labels.json", summary)
    print("| condition | method | average precision | precision | recall |\n|---|---|---|---|---|")
    for condition, methods in summary.items():
        for name, row in methods.items():
            numbers = (row[key] for key in ("average precision", "precision", "recall"))
            print(f"| {condition} | {name} |", " | ".join(f"{v:.2f}" for v in numbers), "|")


if __name__ == "__main__":
    main()
