"""Every experiment end to end at the scale smoke; the experiments share their runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.core.errors import AnyshotError, SettingsError
from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments import reproduce as reproduce_module
from anyshot.experiments.estimate import job_seconds
from anyshot.experiments.measurement import read_cached, summary_of
from anyshot.experiments.plan import make_plan
from anyshot.experiments.reproduce import (
    Request,
    find_experiment,
    plan_for,
    reproduce,
    run_jobs,
    scale_for,
)
from anyshot.experiments.scale import PAPER, SHORT, SMOKE, DataChoice
from anyshot.training.presets import preset, pretraining_settings
from anyshot.training.stages import pretrain

FIGURES = {
    "ood": ["starts"],
    "task-imbalance": ["accuracy-by-size", "samples", "gamma"],
    "class-imbalance": ["omega", "gain"],
    "bayesian": ["gamma"],
    "initialisation": ["distances"],
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


# variants of "standard" differ in images and channels; "imbalance" has a test of its own
@pytest.mark.parametrize("name", list(EXPERIMENTS)[:9])
def test_an_experiment_writes_results_tables_figures_and_a_page(name, out, sets):
    data = DataChoice(sets[:1], sets[1:])  # smaller images than the embedded ones: less time
    request = Request(EXPERIMENTS[name], "smoke", out, data)
    result = reproduce(request)
    written = json.loads((request.results_folder / "results.json").read_text())["results"]
    rows = {(row["model"], row["column"]): row["accuracy"] for row in written["rows"]}
    assert len(rows) == len(result.comparison.models) * len(result.comparison.columns)
    table = (request.results_folder / "table.md").read_text()
    for accuracy in rows.values():
        assert f"{100 * accuracy:.2f} ±" in table
    assert r"\toprule" in (request.results_folder / "table.tex").read_text()
    page = (request.results_folder / "report.html").read_text()
    for figure in [*FIGURES.get(name, []), "training"]:
        assert (request.results_folder / f"{figure}.png").stat().st_size > 1000
        assert (request.results_folder / f"{figure}.svg").stat().st_size > 1000
    assert page.count("data:image/png") == len(result.figures)
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # the page is self-contained


# ---------- the scale of a request
def scale(name="any-shot", **changes):
    return scale_for(Request(EXPERIMENTS[name], **changes))


def test_the_default_scales_are_unchanged():
    assert scale() == SHORT
    assert scale(scale="paper") == PAPER


def test_an_experiment_changes_the_scale_short_where_all_start_from_one_body():
    changed = scale("bayesian")
    assert changed.train == {**SHORT.train, "iterations": 300, "body_rate": 1.0}
    assert changed.methods == {**SHORT.methods, "taml": {"start": "he", "gains": ()}}
    assert scale("bayesian", iterations=6).train["iterations"] == 6  # the request comes last
    assert scale("bayesian", scale="smoke") == SMOKE
    assert scale("bayesian", recipe="paper").train["iterations"] == 200  # from scratch


def test_the_papers_recipe_trains_from_scratch():
    paper = scale(recipe="paper")
    assert (paper.pretrained, paper.method) == (False, {})
    assert SHORT.train == {**paper.train, "body_rate": 0.1}


@pytest.mark.parametrize("changes", [{"recipe": "anyshot"}, {"start": "runs/body"}])
def test_a_pretrained_body_changes_the_scale_paper(changes):
    changed = scale(scale="paper", **changes)
    assert changed.pretrained
    assert (changed.method, changed.train) == (SHORT.method, {"body_rate": 0.1})


def test_a_pretrained_body_contradicts_the_papers_recipe():
    with pytest.raises(SettingsError, match="--from"):
        scale(recipe="paper", start="runs/body")


def test_sizes_change_the_scale():
    small = scale(iterations=6, tasks=5, seeds=1, validation_tasks=7)
    assert small.train["iterations"] == 6
    assert small.train["validate_every"] == 3
    assert small.train["validation_tasks"] == 7
    assert small.tasks_of(EXPERIMENTS["any-shot"], "any-shot:1-50") == 5
    assert small.seeds_of(EXPERIMENTS["any-shot"]) == 1
    assert SHORT.seeds_of(EXPERIMENTS["any-shot"]) == 3


def test_validation_tasks_reach_every_run(experiment, tmp_path):
    plan, _ = plan_for(Request(experiment, "smoke", tmp_path, validation_tasks=7))
    assert {job.settings.train.validation_tasks for job in plan.jobs} == {7}
    assert "validation_tasks 7, not 3,000" in plan.differences


# ---------- experiments
def test_an_experiment_is_found_by_its_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from anyshot.experiments import *\n"
        "models = (Model('MAML', 'maml'),)\n"
        "EXPERIMENT = Experiment('mine', 'Mine', models, (Block('glyphs', (Column('glyphs'),)),))\n"
    )
    assert find_experiment(str(file)).name == "mine"
    with pytest.raises(AnyshotError, match="any-shot, multi-dataset"):
        find_experiment("any-shots")


def test_a_models_training_settings_override_the_scale(experiment, tmp_path):
    slow = replace(experiment.models[0], name="slow", train={"rate": 0.5, "iterations": 7})
    models = (*experiment.models, slow)
    plan, _ = plan_for(Request(replace(experiment, models=models), "smoke", tmp_path))
    trained = {(job.settings.train.rate, job.settings.train.iterations) for job in plan.jobs}
    assert trained == {(1e-3, 2), (0.5, 7)}
    assert "iterations 2, not 50,000 (MAML, TAML with its variants)" in "; ".join(plan.differences)


def test_the_recipes_experiment_runs_on_embedded_images(tmp_path):
    file = Path(__file__).parents[2] / "examples" / "recipe_experiment.py"
    whole = Request(find_experiment(str(file)), "smoke", tmp_path)
    plan, _ = plan_for(whole)
    assert len(plan.jobs) == len(plan.experiment.models) == 7
    result = reproduce(replace(whole, models=("Meta-SGD", "Bayesian TAML")))
    assert [column.images for column in result.plan.experiment.columns] == ["glyphs", "digits"]
    assert len(result.plan.jobs) == len(result.comparison.models) == 2
    assert "failed" not in result.caption_paragraph


@pytest.fixture
def body(sets, tmp_path) -> str:
    """A body that was pre-trained on the first set for one epoch."""
    settings = replace(pretraining_settings(preset("cifar-fs-paper")), images=(sets[0],), ood=())
    settings = replace(settings, task=replace(settings.task, way=3, query=3))
    settings = replace(settings, pretrain=replace(settings.pretrain, epochs=1, check_tasks=1))
    return str(pretrain(settings, tmp_path / "body").folder)


def test_all_models_start_from_a_given_body(experiment, body, tmp_path):
    plan, _ = plan_for(Request(experiment, "short", tmp_path, start=body))
    assert {job.settings.train.body_from for job in plan.jobs} == {body}


def test_a_body_of_other_images_is_refused(experiment, body, sets, tmp_path):
    request = Request(experiment, "short", tmp_path, DataChoice((sets[1],)), start=body)
    with pytest.raises(SettingsError, match=Path(body).name):
        plan_for(request)


def test_an_experiment_runs_on_other_images(sets, tmp_path):
    data = DataChoice(sets[:1], sets[1:])
    request = Request(EXPERIMENTS["initialisation"], "smoke", tmp_path, data)
    result = reproduce(request)
    (distances, _) = result.figures
    assert list(distances.numbers) == ["tiny", "other"]
    assert f"Run on {', '.join(sets)} instead" in result.caption_paragraph
    assert request.results_folder.name == "initialisation-smoke-tiny-other"


# ---------- jobs
def test_a_failed_job_does_not_stop_the_others(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = make_plan(experiment, tiny_scale, tmp_path)
    run_job = reproduce_module.run_job
    first, second = plan.jobs

    def failing(job, workers, command):
        if job == first:
            raise AnyshotError("The loss is NaN.")
        run_job(job, workers, command)

    monkeypatch.setattr(reproduce_module, "run_job", failing)
    assert run_jobs(plan.jobs) == {first.folder: "The loss is NaN."}
    assert read_cached(second.folder, second.measurements[0]) is not None


def test_an_interrupt_stops_all_jobs(experiment, tiny_scale, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce_module, "run_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(make_plan(experiment, tiny_scale, tmp_path).jobs)


def test_jobs_in_processes_measure_the_same(experiment, tiny_scale, tmp_path):
    scores = []
    for name, parallel in (("one", 1), ("two", 2)):
        plan = make_plan(experiment, tiny_scale, tmp_path / name)
        assert run_jobs(plan.jobs[:1], parallel) == {}
        (job,) = plan.tests["MAML", 0]
        scores.append(summary_of(read_cached(job.folder, *job.measurements)).scores)
    assert scores[0] == scores[1]


def test_the_longest_job_comes_first(experiment, tiny_scale, tmp_path, monkeypatch):
    plan = make_plan(experiment, tiny_scale, tmp_path)
    lengths = []
    monkeypatch.setattr(
        reproduce_module, "run_job", lambda job, workers, command: lengths.append(job_seconds(job))
    )
    run_jobs(plan.jobs)
    assert len(set(lengths)) > 1
    assert lengths == sorted(lengths, reverse=True)
    assert [job_seconds(job) for job in plan.jobs] != lengths


def test_the_results_of_some_models_and_columns_have_a_folder_of_their_own(tmp_path):
    experiment = find_experiment("any-shot")
    request = Request(experiment, "smoke", tmp_path, columns=("svhn",), models=("Meta-SGD, 1/N",))
    assert request.results_folder == tmp_path / "any-shot-smoke-svhn-Meta-SGD-1-N"
