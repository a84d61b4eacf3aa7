"""Baselines on the tasks of benchmarks/heads.py: scikit-learn's methods and GDA.

    python benchmarks/heads_baselines.py OUT [--tasks 600] [--slow 100] [--side 224]
                                             [--photos FOLDER] [--sets A,B] [--backbone NAME]

5-way any-shot 1-50 tasks on a backbone's features (2-way if a set has two classes). Writes
OUT/baselines/SET.json, which benchmarks/heads.py reads; existing files are not computed again. With
--backbone, the folder is OUT/NAME.
Baselines see the last layer, as is usual; "all blocks" marks those that see all features. The
search for C is slow and gets the first --slow tasks only.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC, LinearSVC

from anyshot.classifier.backbones import block_widths, compute_features, open_backbone
from anyshot.classifier.backbones.image_input import to_pixels
from anyshot.classifier.meta_training.episodes import FeatureSet, sample_task
from anyshot.classifier.meta_training.feature_sets import SUBSETS, feature_sets, select_images
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng
from anyshot.data.folder import list_folder
from anyshot.data.shots import any_shot
from anyshot.evaluation.metrics import Metrics, TaskResult

BACKBONE = "efficientnet-lite0"
SETS = "vgg-flower,gtsrb,svhn,quickdraw,cifar-fs"
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)  # candidates for C, chosen by three folds
REFERENCE = 10  # images of each class that a run's batch norm has its statistics from
FEW, MANY = (1, 5), (16, 50)  # images of small and of large classes


class Tally:
    """Results of several methods on the same tasks."""

    def __init__(self):
        self.metrics, self.rows = {}, {}

    def add(self, i, name, p, labels, shots):
        p = p / p.sum(1, keepdims=True)
        self.metrics.setdefault(name, Metrics()).update(TaskResult(i, p, labels, shots))
        hit = p.argmax(1) == labels
        nll = -np.log(np.maximum(p[np.arange(len(p)), labels], 1e-30)).mean()
        row = [hit.mean(), nll, min(hit[labels == c].mean() for c in range(len(shots)))]
        for least, most in (FEW, MANY):
            asked = (shots[labels] >= least) & (shots[labels] <= most)
            row += [hit[asked].sum(), asked.sum()]
        row += as_given(p, labels, shots) + as_given(p * shots, labels, shots)
        self.rows.setdefault(name, []).append([float(v) for v in row])

    def as_dict(self):
        """ECE of each method over all images; accuracy, NLL, worst class, counts of each task."""
        return {
            name: {"ece": m.compute().ece, "rows": self.rows[name]}
            for name, m in self.metrics.items()
        }


def as_given(p, labels, shots):
    """Accuracy and NLL if the classes are as common in the test as in the support set."""
    p = p / p.sum(1, keepdims=True)
    weights = (shots / np.bincount(labels, minlength=len(shots)))[labels]
    weights = weights / weights.sum()
    truth = np.maximum(p[np.arange(len(p)), labels], 1e-30)
    return [weights @ (p.argmax(1) == labels), -weights @ np.log(truth)]


def test_task(data, i):
    """The i-th test task of a set, the same for every method."""
    rng = numpy_rng(1, data.name, i)
    return sample_task(data, any_shot(rng, min(5, len(data.classes)), 1, 50), rng)


def softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def unit(a):
    return a / np.linalg.norm(a, axis=1, keepdims=True)


def by_means(S, Y, Q):
    """Probabilities by class means; the scales are our choice, since these methods have none."""
    origin = S.mean(0)
    means, directions = (
        np.stack([x[c == Y].mean(0) for c in range(Y.max() + 1)]) for x in (S, unit(S - origin))
    )
    square = ((Q[:, None] - means) ** 2).sum(2)
    return {
        "nearest mean": softmax(-square / 2 / square.min(1).mean() * 10),
        "cosine to centred means": softmax(10 * unit(Q - origin) @ unit(directions).T),
    }


def quick_baselines(S, Y, Q):
    """Probabilities of quick baselines; those that use inner products only get the span."""
    s, q = in_span(S, Q)
    forest = RandomForestClassifier(class_weight="balanced", random_state=0).fit(S, Y)
    scaled = make_pipeline(StandardScaler(), SVC(gamma="auto", class_weight="balanced")).fit(S, Y)
    return {
        **by_means(S, Y, Q),
        "logistic regression": LogisticRegression(max_iter=300).fit(s, Y).predict_proba(q),
        "balanced logistic regression": balanced(s, Y).predict_proba(q),
        "nearest neighbours": KNeighborsClassifier(min(5, len(Y))).fit(S, Y).predict_proba(Q),
        "linear SVM": of_margins(LinearSVC(class_weight="balanced", max_iter=300).fit(s, Y), q),
        "StandardScaler + SVC(gamma=auto)": of_margins(scaled, Q),
        "balanced random forest": forest.predict_proba(Q),
        "label spreading": spread_labels(S, Y, Q),
        "GDA": gda(S, Y, Q),
    }


def all_blocks_baselines(S, Y, Q):
    """The strongest baselines on all blocks of features, each block of unit length."""
    s, q = in_span(S, Q)
    s, q = 10 * s, 10 * q  # about the length of a last layer, which C = 1 suits
    return {
        "balanced logistic regression, all blocks": balanced(s, Y).predict_proba(q),
        "GDA, all blocks": gda(S, Y, Q),
    }


def of_margins(model, q):
    """A softmax of a support vector machine's margins, which has no probabilities."""
    margins = model.decision_function(q)
    return softmax(np.stack([-margins, margins], 1) if margins.ndim == 1 else margins)


