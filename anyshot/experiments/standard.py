"""The standard few-shot protocol: 5-way, 1 and 5 images a class, next to published numbers.

Published numbers of CIFAR-FS: ProtoNet (Conv4-64), MAML (Conv4-32) and R2D2 (a wider body) as in
Bertinetto et al. (ICLR 2019, https://arxiv.org/abs/1805.08136), RFS and RFS distilled (Conv4-64) as
in Tian et al. (ECCV 2020, https://arxiv.org/abs/2003.11539). Bodies differ, see docs/standard.md.

Every model is tested twice. Inductive: no query image influences another. Transductive: the query
set is normalised with its own batch statistics.
"""

from __future__ import annotations

from typing import Any

from anyshot.experiments.experiment import Block, Column, Experiment, Model, Published
from anyshot.experiments.imbalance import NOTHING_LEARNED
from anyshot.training import recipe

#: Published accuracies on CIFAR-FS with 1 and 5 images a class, by model and channels of its body.
#: R2D2's body (96 to 512 channels) is none of ours.
PUBLISHED = {
    ("ProtoNet", 64): (Published(55.5), Published(72.0)),
    ("RFS", 64): (Published(62.7), Published(78.7)),
    ("MAML", 32): (Published(58.9), Published(71.5)),
}
#: Whose published numbers let the query images influence each other through batch norm.
TRANSDUCTIVE = ("MAML",)
#: The mean feature is learned by gradient steps, and the body is not.
CENTRE_ONLY = {"rate": 0.05, "body_rate": 0.0}
#: Of 0.3 to 300 on 30 validation tasks: features of a pre-trained body have squared lengths of 180,
#: and 200 iterations do not learn λ.
RIDGE = 100.0
#: anyshot's recipe for even classes. Chosen on validation tasks (docs/standard.md): features of one
#: length, averaged over mirror images and shifts by two pixels; small steps on the head alone, no z
#: and ω.
RECIPE = {key: recipe.METHOD[key] for key in ("head", "head_kappa", "cardinality", "flips")}
RECIPE |= {"body": "conv4-unit", "adapt_body": False, "alpha_head": 0.1, "test_steps": 5}
RECIPE |= {"balance": ("gamma",)}
RECIPE_TEST = {"prediction": "naive", "shift": 2, "average_views": "features"}
RECIPE_TRAIN = {"body_rate": 0.0, "augment": recipe.TRAIN["augment"]}
#: The paper's encoder hardly moves in 200 iterations.
LEARNING_ENCODER = {"encoder": "normalized"}


def models(channels: int) -> tuple[Model, ...]:
    """The rows of the table, with bodies of so many channels."""
    body: dict[str, Any] = {"channels": channels}
    features = {**body, "centre": False}  # as published; centring is transductive
    naive = {"prediction": "naive"}
    views = {"flips": True, "shift": 2}
    return (
        Model("RFS", "rfs", features, train=NOTHING_LEARNED),
        Model(
            "RFS, mirror images",
            "rfs",
            features,
            {"flips": True},
            NOTHING_LEARNED,
            base="RFS",
        ),
        Model("SimpleShot", "simpleshot", features, train=CENTRE_ONLY),
        Model(
            "SimpleShot, mirror images and shifts",
            "simpleshot",
            features,
            views,
            CENTRE_ONLY,
            base="SimpleShot",
        ),
        Model("R2D2", "r2d2", {**features, "ridge": RIDGE}),
        Model("ProtoNet", "protonet", features),
        Model("ANIL", "anil", body),
        Model("MAML", "maml", body),
        Model("Meta-SGD", "meta-sgd", body),
        Model("Proto-MAML", "proto-maml", body),
        Model("Bayesian TAML", "taml", {**body, **LEARNING_ENCODER}, naive),
        Model("anyshot's recipe", "taml", {**body, **RECIPE}, RECIPE_TEST, RECIPE_TRAIN),
    )


def _block(images: str, shots: int, channels: int) -> Block:
    """The training with so many images a class, and its two columns."""
    columns = []
    for transductive in (False, True):
        name = f"{shots}-shot, {'transductive' if transductive else 'inductive'}"
        paper = {
            model: numbers[shots == 5]
            for (model, body), numbers in PUBLISHED.items()
            if body == channels and images == "cifar-fs" and (model in TRANSDUCTIVE) == transductive
        }
        columns.append(Column(images, "", name, paper, {"transductive": transductive}))
    return Block(f"{images}-{shots}shot", tuple(columns))


def standard(name: str, images: str, channels: int) -> Experiment:
    """The standard protocol on an image set; 10,000 test tasks at the scale ``paper``."""
    return Experiment(
        name,
        f"5-way classification, Conv4-{channels}",
        models=models(channels),
        blocks=tuple(_block(images, shots, channels) for shots in (1, 5)),
        reference="RFS",
        seeds=1,
        tasks=10_000,
        tasks_short=600,
    )


STANDARD = standard("standard", "cifar-fs", 32)
STANDARD_64 = standard("standard-64", "cifar-fs", 64)
STANDARD_MINI = standard("standard-miniimagenet", "miniimagenet", 64)
