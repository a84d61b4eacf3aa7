"""The shipped learner on sets unlike those of its meta-training: clothes, digits, made-up scans.

    python benchmarks/unseen_sets.py OUT [--tasks 40] [--backbone NAME] [--folders A,B]

Fashion-MNIST (`anyshot data prepare fashion-mnist`), scikit-learn's digits (8 x 8 grey values,
enlarged), and simulated scans: a round slice with noise and with no, one bright, one dark or two
bright spots. 65 images a class. With --folders, other sets instead: folders of class folders, for
example those of benchmarks/package_images.py. The tasks and rivals are those of
benchmarks/heads_baselines.py. Writes OUT/unseen.json and prints accuracy, NLL and how far expected
accuracies hold.
"""

from __future__ import annotations

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
    folder_features,
    in_span,
    normalise_blocks,
    options,
    test_task,
)
from PIL import Image
from sklearn.datasets import load_digits

from anyshot.classifier.backbones import block_widths, compute_features, open_backbone
from anyshot.classifier.meta_training.episodes import FeatureSet
from anyshot.classifier.weights import open_weights
from anyshot.core.files import write_json
from anyshot.data import open_images

IMAGES = 65  # of each class
SIDE = 160  # of the simulated scans
SPOTS = {"none": (0, 0), "bright": (1, 70), "dark": (1, -60), "two": (2, 70)}  # number, brightness


def clothes():
    images = open_images("fashion-mnist")
    return [list(images.images_of(c)[:IMAGES]) for c in range(len(images.classes))]


def digits():
    data = load_digits()
    grey = (data.images * 15.9).astype(np.uint8)
    return [
        [np.array(Image.fromarray(x).resize((64, 64))) for x in grey[data.target == c][:IMAGES]]
        for c in range(10)
    ]


def scans():
    rng = np.random.default_rng(5)
    return [[draw_scan(rng, *spots) for _ in range(IMAGES)] for spots in SPOTS.values()]


def draw_scan(rng, spots, brightness):
    """A noisy ellipse with a bright rim and round spots, uint8 [SIDE, SIDE]."""
    y, x = np.mgrid[:SIDE, :SIDE]
    centre, axes = 80 + rng.normal(0, 4, 2), rng.uniform((52, 60), (66, 74))
    radius = ((x - centre[0]) / axes[0]) ** 2 + ((y - centre[1]) / axes[1]) ** 2
    waves = np.sin(x / rng.uniform(6, 12)) * np.cos(y / rng.uniform(6, 12))
    image = np.where(radius < 1, 90 + 15 * waves, 5.0)
    image = np.where((radius < 1) & (radius > 0.88), 180, image)
    for _ in range(spots):
        angle, distance, size = rng.uniform((0, 0, 6), (2 * np.pi, 30, 13))
        place = centre + distance * np.array([np.cos(angle), np.sin(angle)])
        square = ((x - place[0]) ** 2 + (y - place[1]) ** 2) / size**2
        image = image + brightness * np.exp(-(square**2))
    return np.clip(image + rng.normal(0, 9, image.shape), 0, 255).astype(np.uint8)


def measure(data, learned, tasks, native):
    """Tally of anyshot and its strongest rivals, and what it expected of each task."""
    tally, expected = Tally(), []
    for i in range(tasks):
        task = test_task(data, i)
        S, Y, Q, labels = (
            t.numpy() for t in (task.support, task.labels, task.query, task.query_labels)
        )
        adapted = learned.learner.adapt_for_use(task.support, task.labels, native, task.widths)
        p = adapted(task.query).exp().numpy()
        answers = {"anyshot": p}
        blocks = [normalise_blocks(x, data.widths) for x in (S, Q)]
        s, q = in_span(S[:, : data.widths[0]], Q[:, : data.widths[0]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers["balanced logistic regression"] = balanced(s, Y).predict_proba(q)
            answers["cosine to centred means"] = by_means(s, Y, q)["cosine to centred means"]
            answers |= all_blocks_baselines(blocks[0], Y, blocks[1])
        for name, probabilities in answers.items():
            tally.add(i, name, probabilities, labels, np.bincount(Y))
        found, accuracy = learned.confidence.expected_accuracy(adapted), (p.argmax(1) == labels)
        half = 0.5 / len(labels)
        held = found.low - half <= accuracy.mean() <= found.high + half
        expected.append([found.overall, float(accuracy.mean()), bool(held), found.high - found.low])
    return tally.as_dict(), np.array(expected)


def show(name, methods, expected):
    """Print a set's rows, and return its means."""
    means = {}
    ours = np.array(methods["anyshot"]["rows"])
    for method, found in methods.items():
        rows = np.array(found["rows"])
        mean = rows.mean(0)
        given = 7 if mean[7] > mean[9] and method != "anyshot" else 9
        ahead = ours[:, 0] - rows[:, 0]
        error = 196 * ahead.std(ddof=1) / len(ahead) ** 0.5
        means[method] = {
            "accuracy": mean[0], "nll": mean[1], "worst_class": mean[2], "given": mean[given],
            "few": rows[:, 3].sum() / rows[:, 4].sum(), "ece": found["ece"],
            "accuracy: ours minus this": [ahead.mean(), error / 100],
        }  # fmt: skip
        print(
            f"| {name} | {method} | {100 * mean[0]:.1f} | {mean[1]:.2f} | {100 * mean[2]:.1f} | "
            f"{100 * means[method]['few']:.1f} | {100 * mean[given]:.1f} | "
            f"{100 * found['ece']:.1f} | {100 * ahead.mean():+.1f} ± {error:.1f} |",
            flush=True,
        )
    of_interval = dict(zip(("expected", "reached", "held", "width"), expected.mean(0), strict=True))
    print(name, {key: round(100 * float(value), 1) for key, value in of_interval.items()})
    return {"methods": means, "expected accuracy": of_interval}


def main():
    parser = options(__doc__.split("\n")[0], tasks=40)
    parser.add_argument("--folders", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    learned = open_weights("photos-lite0")
    folders = [Path(name) for name in arguments.folders.split(",") if name]
    summary = {}
    for data in read_folders(folders, arguments) if folders else built_in_sets(arguments.backbone):
        found = measure(data, learned, arguments.tasks, arguments.backbone == BACKBONE)
        summary[data.name] = show(data.name, *found)
    write_json(arguments.out / "unseen.json", summary)


def built_in_sets(name):
    """Features of clothes, digits and simulated scans."""
    backbone = open_backbone(name)
    for title, make in (("clothes", clothes), ("digits", digits), ("scans", scans)):
        classes = [compute_features(images, backbone) for images in make()]
        yield FeatureSet(title, classes, block_widths(name, classes[0].shape[1]))


def read_folders(folders, arguments):
    """Features of folders of class folders."""
    for folder in folders:
        yield folder_features(folder, arguments.backbone, arguments.side)


if __name__ == "__main__":
    main()
