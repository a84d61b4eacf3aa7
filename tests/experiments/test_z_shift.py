from __future__ import annotations

import numpy as np
import pytest
import torch
from support import make_imageset, make_method

from anyshot.core.errors import SettingsError
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.experiments.z_shift import adaptation_distances, initial_shifts
from anyshot.methods.balancing import apply_z


@pytest.fixture
def stream():
    return TaskStream(make_imageset(), "test", TaskSettings(way=3, shots="fixed:2", query=2))


def taml(**options: object):
    return make_method(
        "taml", balance=("z",), gains=(1.0, 1.0, 0.3), test_steps=2, alpha=0.05, **options
    )


def means(method, task):
    """The posterior of a task, and the means that act on it."""
    q = method.posterior(method.to_input(task.support), task.support_labels, task.way)
    return q, method.apply_gains_and_priors(
        q.mean, torch.tensor(task.shots).to(method.reference_tensor)
    )


@pytest.mark.parametrize("evidence", [False, True])
def test_distances_between_shifts_are_those_between_modulated_parameters(stream, evidence):
    method = taml(evidence=evidence)
    shifts = np.array(initial_shifts(method, stream, 3))
    thetas = []
    with torch.no_grad():
        for index in range(3):
            _, phi = means(method, stream.task(index))
            theta, _ = apply_z(dict(method.theta), method.norm, phi, method.body)
            thetas.append(torch.cat([value.flatten() for value in theta.values()]).numpy())
        start = torch.cat([value.flatten() for value in method.theta.values()]).numpy()
    for one, two in ((0, 1), (1, 2)):
        expected = np.linalg.norm(thetas[one] - thetas[two])
        assert np.linalg.norm(shifts[one] - shifts[two]) == pytest.approx(expected)
    assert np.linalg.norm(shifts[0]) == pytest.approx(np.linalg.norm(thetas[0] - start))


def test_distances_equal_those_of_the_update_rule(stream):
    method = taml()
    (distances,) = adaptation_distances(method, stream, 1, samples=3)
    task = stream.task(0)
    x, y, _, _ = method.task_tensors(task)
    q, _ = means(method, task)
    noise = task.noise()
    inners = [
        method.inner_problem(x, y, 3, phi, 2)
        for phi in (q.mean, *(q.sample(noise) for _ in range(3)))
    ]
    with torch.no_grad():
        adapted = [method.adapted_parameters(inner, order=0) for inner in inners]
    start = inners[0].theta

    def distance(theta, names) -> float:
        return sum(((theta[name] - start[name]) ** 2).sum() for name in names).sqrt().item()

    average = {name: sum(theta[name] for theta in adapted[1:]) / 3 for name in start}
    assert distances["without"] == pytest.approx(distance(adapted[0], start))
    assert distances["with"] == pytest.approx(distance(average, start))
    assert distances["with, body"] == pytest.approx(distance(average, method.theta))
    assert distances["without, body"] < distances["without"]


def test_a_method_without_z_is_refused(stream):
    with pytest.raises(SettingsError, match="maml"):
        initial_shifts(make_method("maml"), stream, 1)
    with pytest.raises(SettingsError, match="taml"):
        adaptation_distances(make_method("taml", balance=("omega",)), stream, 1, 2)
