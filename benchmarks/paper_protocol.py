"""Accuracy against iterations of the paper's protocol: Meta-SGD and Bayesian TAML.

    python benchmarks/paper_protocol.py measure OUT NAME RUN CHECKPOINT [CHECKPOINT ...]
    python benchmarks/paper_protocol.py draw OUT

RUN is a run folder of `anyshot train RUN --preset cifar-fs-paper`, NAME its method in the figure.
Each CHECKPOINT (a file of RUN/checkpoints, a copy of it, or a best.safetensors) is tested on the
same tasks of the test classes. `measure` writes one JSON file per checkpoint, set and prediction
into OUT, and skips those that are there. `draw` writes OUT/curve.json, OUT/table.md and the
figures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from paired_rows import half_width

import anyshot
from anyshot.runs.checkpoint import read_checkpoint

SETS = ("cifar-fs", "svhn")
TITLES = {"cifar-fs": "CIFAR-FS", "svhn": "SVHN (out of distribution)"}
#: published accuracies after 50,000 iterations, CIFAR-FS and SVHN
PAPER = {
    "Meta-SGD": (72.71, 46.45),
    "TAML, naive": (73.52, 47.15),
    "TAML, S = 10": (75.15, 51.87),
}
TICKS = (1_000, 2_500, 5_000, 10_000, 20_000, 50_000)
COLOURS = {
    "Meta-SGD": "tab:blue",
    "TAML, naive": "tab:orange",
    "TAML, S = 10": "tab:red",
    "TAML normalized, naive": "tab:olive",
    "TAML normalized, S = 10": "tab:green",
}
SHIFTS = (0.95, 0.975, 1, 1.025, 1.05)  #: factors that keep the intervals of models apart


def load_checkpoint(run: anyshot.Run, path: Path) -> anyshot.Method:
    """The run's method with the parameters of a checkpoint, or of a best.safetensors."""
    tensors = read_checkpoint(path).tensors
    # a checkpoint also has the optimiser's moments
    prefix = "method." if any(name.startswith("method.") for name in tensors) else ""
    parameters = {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    method = run.new_method()
    method.load_state_dict(parameters)
    return method.requires_grad_(False)


def iteration_of(path: Path) -> int:
    """How many iterations the parameters have had."""
    return int(read_checkpoint(path).state["iteration"])


def measure(out: Path, name: str, folder: Path, checkpoints: list[Path], tasks: int) -> None:
    """Test each checkpoint on each set, and keep accuracy and NLL of every task."""
    run = anyshot.Run(folder)
    streams = {
        images: anyshot.TaskStream(run.imageset(images), "test", run.settings.task)
        for images in SETS
    }
    predictions = {"": None}
    if run.settings.method.name == "taml":
        predictions = {", naive": "naive", ", S = 10": "mc"}
    for path in checkpoints:
        method = load_checkpoint(run, path)
        for suffix, prediction in predictions.items():
            for images, stream in streams.items():
                title = f"{name}{suffix}"
                target = out / "measured" / f"{title} {iteration_of(path)} {images}.json"
                if target.exists():
                    continue
                summary = anyshot.evaluate(method, stream, tasks, prediction=prediction)
                record = {
                    "model": title,
                    "iteration": iteration_of(path),
                    "images": images,
                    "tasks": tasks,
                    "accuracy": [score.accuracy for score in summary.scores],
                    "nll": [score.nll for score in summary.scores],
                    "ece": summary.ece,
                }
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(json.dumps(record))
                print(title, iteration_of(path), images, f"{100 * summary.accuracy:.2f}")
        if run.settings.method.name == "taml":
            inspect(out, name, method, streams, iteration_of(path), tasks=100)


def inspect(
    out: Path, name: str, method: anyshot.Method, streams: dict, iteration: int, tasks: int
) -> None:
    """Keep the posterior means of ω̃ by class size, and of γ̃ by task size."""
    target = out / "posteriors" / f"{name} {iteration}.json"
    if target.exists():
        return
    record: dict = {"name": name, "iteration": iteration}
    for images, stream in streams.items():
        omega, gamma = [], []
        for index in range(tasks):
            task = stream.task(index)
            support, labels, _, _ = method.task_tensors(task)
            mean = method.posterior(support, labels, task.way).mean
            omega += list(zip(map(int, task.shots), mean["omega"].flatten().tolist(), strict=True))
            gamma.append((int(sum(task.shots)), mean["gamma"].flatten().tolist()))
        record[images] = {"omega": omega, "gamma": gamma}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record))


