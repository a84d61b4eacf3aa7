"""The learner on features against the habits of scikit-learn's users, every data set left out of meta-training in turn.

    python benchmarks/heads.py OUT [--tasks 100] [--side 224] [--photos FOLDER] [--sets A,B]

Paired: all contestants answer the same 5-way any-shot 1-50 tasks on the same features. A set that stands in OUT is not
measured again. Prints and writes (OUT/summary.json) the means over sets and the paired differences with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from anyshot.files import write_json
from anyshot.heads.data import PARTS, feature_sets, folder_features
from anyshot.heads.episodes import draw
from anyshot.heads.learner import HEADS
from anyshot.heads.make import make, wide_tasks
from anyshot.metrics import Metrics, TaskResult
from anyshot.tasks import any_shot, numpy_rng

BACKBONE = "efficientnet-lite0"
NO_PROBABILITIES = ("linear SVM",)
LDA_TASKS = 30  # its covariance of 1280 numbers takes a second a task
OURS = "mixture"


def softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def unit(a):
    return a / np.linalg.norm(a, axis=1, keepdims=True)


def habits(S, Y, Q, lda):
    """Probabilities of each habit. Those that know inner products only get the images' span, not all dimensions."""
    basis = np.linalg.qr(S.T)[0]
    s, q, way = S @ basis, Q @ basis, Y.max() + 1
    means = np.stack([S[c == Y].mean(0) for c in range(way)])
    origin = S.mean(0)
    centred = unit(np.stack([unit(S[c == Y] - origin).mean(0) for c in range(way)]))
    square = ((Q[:, None] - means) ** 2).sum(2)
    found = {
        "nearest mean": softmax(-square / 2 / square.min(1).mean() * 10),
        "cosine to centred means": softmax(10 * unit(Q - origin) @ centred.T),
        "logistic regression": LogisticRegression(max_iter=300).fit(s, Y).predict_proba(q),
        "balanced logistic regression": LogisticRegression(class_weight="balanced", max_iter=300)
        .fit(s, Y)
        .predict_proba(q),
        "nearest neighbours": KNeighborsClassifier(min(5, len(Y))).fit(S, Y).predict_proba(Q),
    }
    margins = LinearSVC(class_weight="balanced", max_iter=300).fit(s, Y).decision_function(q)
    margins = np.stack([-margins, margins], 1) if margins.ndim == 1 else margins
    found["linear SVM"] = softmax(margins)
    if lda and len(Y) > way:
        found["LDA with shrinkage"] = (
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(S, Y).predict_proba(Q)
        )
    return found


