"""Settings by name: anyshot's recipe, the paper's protocol, few-shot protocols, quick ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.training import recipe

# He initialisation, feature centring and a large inner learning rate of the head learn from the
# first iteration; the paper's initialisation is near chance after hundreds. Small gains keep
# z̃ ~ N(0, 1) from destroying the body.
FAST = MethodSettings(
    start="he",
    centre=True,
    alpha=0.01,
    alpha_head=1.0,
    options={"gains": (2.0, 0.1, 0.03)},
)
# The recipe's head and prior for classes with few images, and test-time augmentation: see
# docs/recipe.md.
GLYPHS = Settings(
    images=("glyphs",),
    method=FAST.with_values(
        {
            "head": "shrunk-prototypes",
            "head_kappa": 3.0,
            "omega_prior": 1.0,
            "cardinality": "log",
            "zooms": (0.87, 1.15),
        }
    ),
    train=TrainSettings(
        iterations=100,
        rate=2e-3,
        decay="cosine",
        validate_every=50,
        validation_tasks=50,
        checkpoint_every=25,
    ),
)
#: The paper's protocol, by the name of the image set.
PAPER = {
    "cifar-fs": Settings(images=("cifar-fs",), ood=("svhn",)),
    "miniimagenet": Settings(
        images=("miniimagenet",),
        ood=("cub",),
        train=TrainSettings(iterations=80_000, meta_batch=1, rate=1e-4),
    ),
    "multi": Settings(
        images=("aircraft", "quickdraw", "vgg-flower"),
        mixing="turn",
        task=TaskSettings(way=10),
        method=MethodSettings(options={"omega_hidden": 0}),
        train=TrainSettings(iterations=60_000, meta_batch=3),
    ),
}


def _few_shot(images: str, shots: int) -> Settings:
    """The protocol of most published tables: 5-way 1-shot or 5-shot, 15 queries, Conv4-64.

    Meta-training is MAML's: 60,000 iterations of 4 or 2 tasks. The initialisation is that of FAST.
    Parameters are selected on validation classes alone.
    """
    train = TrainSettings(
        iterations=60_000,
        meta_batch=4 if shots == 1 else 2,
        decay="cosine",
        validate_every=5_000,
        validation_tasks=600,
        select="id",
    )
    task = TaskSettings(shots=f"fixed:{shots}")
    return Settings(images=(images,), task=task, method=replace(FAST, channels=64), train=train)


FEW_SHOT = {
    f"{images}-{shots}shot": _few_shot(images, shots)
    for images in ("cifar-fs", "miniimagenet")
    for shots in (1, 5)
}
PRESETS: dict[str, Settings] = {
    "glyphs": GLYPHS,
    "pictures": GLYPHS,  # four times as many iterations lost 3% on new photo classes
    **{name: recipe.recipe(settings) for name, settings in PAPER.items()},
    "cifar-fs-depths": recipe.recipe_with_depths(PAPER["cifar-fs"], body="cifar-fs"),
    **{f"{name}-paper": settings for name, settings in PAPER.items()},
    **FEW_SHOT,
}

#: What a method does differently under a preset.
EXCEPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("miniimagenet-paper", "maml"): {"alpha": 0.1},
    ("miniimagenet-paper", "mt-net"): {"alpha": 0.1},
    ("miniimagenet-paper", "abml"): {"alpha": 0.1},
    ("multi-paper", "proto-maml"): {"alpha": 0.01},
    # the best learning rate of benchmarks/demo_search.py
    **{(name, "maml"): {"alpha": 0.1} for name in ("glyphs", "pictures")},
}
for _name in ("glyphs", "pictures", *FEW_SHOT):
    # the head of Proto-MAML starts near the solution
    EXCEPTIONS[_name, "proto-maml"] = {"alpha": 0.01, "alpha_head": 0.01}
    # a deviation of 0.01 keeps the head at zero
    EXCEPTIONS[_name, "abml"] = {"deviation": 0.02, "deviation_head": 0.2}
for _name in FEW_SHOT:
    # Their published numbers are inductive. Those of methods with an inner loop use the statistics
    # of the query batch.
    for _method in ("protonet", "r2d2", "simpleshot", "rfs"):
        EXCEPTIONS[_name, _method] = {
            "transductive": False,
            "stored_statistics": True,
            "centre": False,
        }
    # their own inductive tests (--no-transductive) use stored statistics, too
    for _method in ("maml", "anil", "meta-sgd", "proto-maml", "taml"):
        EXCEPTIONS.setdefault((_name, _method), {})["stored_statistics"] = True
for _name in PAPER:
    for _method, _changes in recipe.EXCEPTIONS.items():
        EXCEPTIONS[_name, _method] = _changes


def preset(name: str, method: str = "taml") -> Settings:
    """The settings of a preset for a method.

    Parameters
    ----------
    name : str
        "cifar-fs", "miniimagenet" or "multi": anyshot's recipe, pre-training and 200 iterations.
        "cifar-fs-depths": a head on three depths of a trained body, 500 iterations.
        The same with "-paper": the paper's protocol. "glyphs" and "pictures": 100 iterations.
        "cifar-fs-1shot", "cifar-fs-5shot", "miniimagenet-1shot", "miniimagenet-5shot": the usual
        few-shot protocol.
    method : str
        A built-in method, or your own as ``FILE.py:NAME``.

    Returns
    -------
    Settings

    Raises
    ------
    SettingsError
        If there is no such preset or method.

    Examples
    --------
    >>> preset("cifar-fs").pretrain.epochs, preset("cifar-fs").train.iterations
    (200, 200)
    >>> preset("miniimagenet-paper", "maml").method.alpha
    0.1
    """
    if name not in PRESETS:
        raise SettingsError(f"There is no preset {name!r}{suggestion(name, PRESETS)}")
    settings = PRESETS[name]
    changes = {"name": method, **EXCEPTIONS.get((name, method), {})}
    return replace(settings, method=settings.method.with_values(changes))


def default_preset(images: Sequence[str]) -> str:
    """The preset for image sets if none is named: one that trains in minutes."""
    return "glyphs" if tuple(images) == ("glyphs",) else "pictures"


#: Pre-training uses a body with the same parameters and the output of the last layer alone.
SAME_PARAMETERS = {"conv4-depths": "conv4", "conv4-unit": "conv4"}


def pretraining_settings(settings: Settings) -> Settings:
    """The settings of the pre-training stage alone: the same images, tasks and backbone.

    Its method is a prototypical network, which needs a backbone only.
    """
    stage = settings.pretrain or PretrainSettings()
    body = settings.method.body
    method = MethodSettings(
        name="protonet",
        body=SAME_PARAMETERS.get(body, body),
        channels=settings.method.channels,
    )
    train = TrainSettings(iterations=0, seed=stage.seed)
    return replace(settings, method=method, train=train, pretrain=stage)
