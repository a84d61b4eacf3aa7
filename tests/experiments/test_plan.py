from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.experiments import Block, Column, Experiment, FigureSpec, Model
from anyshot.experiments.plan import PlanBuilder, make_plan
from anyshot.experiments.scale import PAPER, SHORT


def builder(experiment, scale=PAPER) -> PlanBuilder:
    return PlanBuilder(experiment, scale, Path("out"), None)


@pytest.mark.parametrize(
    ("figure_tasks", "tasks", "expected"),
    [(300, None, (3000, 300, 30)), (5, None, (3000, 5, 2)), (300, 20, (20, 20, 20))],
)
def test_figures_show_fewer_tasks_than_tables(experiment, figure_tasks, tasks, expected):
    built = builder(experiment, replace(PAPER, figure_tasks=figure_tasks, tasks=tasks))
    kinds = ("test", "balance", "distances")
    assert tuple(built.task_count(kind, "any-shot:1-50") for kind in kinds) == expected


def test_measurements_that_adapt_have_fewer_large_tasks(experiment):
    built = builder(experiment, replace(SHORT, figure_tasks=1000))
    found = [built.task_count(kind, "fixed:100") for kind in ("test", "balance", "distances")]
    assert found == [150, 300, 100]


def test_folders_are_named_by_images_model_changes_and_seed(sets):
    changed = Model("x", "maml", change={"alpha": 0.3, "steps": 5})  # 5 is the default
    block = Block("cifar-fs-paper", (Column(sets[0]),), images=sets[:1], shots="fixed:5")
    plan = make_plan(Experiment("e", "e", (changed,), (block,), seeds=2), PAPER, Path("out"))
    folders = [Path(job.folder) for job in plan.jobs]
    assert {folder.parent for folder in folders} == {Path("out/runs")}
    for seed, folder in enumerate(folders):
        assert re.fullmatch(rf"tiny-fixed-5-maml-0\.3-{seed}-[0-9a-f]{{10}}", folder.name)


def test_other_training_sets_have_no_validation_out_of_distribution(experiment, monkeypatch):
    monkeypatch.setattr("anyshot.experiments.plan.is_available", lambda images: True)
    built = builder(experiment)
    (block,) = experiment.blocks
    model = experiment.models[0]
    assert built.training_settings(block, model, 0).ood == ()
    assert built.training_settings(replace(block, images=()), model, 0).ood == ("svhn",)


def test_columns_of_later_blocks_are_numbered_after_those_of_earlier_ones(sets):
    spec = FigureSpec("samples", "S", ("TAML",), values=(1, 5))
    tiny, other = sets
    blocks = (
        Block("cifar-fs-paper", (Column(tiny), Column(other)), images=(tiny,), figures=(spec,)),
        Block("cifar-fs-paper", (Column(other, "fixed:3"),), images=(tiny,), shots="fixed:2"),
    )
    plan = make_plan(Experiment("e", "e", (Model("TAML"),), blocks, seeds=1), PAPER, Path())
    measured = [jobs[0].measurements[0] for jobs in plan.tests.values()]
    assert list(plan.tests) == [("TAML", 0), ("TAML", 1), ("TAML", 2)]
    assert [(one.images, one.task.shots) for one in measured] == [
        (tiny, "any-shot:1-50"),
        (other, "any-shot:1-50"),
        (other, "fixed:3"),
    ]
    ((_, figure_jobs),) = plan.figures
    samples = {
        value: jobs[0].measurements[0].method.all_options()["samples"]
        for (_, _, value), jobs in figure_jobs.items()
    }
    assert samples == {1: 1, 5: 5}
    assert len(plan.jobs) == 2
