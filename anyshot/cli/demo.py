"""anyshot demo: train, test, inspect and classify in a few minutes."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyshot.cli.classifier_options import LEARNER, fit_support
from anyshot.cli.common import Seed, Tasks, check_files, print_results, print_size_warnings
from anyshot.cli.settings_options import Json, Workers
from anyshot.core.settings import Settings

if TYPE_CHECKING:
    from anyshot.data import ImageSet
    from anyshot.runs.run import Run

METHODS = ("maml", "taml")
IMAGES = ("glyphs", "digits")
SUPPORT = (2, 3, 5, 10, 20)  # support photos of the classes that the classifier learns
QUERIES = 5  # photos of each class that it classifies
INSPECTED = 100  # tasks at most that ω, γ and z are computed for


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="For the runs, figures and results.")
    ] = Path("runs/demo"),
    tasks: Tasks = 60,
    seed: Seed = 0,
    iterations: Annotated[
        int, typer.Option(min=1, metavar="N", help="Meta-iterations of each method.")
    ] = 60,
    workers: Workers = None,
    json: Json = None,
) -> None:
    """Train, test and inspect MAML and Bayesian TAML on embedded images, in about three minutes.

    Both methods train from scratch on tasks of the embedded glyphs. They are tested on new
    characters (in distribution) and on handwritten digits (out of distribution), with 1 to 50
    images per class. MAML is as published, with the best of three step sizes. TAML has anyshot's
    prototype head and, to save time, predicts at the posterior mean instead of averaging samples.
    Finally, the trained TAML body classifies photos in folders.
    """
    from anyshot.evaluation.compare_runs import add_differences, evaluate_runs, plan_runs
    from anyshot.evaluation.inspection import inspect_runs
    from anyshot.evaluation.report.balancing_figures import save_inspection_figures
    from anyshot.evaluation.report.balancing_tables import balance_tables
    from anyshot.evaluation.report.result_files import results_as_json, write_csv, write_results
    from anyshot.evaluation.report.tables import describe_tasks, print_tables

    start = time.monotonic()
    check_files(folder / "results.json", json)
    runs = train_runs(folder, seed, iterations, workers)
    taml = runs[-1]
    trials = plan_runs(runs, IMAGES, "test", seed)
    notes = print_size_warnings(trials)
    rows = add_differences(evaluate_runs(trials, tasks, workers))
    taml_trials = [trial for trial in trials if trial.settings == taml.settings]
    records = inspect_runs(taml_trials, min(tasks, INSPECTED))
    print_results(rows, f"New classes, {describe_tasks(runs, notes)}")
    print_tables(*balance_tables(records))
    figures = save_inspection_figures(runs, records, folder)
    write_csv(folder / "results.csv", rows)
    seconds = time.monotonic() - start
    for path in {folder / "results.json", *([json] if json else [])}:
        write_results(
            path,
            results_as_json(rows),
            settings={run.folder.name: run.settings.as_dict() for run in runs},
            split="test",
            tasks=tasks,
            seeds=[seed],
            notes=notes,
            seconds=seconds,
        )
    classify_photos(taml, folder)
    files = ["results.json", "results.csv", *(path.name for path in figures), "answers.html"]
    print(f"\n{seconds:.0f} seconds. Files in {folder}: {', '.join(files)}.")
    options = "--images digits --shots class-imbalance:1-50 --prediction mc"
    print(f"Next: anyshot test {taml.folder} {options}")


def train_runs(folder: Path, seed: int, iterations: int, workers: int | None) -> list[Run]:
    """Train both methods with a budget of minutes; return the runs in the order of METHODS."""
    from anyshot.training.presets import preset
    from anyshot.training.stages import train

    runs = []
    for name in METHODS:
        settings = shorten_training(preset("glyphs", name), seed, iterations)
        runs.append(train(settings, folder / name, workers=workers, command="anyshot demo"))
    return runs


def shorten_training(settings: Settings, seed: int, iterations: int) -> Settings:
    """The settings with few iterations, one validation and one adaptation per prediction."""
    train = dataclasses.replace(
        settings.train, seed=seed, iterations=iterations, validate_every=0, validation_tasks=20
    )
    method = settings.method.with_values({"prediction": "naive"}, skip_unused=True)
    return dataclasses.replace(settings, train=train, method=method)


def classify_photos(run: Run, folder: Path) -> None:
    """Classify photos in folders with the run as the backbone, and print the accuracy."""
    from anyshot.classifier.folder_pages import write_predictions_page
    from anyshot.classifier.folder_report import predictions_table
    from anyshot.classifier.folders import classify_images, find_labelled_images
    from anyshot.evaluation.report.tables import print_tables

    write_photos(run.imageset(IMAGES[-1]), folder / "photos")
    support = folder / "photos" / "support"
    query = folder / "photos" / "query"
    page = folder / "answers.html"
    counts = ", ".join(map(str, SUPPORT))
    print(
        f"\nPhotos in folders: {counts} support photos of the classes, {QUERIES} new photos each."
        f"\n$ anyshot classify --support {support} --query {query} --backbone {run.folder} "
        f"--html {page}\n"
    )
    classifier, _ = fit_support(support, str(run.folder), LEARNER, None, "cpu")
    explanation = classifier.explain()
    photos = find_labelled_images(query)
    answers = sorted(classify_images(classifier, photos.paths), key=lambda a: -a.uncertainty)
    print_tables(predictions_table(answers, query))
    print(explanation)
    write_predictions_page(page, answers, explanation, photos)
    correct = sum(answer.label == answer.path.parent.name for answer in answers)
    print(f"{correct} of {len(answers)} are correct according to the names of their folders.")


def write_photos(images: ImageSet, root: Path) -> None:
    """Write test classes as support/CLASS/*.png (few to many photos) and query/CLASS/*.png."""
    from PIL import Image

    for c, count in zip(images.splits["test"], SUPPORT, strict=False):
        name = images.classes[c]
        for i, pixels in enumerate(images.images_of(name)[: count + QUERIES]):
            path = root / ("support" if i < count else "query") / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
