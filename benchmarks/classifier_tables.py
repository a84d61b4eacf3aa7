"""The tables of docs/classifier.md, from the results in docs/results/classifier.

    python benchmarks/classifier_tables.py [RESULTS]

RESULTS are files as the scripts that docs/classifier.md names write them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "classifier"
OURS = "mixture"
SETS = {
    "vgg-flower": "VGG-Flower",
    "gtsrb": "Traffic Signs",
    "svhn": "SVHN",
    "quickdraw": "QuickDraw",
    "cifar-fs": "CIFAR-FS",
    "photos": "photographs",
}
NAMES = {OURS: "**anyshot**", "mixture, last layer only": "anyshot, last layer only"}
RIVALS = (
    "nearest mean",
    "cosine to centred means",
    "nearest neighbours",
    "logistic regression",
    "balanced logistic regression",
    "balanced logistic regression, C searched",
    "linear SVM",
    "StandardScaler + SVC(gamma=auto)",
    "balanced random forest",
    "label spreading",
    "GDA",
    "MetaQDA",
    "balanced logistic regression, all blocks",
    "GDA, all blocks",
    OURS,
    "mixture, last layer only",
)
README_ROWS = {
    "nearest mean": "nearest class mean",
    "balanced random forest": "balanced random forest",
    "linear SVM": "linear SVM",
    "balanced logistic regression": "balanced logistic regression",
    "balanced logistic regression, all blocks": "the same, on four depths of the backbone",
    OURS: "**anyshot**",
}
LEVELS = ("accuracy", "nll", "worst_class", "ece", "few", "many", "given", "given_nll")
AHEAD = ("accuracy", "nll", "worst_class", "given")
BY_SET = (
    OURS,
    "mixture, last layer only",
    "balanced logistic regression",
    "balanced logistic regression, all blocks",
)
SMALL = {
    "expected accuracy": "expected",
    "inside the 90% interval, %": "inside the interval",
}


def table(header, rows):
    """Markdown: the first column is text, the others are numbers."""
    line = "|---" + "|--:" * (len(header) - 1) + "|"
    return [
        f"| {' | '.join(header)} |".replace("|  |", "| |"),
        line,
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def level(value, key):
    return f"{value:.2f}" if "nll" in key else f"{100 * value:.1f}"


def change(pair, key):
    value, half = pair
    if "nll" in key:
        return f"{value:+.3f} ± {half:.3f}"
    return f"{100 * value:+.1f} ± {100 * half:.1f}"


def name_of(method):
    return NAMES.get(method, method)


def main_table(methods):
    header = [
        "",
        "accuracy",
        "NLL",
        "worst class",
        "ECE",
        "of 1–5",
        "of 16–50",
        "as given",
        "as given: NLL",
        "ahead",
        "ahead: NLL",
        "ahead: worst class",
        "ahead: as given",
    ]
    rows = []
    for method in RIVALS:
        found = methods[method]
        ahead = [change(found[f"{key}: ours minus this"], key) for key in AHEAD]
        rows.append(
            [
                name_of(method),
                *(level(found[key], key) for key in LEVELS),
                *(ahead if method != OURS else [""] * len(ahead)),
            ]
        )
    return table(header, rows)


def readme_table(methods):
    """The table of README.md."""
    keys = ("accuracy", "nll", "ece", "worst_class", "few", "given")
    rows = []
    for method, title in README_ROWS.items():
        cells = [level(methods[method][key], key) for key in keys]
        rows.append([title, *(f"**{c}**" if method == OURS else c for c in cells)])
    header = ["", "accuracy", "NLL", "ECE", "worst class", "classes of 1–5 images", "as given"]
    return table(header, rows)


def by_set_table(methods):
    parts = {"accuracy": "by set", "NLL": "nll by set", "as given": "given by set"}
    rows = [
        [
            f"{title}: {name_of(method)}",
            *(level(methods[method][part][name], part) for name in SETS),
        ]
        for title, part in parts.items()
        for method in BY_SET
    ]
    return table(["", *SETS.values()], rows)


def heads_table(methods):
    keys = ("accuracy", "nll", "worst_class", "few", "many")
    rows = [
        [name.removeprefix("head: "), *(level(found[key], key) for key in keys)]
        for name, found in methods.items()
        if name.startswith("head: ")
    ]
    return table(["head", "accuracy", "NLL", "worst class", "of 1–5", "of 16–50"], rows)


def backbone_table(results):
    """Rows of several backbones, from summaries of benchmarks/heads.py."""
    keys, rows = ("accuracy", "nll", "worst_class", "given", "given_nll"), []
    for backbone, methods in results.items():
        for method in (*BY_SET[2:], "GDA, all blocks", *BY_SET[:2]):
            found = methods[method]
            ahead = [change(found[f"{key}: ours minus this"], key) for key in ("accuracy", "given")]
            rows.append(
                [
                    f"{backbone}: {name_of(method)}",
                    *(level(found[k], k) for k in keys),
                    *(ahead if method != OURS else ["", ""]),
                ]
            )
    header = [
        "",
        "accuracy",
        "NLL",
        "worst class",
        "as given",
        "as given: NLL",
        "ahead",
        "ahead: as given",
    ]
    return table(header, rows)


def unseen_table(sets):
    """A row for each set: accuracies, NLL of the two best, and what was expected."""
    rivals = list(next(iter(sets.values()))["methods"])[1:]
    rows = []
    for name, found in sets.items():
        methods, expected = found["methods"], found["expected accuracy"]
        ours, linear = methods["anyshot"], methods["balanced logistic regression, all blocks"]
        given = max(methods[rival]["given"] for rival in rivals)
        values = [ours["accuracy"], *(methods[rival]["accuracy"] for rival in rivals)]
        rows.append(
            [
                name,
                *(f"{100 * v:.1f}" for v in values),
                f"{ours['nll']:.2f} / {linear['nll']:.2f}",
                f"{100 * ours['given']:.1f} / {100 * given:.1f}",
                f"{100 * ours['ece']:.1f}",
                *(f"{100 * expected[key]:.0f}" for key in ("expected", "held", "width")),
            ]
        )
    header = [
        "",
        "**anyshot**",
        *rivals,
        "NLL: anyshot / logistic regression, all blocks",
        "as given: anyshot / best rival",
        "ECE",
        "expected",
        "inside, %",
        "width",
    ]
    return table(header, rows)


def uneven_table(results):
    sizes = list(dict.fromkeys(key.split(", ")[1] for key in results))
    rows = []
    for name in dict.fromkeys(key.split(", ")[0] for key in results):
        found = [results[f"{name}, {size}"] for size in sizes]
        for method in (
            "anyshot",
            "balanced logistic regression",
            "balanced logistic regression, all blocks",
            "cosine to centred means",
        ):
            cells = [f"{100 * f[method]['accuracy']:.1f} / {f[method]['nll']:.2f}" for f in found]
            rows.append([f"{name}: {'**anyshot**' if method == 'anyshot' else method}", *cells])
        for title, key in SMALL.items():
            rows.append([f"{name}: {title}", *(f"{100 * f['anyshot'][key]:.0f}" for f in found)])
    return table(["accuracy / NLL", *sizes], rows)


def quality_table(sets):
    names, titles = [*list(sets)[:-1], "mean"], {"worst_class": "worst class", "given": "as given"}
    rows = []
    for key in ("accuracy", "nll", "worst_class", "given"):
        title = titles.get(key, key.replace("nll", "NLL"))
        for i, kind in enumerate(("fast", "best")):
            values = [level(sets[name][key][i], key) for name in names]
            last = change(sets["mean"][key][2:], key) if i else ""
            rows.append([f"{title}, {kind}", *values, last])
    header = ["", *(SETS.get(name, name) for name in names), "best minus fast"]
    return table(header, rows)


def series_table(sets):
    keys = ("accuracy", "NLL", "expected", "error", "inside", "width")
    titles = {"gtsrb": "Traffic Signs, tracks", "photos": "photographs, bursts"}
    rows = []
    for name, found in sets.items():
        for method in ("each image counts", "near-copies merged"):
            cells = [
                f"{found[method][k]:.2f}" if k == "NLL" else f"{100 * found[method][k]:.1f}"
                for k in keys
            ]
            counts = [f"{found[method][k]:.0f}" for k in ("images", "groups")]
            rows.append([f"{titles.get(name, name)}: {method}", *cells, *counts])
    header = [
        "",
        "accuracy",
        "NLL",
        "expected",
        "error",
        "inside the 90% interval, %",
        "width",
        "images",
        "counted as",
    ]
    return table(header, rows)


def confidence_tables(found):
    names = [name for name in SETS if name in found["by set"]]
    by_set = found["by set"]

    def rows(titles):
        return [
            [
                title,
                *(f"{by_set[n][title]:.{digits}f}" if title in by_set[n] else "" for n in names),
            ]
            for title, digits in titles.items()
        ]

    accuracy = {
        "inside the 90% interval, %": 1,
        "width, points": 1,
        "error, points": 1,
        "correlation": 2,
    }
    unknown = {
        "AUROC": 2,
        "AUROC of doubt": 2,
        "known flagged, %": 1,
        "known flagged, estimated, %": 1,
        "unknown found, %": 1,
        "unknown found, estimated, %": 1,
    }
    remaining = [
        [SETS[n], *(f"{e:.0f} / {a:.0f}" for e, a in found["remaining"][n].values())] for n in names
    ]
    images = list(found["remaining"][names[0]])
    header = ["", *(SETS[name] for name in names)]
    return {
        "expected accuracy": table(header, rows(accuracy)),
        "images taken away": table(["images a class", *images], remaining),
        "unknown images": table(header, rows(unknown)),
    }


def labels_table(conditions):
    keys = ("average precision", "precision", "recall")
    rows = [
        [f"{condition}: {method}", *(f"{row[key]:.2f}" for key in keys)]
        for condition, methods in conditions.items()
        for method, row in methods.items()
    ]
    return table(["", *keys], rows)


def curve_tables(curves):
    names = (
        "mixture",
        "balanced logistic regression",
        "the same, all blocks",
        "cosine to centred means",
    )
    found = {}
    for kind, first in (("way", "accuracy / NLL by classes"), ("shots", "by images a class")):
        header = [first, *(str(point[0]) for point in curves[kind]["mixture"])]
        rows = [
            [name_of(name), *(f"{100 * a:.1f} / {nll:.2f}" for _, a, nll in curves[kind][name])]
            for name in names
        ]
        found[first] = table(header, rows)
    return found


def labelling_table(sets):
    rows = [
        [
            method if method != "label_next" else "`label_next`",
            *(f"{100 * sum(r[method] for r in rows) / len(rows):.1f}" for rows in sets.values()),
        ]
        for method in ("before", "random", "uncertainty", "label_next")
    ]
    return table(["accuracy", *(SETS[name] for name in sets)], rows)


def make_tables(folder):
    """All tables by title, as lists of lines."""

    def read(name):
        return json.loads((folder / f"{name}.json").read_text("utf-8"))

    methods = read("heads")["methods"]
    backbones = {n: read(f"heads-{n.lower()}")["methods"] for n in ("Lite1", "Lite2")}
    unseen = read("unseen") | read("unseen-packages")
    return {
        "accuracy": main_table(methods),
        "README": readme_table(methods),
        "by set": by_set_table(methods),
        "heads": heads_table(methods),
        "unseen sets": unseen_table(unseen),
        "one image against many": uneven_table(read("very-uneven")),
        "quality": quality_table(read("quality")),
        "other backbones": backbone_table(backbones),
        "series": series_table(read("series")),
        **confidence_tables(read("confidence")),
        "labels": labels_table(read("labels")),
        **curve_tables(json.loads((folder.parents[1] / "figures" / "heads.json").read_text())),
        "active learning": labelling_table(read("labelling")),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS)
    for title, lines in make_tables(parser.parse_args().results).items():
        print(f"{title}\n", *lines, "", sep="\n")


if __name__ == "__main__":
    main()
