"""Settings by name: the paper's three, two that learn in minutes, and the protocol of most published tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshot.core.errors import AnyshotError
from anyshot.core.options import suggestion
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)

# A body that starts at He's scale, centred features and a large step on the head learn from the first iteration; the
# paper's start is still near chance after hundreds. Gains keep z̃ ~ N(0, 1) from drowning the body.
FAST = MethodSettings(start="he", centre=True, alpha=0.01, alpha_head=1.0, gains=(2.0, 0.1, 0.03))
# Classes of one image have a say beside those of fifty: anyshot's own head and prior of ω; and whoever has few images
# looks at them more than once: steps see them at other zooms (docs/recipe.md).
GLYPHS = Settings(
    images=("glyphs",),
    method=replace(
        FAST,
        head="shrunk-prototypes",
        head_kappa=3.0,
        omega_prior=1.0,
        cardinality="log",
        zooms=(0.87, 1.15),
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


def standard(images: str, shots: int) -> Settings:
    """The protocol of most published tables: 5-way tasks of 1 or 5 images a class, 15 queries, Conv4-64, and MAML's
    60,000 iterations of 4 or 2 tasks. The body starts as on glyphs; the paper's start stays near chance too long."""
    train = TrainSettings(
        iterations=60_000,
        meta_batch=4 if shots == 1 else 2,
        decay="cosine",
        validate_every=5_000,
        validation_tasks=600,
    )
    method = replace(FAST, channels=64)
    return Settings(
        images=(images,), task=TaskSettings(shots=f"fixed:{shots}"), method=method, train=train
    )


STANDARD = {
    f"{images}-{k}shot": standard(images, k)
    for images in ("cifar-fs", "miniimagenet")
    for k in (1, 5)
}
PRESETS: dict[str, Settings] = {
    "glyphs": GLYPHS,
    "pictures": GLYPHS,  # learning for four times as long lost 3 % on the new ones of 20 classes of photographs
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
        method=MethodSettings(omega_hidden=0),
        train=TrainSettings(iterations=60_000, meta_batch=3),
    ),
    **STANDARD,
}

QUICK = ("glyphs", "pictures", *STANDARD)
#: What a method does differently under a preset.
EXCEPTIONS: dict[tuple[str, str], dict[str, float]] = {
    **{
        (quick, "proto-maml"): {"alpha": 0.01, "alpha_head": 0.01} for quick in QUICK
    },  # its head starts near the goal
    **{
        (quick, "abml"): {"deviation": 0.02, "deviation_head": 0.2} for quick in QUICK
    },  # 0.01 holds the head at zero
    **{
        (quick, "maml"): {"alpha": 0.1} for quick in ("glyphs", "pictures")
    },  # best of benchmarks/demo_search.py
    ("miniimagenet", "maml"): {"alpha": 0.1},
    ("miniimagenet", "mt-net"): {"alpha": 0.1},
    ("miniimagenet", "abml"): {"alpha": 0.1},
    ("multi", "proto-maml"): {"alpha": 0.01},
}


def pretraining_settings(settings: Settings) -> Settings:
    """The warm start for runs of these settings: their images, tasks and body; the method is what a body alone can
    do."""
    method = MethodSettings(
        name="protonet", body=settings.method.body, channels=settings.method.channels
    )
    return replace(settings, method=method, train=TrainSettings(), warm=PretrainSettings())


def default_preset(images: Sequence[str]) -> str:
    """The preset for images when nobody names one: what learns in minutes."""
    return "glyphs" if tuple(images) == ("glyphs",) else "pictures"


def preset(name: str, method: str = "taml") -> Settings:
    """The settings of a preset for a method.

    >>> preset("multi").task.way, preset("miniimagenet", "maml").method.alpha
    (10, 0.1)
    """
    if name not in PRESETS:
        raise AnyshotError(f"There is no preset {name!r}{suggestion(name, PRESETS)}")
    settings = PRESETS[name]
    changed = replace(settings.method, name=method, **EXCEPTIONS.get((name, method), {}))  # type: ignore[arg-type]
    return replace(settings, method=changed)
