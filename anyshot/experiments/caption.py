"""The sentences that say how an experiment was run and what differs from the paper."""

from __future__ import annotations

from pathlib import Path

from anyshot.core.task_settings import parse_shots
from anyshot.evaluation.report.paper_table import PaperComparison
from anyshot.experiments.available_data import training_sets
from anyshot.experiments.plan import Plan
from anyshot.runs import pretrained
from anyshot.runs.run import Run

#: from the paper's start, the encoder had moved after 2,600 iterations and not after 200
ENCODER_ITERATIONS = 2_000


def protocol_sentences(plan: Plan, comparison: PaperComparison) -> list[str]:
    """What was run, what differs from the paper, and which tasks were smaller than planned."""
    sentences = _test_sentences(plan)
    differences = [*_size_differences(plan), *_start_differences(plan), *plan.differences]
    if differences:
        sentences.append(f"Different from the paper's protocol: {'; '.join(differences)}.")
    return sentences + _encoder_sentences(plan) + _small_tasks(plan, comparison)


def _test_sentences(plan: Plan) -> list[str]:
    if not plan.tests:
        return []
    task = next(iter(plan.tests.values()))[0].measurements[0].task
    several = _seeds(plan) > 1
    sentences = [
        f"{task.way}-way tasks, {task.query} query images a class; {_task_counts(plan)} test "
        f"tasks and {_count(_seeds(plan), 'seed')} of each model. Accuracy in % with 95 % "
        f"intervals over tasks{' and seeds' if several else ''}. Bold accuracies exceed every "
        "other model's by more than the paired interval; bold differences exceed their interval."
    ]
    for block in plan.experiment.blocks:
        if block.columns:
            images = ", ".join(Path(name).name for name in training_sets(block))
            labels = ", ".join(column.label for column in block.columns)
            sentences.append(f"Trained on {images}: {labels}.")
    return sentences


def _size_differences(plan: Plan) -> list[str]:
    experiment = plan.experiment
    differences = []
    if _seeds(plan) != experiment.seeds:
        differences.append(f"{_count(_seeds(plan), 'seed')}, not {experiment.seeds}")
    if plan.tests and min(_tasks(plan)) != experiment.tasks:
        differences.append(f"{_task_counts(plan)} test tasks, not {experiment.tasks:,}")
    return differences


def _start_differences(plan: Plan) -> list[str]:
    starts = {str(job.settings.train.body_from) for job in plan.jobs} - {"None"}
    if not starts:
        return []
    runs = [run for start in sorted(starts) if (run := Run.find_started(start))]
    epochs = sorted({run.settings.pretrain.epochs for run in runs if run.settings.pretrain})
    length = f" ({' or '.join(map(str, epochs))} epochs)" if epochs else ""
    shipped = [
        name
        for name in pretrained.pretrained_models()
        if name in starts and Run(name).folder == pretrained.HOME / name
    ]
    weights = "".join(f" (weights {name})" for name in shipped)
    return [f"all models start from one pre-trained body{length}{weights}, not from scratch"]


def _encoder_sentences(plan: Plan) -> list[str]:
    """A caution if an encoder starts at the paper's σ = 0.02 and has few iterations."""
    short = [
        job.settings.train.iterations
        for job in plan.jobs
        if job.settings.method.name == "taml"
        and job.settings.method.start == "paper"
        and job.settings.method.all_options()["encoder"] == "convolutional"
        and 0 < job.settings.train.iterations < ENCODER_ITERATIONS
    ]
    if not short:
        return []
    return [
        f"The task encoder of TAML starts at σ = 0.02 and hardly moves in {max(short):,} "
        "iterations: these rows do not test what γ and z can do (He's start, start=he, moves)."
    ]


def _small_tasks(plan: Plan, comparison: PaperComparison) -> list[str]:
    """Columns whose classes have fewer images than a fixed number of shots."""
    sentences = []
    for (_, index), jobs in plan.tests.items():
        rule, _, most = parse_shots(jobs[0].measurements[0].task.shots)
        summaries = [comparison.cells[model, index].summary for model in comparison.models]
        mean = min((s.support_mean for s in summaries if s), default=most)
        if rule == "fixed" and mean < most:
            sentences.append(
                f"{comparison.columns[index]}: {mean:.0f} images a class on average, "
                f"because not every class has {most}."
            )
    return list(dict.fromkeys(sentences))


def _seeds(plan: Plan) -> int:
    return plan.scale.seeds_of(plan.experiment)


def _tasks(plan: Plan) -> list[int]:
    return sorted({jobs[0].measurements[0].tasks for jobs in plan.tests.values()})


def _task_counts(plan: Plan) -> str:
    """For example "37 to 300"."""
    tasks = _tasks(plan)
    return " to ".join(f"{count:,}" for count in dict.fromkeys((tasks[0], tasks[-1])))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"
