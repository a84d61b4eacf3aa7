r"""X1: does ω find the class sizes by itself, once the encoder can learn?

    anyshot reproduce examples/encoder_start_experiment.py --from cifar-fs --iterations 80 \
        --tasks 40 --validation-tasks 10

Four cells: the encoder's start (σ = 0.02 as in the paper, or He's) × the class-size prior
ω ∝ N_c^−τ (on, or off). All start from the same pre-trained, frozen body with the recipe's head
and train on the same augmented tasks; tested with 10 steps on one view, at the posterior mean.

Cost: 4 runs of 80 iterations, about 3 minutes of one core each. Draw what the encoders infer with
`python benchmarks/variables_posterior.py`. The results are in docs/what-the-variables-do.md.
"""

from anyshot.experiments import Block, Column, Experiment, Model
from anyshot.training.recipe import METHOD, TRAIN

NAIVE = {"prediction": "naive"}  # at the posterior's mean
TRAINING = {key: TRAIN[key] for key in ("body_rate", "augment")} | {
    "validate_every": 0,  # at the end only
    "validation_tasks": 20,
}
ONE_VIEW = {"flips": False, "zooms": (), "test_steps": 10}


def cell(name: str, base: str = "", **change: object) -> Model:
    return Model(name, "taml", {**METHOD, **ONE_VIEW, **change}, NAIVE, TRAINING, base)


EXPERIMENT = Experiment(
    "encoder-start",
    "The encoder's start and the class-size prior",
    models=(
        cell("He's start, no prior", "start 0.02, no prior", start="he", omega_prior=None),
        cell("He's start, prior", "start 0.02, prior", start="he"),
        cell("start 0.02, no prior", omega_prior=None),
        cell("start 0.02, prior"),
    ),
    blocks=(
        Block("cifar-fs-paper", (Column("cifar-fs", name="CIFAR-FS"), Column("svhn", name="SVHN"))),
    ),
)
