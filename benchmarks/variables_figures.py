"""Figures of docs/what-the-variables-do.md from the results files.

    python benchmarks/variables_figures.py docs/results/variables docs/figures

Reads posterior/*.json (variables_posterior.py), padding/results.json (variables_padding.py) and
averaging/results.json (variables_averaging.py); draws variables_omega.png, variables_gamma.png,
variables_padding.png and variables_z.png.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from paired_rows import SETS, TITLES

LAYERS = ("conv 1", "conv 2", "conv 3", "conv 4", "head")

GAMMAS = (0.25, 0.5, 1, 2, 4, 8)  #: shown of X3


def by_size(pairs: list, bins: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Mean value in bins of equal ratio of the size."""
    size, value = np.array(pairs, float).T
    edges = np.geomspace(size.min(), size.max() + 1e-6, bins + 1)
    group = np.clip(np.searchsorted(edges, size, "right") - 1, 0, bins - 1)
    used = [g for g in range(bins) if (group == g).any()]
    centres = [np.exp(np.log(size[group == g]).mean()) for g in used]
    return np.array(centres), np.array([value[group == g].mean() for g in used])


def draw_omega(folder: Path, path: Path) -> None:
    """The encoder's own ω̃ against class size, for each trained encoder."""
    figure, axes = plt.subplots(figsize=(6.4, 4))
    for file in sorted((folder / "posterior").glob("*.json")):
        record = json.loads(file.read_text())
        pairs = [pair for images in SETS for pair in record[images]["omega"]]
        if pairs:
            size, value = by_size(pairs)
            axes.plot(size, value - value[-1], marker="o", label=record["name"])
    size = np.array([1, 50])
    axes.plot(size, -np.log(size / 50), "k:", label="ω ∝ 1 / N")
    axes.set_xscale("log")
    axes.set_xlabel("images of the class")
    axes.set_ylabel("E ω̃, relative to the largest classes")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_gamma(folder: Path, path: Path) -> None:
    """γ of each layer by task size in the run of the paper's protocol."""
    figure, axes = plt.subplots(figsize=(6, 4))
    record = json.loads((folder / "posterior" / "paper-protocol-5000.json").read_text())
    for layer, name in enumerate(LAYERS):
        pairs = [[n, values[layer]] for images in SETS for n, values in record[images]["gamma"]]
        size, value = by_size(pairs)
        axes.plot(size, np.exp(value), marker="o", markersize=4, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.set_xlabel("images of the task")
    axes.set_ylabel("exp(E γ̃)")
    axes.set_title(f"Bayesian TAML, {record['name']}", fontsize=10)
    axes.legend(fontsize=8, ncols=5, loc="lower center")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_padding(folder: Path, path: Path) -> None:
    """NLL by constant γ of the head, with and without padding; circles are the best values."""
    cells = json.loads((folder / "padding" / "results.json").read_text())
    figure, axes = plt.subplots(figsize=(6, 4))
    colours = dict(zip(sorted({c["shots"] for c in cells}), ("C0", "C1", "C2"), strict=True))
    for shots, padded in sorted({(c["shots"], c["padded"]) for c in cells}):
        some = sorted(
            (c["gamma"], np.mean(c["nll"]))
            for c in cells
            if (c["shots"], c["padded"]) == (shots, padded)
        )
        gamma, nll = np.array(some).T
        style, note = ("--", ", padded to 200") if padded else ("-", "")
        label = f"N = {5 * shots}{note}"
        axes.plot(gamma, nll, style, color=colours[shots], marker="o", markersize=4, label=label)
        best = nll.argmin()
        axes.plot(gamma[best], nll[best], "o", color=colours[shots], markersize=10, mfc="none")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0.5, 2.2)
    axes.set_xlim(0.22, 9)
    axes.set_xticks(GAMMAS, [f"{gamma:g}" for gamma in GAMMAS])
    axes.set_xlabel("constant γ of the head")
    axes.set_ylabel("NLL")
    axes.legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_z(folder: Path, path: Path) -> None:
    """Gain of each average of ten adaptations over one adaptation of the same method."""
    rows = json.loads((folder / "averaging" / "results.json").read_text())["rows"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    names = list(dict.fromkeys(r["row"] for r in rows if "accuracy_difference" in r))
    for axis, (key, label) in zip(
        axes, (("accuracy", "accuracy, % points"), ("nll", "NLL (lower is better)")), strict=True
    ):
        for offset, images in ((0.12, "cifar-fs"), (-0.12, "svhn")):
            found = {r["row"]: r for r in rows if r["images"] == images and r["row"] in names}
            axis.errorbar(
                [row[f"{key}_difference"] for row in found.values()],
                [len(names) - names.index(name) + offset for name in found],
                xerr=[row[f"{key}_difference_interval"] for row in found.values()],
                fmt="o",
                capsize=2,
                label=TITLES[images],
            )
        axis.axvline(0, color="#555555", linewidth=1, linestyle="--")
        axis.set_xlabel(f"change of {label}")
    axes[0].set_yticks([len(names) - i for i in range(len(names))], names)
    axes[1].legend(fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("figures", type=Path)
    chosen = parser.parse_args()
    draw_omega(chosen.results, chosen.figures / "variables_omega.png")
    draw_gamma(chosen.results, chosen.figures / "variables_gamma.png")
    if (chosen.results / "padding").exists():
        draw_padding(chosen.results, chosen.figures / "variables_padding.png")
    draw_z(chosen.results, chosen.figures / "variables_z.png")


if __name__ == "__main__":
    main()
