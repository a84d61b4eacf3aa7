from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.experiments import job as units
from anyshot.experiments import measurement
from anyshot.experiments.cost import done
from anyshot.experiments.job import merge_jobs, run_job, stages
from anyshot.experiments.measurement import cached, summary_of
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import scale_of
from anyshot.runs.run import Run
from anyshot.training.meta_training import MetaTraining


@pytest.fixture
def grid(experiment, tiny_scale, tmp_path):
    return make_plan(experiment, tiny_scale, tmp_path)


def test_models_that_differ_in_tests_alone_share_their_run(grid):
    maml, taml = grid.units
    assert [len(maml.probes), len(taml.probes)] == [2, 4]
    assert grid.tests["TAML", 0][0].folder == grid.tests["TAML, naive", 0][0].folder == taml.folder


def test_a_unit_is_trained_and_measured_and_says_how_far_it_is(grid):
    unit = pickle.loads(pickle.dumps(grid.units[1]))
    assert done(unit) == 0
    run_job(unit)
    assert done(unit) == 1
    (asked,) = grid.tests["TAML, naive", 0]
    run = Run(unit.folder)
    stream = TaskStream(run.imageset(asked.probe.images), "test", asked.probe.task)
    expected = evaluate(run.load_method(), stream, asked.probe.tasks, prediction="naive")
    found = summary_of(cached(*asked))
    assert found.scores == expected.scores
    assert (found.accuracy, found.interval, found.ece) == (
        expected.accuracy,
        expected.interval,
        expected.ece,
    )


def test_what_was_measured_is_not_measured_again_unless_parameters_or_images_change(
    grid, sets, monkeypatch
):
    unit = grid.units[0]
    run_job(unit)
    probe = unit.probes[0]
    calls = []
    monkeypatch.setitem(
        measurement.KINDS, "test", lambda *arguments: calls.append(1) or {"scores": []}
    )
    monkeypatch.setattr(units, "train", None)
    run_job(unit)
    assert calls == []
    Run(unit.folder).best_path.write_bytes(Run(grid.units[0].folder).best_path.read_bytes() + b" ")
    assert cached(unit.folder, probe) is None


def test_a_setting_of_a_later_version_changes_no_name_and_no_answer(grid):
    unit = grid.units[0]
    run_job(unit)
    (path,) = [measurement.cache_path(unit.folder, probe) for probe in unit.probes[:1]]
    value = json.loads(path.read_text())
    del value["probe"]["method"]["zeta"]  # as if written before there was one
    path.write_text(json.dumps(value))
    assert cached(unit.folder, unit.probes[0]) is not None
    value["probe"]["method"]["head_scale"] = 0.5  # as if that had been the default
    path.write_text(json.dumps(value))
    assert cached(unit.folder, unit.probes[0]) is None


def test_a_run_made_with_other_defaults_is_not_taken_for_this_one(grid):
    unit = grid.units[0]
    run_job(unit)
    path = Path(unit.folder) / "run.json"
    about = json.loads(path.read_text())
    about["settings"]["method"]["head_scale"] = 0.5
    path.write_text(json.dumps(about))
    shutil.rmtree(Path(unit.folder) / "measured")
    with pytest.raises(AnyshotError, match="other defaults"):
        run_job(unit)


def test_an_interrupted_unit_goes_on_to_the_same_numbers(
    grid, experiment, tiny_scale, tmp_path, monkeypatch
):
    whole = make_plan(experiment, tiny_scale, tmp_path / "whole")
    run_job(whole.units[0])
    step, steps = MetaTraining.step, []

    def interrupted(self):
        steps.append(1)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(MetaTraining, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_job(grid.units[0])
    assert 0 < done(grid.units[0]) < 1
    run_job(grid.units[0])
    one, two = (summary_of(cached(*g.tests["MAML", 1][0])) for g in (grid, whole))
    assert one.scores == two.scores


def test_warm_starts_come_first_and_units_of_one_folder_are_one(grid, experiment, tmp_path):
    from anyshot.experiments.scale import SHORT

    units = make_plan(experiment, SHORT, tmp_path).units
    assert [[unit.first for unit in wave] for wave in stages(list(reversed(units)))] == [
        [True],
        [False, False],
    ]
    assert merge_jobs([*units, *units]) == list(units)
    assert [len(wave) for wave in stages(grid.units)] == [2]


def test_large_tasks_are_tested_less_often_but_looked_at_as_often_as_others(experiment):
    scale = scale_of("short")
    assert scale.tasks_of(experiment, "fixed:400") < scale.tasks_of(experiment, "fixed:50")
    assert scale.tasks_of(experiment, "fixed:400", adapts=False) == scale.tasks_of(
        experiment, "fixed:50"
    )
