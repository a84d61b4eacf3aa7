"""Every experiment, end to end at the scale that tests can bear; they share their runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments.reproduce import Request, find_experiment, plan_of, reproduce, scaled
from anyshot.experiments.scale import PAPER, SHORT, DataChoice

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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_leaves_results_tables_figures_and_a_page(name, out):
    request = Request(EXPERIMENTS[name], "smoke", out)
    outcome = reproduce(request)
    found = json.loads((request.folder / "results.json").read_text())
    rows = {(row["model"], row["column"]): row["accuracy"] for row in found["results"]["rows"]}
    assert len(rows) == len(outcome.beside.models) * len(outcome.beside.columns)
    table = (request.folder / "table.md").read_text()
    for accuracy in rows.values():
        assert f"{100 * accuracy:.2f} ±" in table
    assert r"\toprule" in (request.folder / "table.tex").read_text()
    page = (request.folder / "report.html").read_text()
    for figure in [*FIGURES.get(name, []), "training"]:
        assert (request.folder / f"{figure}.png").stat().st_size > 1000
        assert (request.folder / f"{figure}.svg").stat().st_size > 1000
    assert page.count("data:image/png") == len(outcome.pictures)
    assert not re.search(r'(src|href)="(?!data:|#)', page)  # it needs nothing else


def test_recipes_and_sizes_change_the_scale():
    def scale(**chosen):
        return scaled(Request(EXPERIMENTS["any-shot"], **chosen))

    assert scale() == SHORT
    assert scale(scale="paper") == PAPER
    paper = scale(recipe="paper")
    assert (paper.warm, paper.method) == (False, {})
    assert SHORT.train == {**paper.train, "body_rate": 0.1}
    for warm in (scale(scale="paper", recipe="anyshot"), scale(scale="paper", start="runs/warm")):
        assert (warm.warm, warm.method, warm.train) == (True, SHORT.method, {"body_rate": 0.1})
    with pytest.raises(AnyshotError, match="has no warm start"):
        scale(recipe="paper", start="runs/warm")
    small = scale(iterations=6, tasks=5, seeds=1)
    assert (small.train["iterations"], small.train["validate_every"]) == (6, 3)
    assert small.tasks_of(EXPERIMENTS["any-shot"], "any-shot:1-50") == 5
    assert (small.seeds_of(EXPERIMENTS["any-shot"]), SHORT.seeds_of(EXPERIMENTS["any-shot"])) == (
        1,
        3,
    )


def test_an_experiment_of_ones_own_is_found_by_its_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from anyshot.experiments import *\n"
        "EXPERIMENT = Experiment('mine', 'Mine', (Model('MAML', 'maml'),), (Block('glyphs', (Column('glyphs'),)),))\n"
    )
    assert find_experiment(str(file)).name == "mine"
    with pytest.raises(AnyshotError, match="any-shot, multi-dataset"):
        find_experiment("any-shots")


def test_what_a_model_changes_in_its_training_goes_before_the_scale(experiment, tmp_path):
    slow = replace(experiment.models[0], name="slow", train={"rate": 0.5, "iterations": 7})
    plan, _ = plan_of(
        Request(replace(experiment, models=(*experiment.models, slow)), "smoke", tmp_path)
    )
    trained = {(unit.settings.train.rate, unit.settings.train.iterations) for unit in plan.units}
    assert trained == {(1e-3, 2), (0.5, 7)}
    assert "iterations 2, not 50,000 (MAML, TAML, naive, TAML)" in "; ".join(plan.differences)


def test_the_recipes_own_experiment_runs(tmp_path):
    file = Path(__file__).parents[2] / "examples" / "recipe_experiment.py"
    outcome = reproduce(Request(find_experiment(str(file)), "smoke", tmp_path))
    assert len(outcome.plan.units) == len(outcome.beside.models) == 7
    assert "failed" not in outcome.caption


def test_a_warm_start_that_is_given_is_used_and_one_that_does_not_fit_refused(
    experiment, sets, tmp_path
):
    import dataclasses

    from anyshot.training.presets import preset, pretraining_settings
    from anyshot.training.pretraining import pretrain

    settings = dataclasses.replace(
        pretraining_settings(preset("cifar-fs")), images=(sets[0],), ood=()
    )
    settings = dataclasses.replace(
        settings, task=dataclasses.replace(settings.task, way=3, query=3)
    )
    small = dataclasses.replace(settings.warm, epochs=1, check_tasks=1)
    start = str(pretrain(dataclasses.replace(settings, warm=small), tmp_path / "warm").folder)
    plan, _ = plan_of(Request(experiment, "short", tmp_path, start=start))
    assert {unit.settings.train.body_from for unit in plan.units} == {start}
    with pytest.raises(AnyshotError, match="none learns from its images"):
        plan_of(Request(experiment, "short", tmp_path, DataChoice((sets[1],)), start=start))


def test_an_experiment_is_put_on_ones_own_images(sets, tmp_path):
    request = Request(
        EXPERIMENTS["initialisation"], "smoke", tmp_path, DataChoice(sets[:1], sets[1:])
    )
    outcome = reproduce(request)
    (distances, _) = outcome.pictures
    assert list(distances.drawn.numbers) == ["tiny", "other"]
    assert "instead of the paper's images" in outcome.caption
    assert request.folder.name == "initialisation-smoke-tiny-other"
