"""Send the records of a training to Weights & Biases (pip install wandb).

python examples/wandb_callback.py runs/taml

`anyshot.train` calls its callback with every record of the run's log: a dict with a "kind"
("iteration", "validation", "epoch", "check", "calibration"), the number of the step and its
numbers. In a run of several processes only the first one calls it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyshot


def wandb_callback(run, folder):
    """A callback that logs all numbers of a record as KIND/NAME at its step.

    ``folder`` is the run's folder. A run that was interrupted continues its W&B run: W&B ignores
    steps that it has already.
    """
    name = Path(folder).name
    board = run.init(project="anyshot", name=name, id=name, resume="allow")

    def callback(record):
        kind = record["kind"]
        step = record.get("iteration", record.get("epoch"))
        numbers = {
            f"{kind}/{key}": value
            for key, value in record.items()
            if isinstance(value, float) and key not in ("iteration", "epoch")
        }
        board.log(numbers, step=step)

    return callback


def main(folder):
    """Train with the preset "glyphs"."""
    import wandb

    settings = anyshot.preset("glyphs", "taml")
    anyshot.train(settings, folder, callback=wandb_callback(wandb, folder))
    wandb.finish()


if __name__ == "__main__":
    main(sys.argv[1])
