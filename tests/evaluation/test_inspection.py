from __future__ import annotations

import pytest
import torch
from support import make_imageset, make_method, make_task

from anyshot.core.errors import RunError
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.inspection import inspect_stream, inspect_task


def posterior(method, task):
    x, y, _, _ = method.task_tensors(task)
    return method.posterior(x, y, task.way)


def test_the_mean_of_gamma_is_that_of_the_log_normal_distribution():
    method = make_method("taml", gains=(1.0, 0.1, 0.03))
    task = make_task()
    record = inspect_task(method, task)
    q = posterior(method, task)
    gain = method.log_gain["gamma"].exp()
    mu = gain * q.mean["gamma"]
    variance = (gain * q.deviation["gamma"]) ** 2
    actual = torch.tensor(record.gamma_mean).double()
    torch.testing.assert_close(actual, (mu + variance / 2).exp(), rtol=0.05, atol=0)
    at_mean = torch.tensor(record.gamma_at_mean).double()
    torch.testing.assert_close(at_mean, mu.exp(), rtol=1e-6, atol=0)


def test_z_is_measured_with_its_gain():
    method = make_method("taml", gains=(1.0, 0.1, 0.03))
    task = make_task()
    record = inspect_task(method, task)
    q = posterior(method, task)
    gain = method.log_gain["z"].exp()
    assert record.z_norm == pytest.approx((gain * q.mean["z"]).norm().item())
    assert record.z_std == pytest.approx((gain * q.deviation["z"]).mean().item())


def test_omega_is_the_inferred_part_and_the_prior_together():
    method = make_method("taml", gains=(0.5, 0.1, 0.03), omega_prior=0.7, bayesian=False)
    task = make_task()
    record = inspect_task(method, task)
    inferred = method.log_gain["omega"].exp() * posterior(method, task).mean["omega"]
    prior = -method.tau * torch.tensor(task.shots).double().log()
    assert len(set(task.shots)) > 1
    assert record.omega_inferred == pytest.approx(inferred.tolist(), abs=1e-6)
    assert record.omega_prior == pytest.approx(prior.tolist())
    assert record.omega_mean == pytest.approx((inferred + prior).softmax(0).tolist())


def test_without_a_prior_by_class_size_everything_is_inferred():
    record = inspect_task(make_method("taml", omega_prior=None), make_task())
    assert record.omega_prior == [0.0] * len(record.shots)
    assert sum(record.omega_mean) == pytest.approx(1)
    assert min(record.omega_std) > 0


def test_a_deterministic_method_has_no_spread_and_switched_off_variables_are_none():
    record = inspect_task(make_method("taml", bayesian=False, balance=("omega",)), make_task())
    assert max(record.omega_std) < 1e-6
    assert record.gamma_mean is record.gamma_at_mean is None
    assert record.z_norm is None


def test_a_method_without_balancing_variables_is_refused():
    stream = TaskStream(make_imageset(), "test", TaskSettings(way=2, shots="fixed:2", query=2))
    with pytest.raises(RunError, match="maml"):
        inspect_stream(make_method("maml"), stream, 1)
    assert [r.index for r in inspect_stream(make_method("taml"), stream, 2)] == [0, 1]


def test_the_record_names_the_layers_of_another_body():
    from anyshot.evaluation.report.balancing_tables import balance_summary

    record = inspect_task(make_method("taml", body="resnet12", channels=2), make_task())
    assert record.layers == ("block 1", "block 2", "block 3", "block 4", "head")
    assert {f"γ {layer}" for layer in record.layers} <= set(balance_summary([record])["gamma"][0])


def test_an_oversampled_support_set_is_inspected_as_the_method_sees_it():
    options = {"omega_prior": 1.0}
    task = make_task(shots="class-imbalance:1-6")
    assert len(set(task.shots)) > 1
    record = inspect_task(make_method("taml", remedy="oversampling", options=options), task)
    plain = inspect_task(make_method("taml", options=options), task)
    assert len(set(record.omega_prior)) == 1  # all classes have the size of the largest
    assert len(set(plain.omega_prior)) > 1
    assert record.shots == plain.shots == task.shots