def draw(out: Path) -> None:
    """Collect what was measured into one results file, a table and the figures."""
    tests, looks = (
        [json.loads(path.read_text()) for path in sorted((out / folder).glob("*.json"))]
        for folder in ("measured", "posteriors")
    )
    found = {(r["model"], r["iteration"], r["images"]): r for r in tests}
    rows = []
    for (model, iteration, images), record in sorted(found.items(), key=lambda item: item[0]):
        row = {"model": model, "iteration": iteration, "images": images, "tasks": record["tasks"]}
        for key, scale in (("accuracy", 100), ("nll", 1)):
            values = scale * np.array(record[key])
            row[key] = float(values.mean())
            row[f"{key}_interval"] = half_width(values)
            reference = found.get(("Meta-SGD", iteration, images))
            if reference and model != "Meta-SGD":
                difference = values - scale * np.array(reference[key])
                row[f"{key}_difference"] = float(difference.mean())
                row[f"{key}_difference_interval"] = half_width(difference)
        row["ece"] = 100 * record["ece"]
        rows.append(row)
    (out / "curve.json").write_text(json.dumps(rows, indent=1))
    (out / "table.md").write_text(table(rows))
    curves(rows, out / "curves.png")
    posteriors([look for look in looks if look["name"] == "TAML"], out / "posteriors.png")


def table(rows: list[dict]) -> str:
    """Markdown: one row per model and iteration, both sets."""
    lines = [
        "| iterations | model | CIFAR-FS | − Meta-SGD | NLL | SVHN | − Meta-SGD | NLL |",
        "|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for iteration in sorted({row["iteration"] for row in rows}):
        for model in COLOURS:
            cells = []
            for images in SETS:
                key = (model, iteration, images)
                row = next(
                    (r for r in rows if (r["model"], r["iteration"], r["images"]) == key), None
                )
                if row is None:
                    cells += ["–", "–", "–"]
                    continue
                gain = "–"
                if "accuracy_difference" in row:
                    gain = (
                        f"{row['accuracy_difference']:+.1f} "
                        f"± {row['accuracy_difference_interval']:.1f}"
                    )
                accuracy = f"{row['accuracy']:.1f} ± {row['accuracy_interval']:.1f}"
                cells += [accuracy, gain, f"{row['nll']:.3f}"]
            if any(cell != "–" for cell in cells):
                lines.append(f"| {iteration:,} | {model} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def curves(rows: list[dict], path: Path) -> None:
    """Accuracy and NLL against iterations; dotted lines are the paper's accuracies."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True)
    for column, images in enumerate(SETS):
        for shift, (model, colour) in zip(SHIFTS, COLOURS.items(), strict=True):
            some = [r for r in rows if r["model"] == model and r["images"] == images]
            if not some:
                continue
            some.sort(key=lambda r: r["iteration"])
            for line, key in enumerate(("accuracy", "nll")):
                axes[line, column].errorbar(
                    [shift * r["iteration"] for r in some],
                    [r[key] for r in some],
                    [r[f"{key}_interval"] for r in some],
                    label=model,
                    color=colour,
                    marker="o",
                    markersize=4,
                    capsize=2,
                )
            if model in PAPER:
                published = PAPER[model][column]
                axes[0, column].axhline(published, color=colour, linestyle=":", linewidth=1)
        axes[0, column].set_title(TITLES[images])
        axes[1, column].set_xlabel("meta-iterations, in thousands (log scale)")
        axes[1, column].set_xscale("log")
        axes[1, column].set_xlim(800, 62_000)
        axes[1, column].minorticks_off()
        axes[1, column].set_xticks(TICKS, [f"{tick / 1000:g}" for tick in TICKS])
    axes[0, 0].set_ylabel("accuracy, %")
    axes[1, 0].set_ylabel("NLL")
    axes[0, 0].legend(fontsize=8)
    figure.suptitle("Paper's protocol; dotted: published after 50,000 iterations", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def posteriors(records: list[dict], path: Path) -> None:
    """Posterior means of the newest checkpoint: exp(ω̃) by class size, exp(γ̃) by task size."""
    if not records:
        return
    newest = max(records, key=lambda record: record["iteration"])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for images, colour in zip(SETS, ("tab:blue", "tab:orange"), strict=True):
        sizes, omega = np.array(newest[images]["omega"]).T
        axes[0].scatter(sizes, np.exp(omega), s=6, color=colour, alpha=0.4, label=TITLES[images])
        total = np.array([size for size, _ in newest[images]["gamma"]])
        head = np.exp([values[-1] for _, values in newest[images]["gamma"]])
        axes[1].scatter(total, head, s=6, color=colour, alpha=0.6, label=TITLES[images])
    for axis, label, name in (
        (axes[0], "images of the class", "exp(E ω̃)"),
        (axes[1], "images of the task", "exp(E γ̃) of the head"),
    ):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.set_ylabel(name)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"Bayesian TAML after {newest['iteration']:,} iterations", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("name", choices=("Meta-SGD", "TAML", "TAML normalized"))
    measuring.add_argument("run", type=Path)
    measuring.add_argument("checkpoints", type=Path, nargs="+")
    measuring.add_argument("--tasks", type=int, default=300)
    drawing = commands.add_parser("draw")
    drawing.add_argument("out", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "measure":
        measure(chosen.out, chosen.name, chosen.run, chosen.checkpoints, chosen.tasks)
    else:
        draw(chosen.out)


if __name__ == "__main__":
    main()
