"""Many runs at once: in processes of this machine, or on the nodes of a Ray cluster.

Each job of a grid keeps its results in its own folder and resumes from there. So a worker that
dies is replaced, and an interrupted grid continues when the same command is run again. This
package may import ``core`` only.
"""

from __future__ import annotations

from anyshot.experiments.launch.grid import run_grid
from anyshot.experiments.launch.progress import show_progress
from anyshot.experiments.launch.worker import JobResult

__all__ = ["JobResult", "run_grid", "show_progress"]
