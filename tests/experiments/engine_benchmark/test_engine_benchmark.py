"""The benchmark measures what it says: equal work, right gradients, all figures there."""

from __future__ import annotations

import json

import pytest
import torch
import typer
from typer.testing import CliRunner

from anyshot.cli.bench import bench as command
from anyshot.core.errors import AnyshotError
from anyshot.experiments import engine_benchmark
from anyshot.experiments.engine_benchmark import benchmark, convolution_cost, libraries, measure
from anyshot.experiments.engine_benchmark.cases import (
    Case,
    make_tasks,
    sample_support_sizes,
    standard_cases,
)
from anyshot.experiments.engine_benchmark.contestants import CONTESTANTS, installed_contestants
from anyshot.experiments.engine_benchmark.measure import (
    Mode,
    find_best_mode,
    measure_added_memory,
    measure_peak_memory,
    run_iteration,
    time_interleaved,
)

SMALL = Case("small", 16, (6, 5), steps=2)
MODE = Mode("channels-last", 1)
pytestmark = pytest.mark.filterwarnings("ignore")  # higher and torchopt deprecate


def test_tasks_are_seeded_and_of_the_real_distribution():
    assert sample_support_sizes(4) == sample_support_sizes(4)
    assert 115 < sum(sample_support_sizes(200)) / 200 < 140
    assert all(5 <= n <= 250 for n in sample_support_sizes(200))
    assert torch.equal(make_tasks(SMALL)[0].images, make_tasks(SMALL)[0].images)
    assert [case.order for case in standard_cases()] == [2, 1, 0, 2, 2, 2, 2]
    assert {case.method for case in standard_cases()} == {"", "mt-net", "abml"}
    assert {case.channels for case in standard_cases()} == {32, 64}


@pytest.mark.parametrize("name", [name for name in CONTESTANTS if name != "engine"])
def test_all_contestants_compute_the_same_gradients(name):
    if name not in installed_contestants()[0]:
        pytest.skip(installed_contestants()[1][0])
    tasks = make_tasks(SMALL)
    loss, gradients = run_iteration("engine", tasks, 2, MODE)
    other, others = run_iteration(name, tasks, 2, MODE)
    assert other == pytest.approx(loss, rel=1e-5)
    if name == "torchopt":  # it has one rate for all and derives none
        gradients = gradients[:4] + gradients[-4:]
    assert len(others) == len(gradients)
    for left, right in zip(others, gradients, strict=True):
        assert torch.allclose(left, right, rtol=1e-2, atol=1e-3 * right.abs().max())


@pytest.mark.parametrize("name", installed_contestants()[0])
@pytest.mark.parametrize("order", [0, 1])
def test_all_contestants_reach_the_same_loss_at_lower_orders(name, order):
    case = Case("small", 16, (6, 5), order, steps=2)
    losses = [run_iteration(who, make_tasks(case), order, MODE)[0] for who in ("engine", name)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        Case("m", 16, (6, 5), steps=2, method="mt-net"),
        Case("a", 16, (6,), method="abml"),
        Case("wide", 16, (6,), channels=64),
    ],
    ids=lambda case: case.name,
)
def test_methods_and_other_widths_compute_the_same_by_engine_and_autograd(case):
    (loss, gradients), (other, others) = (
        run_iteration(who, make_tasks(case), 2, MODE) for who in ("engine", "autograd")
    )
    assert other == pytest.approx(loss, rel=1e-5)
    assert max(g.numel() for g in gradients) >= 9 * case.channels**2
    left, right = (torch.cat([g.flatten() for g in found]) for found in (gradients, others))
    assert (left - right).norm() < 0.02 * right.norm()  # float32: a ReLU may fall the other way


def test_a_missing_library_is_left_out_with_a_message(monkeypatch):
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "higher" else object())
    names, sentences = installed_contestants()
    assert names == ["engine", "autograd", "torchopt"]
    assert len(sentences) == 1
    assert "anyshot[bench]" in sentences[0]


