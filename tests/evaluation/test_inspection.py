import pytest
import torch
from support import make_imageset, make_method, make_task

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.inspection import inspect_stream, inspect_task


def test_a_record_holds_what_the_posterior_says():
    method, task = make_method("taml", gains=(1.0, 0.1, 0.03)), make_task()
    record = inspect_task(method, task)
    x, y, _, _ = method.task_tensors(task)
    q = method.posterior(x, y, task.way)
    assert record.shots == task.shots
    assert sum(record.omega_mean) == pytest.approx(1)
    # log-normal mean and deviation of γ = exp(gain · γ̃)
    gain = method.log_gain["gamma"].exp()
    mu, var = gain * q.mean["gamma"], (gain * q.deviation["gamma"]) ** 2
    torch.testing.assert_close(
        torch.tensor(record.gamma_mean).double(), (mu + var / 2).exp(), rtol=0.05, atol=0
    )
    assert record.z_norm == pytest.approx((method.log_gain["z"].exp() * q.mean["z"]).norm().item())
    assert min(record.omega_std) > 0


def test_a_deterministic_method_has_no_spread_and_switched_off_variables_are_none():
    record = inspect_task(make_method("taml", bayesian=False, balance=("omega",)), make_task())
    assert max(record.omega_std) < 1e-6
    assert record.gamma_mean is None
    assert record.z_norm is None


def test_a_method_without_balancing_variables_says_so():
    stream = TaskStream(make_imageset(), "test", TaskSettings(way=2, shots="fixed:2", query=2))
    with pytest.raises(AnyshotError, match="maml has no balancing variables"):
        inspect_stream(make_method("maml"), stream, 1)
    assert [r.index for r in inspect_stream(make_method("taml"), stream, 2)] == [0, 1]


def test_the_layers_of_another_body_go_by_their_own_names():
    from anyshot.evaluation.report.balancing_tables import balance_summary

    record = inspect_task(make_method("taml", body="resnet12", channels=2), make_task())
    assert record.layers == ("block 1", "block 2", "block 3", "block 4", "head")
    assert {f"γ {layer}" for layer in record.layers} <= set(balance_summary([record])["gamma"][0])
