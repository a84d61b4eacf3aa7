"""``anyshot bench``: time and memory against autograd, torch.func, ``higher`` and ``torchopt``.

May import everything that ``experiments`` may, and the engine's internals.
"""

from anyshot.experiments.engine_benchmark.benchmark import run_benchmark
from anyshot.experiments.engine_benchmark.measure import describe_machine
from anyshot.experiments.engine_benchmark.network_benchmark import run_network_benchmark

__all__ = ["describe_machine", "run_benchmark", "run_network_benchmark"]
