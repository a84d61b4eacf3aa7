"""anyshot: learn image classifiers from uneven, scarce and unusual data.

    import anyshot

    images = anyshot.open_images("glyphs")
    run = anyshot.train(anyshot.preset("glyphs", "taml"), "runs/taml")
    method = run.load_method()
    stream = anyshot.TaskStream(images, "test", anyshot.TaskSettings(way=5, shots="any-shot:1-50"))
    print(anyshot.evaluate(method, stream, tasks=200))
    print(method.predict(stream.task(0)))
    print(anyshot.inspect_task(method, stream.task(0)))

Names are loaded when they are first used, so that importing the package (and ``anyshot --help``) does not load torch.
The package itself loads next to nothing: until it is there, Ctrl-C is not in our hands.
"""

from __future__ import annotations

from anyshot.errors import AnyshotError

TYPE_CHECKING = False  # typing's own takes longer to load than everything here
if TYPE_CHECKING:
    from typing import Any

    from anyshot.balance import Posterior
    from anyshot.bodies import create_body
    from anyshot.classifier import AnyShotClassifier
    from anyshot.images import ImageSet, open_images
    from anyshot.inner import Inner, adapt, cross_entropy, gradient, query_loss
    from anyshot.inner.update import update
    from anyshot.inspection import BalanceRecord, inspect_stream, inspect_task
    from anyshot.lists import BODIES, METHODS, METRICS, SHOT_RULES, STATISTICS
    from anyshot.methods import Method, Objective, create_method
    from anyshot.metrics import Metrics, Paired, Summary, TaskResult, TaskScore, paired, pool
    from anyshot.network import Body, Norm, zero_head
    from anyshot.presets import PRESETS, preset
    from anyshot.runs import Run
    from anyshot.settings import MethodSettings, Settings, TaskSettings, TrainSettings, WarmSettings
    from anyshot.tasks import Task, TaskStream
    from anyshot.testing import evaluate
    from anyshot.training import train
    from anyshot.version import __version__
    from anyshot.warm import warm_start

_HOMES = {
    "anyshot.balance": ("Posterior",),
    "anyshot.bodies": ("create_body",),
    "anyshot.classifier": ("AnyShotClassifier",),
    "anyshot.images": ("ImageSet", "open_images"),
    "anyshot.inner": ("Inner", "adapt", "cross_entropy", "gradient", "query_loss"),
    "anyshot.inner.update": ("update",),
    "anyshot.inspection": ("BalanceRecord", "inspect_stream", "inspect_task"),
    "anyshot.lists": ("BODIES", "METHODS", "METRICS", "SHOT_RULES", "STATISTICS"),
    "anyshot.methods": ("Method", "Objective", "create_method"),
    "anyshot.metrics": ("Metrics", "Paired", "Summary", "TaskResult", "TaskScore", "paired", "pool"),
    "anyshot.network": ("Body", "Norm", "zero_head"),
    "anyshot.presets": ("PRESETS", "preset"),
    "anyshot.runs": ("Run",),
    "anyshot.settings": ("MethodSettings", "Settings", "TaskSettings", "TrainSettings", "WarmSettings"),
    "anyshot.tasks": ("Task", "TaskStream"),
    "anyshot.testing": ("evaluate",),
    "anyshot.training": ("train",),
    "anyshot.version": ("__version__",),
    "anyshot.warm": ("warm_start",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BODIES", "METHODS", "METRICS", "PRESETS", "SHOT_RULES", "STATISTICS", "AnyShotClassifier", "AnyshotError",
    "BalanceRecord", "Body", "ImageSet", "Inner", "Method", "MethodSettings", "Metrics", "Norm", "Objective", "Paired",
    "Posterior", "Run", "Settings", "Summary", "Task", "TaskResult", "TaskScore", "TaskSettings", "TaskStream",
    "TrainSettings", "WarmSettings", "__version__", "adapt", "create_body", "create_method", "cross_entropy",
    "evaluate", "gradient", "inspect_stream", "inspect_task", "open_images", "paired", "pool", "preset", "query_loss",
    "train", "update", "warm_start", "zero_head",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'anyshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
