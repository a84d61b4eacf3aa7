"""The Python code of docs/extend.md, docs/experiments.md and docs/any_module.md runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from support import make_imageset, make_task

from anyshot.core.settings import MethodSettings, TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.experiments.reproduce import Request, find_experiment, reproduce
from anyshot.methods import create_method


def blocks(page: str, path: Path) -> str:
    """Write all Python blocks of a page to one file and return its path."""
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    path.write_text(
        "\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf-8"
    )
    return str(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    return blocks("extend.md", tmp_path_factory.mktemp("docs") / "my_file.py")


def test_method_and_body_of_the_page_are_used_by_their_import_paths(file):
    settings = MethodSettings(
        name=f"{file}:Momentum", options={"memory": 0.25}, body=f"{file}:perceptron", channels=8
    )
    method, task = create_method(settings, (16, 16)), make_task(way=2)
    assert method.memory.item() == 0.25
    torch.testing.assert_close(method.predict(task).sum(1), torch.ones(len(task.query)))


def test_statistic_shot_rule_and_metric_of_the_page_are_used_by_their_import_paths(file):
    settings = MethodSettings(
        channels=4,
        test_steps=1,
        options={"statistics": ("mean", f"{file}:largest"), "samples": 1},
    )
    stream = TaskStream(
        make_imageset(), "test", TaskSettings(way=3, shots=f"{file}:long_tail:1-8", query=2)
    )
    assert np.array_equal(stream.task(0).shots, [8, 4, 2])
    summary = evaluate(
        create_method(settings, (16, 16)), stream, 2, metrics=(f"{file}:confidence",)
    )
    assert 1 / 3 <= summary.extra["confidence"] <= 1


def test_experiment_of_the_page_runs(tmp_path):
    experiment = find_experiment(blocks("experiments.md", tmp_path / "my_experiment.py"))
    outcome = reproduce(Request(experiment, "smoke", tmp_path))
    assert [figure.name for figure in outcome.figures] == ["omega", "training"]
    assert all(cell.summary for cell in outcome.comparison.cells.values())


def test_inner_loop_of_the_page_learns_its_step_size(tmp_path):
    page = runpy.run_path(blocks("any_module.md", tmp_path / "page.py"))
    assert page["body"].width == 8 * 7 * 7
    assert page["rate"].item() != pytest.approx(0.01)


@pytest.mark.parametrize("transductive", [True, False])
def test_ridge_of_the_page_is_the_solution_and_works_with_its_module(file, transductive):
    settings = MethodSettings(
        name=f"{file}:Ridge", body=f"{file}:SmallNet", channels=4, transductive=transductive
    )
    method, task = create_method(settings, (16, 16)).double(), make_task(way=2)
    loss = method.objective(task).loss
    assert loss.item() == method.objective(task).loss.item()
    gradients = torch.autograd.grad(loss, list(method.parameters()), allow_unused=True)
    assert method.log_lambda.requires_grad
    assert all(g is not None and g.isfinite().all() for g in gradients)
    support, labels, query, _ = method.task_tensors(task)
    x = method.embed(support).detach()
    sklearn = Ridge(alpha=1.0, fit_intercept=False)
    weight = sklearn.fit(x.numpy(), np.eye(2)[labels.numpy()]).coef_.T
    reference = None if transductive else support
    expected = (method.embed(query, reference=reference).detach() @ torch.tensor(weight)).softmax(1)
    torch.testing.assert_close(method.predict(task), expected)
