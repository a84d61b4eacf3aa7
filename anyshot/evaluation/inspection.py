"""What ω, γ and z did: the posterior of the balancing variables for a set of tasks, as they act."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.progress import progress
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods import TAML, Method
from anyshot.methods.balancing import Posterior
from anyshot.models.bodies.conv4 import conv4

DRAWS = 200  #: samples of the posterior behind each mean and deviation


@dataclass(frozen=True)
class BalanceRecord:
    """One task's balancing variables; ``None`` for those that are off."""

    imageset: str
    index: int
    shots: tuple[int, ...]  #: support images of each class
    omega_mean: list[float] | None  #: ω_c, each class
    omega_std: list[float] | None
    gamma_mean: list[float] | None  #: γ_l of each layer
    gamma_std: list[float] | None
    z_norm: float | None  #: ‖E z̃‖, as it acts
    z_std: float | None  #: mean posterior deviation of z̃, as it acts
    layers: tuple[str, ...] = tuple(conv4((32, 32)).layer_parameters)  #: what γ's layers are called


@torch.no_grad()
def inspect_task(method: Method, task: Task) -> BalanceRecord:
    """The posterior of one task, by sampling: ω and γ are not linear in what is Gaussian."""
    if not isinstance(method, TAML) or method.encoder is None:
        raise AnyshotError(
            f"{method.name} has no balancing variables to look at; inspect a run of taml."
        )
    q = method.encoder(
        method.to_input(task.support),
        task.support_labels.to(method.reference_tensor.device),
        task.way,
    )
    if not method.settings.bayesian:
        q = Posterior(q.mean, {k: torch.zeros_like(v) for k, v in q.deviation.items()})
    noise, shots = task.noise(), torch.tensor(task.shots).to(method.reference_tensor)
    draws = [method.apply_gains_and_priors(q.sample(noise), shots) for _ in range(DRAWS)]
    samples: dict[str, Tensor] = {k: torch.stack([d[k] for d in draws]) for k in q.mean}
    omega, gamma = samples.get("omega"), samples.get("gamma")
    omega_mean, omega_std = _moments(omega.softmax(1)) if omega is not None else (None, None)
    gamma_mean, gamma_std = _moments(gamma.exp()) if gamma is not None else (None, None)
    z, spread = (method.apply_gains_and_priors(of, shots).get("z") for of in (q.mean, q.deviation))
    return BalanceRecord(
        task.imageset, int(task.seed[-1]), task.shots, omega_mean, omega_std, gamma_mean, gamma_std,
        None if z is None else z.norm().item(), None if spread is None else spread.mean().item(),
        tuple(method.body.layer_parameters),
    )  # fmt: skip


def inspect_stream(method: Method, stream: TaskStream, tasks: int) -> list[BalanceRecord]:
    """The stream's first ``tasks`` tasks; progress is shown."""
    names, records = ", ".join(imageset.name for imageset in stream.imagesets), []
    with progress(f"Looking at tasks of {names}", tasks) as advance:
        for index in range(tasks):
            records.append(inspect_task(method, stream.task(index)))
            advance()
    return records


def _moments(samples: Tensor) -> tuple[list[float], list[float]]:
    return samples.mean(0).tolist(), samples.std(0).tolist()
