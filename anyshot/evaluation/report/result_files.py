"""Write results as CSV and JSON, together with the settings, versions and command behind them."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from anyshot.core.errors import FileError
from anyshot.core.files import PathLike, read_json, write_csv_rows, write_json
from anyshot.evaluation.metrics import PairedDifference
from anyshot.evaluation.metrics.summary import import_pandas

if TYPE_CHECKING:
    import pandas as pd

    from anyshot.evaluation.compare_runs import ResultRow

_PAIRED_FIELDS = tuple(field.name for field in dataclasses.fields(PairedDifference))


def write_csv(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """Write one line for each row: fractions at full precision, empty cells for missing values."""
    write_csv_rows(path, [flat_result(row) for row in rows])


def flat_result(row: ResultRow) -> dict[str, Any]:
    """One row as a flat mapping: every number of the summary and of the paired difference."""
    paired = dataclasses.asdict(row.paired) if row.paired else dict.fromkeys(_PAIRED_FIELDS)
    return flatten(
        {
            **row.labels,
            "transductive": row.settings[0].method.transductive,
            **row.summary.as_dict(),
            "paired_to": row.paired_to,
            "paired": paired,
        }
    )


def flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results without mappings in it.

    >>> flatten({"accuracy": 0.5, "by_shots": {"2-5": 0.4}, "paper": {"accuracy": 71.5}})
    {'accuracy': 0.5, 'accuracy_shots_2_5': 0.4, 'paper_accuracy': 71.5}
    """
    values: dict[str, Any] = {}
    for name, value in row.items():
        if not isinstance(value, Mapping):
            values[name] = value
        elif name == "more":
            values |= value
        elif name == "more_intervals":
            values |= {f"{metric}_interval": one for metric, one in value.items()}
        elif name.endswith("by_shots"):
            # by_shots -> accuracy_shots_2_5, queries_by_shots -> queries_shots_2_5
            quantity = "queries" if name.startswith("queries") else "accuracy"
            values |= {f"{quantity}_shots_{_column_name(k)}": one for k, one in value.items()}
        else:
            values |= {f"{name}_{key}": one for key, one in value.items()}
    return values


def read_results(path: PathLike) -> pd.DataFrame:
    """Read the JSON file of ``anyshot test`` or ``anyshot reproduce`` as a pandas DataFrame.

    Parameters
    ----------
    path : path
        The file of ``anyshot test --json FILE``, or the ``results.json`` of an experiment.

    Returns
    -------
    pandas.DataFrame
        One row for each run or model on each image set. The columns have the names of the CSV
        file: ``accuracy``, ``interval``, ``nll``, ``accuracy_shots_2_5``, ``paired_accuracy`` …

    Raises
    ------
    FileError
        If there is no such file, or it has no rows of results.
    SettingsError
        If pandas is not installed.

    Examples
    --------
    >>> import anyshot, json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "results.json")
    >>> rows = [{"model": "MAML", "accuracy": 0.79, "by_shots": {"2-5": 0.51}}]
    >>> _ = path.write_text(json.dumps({"results": {"rows": rows}, "origin": {}}))
    >>> anyshot.read_results(path).to_dict("records")
    [{'model': 'MAML', 'accuracy': 0.79, 'accuracy_shots_2_5': 0.51}]
    """
    content = read_json(path)
    results = content.get("results") if isinstance(content, dict) else None
    rows = results.get("rows") if isinstance(results, dict) else results
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileError(
            f"{path} has no rows of results; expected the file of anyshot test --json, or the "
            "results.json of anyshot reproduce."
        )
    return results_frame(rows)


def results_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of results as a pandas DataFrame; a mapping becomes columns, missing ones are NaN."""
    mappings = {name for row in rows for name, one in row.items() if isinstance(one, Mapping)}
    lines = [
        flatten({k: one for k, one in row.items() if one is not None or k not in mappings})
        for row in rows
    ]
    return import_pandas().DataFrame(lines)


def write_per_task(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """Write one line for each task of each row, in the order of the tasks."""
    write_csv_rows(
        path, [{**row.labels, **score.as_dict()} for row in rows for score in row.summary.scores]
    )


def write_results(path: PathLike, results: Any, **facts: Any) -> None:
    """Write ``results`` as JSON, with their provenance under the key "origin".

    ``facts`` are added to the provenance: settings, seeds, the run's folder.
    """
    write_json(path, {"results": results, "origin": provenance(**facts)})


def results_as_json(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The rows as values that JSON can hold."""
    return [
        {
            **row.labels,
            "part": row.part,
            **row.summary.as_dict(),
            "paired_to": row.paired_to,
            "paired": row.paired,
        }
        for row in rows
    ]


def provenance(**facts: Any) -> dict[str, Any]:
    """How numbers were made: ``facts``, versions, number of cores, time and command line."""
    return {
        **facts,
        "version": version("anyshot"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
    }


def _column_name(shots: str) -> str:
    """A range of shots as a Python name: 2_5 for 2-5, over_50 for >50."""
    return re.sub(r"\W", "_", shots.replace(">", "over_"))