def measure(data, learner, tasks, outlook):
    """Answers of everyone to each task, boiled down, and how sure ours was."""
    metrics, rows, seconds = {}, {}, {}
    outlooks = []
    for i in range(tasks):
        rng = numpy_rng(1, data.name, i)
        way = min(5, len(data.classes))
        task = draw(data, any_shot(rng, way, 1, 50), rng)
        start = time.process_time()
        adapted = learner.adapt(task.support, task.labels)
        answers = {OURS: adapted(task.query).exp().numpy()}
        seconds.setdefault(OURS, []).append(time.process_time() - start)
        points = adapted.frame(task.query)
        answers |= {
            f"head: {name}": head(points).exp().numpy() for name, head in zip(HEADS, adapted.heads, strict=True)
        }
        answers["heads, plain mean"] = np.mean([answers[f"head: {name}"] for name in HEADS], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            answers |= habits(task.support.numpy(), task.labels.numpy(), task.query.numpy(), i < LDA_TASKS)
            seconds.setdefault("habits", []).append(time.process_time() - start)
        labels, shots = task.query_labels.numpy(), np.bincount(task.labels.numpy())
        for name, p in answers.items():
            metrics.setdefault(name, Metrics()).update(TaskResult(i, p / p.sum(1, keepdims=True), labels, shots))
            rows.setdefault(name, []).append(one(p, labels, shots))
        expected = outlook.expected(adapted)
        hit = (answers[OURS].argmax(1) == labels).mean()
        score = {"expected": expected.overall, "low": expected.low, "high": expected.high, "accuracy": hit}
        if len(task.others):
            inside = outlook.unknown_score(adapted, task.query).numpy()
            outside = outlook.unknown_score(adapted, task.others).numpy()
            score["auroc"] = float((outside[:, None] > inside).mean())
            score["plain auroc"] = float(
                (1 - adapted(task.others).exp().max(1).values.numpy()[:, None] > 1 - answers[OURS].max(1)).mean()
            )
            score["kept"] = float((inside <= float(outlook.threshold)).mean())
            score["found"] = float((outside > float(outlook.threshold)).mean())
        outlooks.append(score)
    return {
        "set": data.name,
        "tasks": tasks,
        "contestants": {name: m.compute().as_dict() for name, m in metrics.items()},
        "rows": rows,
        "outlook": outlooks,
        "cpu_seconds": {k: float(np.median(v)) for k, v in seconds.items()},
    }


def one(p, labels, shots):
    """accuracy, nll, worst class, hits and images of classes of 1-5 and of 16-50 images."""
    hit = p.argmax(1) == labels
    recall = [hit[labels == c].mean() for c in range(len(shots))]
    nll = -np.log(np.maximum(p[np.arange(len(p)), labels], 1e-30)).mean()
    few, many = shots[labels] <= 5, shots[labels] >= 16
    return [float(v) for v in (hit.mean(), nll, min(recall), hit[few].sum(), few.sum(), hit[many].sum(), many.sum())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--sets", default="vgg-flower,gtsrb,svhn,quickdraw,cifar-fs,fashion-mnist")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.sets.split(",") + (["photos"] if arguments.photos else [])
    todo = [name for name in names if not (arguments.out / f"{name}.json").exists()]
    if todo:
        tasks = [(data.name, side, wide_tasks(data)) for side in PARTS for data in feature_sets(BACKBONE, side)]
    for name in todo:
        learner, outlook = make([t for other, _, t in tasks if other != name])
        if name == "photos":
            data = folder_features(arguments.photos, BACKBONE, arguments.side)
        else:
            (data,) = feature_sets(BACKBONE, arguments.side, (name,))
        write_json(arguments.out / f"{name}.json", measure(data, learner, arguments.tasks, outlook))
        print(name, "measured", flush=True)
    summary = summarise([json.loads((arguments.out / f"{name}.json").read_text()) for name in names])
    write_json(arguments.out / "summary.json", summary)
    show(summary)


def summarise(results):
    """Means over sets; paired differences of ours to each other with intervals (each set counting the same)."""
    contestants = {}
    for name in results[0]["contestants"]:
        found = [r["contestants"][name] for r in results]
        rows = [np.array(r["rows"][name]) for r in results]
        mean = {key: float(np.mean([f[key] for f in found])) for key in ("accuracy", "nll", "ece", "worst_class")}
        few = [row[:, 3].sum() / row[:, 4].sum() for row in rows if row[:, 4].sum()]
        many = [row[:, 5].sum() / row[:, 6].sum() for row in rows if row[:, 6].sum()]
        contestants[name] = {**mean, "few": float(np.mean(few)), "many": float(np.mean(many)), "paired": {}}
        for column, key in enumerate(("accuracy", "nll", "worst_class")):
            deltas = [
                np.array(r["rows"][OURS])[: len(row), column] - row[:, column]
                for r, row in zip(results, rows, strict=True)
            ]
            error = np.sqrt(sum(d.var(ddof=1) / len(d) for d in deltas)) / len(deltas)
            contestants[name]["paired"][key] = [float(np.mean([d.mean() for d in deltas])), float(1.96 * error)]
    outlook = [o for r in results for o in r["outlook"]]
    coverage = {
        r["set"]: float(np.mean([o["low"] <= o["accuracy"] <= o["high"] for o in r["outlook"]])) for r in results
    }
    with_others = {
        key: {r["set"]: float(np.mean([o[key] for o in r["outlook"] if key in o]))
              for r in results if any(key in o for o in r["outlook"])}
        for key in ("auroc", "plain auroc", "kept", "found")
    }  # fmt: skip
    return {
        "sets": [r["set"] for r in results],
        "tasks": results[0]["tasks"],
        "contestants": contestants,
        "by_set": {r["set"]: {n: [c["accuracy"], c["nll"]] for n, c in r["contestants"].items()} for r in results},
        "coverage": coverage,
        "mean_width": float(np.mean([o["high"] - o["low"] for o in outlook])),
        "mean_error": float(np.mean([abs(o["expected"] - o["accuracy"]) for o in outlook])),
        **with_others,
        "cpu_seconds": {r["set"]: r["cpu_seconds"] for r in results},
    }


def show(summary):
    print(f"{'':30}  acc.   NLL   ECE  worst   1-5  16-50   ours minus this: accuracy, worst class (points), NLL")
    for name, c in summary["contestants"].items():
        a, w, n = (c["paired"][k] for k in ("accuracy", "worst_class", "nll"))
        print(
            f"{name:30} {100 * c['accuracy']:5.1f} {c['nll']:5.2f} {100 * c['ece']:5.1f} {100 * c['worst_class']:6.1f}"
            f" {100 * c['few']:5.1f} {100 * c['many']:6.1f}   {100 * a[0]:+.1f} ± {100 * a[1]:.1f}"
            f"  {100 * w[0]:+.1f} ± {100 * w[1]:.1f}  {n[0]:+.3f} ± {n[1]:.3f}"
        )
    for key in ("coverage", "auroc", "plain auroc", "kept", "found"):
        print(
            key,
            {k: round(v, 3) for k, v in summary[key].items()},
            round(float(np.mean(list(summary[key].values()))), 3),
        )
    print("mean |expected - measured|", summary["mean_error"], "mean width", summary["mean_width"])
    print(
        "accuracy by set:",
        {
            s: {n: round(100 * v[0], 1) for n, v in c.items() if n in (OURS, "balanced logistic regression")}
            for s, c in summary["by_set"].items()
        },
    )


if __name__ == "__main__":
    main()
