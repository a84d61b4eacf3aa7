from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from anyshot.core.errors import RunError
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.experiments import job as job_module
from anyshot.experiments import measurement
from anyshot.experiments.estimate import share_done
from anyshot.experiments.job import merge_jobs, run_job, stages
from anyshot.experiments.measurement import read_cached, summary_of
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import SHORT, find_scale
from anyshot.runs.run import Run
from anyshot.training.meta_training import MetaTraining


@pytest.fixture
def planned(experiment, tiny_scale, tmp_path):
    return make_plan(experiment, tiny_scale, tmp_path)


def summary(job):
    return summary_of(read_cached(job.folder, *job.measurements))


def test_models_that_differ_only_in_tests_share_their_run(planned):
    maml, taml = planned.jobs
    assert [len(maml.measurements), len(taml.measurements)] == [2, 4]
    folders = {planned.tests[model, 0][0].folder for model in ("TAML", "TAML, naive")}
    assert folders == {taml.folder}


def test_a_job_is_trained_and_measured(planned):
    job = pickle.loads(pickle.dumps(planned.jobs[1]))
    assert share_done(job) == 0
    run_job(job)
    assert share_done(job) == 1
    (naive,) = planned.tests["TAML, naive", 0]
    (made,) = naive.measurements
    run = Run(job.folder)
    stream = TaskStream(run.imageset(made.images), "test", made.task)
    expected = evaluate(run.load_method(), stream, made.tasks, prediction="naive")
    found = summary(naive)
    assert found.scores == expected.scores
    assert (found.accuracy, found.interval, found.ece) == (
        expected.accuracy,
        expected.interval,
        expected.ece,
    )


def test_a_cached_measurement_is_not_repeated(planned, monkeypatch):
    job = planned.jobs[0]
    run_job(job)
    monkeypatch.setitem(measurement.KINDS, "test", None)
    monkeypatch.setattr(job_module, "train", None)
    run_job(job)


def test_changed_parameters_invalidate_the_cache(planned):
    job = planned.jobs[0]
    run_job(job)
    best = Run(job.folder).best_path
    best.write_bytes(best.read_bytes() + b" ")
    assert read_cached(job.folder, job.measurements[0]) is None


def test_a_cache_written_before_a_setting_existed_is_read(planned):
    job = planned.jobs[0]
    run_job(job)
    path = measurement.cache_path(job.folder, job.measurements[0])
    values = json.loads(path.read_text())
    del values["measurement"]["method"]["order"]
    values |= {"probe": values.pop("measurement"), "sums": values.pop("checksums")}  # old names
    path.write_text(json.dumps(values))
    assert read_cached(job.folder, job.measurements[0]) is not None


def test_a_cache_written_with_other_settings_is_not_read(planned):
    job = planned.jobs[0]
    run_job(job)
    path = measurement.cache_path(job.folder, job.measurements[0])
    values = json.loads(path.read_text())
    values["measurement"]["method"]["order"] = 1
    path.write_text(json.dumps(values))
    assert read_cached(job.folder, job.measurements[0]) is None


def test_a_run_made_with_other_defaults_is_refused(planned):
    job = planned.jobs[0]
    run_job(job)
    path = Path(job.folder) / "run.json"
    facts = json.loads(path.read_text())
    facts["settings"]["method"]["steps"] = 7
    path.write_text(json.dumps(facts))
    shutil.rmtree(Path(job.folder) / "measured")
    with pytest.raises(RunError, match=Path(job.folder).name):
        run_job(job)


def test_an_interrupted_job_resumes_to_the_same_numbers(
    planned, experiment, tiny_scale, tmp_path, monkeypatch
):
    whole = make_plan(experiment, tiny_scale, tmp_path / "whole")
    run_job(whole.jobs[0])
    step = MetaTraining.step
    steps = []

    def interrupted(self, advance):
        steps.append(1)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return step(self, advance)

    monkeypatch.setattr(MetaTraining, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_job(planned.jobs[0])
    assert 0 < share_done(planned.jobs[0]) < 1
    run_job(planned.jobs[0])
    one, two = (summary(plan.tests["MAML", 1][0]) for plan in (planned, whole))
    assert one.scores == two.scores


def test_pretraining_comes_before_the_jobs_that_start_from_it(experiment, tmp_path):
    jobs = make_plan(experiment, SHORT, tmp_path).jobs
    ordered = stages(list(reversed(jobs)))
    assert [[job.is_pretraining for job in stage] for stage in ordered] == [[True], [False, False]]


def test_jobs_from_scratch_are_one_stage(planned):
    assert [len(stage) for stage in stages(planned.jobs)] == [2]


def test_jobs_of_one_folder_are_merged(planned):
    assert merge_jobs([*planned.jobs, *planned.jobs]) == list(planned.jobs)


def test_measurements_that_adapt_use_fewer_large_tasks(experiment):
    scale = find_scale("short")
    small = scale.tasks_of(experiment, "fixed:50")
    assert scale.tasks_of(experiment, "fixed:400") < small
    assert scale.tasks_of(experiment, "fixed:400", adapts=False) == small
