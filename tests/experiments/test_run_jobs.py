from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.experiments import run_jobs as module
from anyshot.experiments.cost import seconds
from anyshot.experiments.measurement import cached, summary_of
from anyshot.experiments.plan import make_plan
from anyshot.experiments.run_jobs import run_jobs


def test_a_unit_that_fails_leaves_the_others_alone(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = make_plan(experiment, tiny_scale, tmp_path)
    run_unit, (first, second) = module.run_job, plan.units

    def failing(unit, workers, command):
        if unit == first:
            raise AnyshotError("The loss is no longer finite.")
        run_unit(unit, workers, command)

    monkeypatch.setattr(module, "run_job", failing)
    assert run_jobs(plan.units) == {first.folder: "The loss is no longer finite."}
    assert cached(second.folder, second.probes[0]) is not None


def test_an_interrupt_ends_the_grid(experiment, tiny_scale, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(make_plan(experiment, tiny_scale, tmp_path).units)


def test_a_process_of_its_own_finds_the_same(experiment, tiny_scale, tmp_path):
    plans = [make_plan(experiment, tiny_scale, tmp_path / name) for name in ("here", "there")]
    assert [run_jobs(plan.units[:1], jobs) for plan, jobs in zip(plans, (1, 2), strict=True)] == [
        {},
        {},
    ]
    one, two = (summary_of(cached(*plan.tests["MAML", 0][0])) for plan in plans)
    assert one.scores == two.scores


def test_what_takes_longest_comes_first(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = make_plan(experiment, tiny_scale, tmp_path)
    begun = []
    monkeypatch.setattr(
        module, "run_job", lambda unit, workers, command: begun.append(seconds(unit))
    )
    run_jobs(plan.units)
    assert len(set(begun)) > 1
    assert begun == sorted(begun, reverse=True)
    assert [seconds(unit) for unit in plan.units] != begun
