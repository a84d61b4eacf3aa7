"""anyshot demo: the whole story in a few minutes."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyshot.cli.classify import LEARNER, learn_from_folder, print_answers, write_page
from anyshot.cli.common import Seed, Tasks, check_files, print_results, print_size_warnings
from anyshot.cli.settings_options import Json, Workers
from anyshot.core.settings import Settings

if TYPE_CHECKING:
    from anyshot.data import ImageSet
    from anyshot.runs.run import Run

METHODS = ("maml", "taml")
IMAGES = ("glyphs", "digits")
FEW_TO_MANY = (2, 3, 5, 10, 20)  # pictures to learn from, class by class
NEW = 5  # pictures of each class to be asked about


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
    """Train, test and look inside Bayesian TAML and MAML on embedded images; some three minutes on two cores.

    Both learn from scratch from tasks of some characters of the embedded glyphs. They are then tested on characters
    they have never seen (in distribution) and on real handwritten digits (out of distribution), with anything from 1
    to 50 images a class. MAML is as published, with the best of three step sizes; TAML has anyshot's head, which starts
    at the class means, and to stay within minutes predicts at its posterior's mean instead of averaging samples.
    In the end, what TAML has learned classifies pictures in folders, as it would yours.
    """
    from anyshot.evaluation.compare_runs import add_differences, evaluate_runs, plan_runs
    from anyshot.evaluation.inspection import inspect_runs
    from anyshot.evaluation.report.balancing_figures import save_inspection_figures
    from anyshot.evaluation.report.balancing_tables import balance_tables
    from anyshot.evaluation.report.result_files import results_as_json, write_csv, write_results
    from anyshot.evaluation.report.tables import describe_tasks, print_tables
    from anyshot.training.meta_training import train
    from anyshot.training.presets import preset

    started = time.monotonic()
    check_files(folder / "results.json", json)
    runs = []
    for name in METHODS:
        settings = _settings(preset("glyphs", name), seed, iterations)
        runs.append(train(settings, folder / name, workers=workers, command="anyshot demo"))
    trials = plan_runs(runs, IMAGES, "test", seed)
    notes = print_size_warnings(trials)
    rows = add_differences(evaluate_runs(trials, tasks, workers))
    records = inspect_runs(
        [trial for trial in trials if trial.settings == runs[-1].settings], min(tasks, 100)
    )
    print_results(rows, f"New classes, {describe_tasks(runs, notes)}")
    print_tables(*balance_tables(records))
    paths = save_inspection_figures(runs, records, folder)
    write_csv(folder / "results.csv", rows)
    seconds = time.monotonic() - started
    for path in {folder / "results.json", *([json] if json else [])}:
        write_results(
            path, results_as_json(rows), settings={run.folder.name: run.settings.as_dict() for run in runs},
            split="test", tasks=tasks, seeds=[seed], notes=notes, seconds=seconds,
        )  # fmt: skip
    names = ", ".join(path.name for path in paths)
    classify_pictures(runs[-1], folder)
    print(
        f"\n{seconds:.0f} seconds. In {folder}: results.json, results.csv, {names}, answers.html."
    )
    print(
        f"Next: anyshot test {runs[-1].folder} --images digits --shots class-imbalance:1-50 --prediction mc"
    )


def classify_pictures(run: Run, folder: Path) -> None:
    """The last word: folders of pictures through the classifier for everybody, with the run as its backbone."""
    from anyshot.classifier.folders import classify_images, find_labelled_images

    images = run.imageset(IMAGES[-1])
    write_folders(images, folder / "pictures")
    support, query = folder / "pictures" / "learn", folder / "pictures" / "new"
    print(f"\nPictures in folders, as you may have them: {', '.join(map(str, FEW_TO_MANY))} of a class to learn from, "
          f"{NEW} new ones of each.\n$ anyshot classify --support {support} --query {query} --backbone {run.folder} "
          f"--html {folder / 'answers.html'}\n")  # fmt: skip
    classifier, explanation = learn_from_folder(support, str(run.folder), LEARNER, None, "cpu")
    asked = find_labelled_images(query)
    answers = sorted(classify_images(classifier, asked.paths), key=lambda a: -a.doubt)
    print_answers(answers, query)
    print(explanation)
    write_page(folder / "answers.html", answers, explanation, asked)
    right = sum(a.label == a.path.parent.name for a in answers)
    print(f"{right} of {len(answers)} right, as the names of the folders tell.")


def write_folders(images: ImageSet, root: Path) -> None:
    """learn/CLASS/*.png, from few pictures to many, and new/CLASS/*.png; of classes that nothing has learned from."""
    from PIL import Image

    for c, count in zip(images.splits["test"], FEW_TO_MANY, strict=False):
        label = images.classes[c]
        for i, pixels in enumerate(images.images_of(label)[: count + NEW]):
            path = root / ("learn" if i < count else "new") / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)


def _settings(base: Settings, seed: int, iterations: int) -> Settings:
    """The preset with a budget of minutes: fewer iterations, one validation, one adaptation for each prediction."""
    train = dataclasses.replace(
        base.train, seed=seed, iterations=iterations, validate_every=0, validation_tasks=20
    )
    return dataclasses.replace(
        base, train=train, method=dataclasses.replace(base.method, prediction="naive")
    )
