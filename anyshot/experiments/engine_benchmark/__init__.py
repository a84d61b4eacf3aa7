"""``anyshot bench``: the engine's time and memory against autograd, ``higher`` and ``torchopt``.

May import everything that ``experiments`` may, and the engine's internals.
"""

from anyshot.experiments.engine_benchmark.benchmark import describe_machine, run_benchmark

__all__ = ["describe_machine", "run_benchmark"]
