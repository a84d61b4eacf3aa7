"""Frames of a video and bursts of photos: the learner with and without merging near-copies.

    python benchmarks/series.py OUT [--tasks 60] [--photos FOLDER] [--sets gtsrb,vgg-flower]
    python benchmarks/series.py OUT --usual [--tasks 60] [--photos FOLDER]

Traffic Signs: each class has one to four tracks (videos of one sign) of 3 to 12 frames; the test
images are of other tracks. Other sets: each class has one to eight photos, each of them one to four
times with small changes of frame, angle, brightness and sharpness; the test images are of other
photos. Five classes (the photographs: two). The learners never saw the set; they are those of
OUT/weights, as in benchmarks/heads.py. Writes OUT/series/SET.json and OUT/series.json. The option
--usual counts how many images of the tasks of benchmarks/heads.py are merged instead; writes
OUT/series-usual.json.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from heads import train_without
from heads_baselines import BACKBONE, SETS, open_features, options, set_names, test_task
from PIL import Image, ImageEnhance, ImageFilter

from anyshot.classifier.backbones import compute_features, open_backbone
from anyshot.classifier.heads.learner import block_edges
from anyshot.classifier.heads.near_copies import group_near_copies
from anyshot.classifier.heads.support_set import View
from anyshot.core.files import write_json
from anyshot.core.random import numpy_rng
from anyshot.data import open_images
from anyshot.data.folder import list_folder

SIGN_CLASSES, FRAMES = 16, 30  # classes of traffic signs with the fewest images; frames of a track
#: images of each class in the official training set; the 200 here are evenly spaced among them
OFFICIAL = (
    210, 2220, 2250, 1410, 1980, 1860, 420, 1440, 1410, 1470, 2010, 1320, 2100, 2160, 780, 630, 420,
    1110, 1200, 210, 360, 330, 390, 510, 270, 1500, 600, 240, 540, 270, 450, 780, 240, 689, 420,
    1200, 390, 210, 2070, 300, 360, 240, 240,
)  # fmt: skip
BURST_CLASSES, PHOTOS, COPIES = 8, (25, 60), 4  # photos of a class: of sets, of the folder
QUERIES = 15
METHODS = {"each image counts": False, "near-copies merged": True}
COLUMNS = ("accuracy", "NLL", "expected", "error", "width", "inside", "images", "groups")


def sign_tracks(opened):
    """Features of the tracks of each class, [[n, d], …]."""
    images, classes = open_images("gtsrb"), []
    for c in sorted(range(len(OFFICIAL)), key=lambda c: OFFICIAL[c])[:SIGN_CLASSES]:
        pixels = images.images_of(c)
        track = (np.arange(len(pixels)) * OFFICIAL[c] / len(pixels)).astype(int) // FRAMES
        features = compute_features(list(pixels), opened)
        classes.append([features[track == t] for t in range(track.max() + 1)])
    return classes


def burst(image, rng):
    """The photo taken COPIES times."""
    shots, (width, height) = [], image.size
    for _ in range(COPIES):
        part = rng.uniform(0.85, 1)
        x, y = rng.uniform(0, width * (1 - part)), rng.uniform(0, height * (1 - part))
        turned = image.rotate(rng.uniform(-5, 5), Image.Resampling.BICUBIC)
        shot = turned.crop((x, y, x + part * width, y + part * height))
        shot = ImageEnhance.Brightness(shot).enhance(rng.uniform(0.85, 1.15))
        if rng.random() < 0.3:
            shot = shot.filter(ImageFilter.GaussianBlur(width / 224))
        shots.append(shot)
    return shots


def bursts(name, arguments, opened):
    """Features of the bursts of each class, [[COPIES, d], …]."""
    rng = np.random.default_rng(0)
    if name == "photos":
        files = list_folder(arguments.photos / "train").files.values()
        classes = [[Image.open(p).convert("RGB") for p in paths[: PHOTOS[1]]] for paths in files]
    else:
        images, classes = open_images(name), []
        for c in rng.permutation(len(images.classes))[:BURST_CLASSES]:
            pixels = images.images_of(int(c))
            chosen = rng.permutation(len(pixels))[: PHOTOS[0]]
            classes.append([Image.fromarray(np.asarray(pixels[i])) for i in chosen])
    return [[compute_features(burst(image, rng), opened) for image in c] for c in classes]


def sample_task(classes, rng, tracks):
    """Support images and query images with their labels."""
    most, shots = (4, (3, 12)) if tracks else (8, (1, COPIES))
    support, query = [], []
    for label, c in enumerate(rng.permutation(len(classes))[:5]):
        order = rng.permutation(len(classes[c]))
        n = int(rng.integers(1, most, endpoint=True))
        for i in order[:n]:
            series = rng.permutation(classes[c][i])[: rng.integers(*shots, endpoint=True)]
            support.append((series, label))
        others = [classes[c][i] if tracks else classes[c][i][:1] for i in order[n:]]
        query.append((rng.permutation(np.concatenate(others))[:QUERIES], label))
    return [
        (torch.from_numpy(np.concatenate([x for x, _ in part])),
         torch.tensor([label for x, label in part for _ in x]))
        for part in (support, query)
    ]  # fmt: skip


def measure_task(learned, task, merge):
    """The numbers of COLUMNS."""
    (support, labels), (query, truth) = task
    adapted = learned.learner.adapt_for_use(support, labels, merge=merge)
    log_p = adapted(query)
    hits = (log_p.argmax(1) == truth).double()
    accuracy = float(torch.stack([hits[truth == c].mean() for c in truth.unique()]).mean())
    nll = -float(log_p[torch.arange(len(truth)), truth].clamp_min(-50).mean())
    e = learned.confidence.expected_accuracy(adapted)
    half = 0.5 / len(hits)
    inside = e.low - half <= accuracy <= e.high + half
    error = abs(e.overall - accuracy)
    sizes = len(labels), len(adapted.held_out)
    return [accuracy, nll, e.overall, error, e.high - e.low, float(inside), *map(float, sizes)]


def measure(name, arguments):
    opened = open_backbone(BACKBONE, side=arguments.side)
    tracks = name == "gtsrb"
    classes = sign_tracks(opened) if tracks else bursts(name, arguments, opened)
    learned = train_without(name, arguments.out)
    rows = {method: [] for method in METHODS}
    for i in range(arguments.tasks):
        task = sample_task(classes, numpy_rng(5, name, i), tracks)
        for method, merge in METHODS.items():
            rows[method].append(measure_task(learned, task, merge))
    return rows


def count_merged(arguments):
    """By set: the mean number of support images, and of groups, of usual tasks."""
    found = {}
    for name in set_names(arguments):
        data = open_features(name, arguments)
        sizes = []
        for i in range(arguments.tasks):
            task = test_task(data, i)
            view = View(tuple(block_edges(task.support, task.widths)))
            groups, _ = group_near_copies(view(task.support), task.labels)
            sizes.append([len(groups), int(groups.max()) + 1])
        found[name] = dict(zip(("images", "groups"), np.mean(sizes, 0).tolist(), strict=True))
        print(name, found[name], flush=True)
    write_json(arguments.out / "series-usual.json", found)


def summarise(rows):
    """Means over tasks, and merged minus not merged with 95% intervals."""
    found = {m: dict(zip(COLUMNS, np.mean(r, 0).tolist(), strict=True)) for m, r in rows.items()}
    before, after = (np.array(r) for r in rows.values())
    half = 1.96 * (after - before).std(0, ddof=1) / len(after) ** 0.5
    changes = zip((after - before).mean(0).tolist(), half.tolist(), strict=True)
    found["change"] = dict(zip(COLUMNS, changes, strict=True))
    return found | {"tasks": len(after)}


def main():
    parser = options(__doc__.split("\n")[0], tasks=60)
    parser.add_argument("--usual", action="store_true")
    parser.set_defaults(sets="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.sets = arguments.sets or (SETS if arguments.usual else "gtsrb,vgg-flower")
    if arguments.usual:
        return count_merged(arguments)
    summary = {}
    for name in set_names(arguments):
        path = arguments.out / "series" / f"{name}.json"
        if not path.exists():
            write_json(path, measure(name, arguments))
        summary[name] = summarise(json.loads(path.read_text()))
        for method in METHODS:
            cells = " | ".join(f"{summary[name][method][c]:.3f}" for c in COLUMNS)
            print(f"| {name} | {method} | {cells} |", flush=True)
        print({c: [round(v, 3) for v in d] for c, d in summary[name]["change"].items()})
    write_json(arguments.out / "series.json", summary)


if __name__ == "__main__":
    main()
