r"""X4: does averaging over z gain on a pre-trained body that adapts?

    anyshot reproduce examples/adapting_body_experiment.py --from cifar-fs --iterations 300 \
        --tasks 100

The body is not frozen (full learning rate), the variables have no gains, and the encoder starts at
He's scale: z̃ has the paper's width from the first iteration. One run, tested at the posterior mean
and with ten samples; the difference is paired.

Cost: 300 iterations 8 minutes of one core, tests 4 minutes. The results are in
docs/what-the-variables-do.md.
"""

from anyshot.experiments import Block, Column, Experiment, Model

WIDE = {"start": "he", "gains": ()}
TRAINING = {"body_rate": 1.0, "validate_every": 0, "validation_tasks": 20}

EXPERIMENT = Experiment(
    "adapting-body",
    "Wide z on a pre-trained body that adapts",
    models=(
        Model("Bayesian TAML, posterior mean", "taml", WIDE, {"prediction": "naive"}, TRAINING),
        Model("Bayesian TAML, S = 10", "taml", WIDE, {}, TRAINING),
    ),
    blocks=(
        Block("cifar-fs-paper", (Column("cifar-fs", name="CIFAR-FS"), Column("svhn", name="SVHN"))),
    ),
)
