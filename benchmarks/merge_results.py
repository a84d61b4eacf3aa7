"""Put the rows of one run of an experiment into the results of another, and draw the table anew.

    anyshot reproduce standard-64 --from BODY --models "RFS,Bayesian TAML" --out runs/new
    python benchmarks/merge_results.py standard-64 docs/results/standard-64 runs/new/… --from BODY

Rows that both have are taken from the second folder, and rows that the experiment does not have any
more are dropped. The experiment's reference must have the same numbers in both: then its paired
differences hold for all rows. Pairs of rows of different folders are missing, and an accuracy is
bold only if all its pairs are known. Learning curves are not drawn: they need the runs.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from anyshot.core.files import read_json, write_bytes, write_json
from anyshot.core.registry import EXPERIMENTS
from anyshot.evaluation.metrics import PairedDifference
from anyshot.evaluation.report.experiment_figures import comparison_figure
from anyshot.evaluation.report.paper_table import Cell, PaperComparison
from anyshot.evaluation.report.style import save_figure
from anyshot.experiments.caption import protocol_sentences
from anyshot.experiments.figures import Figure
from anyshot.experiments.plan import make_plan
from anyshot.experiments.report_files import latex_page, markdown_page
from anyshot.experiments.results import ExperimentResult
from anyshot.experiments.scale import SHORT

Rows = dict[tuple[str, str], dict[str, Any]]  #: by model and column


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=list(EXPERIMENTS))
    parser.add_argument("folder", type=Path, help="results that are changed")
    parser.add_argument("new", type=Path, help="results that are put in")
    parser.add_argument("--from", dest="start", required=True)
    arguments = parser.parse_args()
    old, new = (read_json(path / "results.json") for path in (arguments.folder, arguments.new))
    experiment = EXPERIMENTS[arguments.experiment]
    rows = {**rows_of(old), **rows_of(new)}
    check_reference(rows_of(old), rows_of(new))
    measured = {name for name, _ in rows}
    models = tuple(model for model in experiment.models if model.name in measured)
    scale = SHORT.for_experiment(experiment)
    experiment = replace(experiment, models=models)
    plan = make_plan(experiment, scale, arguments.folder, arguments.start)
    pairs = merge_pairs(old, new, [model.name for model in models])
    comparison = compare_rows(experiment, rows, pairs)
    figure = Figure("accuracy", "Accuracy, ours and the paper's", comparison_figure(comparison))
    notes = tuple(protocol_sentences(plan, comparison))
    result = ExperimentResult(plan, comparison, (figure,), notes)
    for (model, index), cell in comparison.cells.items():
        rows[model, comparison.columns[index]]["best"] = cell.best
    numbers = {
        "rows": [rows[model, comparison.columns[i]] for model, i in comparison.cells],
        "pairs": list(pairs.values()),
        "notes": notes,
        "pictures": {"accuracy": {}},
    }
    origin = {
        **new["origin"],
        "settings": {**old["origin"]["settings"], **new["origin"]["settings"]},
    }
    origin["command"] = [*as_list(old["origin"]["command"]), new["origin"]["command"]]
    write_json(arguments.folder / "results.json", {"results": numbers, "origin": origin})
    save_figure(figure.image, arguments.folder / figure.name)
    for name, text in (("table.md", markdown_page(result)), ("table.tex", latex_page(result))):
        write_bytes(arguments.folder / name, text.encode())


def rows_of(results: dict[str, Any]) -> Rows:
    """The rows of a results.json."""
    return {(row["model"], row["column"]): row for row in results["results"]["rows"]}


def check_reference(old: Rows, new: Rows) -> None:
    """Refuse results whose reference has other numbers."""
    for (model, column), row in new.items():
        if model == row["reference"]:
            for number in ("accuracy", "nll", "tasks"):
                if not math.isclose(row[number], old[model, column][number], rel_tol=1e-6):
                    raise SystemExit(f"{model}, {column}: another {number} in the two folders")


def merge_pairs(
    old: dict[str, Any], new: dict[str, Any], names: list[str]
) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The paired differences of the rows that stay: those within the new rows, and old ones."""
    measured = {model for model, _ in rows_of(new)} - {new["results"]["rows"][0]["reference"]}
    kept = {}
    for results, among_new in ((old, False), (new, True)):
        for pair in results["results"]["pairs"]:
            ends = pair["model"], pair["minus"]
            if set(ends) <= set(names) and (among_new or not measured & set(ends)):
                kept[(pair["column"], *ends)] = pair
    return kept


def compare_rows(
    experiment: Any, rows: Rows, pairs: dict[tuple[str, str, str], dict[str, Any]]
) -> PaperComparison:
    """The table of the rows, as if all had been measured together."""
    models = tuple(model.name for model in experiment.models)
    columns = tuple(column.label for column in experiment.columns)
    cells = {}
    for index, column in enumerate(experiment.columns):
        best = find_best(models, columns[index], pairs, rows)
        for name in models:
            row = rows[name, columns[index]]
            cells[name, index] = Cell(
                SimpleNamespace(**row),  # type: ignore[arg-type]
                column.paper.get(name),
                as_difference(row["reference_minus_this"]),
                name == best,
                as_difference(row.get("gain_over_base")),
            )
    return PaperComparison(models, columns, cells, experiment.reference_model)


def find_best(
    models: tuple[str, ...],
    column: str,
    pairs: dict[tuple[str, str, str], dict[str, Any]],
    rows: Rows,
) -> str | None:
    """The row that exceeds every other by more than a paired interval that is known."""
    first = max(models, key=lambda name: rows[name, column]["accuracy"])
    for other in set(models) - {first}:
        pair = pairs.get((column, first, other)) or pairs.get((column, other, first))
        if pair is None or abs(pair["accuracy"]) <= pair["accuracy_interval"]:
            return None
    return first


def as_difference(values: dict[str, Any] | None) -> PairedDifference | None:
    """A paired difference from its JSON values."""
    return PairedDifference(**values) if values else None


def as_list(command: str | list[str]) -> list[str]:
    """One or several commands."""
    return [command] if isinstance(command, str) else command


if __name__ == "__main__":
    main()
