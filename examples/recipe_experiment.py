"""What the balancing variables add to the recipe: an ablation of ω, γ and z.

    anyshot reproduce examples/recipe_experiment.py --from cifar-fs

All models start from the same frozen body and a head of shrunk class means, with the class-size
prior ω ∝ N_c^−τ, and train on the same augmented tasks. The results are in docs/recipe.md.
"""

from anyshot.experiments import Block, Column, Experiment, Model
from anyshot.training.recipe import METHOD, TRAIN

NAIVE = {"prediction": "naive"}  # at the posterior's mean
TRAINING = {key: TRAIN[key] for key in ("body_rate", "augment", "calibrate")}
NOTHING_LEARNED = {**TRAINING, "iterations": 1, "rate": 0.0}
META_SGD = {k: v for k, v in METHOD.items() if k not in ("cardinality", "gains")}  # of TAML
AS_PAPER = {"head": "zero", "omega_prior": None}


def taml(name: str, **change: object) -> Model:
    return Model(name, "taml", {**METHOD, **change}, NAIVE, TRAINING)


EXPERIMENT = Experiment(
    "recipe",
    "What the balancing variables add to the recipe",
    models=(
        Model(
            "fixed steps, head at zero", "meta-sgd", {**META_SGD, **AS_PAPER}, train=NOTHING_LEARNED
        ),
        Model("fixed steps", "meta-sgd", META_SGD, train=NOTHING_LEARNED),
        Model("Meta-SGD", "meta-sgd", META_SGD, train=TRAINING),
        taml("Bayesian TAML without ω", balance=("gamma", "z")),
        taml("Bayesian TAML without γ", balance=("omega", "z")),
        taml("Bayesian TAML without z", balance=("omega", "gamma")),
        taml("Bayesian TAML"),
    ),
    blocks=(
        Block("cifar-fs-paper", (Column("cifar-fs", name="CIFAR-FS"), Column("svhn", name="SVHN"))),
    ),
)
