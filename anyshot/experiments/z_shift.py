"""How z shifts the initial parameters of a task, and how far adaptation moves from there."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyshot.core.errors import SettingsError
from anyshot.core.parallel.threads import map_tasks
from anyshot.core.progress import progress
from anyshot.data.tasks import Task, TaskStream
from anyshot.inner_loop import adapt_many
from anyshot.methods import TAML, Method
from anyshot.methods.posterior import Posterior
from anyshot.models.network import Parameters


@torch.no_grad()
def initial_shifts(method: Method, stream: TaskStream, tasks: int) -> list[list[float]]:
    """θ∗E[z] − θ of each task, [tasks, coordinates], such that distances are those of θ∗E[z].

    Channel c of a weight moves along itself by z̃_c θ_c, so its one coordinate is z̃_c ‖θ_c‖. A
    bias moves by z̃.
    """
    taml = _require_z(method)
    layers = taml.body.layers
    norms = [taml.theta[layer.weight].flatten(1).norm(dim=1) for layer in layers]
    shifts = []
    with progress(f"Initial parameters on {stream.imagesets[0].name}", tasks) as advance:
        for index in range(tasks):
            task = stream.task(index)
            sizes = torch.tensor(task.shots).to(taml.reference_tensor)
            phi = taml.apply_gains_and_priors(_posterior(taml, task).mean, sizes)
            parts = phi["z"].split([layer.channels for layer in layers for _ in range(2)])
            coordinates = []
            for weight, bias, norm in zip(parts[::2], parts[1::2], norms, strict=True):
                coordinates += [weight * norm, bias]
            shifts.append(torch.cat(coordinates).tolist())
            advance()
    return shifts


@torch.no_grad()
def adaptation_distances(
    method: Method, stream: TaskStream, tasks: int, samples: int, workers: int | None = None
) -> list[dict[str, float]]:
    """‖E[θ_0] − θ^τ‖ of each task.

    "without": θ^τ is adapted from E[z]. "with": θ^τ is the mean over samples of z, each adapted.
    Both for all parameters, and for the body alone.
    """
    taml = _require_z(method)

    def measure(index: int) -> dict[str, float]:
        task = stream.task(index)
        posterior = _posterior(taml, task)
        noise = task.noise()
        phis = [posterior.mean, *(posterior.sample(noise) for _ in range(samples))]
        support, labels, _, _ = taml.task_tensors(task)
        problems = [
            taml.inner_problem(support, labels, task.way, phi, taml.settings.test_steps)
            for phi in phis
        ]
        without, *sampled = adapt_many(
            problems, rule=lambda problem: taml.adapted_parameters(problem, order=0)
        )
        average = {name: torch.stack([t[name] for t in sampled]).mean(0) for name in without}
        start = problems[0].theta
        body = list(taml.theta)
        advance()
        return {
            "without": _distance(start, without, list(without)),
            "with": _distance(start, average, list(without)),
            "without, body": _distance(start, without, body),
            "with, body": _distance(start, average, body),
        }

    with progress(f"Distances on {stream.imagesets[0].name}", tasks) as advance:
        return map_tasks(measure, range(tasks), workers)


def _require_z(method: Method) -> TAML:
    if not isinstance(method, TAML) or "z" not in method.options.balance:
        raise SettingsError(f"{method.name} has no z; use a model of taml whose balance has z.")
    return method


def _posterior(method: TAML, task: Task) -> Posterior:
    labels = task.support_labels.to(method.reference_tensor.device)
    posterior = method.posterior(method.to_input(task.support), labels, task.way)
    assert posterior is not None  # z is on
    return posterior


def _distance(one: Parameters, two: Parameters, names: Sequence[str]) -> float:
    return torch.cat([(one[name] - two[name]).flatten() for name in names]).norm().item()