def spread_labels(S, Y, Q):
    """Label spreading over support and query images together (it sees all query images at once)."""
    x = unit(np.concatenate([S, Q]))
    labels = np.concatenate([Y, np.full(len(Q), -1)])
    model = LabelSpreading(kernel="knn", n_neighbors=min(7, len(S))).fit(x, labels)
    return model.label_distributions_[len(S) :] + 1e-9


def gda(S, Y, Q):
    """Gaussian discriminant analysis in closed form (Wang et al., ICLR 2024), equal priors.

    The precision is d ((n − 1) Σ + tr(Σ) I)⁻¹. Directions outside the support images' span have the
    same variance for all classes and cancel.
    """
    width = S.shape[1]
    s, q = in_span(unit(S), unit(Q))
    means = np.stack([s[c == Y].mean(0) for c in range(Y.max() + 1)])
    covariance = np.cov((s - means[Y]).T, dtype=np.float64)
    trace = max(np.trace(covariance), 1e-12)
    eye = np.eye(s.shape[1])
    weights = width * np.linalg.solve((len(s) - 1) * covariance + trace * eye, means.T)
    return softmax(q @ weights - (means.T * weights).sum(0) / 2)


def slow_baselines(S, Y, Q):
    """Probabilities of baselines that take a second per task."""
    s, q = in_span(S, Q)
    return {"balanced logistic regression, C searched": search_strength(s, Y).predict_proba(q)}


def in_span(S, Q):
    basis = np.linalg.qr(S.T)[0]
    return S @ basis, Q @ basis


def balanced(s, Y):
    return LogisticRegression(class_weight="balanced", max_iter=300).fit(s, Y)


def search_strength(s, Y):
    """C by three folds if every class has three images, otherwise 1."""
    if np.bincount(Y).min() < 3:
        return balanced(s, Y)
    search = LogisticRegressionCV(
        Cs=STRENGTHS,
        cv=3,
        class_weight="balanced",
        scoring="neg_log_loss",
        max_iter=300,
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    return search.fit(s, Y)


def normalise_blocks(x, widths):
    """Each block of features with unit length, side by side."""
    return np.concatenate([unit(b) for b in np.split(x, np.cumsum(widths)[:-1], 1)], 1)


def measure(data, tasks, slow):
    tally = Tally()
    for i in range(tasks):
        task = test_task(data, i)
        S, Y, Q, labels = (
            t.numpy() for t in (task.support, task.labels, task.query, task.query_labels)
        )
        last = slice(0, data.widths[0] if data.widths else None)
        blocks = [normalise_blocks(x, data.widths or x.shape[1:]) for x in (S, Q)]
        S, Q = S[:, last], Q[:, last]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = quick_baselines(S, Y, Q) | (slow_baselines(S, Y, Q) if i < slow else {})
            answers |= all_blocks_baselines(blocks[0], Y, blocks[1])
        for name, p in answers.items():
            tally.add(i, name, p, labels, np.bincount(Y))
    return {"set": data.name, "tasks": tasks, "methods": tally.as_dict()}


def options(description, tasks=600):
    """Options that the scripts for heads share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=tasks)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--backbone", default=BACKBONE)
    return parser


def open_features(name, arguments):
    """The features of a set."""
    if name == "photos":
        return folder_features(arguments.photos, arguments.backbone, arguments.side)
    if arguments.backbone.startswith("conv4:"):
        return run_features(name, arguments.backbone)
    (data,) = feature_sets(arguments.backbone, arguments.side, (name,))
    return data


def run_features(name, backbone):
    """Features of a set by the body of a run; its batch norm has the statistics of the set."""
    (subset,) = (s for subsets in SUBSETS.values() for s in subsets if s.name == name)
    images, body = select_images(subset), open_backbone(backbone)
    some = [image for of_class in images for image in of_class[:REFERENCE]]
    body = body.bind(np.stack([to_pixels(image, body.side) for image in some]))
    return FeatureSet(name, [compute_features(of_class, body) for of_class in images])


def folder_features(folder, backbone, side):
    """Features of a folder of class folders, or of train, val … folders of them, as a set."""
    files = {}
    tops = [folder]
    if (folder / "train").is_dir():
        tops = sorted(path for path in folder.iterdir() if path.is_dir())
    for top in tops:
        for label, paths in list_folder(top).files.items():
            files.setdefault(label, []).extend(paths)
    opened = open_backbone(backbone, side=side)
    classes = [compute_features(paths, opened) for paths in files.values()]
    return FeatureSet(folder.name, classes, block_widths(backbone, classes[0].shape[1]))


def results_folder(arguments):
    """OUT; for another backbone a folder in it."""
    if arguments.backbone == BACKBONE:
        return arguments.out
    return arguments.out / arguments.backbone.replace(":", "-").replace("/", "-")


def set_names(arguments):
    return arguments.sets.split(",") + (["photos"] if arguments.photos else [])


def main():
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--slow", type=int, default=100)
    arguments = parser.parse_args()
    for name in set_names(arguments):
        path = results_folder(arguments) / "baselines" / f"{name}.json"
        if not path.exists():
            write_json(
                path, measure(open_features(name, arguments), arguments.tasks, arguments.slow)
            )
            print(name, "measured", flush=True)


if __name__ == "__main__":
    main()
