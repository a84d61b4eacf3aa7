"""The posterior of the balancing variables ω, γ and z for a set of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyshot.core.errors import RunError
from anyshot.core.progress import progress
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods import TAML, Ensemble, Method
from anyshot.methods.balancing import gamma_names
from anyshot.methods.posterior import Posterior

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import RunOnSet

DRAWS = 200  #: posterior samples behind each mean and standard deviation


@dataclass(frozen=True)
class BalanceRecord:
    """The balancing variables of one task of C classes, with L layers in the network.

    The numbers describe what the variables do, so they include the learned gains. A variable that
    is switched off is ``None``.

    Attributes
    ----------
    imageset : str
        Name of the image set.
    index : int
        Number of the task in its stream.
    shots : tuple of int, length C
        Support images of each class.
    omega_mean, omega_std : list of float, length C
        Posterior mean and standard deviation of the class weights ω = softmax(ω̃ − τ log N), which
        sum to 1. They combine the two parts that follow.
    omega_inferred : list of float, length C
        E[ω̃_c], the part of log ω that the encoder inferred from the images.
    omega_prior : list of float, length C
        −τ log N_c, the part of log ω that follows from the class size alone; 0 without the prior.
    gamma_mean, gamma_std : list of float, length L
        Posterior mean and standard deviation of the step-size multipliers γ = exp(γ̃). A wide
        posterior raises this mean above ``gamma_at_mean``.
    gamma_at_mean : list of float, length L
        exp(E[γ̃]), the multipliers at the posterior mean, which naive prediction uses.
    z_norm : float
        ‖E[z̃]‖, the size of the shift of the initialisation.
    z_std : float
        Mean posterior standard deviation of the elements of z̃.
    layers : tuple of str, length L
        Names of the layers that γ belongs to.
    """

    imageset: str
    index: int
    shots: tuple[int, ...]
    layers: tuple[str, ...]
    omega_mean: list[float] | None = None
    omega_std: list[float] | None = None
    omega_inferred: list[float] | None = None
    omega_prior: list[float] | None = None
    gamma_mean: list[float] | None = None
    gamma_std: list[float] | None = None
    gamma_at_mean: list[float] | None = None
    z_norm: float | None = None
    z_std: float | None = None


@torch.no_grad()
def inspect_task(method: Method, task: Task) -> BalanceRecord:
    """Compute the posterior of the balancing variables for one task.

    The moments of ω and γ are taken over samples, because both are nonlinear in the Gaussian
    variables ω̃ and γ̃.

    Parameters
    ----------
    method : Method
        A TAML method with at least one balancing variable.
    task : Task
        The task; only its support set is used.

    Returns
    -------
    BalanceRecord

    Raises
    ------
    RunError
        If the method has no balancing variables.

    Examples
    --------
    >>> import anyshot
    >>> method = anyshot.create_method(anyshot.MethodSettings(name="taml"))
    >>> stream = anyshot.TaskStream(anyshot.open_images("digits"), "test", anyshot.TaskSettings())
    >>> record = anyshot.inspect_task(method, stream.task(0))
    >>> record.imageset, record.layers
    ('digits', ('conv 1', 'conv 2', 'conv 3', 'conv 4', 'head'))
    >>> round(sum(record.omega_mean), 3)
    1.0
    """
    if isinstance(method, Ensemble):
        raise RunError(
            "The members of an ensemble have their own balancing variables; inspect one."
        )
    if not isinstance(method, TAML) or method.encoder is None:
        raise RunError(f"{method.name} has no balancing variables; inspect a run of taml.")
    noise = task.noise()
    images, labels = method.to_input(task.support), task.support_labels
    images, labels = method.remedy.resample(images, labels.to(images.device), noise)
    q = method.posterior(images, labels, task.way)  # as in Method.adapt
    assert q is not None
    if not method.options.bayesian:
        q = Posterior(q.mean, {name: torch.zeros_like(std) for name, std in q.deviation.items()})
    shots = torch.bincount(labels, minlength=task.way).to(method.reference_tensor)
    values: dict[str, list[float] | float] = {}
    draws = [method.apply_gains_and_priors(q.sample(noise), shots) for _ in range(DRAWS)]
    samples = {name: torch.stack([draw[name] for draw in draws]) for name in q.mean}
    at_mean = method.apply_gains_and_priors(q.mean, shots)
    if "omega" in q.mean:
        values["omega_mean"], values["omega_std"] = _moments(samples["omega"].softmax(1))
        without_images = {"omega": torch.zeros_like(q.mean["omega"])}
        prior = method.apply_gains_and_priors(without_images, shots)["omega"]
        values["omega_inferred"] = (at_mean["omega"] - prior).tolist()
        values["omega_prior"] = prior.tolist()
    if "gamma" in q.mean:
        values["gamma_mean"], values["gamma_std"] = _moments(samples["gamma"].exp())
        values["gamma_at_mean"] = at_mean["gamma"].exp().tolist()
    if "z" in q.mean:
        values["z_norm"] = at_mean["z"].norm().item()
        values["z_std"] = method.apply_gains_and_priors(q.deviation, shots)["z"].mean().item()
    layers = gamma_names(method.body, method.settings.adapt_body)
    return BalanceRecord(task.imageset, int(task.seed[-1]), task.shots, layers, **values)  # type: ignore[arg-type]


def inspect_stream(method: Method, stream: TaskStream, tasks: int) -> list[BalanceRecord]:
    """Inspect the first tasks of a stream and show progress.

    Parameters
    ----------
    method : Method
        A TAML method with at least one balancing variable.
    stream : TaskStream
        Where the tasks come from.
    tasks : int
        Number of tasks.

    Returns
    -------
    list of BalanceRecord
        One record for each task, in the order of the stream.

    Examples
    --------
    >>> import anyshot
    >>> method = anyshot.create_method(anyshot.MethodSettings(name="taml"))
    >>> stream = anyshot.TaskStream(anyshot.open_images("digits"), "test", anyshot.TaskSettings())
    >>> [record.index for record in anyshot.inspect_stream(method, stream, tasks=2)]
    [0, 1]
    """
    names = ", ".join(imageset.name for imageset in stream.imagesets)
    records = []
    with progress(f"Inspecting tasks of {names}", tasks) as advance:
        for index in range(tasks):
            records.append(inspect_task(method, stream.task(index)))
            advance()
    return records


def inspect_runs(trials: Sequence[RunOnSet], tasks: int) -> list[BalanceRecord]:
    """Inspect the first ``tasks`` tasks of each run on each image set."""
    return [
        record for trial in trials for record in inspect_stream(trial.method, trial.stream, tasks)
    ]


def _moments(samples: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation over the first axis."""
    return samples.mean(0).tolist(), samples.std(0).tolist()
