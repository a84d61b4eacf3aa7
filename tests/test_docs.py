"""The Python code of docs/extend.md and docs/experiments.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
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
