"""Where adaptation starts and how far it goes, with z: the t-SNE picture's vectors, and distances to the start."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import map_tasks
from anyshot.core.progress import progress
from anyshot.data.tasks import Task, TaskStream
from anyshot.inner_loop import adapt_many
from anyshot.methods import TAML, Method
from anyshot.methods.balancing import Posterior
from anyshot.models.network import Parameters


@torch.no_grad()
def starts(method: Method, stream: TaskStream, tasks: int) -> list[list[float]]:
    """θ∗E[z] − θ of each task, [tasks, channels]: weights by their length, so that distances are those of θ∗E[z].

    A weight's channel c moves along itself, by z̃_c θ_c, whose coordinate is z̃_c ‖θ_c‖; biases move by z̃.
    """
    method, found = _with_z(method), []
    with progress(f"Looking at starts on {stream.imagesets[0].name}", tasks) as advance:
        for index in range(tasks):
            task = stream.task(index)
            phi = method.apply_gains_and_priors(
                _posterior(method, task).mean, torch.tensor(task.shots).to(method.reference_tensor)
            )
            z = phi["z"].split([u.channels for u in method.body.layers for _ in range(2)])
            lengths = [
                method.theta[unit.weight].flatten(1).norm(dim=1) for unit in method.body.layers
            ]
            moves = [
                part
                for w, b, size in zip(z[::2], z[1::2], lengths, strict=True)
                for part in (w * size, b)
            ]
            found.append(torch.cat(moves).tolist())
            advance()
    return found


@torch.no_grad()
def distances(
    method: Method, stream: TaskStream, tasks: int, samples: int, workers: int | None = None
) -> list[dict[str, float]]:
    """‖E[θ_0] − θ^τ‖ of each task, adapted from E[z] ("without" its variance), and for the mean over samples of what is
    adapted from each ("with"): of all parameters, and of the "body" alone."""
    method = _with_z(method)

    def one(index: int) -> dict[str, float]:
        task = stream.task(index)
        q, noise = _posterior(method, task), task.noise()
        phis = [q.mean, *(q.sample(noise) for _ in range(samples))]
        support, labels, _, _ = method.task_tensors(task)
        members = [
            method.inner_problem(support, labels, task.way, phi, method.settings.test_steps)
            for phi in phis
        ]
        mean, *drawn = adapt_many(
            members, rule=lambda inner: method.adapted_parameters(inner, order=0)
        )
        start, average = (
            members[0].theta,
            {k: torch.stack([t[k] for t in drawn]).mean(0) for k in mean},
        )
        body = list(method.theta)
        found = {"without": (mean, list(mean)), "with": (average, list(mean)),
                 "without, body": (mean, body), "with, body": (average, body)}  # fmt: skip
        advance()
        return {name: _distance(start, theta, keys) for name, (theta, keys) in found.items()}

    with progress(f"Measuring distances on {stream.imagesets[0].name}", tasks) as advance:
        return map_tasks(one, range(tasks), workers)


def _with_z(method: Method) -> TAML:
    if not isinstance(method, TAML) or "z" not in method.settings.balance:
        raise AnyshotError(
            f"{method.name} has no z to look at; take a model of taml whose balance has it."
        )
    return method


def _posterior(method: TAML, task: Task) -> Posterior:
    assert method.encoder is not None  # z is on
    return method.encoder(
        method.to_input(task.support),
        task.support_labels.to(method.reference_tensor.device),
        task.way,
    )


def _distance(one: Parameters, two: Parameters, names: Sequence[str]) -> float:
    return torch.cat([(one[name] - two[name]).flatten() for name in names]).norm().item()
