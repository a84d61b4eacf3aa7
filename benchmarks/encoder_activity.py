"""Does the encoder of Bayesian TAML see the images? Activity of its layers during meta-training.

    python benchmarks/encoder_activity.py OUT --seed 0 [--iterations 2000] [--start he]
    python benchmarks/encoder_activity.py OUT --seed 0 --encoder normalized
    python benchmarks/encoder_activity.py OUT --run RUN CHECKPOINT [CHECKPOINT ...]
    python benchmarks/encoder_activity.py OUT --draw

The first two forms train by the paper's protocol (`cifar-fs-paper`) and looks at the encoder after
every 25 iterations, on support images of 20 validation tasks of each set:

- the share of units that are positive after each of its two convolutions,
- the share of images for which at least one unit is positive after the second,
- the deviation of E ω̃ between the classes of a task that all have the same number of images.

An encoder whose second convolution is zero for all images cannot tell one image from another: what
it infers depends on the class sizes alone, and no gradient reaches the convolutions any more. The
run stops there. One core takes about 1.1 seconds per iteration; a killed run resumes. It writes
OUT/NAME.json, where NAME is the start (or the encoder) and the seed. `--run` looks at checkpoints
of a run, or at a best.safetensors, and writes OUT/checkpoints.json. `--draw` makes OUT/activity.png
of the training runs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from paper_protocol import iteration_of, load_checkpoint

import anyshot
from anyshot.methods.task_encoder import NormalizedTaskEncoder, standardise

SETS = ("cifar-fs", "svhn")
EVERY = 25  #: iterations between two looks
TASKS = 20
PATIENCE = 4  #: looks without an active image after which the run stops


class EncoderIsBlindError(Exception):
    """Ends a run whose encoder has been inactive for all images for a while."""


@torch.no_grad()
def look(method: anyshot.Method, tasks: list[anyshot.Task]) -> dict[str, float]:
    """Activity of the encoder on the support images of some tasks."""
    encoder = method.encoder
    centre, norm = 0.0, lambda h: h
    if isinstance(encoder, NormalizedTaskEncoder):
        centre, norm = 0.5, standardise
    first, second, seen, spread = [], [], [], []
    for task in tasks:
        support, labels, _, _ = method.task_tensors(task)
        h = F.relu(norm(encoder.conv1(support - centre)))
        first.append((h > 0).float().mean())
        h = norm(encoder.conv2(F.max_pool2d(h, 2))) > 0
        second.append(h.float().mean())
        seen.append(h.flatten(1).any(1).float().mean())
        spread.append(method.posterior(support, labels, task.way).mean["omega"].std())
    values = {"first": first, "second": second, "images": seen, "omega_spread": spread}
    return {key: float(torch.stack(value).mean()) for key, value in values.items()}


def even_tasks() -> dict[str, list[anyshot.Task]]:
    """Tasks whose classes all have the same number of images, by image set."""
    even = anyshot.TaskSettings(shots="task-imbalance:1-50")
    return {
        images: [
            anyshot.TaskStream(anyshot.open_images(images), "validation", even, 1).task(index)
            for index in range(TASKS)
        ]
        for images in SETS
    }


def look_at_checkpoints(out: Path, folder: Path, checkpoints: list[Path]) -> None:
    """One record per checkpoint of a run, added to those that are there."""
    run, tasks = anyshot.Run(folder), even_tasks()
    target = out / "checkpoints.json"
    looks = json.loads(target.read_text()) if target.exists() else []
    for path in checkpoints:
        iteration, method = iteration_of(path), load_checkpoint(run, path)
        looks = [past for past in looks if past["iteration"] != iteration]
        looks.append(
            {"iteration": iteration, **{images: look(method, tasks[images]) for images in SETS}}
        )
    out.mkdir(parents=True, exist_ok=True)
    looks.sort(key=lambda record: record["iteration"])
    target.write_text(json.dumps(looks, indent=1) + "\n")


def measure(out: Path, start: str, encoder: str, seed: int, iterations: int) -> None:
    """Train and look; one record per look."""
    name = f"{start if encoder == 'convolutional' else encoder}-{seed}"
    folder = out / "runs" / name
    settings = anyshot.preset("cifar-fs-paper")
    settings = replace(
        settings,
        method=replace(
            settings.method, start=start, options=settings.method.options | {"encoder": encoder}
        ),
        train=replace(
            settings.train,
            iterations=iterations,
            seed=seed,
            checkpoint_every=EVERY,
            validate_every=0,
            validation_tasks=10,
        ),
    )
    tasks = even_tasks()
    target = out / f"{name}.json"
    looks = json.loads(target.read_text())["looks"] if target.exists() else []

    def look_at_checkpoint(record: dict) -> None:
        iteration = record["iteration"] - 1  # its checkpoint is the newest
        if record["kind"] != "iteration" or iteration % EVERY:
            return
        newest = max((folder / "checkpoints").glob("*.safetensors"))
        method = load_checkpoint(anyshot.Run(folder), newest)
        looks[:] = [past for past in looks if past["iteration"] < iteration]
        looks.append(
            {"iteration": iteration, **{images: look(method, tasks[images]) for images in SETS}}
        )
        target.write_text(json.dumps({"name": name, "looks": looks}, indent=1))
        last = looks[-PATIENCE:]
        if len(last) == PATIENCE and not any(
            past[images]["images"] for past in last for images in SETS
        ):
            raise EncoderIsBlindError

    out.mkdir(parents=True, exist_ok=True)
    try:
        anyshot.train(settings, folder, callback=look_at_checkpoint, tensorboard=False, workers=1)
    except EncoderIsBlindError:
        print(f"{name}: no image is seen since iteration {looks[-PATIENCE]['iteration']}")


def draw(out: Path) -> None:
    """Share of active units and deviation of ω̃ between equal classes, against iterations."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for path in sorted(out.glob("*-*.json")):
        record = json.loads(path.read_text())
        iterations = [past["iteration"] for past in record["looks"]]
        for axis, key in zip(axes, ("second", "omega_spread"), strict=True):
            line = [past["cifar-fs"][key] for past in record["looks"]]
            axis.plot(iterations, line, label=path.stem)
    axes[0].set_ylabel("active units, share")
    axes[0].set_title("After the encoder's second convolution", fontsize=10)
    axes[1].set_ylabel("deviation of E ω̃")
    axes[1].set_title("Between classes of the same size", fontsize=10)
    for axis in axes:
        axis.set_xlabel("meta-iterations")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "activity.png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--start", choices=("paper", "he"), default="paper")
    parser.add_argument(
        "--encoder", choices=("convolutional", "normalized"), default="convolutional"
    )
    parser.add_argument("--run", type=Path, nargs="+", metavar=("RUN", "CHECKPOINT"))
    parser.add_argument("--draw", action="store_true")
    chosen = parser.parse_args()
    if chosen.draw:
        draw(chosen.out)
    elif chosen.run:
        look_at_checkpoints(chosen.out, chosen.run[0], chosen.run[1:])
    else:
        measure(chosen.out, chosen.start, chosen.encoder, chosen.seed, chosen.iterations)


if __name__ == "__main__":
    main()
