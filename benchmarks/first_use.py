"""What a first prediction costs where nothing is compiled yet: python benchmarks/first_use.py"""

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
    """Seconds (and CPU seconds) of a process that adapts to 25 images of 32×32 and classifies 75, from its start to its
    end, with machine code kept in an empty folder; the loops that it compiled, and what the log said."""
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
    """What :func:`first_use` does in a process of its own, two tasks at once."""
    import torch

    from anyshot.experiments.engine_benchmark.cases import Case, inner_tasks
    from anyshot.inner_loop import adapt_many
    from anyshot.inner_loop import logits_many as logits
    from anyshot.inner_loop.engine import numba_ops

    logging.basicConfig(format="%(message)s")
    tasks = inner_tasks(Case("first use", 32, (25, 25), order=0))
    inners = [task.inner for task in tasks]
    logits(inners, adapt_many(inners, workers=2), tasks[0].images, workers=2)
    made = {
        name
        for module in (numba_ops.first, numba_ops.kernels, numba_ops.passes)
        for name in _compiled(module)
    }
    return {"cpu_seconds": time.process_time(), "torch": torch.__version__, "loops": sorted(made)}


def _compiled(module: ModuleType) -> list[str]:
    short = module.__name__.rpartition(".")[2]
    return [
        f"{short}.{name}"
        for name, loop in vars(module).items()
        if getattr(loop, "signatures", None)
    ]


if __name__ == "__main__":
    print(json.dumps(predict_once() if sys.argv[1:] == ["--here"] else first_use(), indent=2))
