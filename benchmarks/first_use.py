"""Time of a first prediction with nothing compiled: python benchmarks/first_use.py"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from types import ModuleType
from typing import Any


def first_use(folder: str | None = None) -> dict[str, Any]:
    """Seconds of a new process that adapts to 25 images and classifies 75, with an empty cache.

    Also: its CPU seconds, the kernels that it compiled, and its log lines.
    """
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder or empty}
        command = [sys.executable, __file__, "--here"]
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return {
            "seconds": time.perf_counter() - start,
            **json.loads(done.stdout),
            "log": done.stderr.splitlines(),
        }


def predict_once() -> dict[str, Any]:
    """The process that :func:`first_use` starts: two tasks in parallel."""
    import torch

    from anyshot.experiments.engine_benchmark.cases import Case, make_inner_tasks
    from anyshot.inner_loop import adapt_many
    from anyshot.inner_loop import logits_many as logits
    from anyshot.inner_loop.engine.numba_kernels import conv_layers, first_layer, pooled_norm

    logging.basicConfig(format="%(message)s")
    tasks = make_inner_tasks(Case("first use", 32, (25, 25), order=0))
    inners = [task.inner for task in tasks]
    logits(inners, adapt_many(inners, workers=2), tasks[0].images, workers=2)
    compiled = {
        name for module in (first_layer, conv_layers, pooled_norm) for name in _compiled(module)
    }
    return {
        "cpu_seconds": time.process_time(),
        "torch": torch.__version__,
        "kernels": sorted(compiled),
    }


def _compiled(module: ModuleType) -> list[str]:
    short = module.__name__.rpartition(".")[2]
    return [
        f"{short}.{name}"
        for name, kernel in vars(module).items()
        if getattr(kernel, "signatures", None)
    ]


if __name__ == "__main__":
    print(json.dumps(predict_once() if sys.argv[1:] == ["--here"] else first_use(), indent=2))
