"""The benchmark on any network: equal gradients, memory without growth, all figures there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import typer
from typer.testing import CliRunner

from anyshot.cli.bench import bench as command
from anyshot.experiments.engine_benchmark import libraries, network_benchmark
from anyshot.experiments.engine_benchmark.cases import Case, make_tasks, network_cases
from anyshot.experiments.engine_benchmark.libraries import missing_libraries
from anyshot.experiments.engine_benchmark.measure import Mode, measure_peak_memory
from anyshot.experiments.engine_benchmark.network_contestants import NETWORK_CONTESTANTS
from anyshot.experiments.engine_benchmark.networks import NETWORKS

pytestmark = pytest.mark.filterwarnings("ignore")  # higher and torchopt deprecate


def double_task(network):
    case = Case(network, 16, (5,), steps=3, channels=4, network=network)
    [task] = make_tasks(case)
    support, query = task.support.double(), task.query[:10].double()
    return replace(
        task,
        network=task.network.double(),
        support=support,
        query=query,
        query_labels=task.query_labels[:10],
    )


def test_the_networks_are_those_that_the_docs_describe():
    assert [(case.network, case.supports, case.steps) for case in network_cases()] == [
        ("ResNet-12", (25,), 5),
        ("vision transformer", (25,), 5),
    ]
    for case in network_cases():
        [task] = make_tasks(case)
        kinds = [type(m).__name__ for m in task.network.modules()]
        convolutions = kinds.count("Conv2d")
        assert (convolutions, kinds.count("Linear")) == {
            "ResNet-12": (16, 1),
            "vision transformer": (1, 17),
        }[case.network]
        assert len(task.query) == 75


@pytest.mark.parametrize("name", NETWORK_CONTESTANTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_contestants_compute_the_gradient_of_plain_autograd(network, name):
    if name in missing_libraries():
        pytest.skip(f"{name} is not installed")
    task = double_task(network)
    before = {key: value.clone() for key, value in task.network.state_dict().items()}
    loss, gradients = NETWORK_CONTESTANTS[name](task)
    start = dict(task.network.named_parameters())
    theta = start
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for _ in range(task.steps):
            scores = torch.func.functional_call(task.network, theta, (task.support,))
            value = torch.nn.functional.cross_entropy(scores, task.support_labels)
            g = torch.autograd.grad(value, list(theta.values()), create_graph=True)
            theta = {n: p - 0.01 * d for (n, p), d in zip(theta.items(), g, strict=True)}
        scores = torch.func.functional_call(task.network, theta, (task.query,))
        expected = torch.nn.functional.cross_entropy(scores, task.query_labels)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for left, right in zip(
        gradients, torch.autograd.grad(expected, list(start.values())), strict=True
    ):
        assert (left - right).abs().max() <= 1e-10 * right.abs().max().clamp_min(1e-3)
    assert all(torch.equal(v, before[k]) for k, v in task.network.state_dict().items())


def test_memory_of_loss_gradient_does_not_grow_with_the_activations_of_the_steps():
    mode = Mode("channels-first", 1)
    case = Case("t", 32, (25,), steps=2, channels=16, network="vision transformer")
    few, many = (
        measure_peak_memory("loss_gradient", replace(case, steps=steps), mode) for steps in (2, 8)
    )
    assert many < 1.5 * few
    assert many < 0.5 * measure_peak_memory("torch.func", replace(case, steps=8), mode)


def test_the_command_prints_a_table_of_each_network_and_writes_json(monkeypatch, tmp_path):
    monkeypatch.setattr(
        network_benchmark,
        "network_cases",
        lambda quick: [Case("tiny", 16, (5,), steps=1, channels=4, network="ResNet-12")],
    )
    monkeypatch.setattr(
        network_benchmark,
        "measure_peak_memory",
        lambda name, case, mode: 10.0 if name == "loss_gradient" else 40.0,
    )
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    app = typer.Typer()
    app.command()(command)
    path = tmp_path / "bench.json"
    done = CliRunner().invoke(app, ["--quick", "--part", "networks", "--json", str(path)])
    assert done.exit_code == 0, done.output
    assert "torch.func" in done.output
    assert "anyshot[bench]" in done.output
    results = json.loads(path.read_text())["networks"]
    assert list(results["cases"]["tiny"]["contestants"]) == ["loss_gradient", "torch.func"]
    assert results["cases"]["tiny"]["memory_ratio"]["torch.func"] == {"1": 0.25}
    assert results["cases"]["tiny"]["speedup"]["torch.func"] > 0