def test_the_fastest_mode_is_chosen_and_the_budget_ends_the_rounds():
    notes = []
    chosen = {"engine": find_best_mode("engine", SMALL)}
    timings = time_interleaved(
        SMALL, chosen, 3, budget=0.0, advance=lambda n, note: notes.append((n, note))
    )
    assert len(timings["engine"].wall) == 1  # no time for a second round
    assert sum(n for n, _ in notes) == 1
    assert find_best_mode("engine", SMALL).layout == "channels-last"
    assert str(Mode("channels-first", 2)) == "channels-first, 2 × 1 thread"


def test_memory_is_measured_in_this_process_and_in_a_new_one(capsys):
    case = Case("memory", 32, (60,), steps=3)
    assert measure_added_memory("autograd", case, MODE) > 20
    assert (
        measure_peak_memory("autograd", case, MODE)
        > 1.5 * measure_peak_memory("engine", case, MODE)
        > 0
    )
    request = {
        "name": "engine",
        "case": {"name": "m", "size": 16, "supports": [5], "order": 2, "steps": 1},
    }
    measure.main(json.dumps({**request, "mode": {"layout": "channels-last", "workers": 1}}))
    assert float(capsys.readouterr().out) >= 0
    with pytest.raises(AnyshotError, match="nobody"):
        measure_peak_memory("nobody", case, MODE)


def test_convolutions_are_counted_and_timed():
    first, other = convolution_cost.count_convolutions(5)
    assert first == {
        "forward": 9,
        "weights": 9,
    }  # forward, backward and the tangents of both, but no first tangents
    assert other == {"forward": 13, "weights": 13, "input": 13}
    floor = convolution_cost.time_required_convolutions(SMALL, repeats=1)
    support, query = sum(SMALL.supports), 75 * len(SMALL.supports)
    multiplications = 0
    for layer, (first_or_other, inputs) in enumerate([(0, 3), (1, 32), (1, 32), (1, 32)]):
        images = sum(
            support * times + query
            for times in convolution_cost.count_convolutions(2)[first_or_other].values()
        )
        multiplications += images * 9 * inputs * 32 * (16 >> layer) ** 2
    assert floor["gigaflop"] == pytest.approx(2 * multiplications / 1e9)
    assert 0 < sum(convolution_cost.time_shares(SMALL).values()) < 1


def test_the_command_prints_ratios_and_writes_json(monkeypatch, tmp_path):
    monkeypatch.setattr(
        benchmark,
        "standard_cases",
        lambda quick: [SMALL, Case("late", 16, (5,))],
    )
    monkeypatch.setattr(benchmark, "BUDGET_ALL", 0.0)
    monkeypatch.setattr(benchmark, "SINGLE_TASKS", [Case("by itself", 16, (5,), steps=1)])
    monkeypatch.setattr(
        benchmark,
        "measure_peak_memory",
        lambda name, case, mode: 10.0 if name == "engine" else 40.0,
    )
    monkeypatch.setattr(
        benchmark, "installed_contestants", lambda: (["engine", "autograd"], ["see anyshot[bench]"])
    )
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(
        app, ["--quick", "--part", "engine", "--json", str(tmp_path / "bench.json")]
    )
    assert done.exit_code == 0, done.output
    assert "faster than autograd" in done.output
    assert "late was left out" in done.output
    assert "see anyshot[bench]" in done.output
    assert "as fast on" in done.output
    results = json.loads((tmp_path / "bench.json").read_text())
    assert results["memory_ratio"]["autograd"] == 0.25
    assert results["speedup"]["autograd"] > 0
    figures = results["cases"]["small"]["contestants"]["engine"]
    assert {"median_seconds", "minimum_seconds", "cpu_seconds", "peak_memory_mb", "mode"} <= set(
        figures
    )
    assert 0 < results["convolutions"]["share_of_engine"] < 1
    assert results["alone"]["by itself"]["same"]


def test_an_unwritable_result_file_is_an_error_before_the_benchmark_runs(monkeypatch):
    monkeypatch.setattr(
        engine_benchmark,
        "run_benchmark",
        lambda quick, advance: pytest.fail("the work begins"),
    )
    app = typer.Typer()
    app.command()(command)
    with pytest.raises(AnyshotError, match="Cannot write"):
        CliRunner().invoke(app, ["--json", "/dev/null/bench.json"], catch_exceptions=False)
