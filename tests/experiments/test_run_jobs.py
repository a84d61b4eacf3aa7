from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.experiments import run_jobs as grids
from anyshot.experiments.cost import seconds
from anyshot.experiments.measurement import known, summary_of
from anyshot.experiments.plan import planned
from anyshot.experiments.run_jobs import run_units


def test_a_unit_that_fails_leaves_the_others_alone(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = planned(experiment, tiny_scale, tmp_path)
    run_unit, (first, second) = grids.run_unit, plan.units

    def failing(unit, workers, command):
        if unit == first:
            raise AnyshotError("The loss is no longer finite.")
        run_unit(unit, workers, command)

    monkeypatch.setattr(grids, "run_unit", failing)
    assert run_units(plan.units) == {first.folder: "The loss is no longer finite."}
    assert known(second.folder, second.probes[0]) is not None


def test_an_interrupt_ends_the_grid(experiment, tiny_scale, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(grids, "run_unit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_units(planned(experiment, tiny_scale, tmp_path).units)


def test_a_process_of_its_own_finds_the_same(experiment, tiny_scale, tmp_path):
    plans = [planned(experiment, tiny_scale, tmp_path / name) for name in ("here", "there")]
    assert [run_units(plan.units[:1], jobs) for plan, jobs in zip(plans, (1, 2), strict=True)] == [{}, {}]
    one, two = (summary_of(known(*plan.tests["MAML", 0][0])) for plan in plans)
    assert one.scores == two.scores


def test_what_takes_longest_comes_first(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = planned(experiment, tiny_scale, tmp_path)
    begun = []
    monkeypatch.setattr(grids, "run_unit", lambda unit, workers, command: begun.append(seconds(unit)))
    run_units(plan.units)
    assert len(set(begun)) > 1
    assert begun == sorted(begun, reverse=True)
    assert [seconds(unit) for unit in plan.units] != begun
